//! JSON-RPC over lines, as Codex and the agents of the Agent Client Protocol speak it: one message per line, requests
//! in both directions.
//!
//! [`message`] is the codec, a line in and a message out, and knows nothing of time. [`Peer`] is our end of a running
//! conversation, over any transport; [`Link`] is one with a program. What holds for a peer:
//!
//! - Every request of ours ends: with the answer, with the deadline it was given, or with the transport.
//! - Every request of theirs is answered: by whoever takes it from the [`Inbox`], with [`METHOD_NOT_FOUND`] if it is
//!   none of the [`Options::methods`], and with [`INTERNAL_ERROR`] if it is dropped.
//! - What arrived before an answer is in the inbox when that answer is given, so the order can be told.
//! - Answers that nobody waits for, and requests that reuse an open id, are logged and otherwise ignored.
//! - Queues are bounded. A full inbox stops the reading, and so, in the end, the other side.

mod link;
mod message;
mod peer;
#[cfg(test)]
mod tests;

pub use link::Link;
pub use message::{Dialect, Fault, INTERNAL_ERROR, INVALID_PARAMS, Id, METHOD_NOT_FOUND, Malformed, Message};
pub use peer::{Asked, Error, Inbox, Incoming, MAX_ASKED, MAX_PENDING, Options, Peer, QUEUE};
