//! Decides which node of a fleet acts for a workspace, as a pure function: state and input to state and effects.
//!
//! A fleet is several servers with one database. Three numbers in the database fence a commit: the *incarnation* of
//! its node, the *writer* of its connection and the *epoch* of its workspace. [`Record`] holds the rules by which they
//! grow, [`Node`] is the protocol of one server, [`Writer`] finds out the outcome of a commit whose answer was lost,
//! and [`order`] keeps streams dense. None of them waits or reads a clock: elapsed time is part of an input, so the
//! tests explore crashes, pauses and lost answers exhaustively.
//!
//! [`crate::member`] carries out the decisions on the record of the store. No server is a node of a fleet yet;
//! docs/fleet.md says what works today.

mod input;
pub mod lease;
pub mod node;
pub mod order;
pub mod placement;
pub mod record;
#[cfg(test)]
mod tests;
pub mod writer;

pub use input::{Effect, HoldingView, Input, View};
pub use lease::Terms;
pub use node::Node;
pub use record::{Fence, Identity, Kind, Record, Refusal, Ruling, Transaction};
pub use writer::Writer;
