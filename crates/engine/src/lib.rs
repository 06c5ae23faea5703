//! The session engine of Baton: turns, their lifecycle, and the event stream that clients follow.
//!
//! A turn is a future and idle is its completion. Runners emit events and return; the session actor alone owns the
//! status. The engine reaches storage, agents, clocks and randomness only through the traits in [`ports`].

pub mod bus;
mod error;
pub mod fleet;
pub mod lifecycle;
pub mod limits;
pub mod member;
pub mod memory;
pub mod mint;
pub mod ports;
pub mod session;
pub mod sessions;
pub mod transcript;

pub use error::{Error, RequestKind};
pub use sessions::{Home, Pages, Parts, Replies, Sessions, Stats, Stream, StreamItem, Submitted};
