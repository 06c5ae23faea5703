//! Instructions for agents, which users keep in files such as `AGENTS.md`.

use futures::future::{BoxFuture, FutureExt};
use protocol::Session;

/// Finds the instructions for a session. A turn calls it once, and goes on without instructions if it takes longer
/// than [`INSTRUCTIONS`](super::limits::INSTRUCTIONS).
pub trait Instructions: Send + Sync {
    /// Returns the instructions for the session's directory, the most general first.
    fn find<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, Vec<Instruction>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The path or URL of the instructions.
    pub source: String,
    pub text: String,
}

/// Returns the same instructions for every session.
impl Instructions for Vec<Instruction> {
    fn find<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Vec<Instruction>> {
        std::future::ready(self.clone()).boxed()
    }
}
