//! The session actor: one inbox, one select loop, the only owner of a session's status.

mod turn;

pub use turn::{Call, Child, ChildStarted, Turn};
