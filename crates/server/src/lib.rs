//! The HTTP server: OpenCode's routes in front of the engine's facade.
//!
//! [`router`] contains every route. Each route is one entry of the table in [`openapi`], which both registers
//! and documents it. Handlers read their arguments with the extractors of [`extract`], call
//! [`engine::Sessions`] and return a wire type; only [`error`] knows status codes.

#![allow(clippy::doc_markdown, reason = "OpenCode is a name, not an item")]

mod app;
mod array;
mod blocking;
mod channels;
mod edge;
pub mod error;
pub mod extract;
pub mod fleet;
mod greeting;
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
pub mod web;

pub use app::{App, Facts};
pub use axum::Router;
pub use channels::Channels;
pub use error::Error;
pub use instance::{Instance, Instances};
pub use logins::LoginFault;

/// All routes without access control; [`security::layer`] adds it.
pub fn router(app: App) -> axum::Router {
    let mut routes = openapi::register(routes::table(), &app).merge(web::routes());
    if let Some(fleet) = &app.fleet {
        routes = routes.merge(fleet.routes());
    }
    edge::around(routes).with_state(app)
}
