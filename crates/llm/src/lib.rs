//! Models: what Baton asks of a language model and what it hears back.
//!
//! Everything a provider can say is one stream type, [`ModelEvent`]; everything that can go wrong is one
//! [`Error`], which knows by itself whether trying again makes sense. A provider is a [`Model`]:
//!
//! - [`HttpModel`] calls a real one. The [`catalogue`] says who there is, the [`transport`] reaches them, and a
//!   [`dialect`] is the wire format they speak.
//! - [`demo::Demo`] follows a script.
//!
//! This crate knows nothing about sessions, parts or tools that run: of the workspace it uses only the decoder of
//! server-sent events.

pub mod catalogue;
mod complaint;
pub mod demo;
pub mod dialect;
mod error;
mod event;
mod http_date;
mod http_model;
mod json;
mod model;
mod request;
pub mod retry;
mod secret;
pub mod transport;
mod wording;

pub use catalogue::Catalogue;
pub use error::{Deadline, Error, Headers, Retry};
pub use event::{Finish, ModelEvent, Tokens, Usage};
pub use http_model::HttpModel;
pub use model::{EventStream, Model};
pub use request::{
    AssistantContent, Attachment, Choice, Limits, Message, ModelRef, ParseModelRefError, Purpose, Request,
    Sampling, Tool, ToolResult, UserContent,
};
pub use secret::{CallHeaders, Secret};
pub use transport::{Carried, Carrier, Client, Deadlines, Reply};
