//! The verbs of Baton: turns, their lifecycle, and everybody who watches.
//!
//! A turn is a future and idle is its completion. Runners emit events and return; the session actor alone owns
//! the status. Everything the engine needs from the world stands in [`ports`].

pub mod bus;
mod error;
pub mod lifecycle;
pub mod limits;
pub mod memory;
pub mod mint;
pub mod ports;
pub mod session;
pub mod sessions;
pub mod transcript;

pub use error::{Error, RequestKind};
pub use sessions::{Home, Pages, Parts, Sessions, Stats, Stream, StreamItem, Submitted};
