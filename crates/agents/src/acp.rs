//! Agents that speak the Agent Client Protocol, version 1, over their standard input and output.
//!
//! [`wire`] is what they say and [`outgoing`] what they are told, both in the types of the official schema crate;
//! [`mend`] is for what they say badly, and [`translate`] is what the session is told. All four are pure. [`link`] is the program,
//! [`conversation`] what it is talked to about, and is kept between turns. [`run`] takes a turn: it listens
//! ([`hearing`]) and does what the agent asks of us ([`desk`]).

mod conversation;
mod desk;
mod hearing;
mod limits;
mod link;
mod matter;
mod mcp;
mod mend;
mod options;
mod outgoing;
mod prompt;
mod question;
mod run;
mod terminal;
#[cfg(test)]
mod tests;
mod tool;
mod translate;
mod wire;

use std::sync::Arc;

use engine::ports::Runner;
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use protocol::{SessionId, TurnEnd};

use crate::external::{Keeper, keeper::Wake};
use crate::roster::{About, External};
use conversation::Conversation;

pub use options::Options;

/// An agent as a runner. Cheap to clone; its programs end with the last clone.
#[derive(Debug, Clone)]
pub struct Acp(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: Options,
    keeper: Keeper<Conversation>,
}

impl Acp {
    /// An agent; `wake` is told when it begins to work by itself.
    pub fn new(options: Options, wake: Wake) -> Self {
        let keeper = Keeper::new(options.keeping, wake);
        Self(Arc::new(Inner { options, keeper }))
    }
}

impl External for Acp {
    fn about(&self) -> &About {
        &self.0.options.about
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        self.0.keeper.forget(session).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.keeper.close().boxed()
    }
}

impl Runner for Acp {
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let inner = Arc::clone(&self.0);
        async move { run::run(&inner, &turn).await }.boxed()
    }
}
