//! Who answers a prompt: the agent, the model and the runner that were asked for, or the ones to fall back on.
//!
//! Runners of other people's agents are [`External`]. [`known`] lists the programs that are looked for, and [`Watched`]
//! is put around each runner.

mod external;
mod handover;
pub mod known;
#[cfg(test)]
pub(crate) mod tests;
mod watched;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use engine::lifecycle::continuation::Policy;
use engine::ports::{Resolved, Runner, Runners, Unresolved, Wanted};
use futures::future::{self, BoxFuture, FutureExt};
use llm::Model;
use protocol::Session;
use protocol::agent::{Agent, AgentMode, Command};
use protocol::message::ModelRef;
use protocol::prompt::{CommandInput, PromptInput};
use protocol::request::Action;

use crate::native::commands;
use crate::native::mcp::Servers;
use crate::native::permission::evaluate;

pub use external::{About, DEFAULT_MODEL, External, IDLE, Program};
pub use watched::Watched;

/// The agents and models there are. A prompt that asks for something else is refused before it is accepted.
#[derive(Clone)]
pub struct Roster {
    /// The agents; the first that a person may choose is the default.
    pub agents: Vec<Agent>,
    /// The models, by provider.
    pub models: BTreeMap<String, Arc<dyn Model>>,
    /// The slash commands.
    pub commands: Vec<Command>,
    /// The MCP servers, whose prompts are commands, too.
    pub mcp: Servers,
    /// The model for a prompt, session and agent that name none.
    pub model: ModelRef,
    /// What a provider that is not among them would need, if somebody knows it.
    pub missing: Missing,
    /// Who runs it.
    pub runner: Arc<dyn Runner>,
    /// Other people's agents, which run their own models. Each is among the agents, under the same name.
    pub external: Vec<Arc<dyn External>>,
    /// How far turns may go by themselves.
    pub continuation: Policy,
}

/// What a provider that cannot be asked would need, as the rest of a sentence about its model.
pub type Missing = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl Roster {
    /// Asked for, else the default. The session's last agent does not count, as clients of this wire expect.
    fn agent(&self, wanted: &Wanted<'_>) -> Result<&Agent, Unresolved> {
        let choosable = |agent: &&Agent| agent.mode != AgentMode::Subagent && agent.hidden != Some(true);
        let found = match wanted.agent {
            Some(name) => self.agents.iter().find(|agent| agent.name == name),
            None => self.agents.iter().find(choosable),
        };
        found.ok_or_else(|| Unresolved::Agent {
            name: wanted.agent.unwrap_or("default").to_owned(),
            known: self
                .agents
                .iter()
                .filter(|agent| agent.hidden != Some(true))
                .map(|agent| agent.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// Asked for, else the agent's own, else the session's last, else the default.
    fn model(&self, wanted: &Wanted<'_>, agent: &Agent) -> Result<ModelRef, Unresolved> {
        let last = || {
            let model = wanted.session.model.as_ref()?;
            let variant = model.variant.clone().filter(|variant| variant != "default");
            Some(ModelRef { variant, ..ModelRef::new(&model.provider_id, &model.id) })
        };
        let named = wanted.model.cloned().or_else(|| agent.model.clone()).or_else(last);
        let model = named.unwrap_or_else(|| self.model.clone());
        let Some(reason) = self.objection(agent, &model) else { return Ok(model) };
        let external = self.external.iter().map(|external| external.about().id.as_str());
        let known = self.models.keys().map(String::as_str).chain(external);
        Err(Unresolved::Model {
            name: match model.model_id.as_str() {
                "" => model.provider_id,
                id => format!("{}/{id}", model.provider_id),
            },
            reason,
            known: known.map(|provider| format!("{provider}/...")).collect::<Vec<_>>().join(", "),
        })
    }

    /// Why an agent cannot work with a model, if it cannot.
    fn objection(&self, agent: &Agent, model: &ModelRef) -> Option<String> {
        let provider = model.provider_id.as_str();
        if model.model_id.is_empty() {
            return Some("a model is written as provider/model".to_owned());
        }
        if let Some(own) = self.external(&agent.name)
            && own.about().id != provider
        {
            return Some(format!("the agent {0} works with its own models, such as {0}/default", agent.name));
        }
        let knows = match (self.external(provider), self.models.get(provider)) {
            (Some(external), _) => external.about().knows(&model.model_id),
            (None, Some(known)) => known.knows(&model.model_id),
            (None, None) => {
                let missing = (self.missing)(provider);
                return Some(missing.unwrap_or_else(|| format!("there is no provider \"{provider}\"")));
            }
        };
        (!knows).then(|| format!("{provider} has no such model"))
    }

    /// Somebody else's agent of this name.
    fn external(&self, id: &str) -> Option<&Arc<dyn External>> {
        self.external.iter().find(|external| external.about().id == id)
    }

    /// Who runs a model.
    fn runner(&self, model: &ModelRef) -> Arc<dyn Runner> {
        match self.external(&model.provider_id) {
            Some(external) => Arc::clone(external) as Arc<dyn Runner>,
            None => Arc::clone(&self.runner),
        }
    }

    /// The same for a command that only an MCP server can know.
    async fn served(&self, input: &CommandInput) -> Result<Result<PromptInput, String>, Unresolved> {
        self.mcp.ready().await;
        let served = self.mcp.prompts().await;
        let name = input.command.clone();
        if let Some(prompt) = served.iter().find(|prompt| prompt.name == name) {
            return Ok(commands::ask(&self.mcp, prompt, input).await);
        }
        let ours = self.commands.iter().map(|command| command.name.as_str());
        let known = ours.chain(served.iter().map(|prompt| prompt.name.as_str()));
        Err(Unresolved::Command { name, known: known.collect::<Vec<_>>().join(", ") })
    }

    fn choose(&self, wanted: &Wanted<'_>) -> Result<Resolved, Unresolved> {
        let agent = self.agent(wanted)?;
        let model = self.model(wanted, agent)?;
        let runner = self.runner(&model);
        let mut resolved = Resolved::new(&agent.name, model, runner);
        // Whoever may not change anything has nothing to finish.
        let todos = self.continuation.todos && may_edit(agent);
        resolved.continuation = Policy { todos, ..self.continuation.clone() };
        Ok(resolved)
    }
}

/// Whether an agent may change files at all.
fn may_edit(agent: &Agent) -> bool {
    evaluate(agent.permission.iter(), "edit", "*") != Action::Deny
}

impl Runners for Roster {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        future::ready(self.choose(&wanted)).boxed()
    }

    fn command<'a>(
        &'a self,
        session: &'a Session,
        input: &'a CommandInput,
    ) -> BoxFuture<'a, Result<PromptInput, Unresolved>> {
        async move {
            let name = input.command.clone();
            let prompt = match self.commands.iter().find(|command| command.name == name) {
                Some(command) => commands::prompt(command, &self.agents, &session.directory, input).await,
                None => self.served(input).await?,
            };
            prompt.map_err(|message| Unresolved::Unusable { name, message })
        }
        .boxed()
    }
}

impl fmt::Debug for Roster {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Roster")
            .field("agents", &self.agents.iter().map(|agent| &agent.name).collect::<Vec<_>>())
            .field("providers", &self.models.keys().collect::<Vec<_>>())
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
