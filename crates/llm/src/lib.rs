//! Language models: requests to them and their responses.
//!
//! All output of a provider is one stream type, [`ModelEvent`]; all failures are one [`Error`], which tells if
//! a retry makes sense. A provider is a [`Model`]:
//!
//! - [`HttpModel`] calls a real one. The [`catalogue`] lists the providers, the [`transport`] makes the calls,
//!   and a [`dialect`] is their wire format.
//! - [`demo::Demo`] follows a script.
//!
//! This crate knows nothing about sessions, parts or the execution of tools: of the workspace it uses only the
//! decoder of server-sent events.

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
    AssistantContent, Choice, Limits, Message, ModelRef, ParseModelRefError, Purpose, Request, Sampling,
    Tool, ToolFile, ToolResult, UserContent,
};
pub use secret::{CallHeaders, Secret};
pub use transport::{Carried, Carrier, Client, Deadlines, Reply};
