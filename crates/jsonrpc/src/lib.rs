//! JSON-RPC over lines, one message per line and requests in both directions: Codex, the agents of the Agent Client
//! Protocol and the plugin host speak it. A leaf: it knows no other room.
//!
//! [`message`] is the codec and knows nothing of time. [`Peer`] is the local end of a connection over any transport of
//! messages; [`pipe::start`] makes one over a pair of byte streams. A connection carries [`Payload`]s: parsed JSON for
//! a peer that inspects it, or raw JSON for a peer that only forwards it. A peer guarantees:
//!
//! - Every local request ends: with the response, with its deadline, or with the connection.
//! - Every remote request is answered: by the code that takes it from the [`Inbox`], with [`METHOD_NOT_FOUND`] if it is
//!   none of the [`Options::methods`], and with [`INTERNAL_ERROR`] if it is dropped.
//! - A message that arrived before a response is in the inbox when that response is returned, so the order is known.
//! - Responses without a waiting request, and requests that reuse an open id, are logged and otherwise ignored.
//! - Queues are bounded. A full inbox stops the reading, and so in the end the remote side.

mod message;
mod payload;
mod peer;
pub mod pipe;
#[cfg(test)]
mod tests;

pub use message::{
    Dialect, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, Id, Line, METHOD_NOT_FOUND, Malformed, Message,
};
pub use payload::Payload;
pub use peer::{Asked, Error, Inbox, Incoming, MAX_ASKED, MAX_PENDING, Options, Peer, QUEUE};
