//! Sessions in chats: Telegram, Slack and WhatsApp, for any server that `client` can talk to.
//!
//! An [`Update`] is something a user does in a chat, a [`Post`] is a message that Baton sends, and a [`Place`] is
//! the chat or thread where both happen. An [`Adapter`] translates between these types and the wire format of one
//! chat service, and knows nothing of sessions. Everything that must survive a crash is in the [`ledger`]: an
//! update is stored before it is acknowledged to the service, and a post is stored before it is sent.

pub mod adapter;
pub mod calls;
pub mod courier;
pub mod gateway;
pub mod health;
pub mod inbox;
pub mod ledger;
pub mod markup;
pub mod place;
pub mod post;
pub mod router;
pub mod settings;
pub mod slack;
pub mod split;
pub mod telegram;
pub mod update;
pub mod webhook;
pub mod whatsapp;
mod words;

pub use adapter::{Adapter, AdapterError, Features, Sent};
pub use health::Health;
pub use inbox::{Accepted, Inbox};
pub use place::Place;
pub use post::{Button, Document, Post};
pub use settings::Settings;
pub use update::{Attachment, Content, Sender, Unusable, Update};
