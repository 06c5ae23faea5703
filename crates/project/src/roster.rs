//! Resolves the agent, the model and the runner for a prompt: those that the prompt names, or the defaults.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use drivers::roster::{External, SupervisedAgent};
use engine::lifecycle::continuation::ContinuationPolicy;
use engine::ports::{Resolved, Runner, Runners, Unresolved, Wanted};
use futures::future::{self, BoxFuture, FutureExt};
use llm::Model;
use native::commands;
use protocol::Session;
use protocol::agent::{Agent, AgentMode, Command};
use protocol::config::Budget;
use protocol::message::ModelRef;
use protocol::prompt::{CommandInput, PromptInput};
use protocol::request::Action;
use supervision::Snapshots;
use supervision::mcp::Servers;
use supervision::permission::evaluate;

/// The available agents and models. A prompt that names another one is refused before it is accepted.
#[derive(Clone)]
pub(crate) struct Roster {
    /// The agents; the first that the user may choose is the default.
    pub(crate) agents: Vec<Agent>,
    /// The models, by provider.
    pub(crate) models: BTreeMap<String, Arc<dyn Model>>,
    /// The slash commands.
    pub(crate) commands: Vec<Command>,
    /// The MCP servers, whose prompts are also slash commands.
    pub(crate) mcp: Servers,
    /// The model for a prompt, session and agent that name none.
    pub(crate) model: ModelRef,
    /// Explains for an unavailable provider what it needs, for the error message.
    pub(crate) missing: Missing,
    /// The native runner.
    pub(crate) runner: Arc<dyn Runner>,
    /// The external agents, which run their own models. Each is also in `agents` under the same name.
    pub(crate) external: Vec<Arc<dyn External>>,
    /// The snapshots of the files that external agents change; none if they are disabled.
    pub(crate) snapshots: Option<Arc<Snapshots>>,
    /// The budget of external agents.
    pub(crate) budget: Budget,
    /// The limits of continuations.
    pub(crate) continuation: ContinuationPolicy,
}

/// Returns what an unavailable provider needs, as the rest of a sentence about its model. None if that is unknown.
pub(crate) type Missing = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl Roster {
    /// The agent that the prompt names, or the default. The session's last agent does not count; OpenCode's clients
    /// expect that.
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

    /// The model that the prompt names, else the agent's own, else the session's last, else the default.
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

    /// The reason why an agent cannot work with a model.
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

    /// The external agent with this name.
    fn external(&self, id: &str) -> Option<&Arc<dyn External>> {
        self.external.iter().find(|external| external.about().id == id)
    }

    /// The runner for a model.
    fn runner(&self, model: &ModelRef) -> Arc<dyn Runner> {
        match self.external(&model.provider_id) {
            Some(external) => {
                let (snapshots, budget) = (self.snapshots.clone(), self.budget.clone());
                Arc::new(SupervisedAgent::new(Arc::clone(external), snapshots, budget))
            }
            None => Arc::clone(&self.runner),
        }
    }

    fn choose(&self, wanted: &Wanted<'_>) -> Result<Resolved, Unresolved> {
        let agent = self.agent(wanted)?;
        let model = self.model(wanted, agent)?;
        let runner = self.runner(&model);
        let delivery = self.external(&model.provider_id).map(|external| external.delivery());
        let mut resolved = Resolved::new(&agent.name, model, runner);
        resolved.delivery = delivery.unwrap_or_default();
        // An agent that may not edit cannot finish its todos, so it does not continue.
        let todos = self.continuation.todos && may_edit(agent);
        resolved.continuation = ContinuationPolicy { todos, ..self.continuation.clone() };
        Ok(resolved)
    }
}

/// Returns true unless the agent's rules deny all edits.
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
        commands::resolve(&self.commands, &self.mcp, &self.agents, &session.directory, input).boxed()
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
