//! What a runner of somebody else's agent has to say about itself.
//!
//! An [`External`] is a runner like any other. It is put into [`Watched`](super::Watched) before anybody sees it, so
//! what it does to files is known and budgets hold for it, whoever wrote the agent.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::ports::Runner;
use futures::future::{self, BoxFuture, FutureExt};
use protocol::SessionId;
use protocol::agent::{Abilities, Agent, AgentMode};
use protocol::config::PermissionMode;
use protocol::message::ModelRef;
use protocol::request::Rule;

/// The model of every agent: whichever its own settings name.
pub const DEFAULT_MODEL: &str = "default";

/// How long a process that has nothing to do is kept, unless the configuration says otherwise.
pub const IDLE: Duration = Duration::from_mins(10);

/// Somebody else's agent.
pub trait External: Runner {
    /// What it is called, and what it offers.
    fn about(&self) -> &About;

    /// Ends what is kept for a session that will have no more turns.
    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        let _ = session;
        future::ready(()).boxed()
    }

    /// Ends every process it has started. Turns have ended by then.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What somebody else's agent is called, and what it offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its name as a provider of models, and as an agent.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it is, in a sentence.
    pub description: String,
    /// Its models, as it calls them; the first is the default.
    pub models: Vec<String>,
    /// Whether any `provider/model` is a model of its, because it has providers of its own.
    pub has_providers: bool,
    /// What works with it.
    pub abilities: Abilities,
}

impl About {
    /// Whether it has this model.
    pub fn knows(&self, model: &str) -> bool {
        let listed = self.models.iter().any(|known| known == model);
        listed
            || (self.has_providers
                && model.split_once('/').is_some_and(|(of, it)| !of.is_empty() && !it.is_empty()))
    }

    /// The agent that clients can choose.
    pub fn agent(&self) -> Agent {
        let model = self.models.first().map_or(DEFAULT_MODEL, String::as_str);
        let mut agent = Agent::new(&self.id, AgentMode::Primary);
        agent.description = Some(self.description.clone());
        agent.native = Some(false);
        agent.model = Some(ModelRef::new(&self.id, model));
        agent.external = Some(self.abilities);
        agent
    }
}

/// The program of somebody else's agent, and how it is to be used.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its path or name, and its arguments.
    pub command: Vec<String>,
    /// Variables it gets.
    pub environment: BTreeMap<String, String>,
    /// Variables it does not inherit.
    pub hidden: Vec<String>,
    /// What it does without asking.
    pub mode: PermissionMode,
    /// What decides before a person is asked.
    pub rules: Vec<Rule>,
    /// How long a process that has nothing to do is kept.
    pub idle: Duration,
}
