//! The native loop: Baton's own agent, which works with any model `llm` can talk to.
//!
//! A turn is a sequence of steps. A step calls the model once, passes on its output, runs the tools that it
//! calls, and closes the message; the results go into the next step. The loop ends when the model stops
//! without calling a tool, when the user refuses a request, or when a limit is reached:
//!
//! | the model finished with | and called tools | then |
//! |---|---|---|
//! | anything but `content-filter` | yes | run them, go on |
//! | `stop`, `length` | no | completed |
//! | `content-filter` | | error, no tool is run |
//! | `error` | no | error |
//! | `unknown`, or not at all | no | go on, at most [`limits::UNFINISHED_STEPS`] times in a row |
//!
//! Before each step the loop checks the budget ([`Options::budget`]) and the size of the conversation. A
//! conversation that does not fit the model is summarised in the middle of the turn, and the turn goes on.
//! The agent and the model are chosen anew for every step, because a prompt that joins may name others.
//!
//! Tools run after the model's stream has ended, in the order of the calls. So an attempt that fails in the
//! middle has run no tool yet: its output is withdrawn and the loop retries, without a tool running twice.

mod active_agent;
mod agent;
mod attempt;
mod background;
mod command_lines;
pub mod commands;
mod compaction;
mod failure;
mod fit;
mod history;
mod hooks;
mod instructions;
pub mod limits;
mod loop_detector;
mod model_call;
mod model_messages;
mod options;
mod prepare;
mod resume;
mod run;
mod size;
mod step_end;
mod structured;
mod subtask;
mod system;
#[cfg(test)]
mod tests;
mod title;
mod tools;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use engine::ports::{Clock, Draft, Prepared, Random, Runner};
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use llm::Model;
use protocol::TurnEnd;
use supervision::permission::Permissions;

use tools::Toolset;

pub use agent::built_in;
pub use instructions::{Instruction, Instructions};
pub use options::{CompactionOptions, Options};
pub use tools::{Skill, ToolOptions, read_address};

/// The native loop as a runner. Cheap to clone.
#[derive(Clone)]
pub struct Native(Arc<Inner>);

struct Inner {
    models: BTreeMap<String, Arc<dyn Model>>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    options: Options,
}

impl Native {
    /// Creates a loop with these models, by provider id.
    pub fn new(
        models: BTreeMap<String, Arc<dyn Model>>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        options: Options,
    ) -> Self {
        Self(Arc::new(Inner { models, clock, random, options }))
    }

    /// Returns the tools that suit a model, or all tools if none is named. Permissions of agents are not
    /// applied.
    pub fn tools(&self, model: Option<&str>) -> Vec<llm::Tool> {
        let (options, no_rules) = (&self.0.options, Permissions::new(Vec::new(), Vec::new()));
        Toolset::new(&options.agents, &options.tools, &options.mcp, &no_rules).listed(model)
    }
}

impl Runner for Native {
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let inner = Arc::clone(&self.0);
        async move { run::run(&inner, &Arc::new(turn)).await }.boxed()
    }

    fn prepare<'a>(&'a self, draft: Draft<'a>) -> BoxFuture<'a, Result<Prepared, String>> {
        prepare::prepare(&self.0, draft).boxed()
    }
}

impl fmt::Debug for Native {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Native")
            .field("providers", &self.0.models.keys().collect::<Vec<_>>())
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}
