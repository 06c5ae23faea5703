//! The agent and the model of a step, with their rules and limits.

use std::sync::Arc;

use llm::catalogue::Prices;
use llm::{Model, Request, Sampling};
use protocol::agent::Agent;
use protocol::message::ModelRef;
use protocol::request::{Action, Rule};
use protocol::session::Tokens;
use protocol::{Extra, Session};
use supervision::permission::Permissions;

use super::compaction::ContextWindow;
use super::{Inner, agent};

/// The agent of a step on its model.
pub(super) struct ActiveAgent<'a> {
    pub(super) config: &'a Agent,
    pub(super) model: ActiveModel,
}

/// A model with its prices and its context window.
pub(super) struct ActiveModel {
    pub(super) reference: ModelRef,
    pub(super) provider: Arc<dyn Model>,
    pub(super) prices: Prices,
    pub(super) window: ContextWindow,
}

impl Inner {
    /// Returns an agent on a model. Fails if one of them does not exist.
    pub(super) fn active_agent(&self, name: &str, model: &ModelRef) -> Result<ActiveAgent<'_>, String> {
        Ok(ActiveAgent { config: self.known_agent(name)?, model: self.active_model(model)? })
    }

    /// Returns an agent by name. A prompt may name an agent that was configured after this loop was created. Its
    /// rules are unknown here, so the call fails instead of using those of another agent.
    pub(super) fn known_agent(&self, name: &str) -> Result<&Agent, String> {
        self.agent(name).ok_or_else(|| {
            let shown = self.options.agents.iter().filter(|agent| agent.hidden != Some(true));
            let known: Vec<&str> = shown.map(|agent| agent.name.as_str()).collect();
            format!(
                "there is no agent \"{name}\" here (known agents: {}); if it was configured just now, send the prompt \
                 again when the session is idle",
                known.join(", ")
            )
        })
    }

    pub(super) fn agent(&self, name: &str) -> Option<&Agent> {
        self.options.agents.iter().find(|agent| agent.name == name)
    }

    /// Returns a model. Fails if its provider does not exist.
    pub(super) fn active_model(&self, model: &ModelRef) -> Result<ActiveModel, String> {
        let id = model.provider_id.as_str();
        let provider = self.models.get(id).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.models.keys().map(String::as_str).collect();
            format!("there is no provider \"{id}\"; known providers: {}", known.join(", "))
        })?;
        let about = provider.about(&model.model_id);
        let limit = about.map(|about| about.limit).unwrap_or_default();
        let prices = about.map(|about| about.prices.clone()).unwrap_or_default();
        let window = ContextWindow::new(limit, self.options.compaction.reserved);
        Ok(ActiveModel { reference: model.clone(), provider, prices, window })
    }

    /// Returns true if conversations are summarised automatically.
    pub(super) fn compacts(&self) -> bool {
        self.options.compaction.auto
    }

    /// Returns true if a step has filled the model's context.
    pub(super) fn overflows(&self, model: &ActiveModel, tokens: &Tokens) -> bool {
        self.compacts() && model.window.overflows(tokens)
    }
}

impl ActiveAgent<'_> {
    /// Returns the agent's permissions in a session at this depth, with the user's approvals.
    pub(super) fn permissions(
        &self,
        inner: &Inner,
        session: &Session,
        depth: usize,
        approved: Vec<Rule>,
    ) -> Permissions {
        let mut rules = agent::rules(self.config, session);
        if depth >= usize::try_from(inner.options.subagent_depth).unwrap_or(usize::MAX) {
            rules.push(Rule::new("task", "*", Action::Deny));
        }
        Permissions::new(rules, approved)
    }

    /// Creates a request with the settings of the agent and the model, and no messages.
    pub(super) fn request(&self, session: &Session) -> Request {
        let mut request = self.model.request(session);
        let number = |number: Option<protocol::number::Number>| number.map(|number| number.0);
        request.sampling = Sampling {
            temperature: number(self.config.temperature),
            top_p: number(self.config.top_p),
            top_k: None,
        };
        request.options.clone_from(&self.config.options);
        request
    }
}

impl ActiveModel {
    /// Creates a request with the settings of the model, and no messages.
    pub(super) fn request(&self, session: &Session) -> Request {
        let mut request =
            Request::new(llm::ModelRef::new(&self.reference.provider_id, &self.reference.model_id));
        request.limits.output_tokens = Some(self.window.output);
        request.variant.clone_from(&self.reference.variant);
        request.options = Extra::new();
        request.cache_key = Some(session.id.to_string());
        request.headers.set("x-session-affinity", session.id.as_str());
        request.headers.set("x-session-id", session.id.as_str());
        if let Some(parent) = &session.parent_id {
            request.headers.set("x-parent-session-id", parent.as_str());
        }
        request
    }
}
