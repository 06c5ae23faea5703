//! What people want every agent in a directory to know.

use futures::future::{BoxFuture, FutureExt};
use protocol::Session;

/// Finds what applies to a session. Asked once in a turn; who cannot answer within
/// [`GUIDANCE`](super::limits::GUIDANCE) is not waited for.
pub trait Instructions: Send + Sync {
    /// The texts to follow in the session's directory, the most general first.
    fn find<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, Vec<Instruction>>;
}

/// A text to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Where it is from: a path or an address.
    pub source: String,
    /// The text.
    pub text: String,
}

/// The same for everybody.
impl Instructions for Vec<Instruction> {
    fn find<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Vec<Instruction>> {
        std::future::ready(self.clone()).boxed()
    }
}
