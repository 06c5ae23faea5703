//! The HTTP edge: OpenCode's routes on the engine's facade.
//!
//! [`router`] is everything a client can call. Each route is one entry of the table in [`openapi`], which both
//! registers and documents it. Handlers read their arguments with the extractors of [`extract`], call
//! [`engine::Sessions`] and answer with a wire type; [`error`] alone knows status codes.

#![allow(clippy::doc_markdown, reason = "OpenCode is a name, not an item")]

mod app;
mod array;
mod blocking;
mod edge;
pub mod error;
pub mod extract;
pub mod instance;
mod listings;
mod logins;
pub mod mcp;
pub mod metrics;
pub mod openapi;
pub mod project;
mod remote;
mod routes;
pub mod security;
pub mod serve;
pub mod sse;
pub mod terminals;

pub use app::{App, Facts};
pub use axum::Router;
pub use error::Error;
pub use instance::{Instance, Instances};
pub use logins::LoginFault;

/// Every route, ready to be served. Who may call is decided in front of it.
pub fn router(app: App) -> axum::Router {
    edge::around(openapi::register(routes::table())).with_state(app)
}
