//! Sessions in chats: Telegram, Slack and WhatsApp, for any server that `client` can talk to.
//!
//! What a person writes is an [`Update`]; what they are told is a [`Post`]; where both happen is a [`Place`]. An
//! [`Adapter`] turns one chat service's wire into these words and back, and knows nothing of sessions. Everything
//! that must survive a crash is in the [`ledger`]: an update is stored before the service is told that it arrived,
//! and what has to be said is stored before it is said.

pub mod adapter;
pub mod calls;
pub mod courier;
pub mod gateway;
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

pub use adapter::{Abilities, Adapter, Fault, Sent};
pub use inbox::{Accepted, Inbox};
pub use place::Place;
pub use post::{Button, Document, Post};
pub use settings::Settings;
pub use update::{Attachment, Content, Sender, Update};
