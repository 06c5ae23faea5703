//! The description of an external agent.
//!
//! An [`External`] is a runner. [`SupervisedAgent`](super::SupervisedAgent) runs its turns: it records file changes and
//! applies budgets and permission rules.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::ports::Runner;
use futures::future::{self, BoxFuture, FutureExt};
use protocol::SessionId;
use protocol::agent::{Abilities, Agent, AgentMode};
use protocol::config::PermissionMode;
use protocol::message::ModelRef;
use protocol::prompt::Delivery;
use protocol::request::Rule;

/// The model that every external agent has: the one that its own settings name.
pub const DEFAULT_MODEL: &str = "default";

/// Default time after which an unused process is ended.
pub const IDLE: Duration = Duration::from_mins(10);

/// The abilities of an external agent whose protocol supports all of them except the cost.
pub const ABILITIES: Abilities = Abilities {
    steer: true,
    children: true,
    retries: true,
    resume: true,
    permissions: true,
    questions: true,
    todos: true,
    tokens: true,
    attachments: true,
    continuation: true,
    ..Abilities::LEAST
};

/// An external agent.
pub trait External: Runner {
    fn about(&self) -> &About;

    /// The permission rules that answer the agent's requests before the user is asked.
    fn rules(&self) -> &[Rule] {
        &[]
    }

    /// The delivery of a prompt that names none.
    fn delivery(&self) -> Delivery {
        Delivery::Steer
    }

    /// Ends the process of a session that will have no more turns.
    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        let _ = session;
        future::ready(()).boxed()
    }

    /// Ends every process of the agent. Called after all turns have ended.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The names, models and abilities of an external agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The id as a provider of models and as an agent.
    pub id: String,
    /// The display name.
    pub name: String,
    /// One sentence for the user.
    pub description: String,
    /// The agent's own names of its models; the first is the default.
    pub models: Vec<String>,
    /// True if the agent has its own providers, so that it accepts any `provider/model`.
    pub has_providers: bool,
    pub abilities: Abilities,
}

impl About {
    /// Returns true if the agent has this model.
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

/// The program of an external agent and its settings.
#[derive(Debug, Clone)]
pub struct Program {
    /// The path or name of the program, and its arguments.
    pub command: Vec<String>,
    /// Variables added to its environment.
    pub environment: BTreeMap<String, String>,
    /// Variables that it does not inherit.
    pub hidden: Vec<String>,
    /// The actions that it may take without asking.
    pub mode: PermissionMode,
    /// The permission rules that decide before the user is asked.
    pub rules: Vec<Rule>,
    /// Time after which an unused process is ended.
    pub idle: Duration,
}
