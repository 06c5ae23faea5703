//! Drivers of external agents: implementations of [`engine::ports::Runner`] for programs of other vendors.
//!
//! [`external`] holds the [`Driver`](external::Driver), which runs every turn. [`claude`], [`codex`], [`acp`] and
//! [`opencode`] bring the transport and the translation of one agent each. [`roster`] describes the agents and wraps each
//! of them in supervision.
//!
//! A driver talks to the engine only through the turn that it is given. It does not know how data is stored, which clients
//! watch, or that sessions have a status.

pub mod acp;
pub mod claude;
pub mod codex;
pub mod external;
pub mod jsonrpc;
pub mod opencode;
pub mod roster;
