//! The Rust SDK for Baton, and for any other server that speaks OpenCode's HTTP and SSE interface.
//!
//! ```no_run
//! use client::Client;
//! use protocol::prompt::{PromptInput, SessionInput};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), client::Error> {
//! let client = Client::new("http://127.0.0.1:4096")?.in_directory("/home/ada/project");
//! let session = client.create_session(&SessionInput::default()).await?;
//! let answer = client.prompt(&session.id, &PromptInput::text("what is in this directory?")).await?;
//! let text: Vec<&str> = answer.parts.iter().filter_map(|part| part.text()).collect();
//! println!("{}", text.join("\n"));
//! # Ok(())
//! # }
//! ```
//!
//! - [`Client`] makes the calls. [`Client::events`] follows the event stream, reconnects and resumes after its cursor.
//! - [`streaming`] sends a prompt and reports its progress until the one end of its turn.
//! - [`view`] folds events into the state that a user interface shows.
//! - [`check`] judges an event stream, and [`recording`] reads one from a file.
//!
//! The directory `examples` has a program for each: `prompt`, `watch` and `check`.

pub mod answer;
mod calls;
pub mod check;
mod choices;
mod connection;
mod envelope;
mod error;
mod events;
mod feed;
pub mod id;
mod password;
pub mod recording;
pub mod streaming;
pub mod view;

pub use choices::Provider;
pub use connection::{CALL_TIMEOUT, Client, MAX_BODY};
pub use error::Error;
pub use events::{EventStream, Received, Scope};
pub use feed::Feed;
pub use password::Password;
