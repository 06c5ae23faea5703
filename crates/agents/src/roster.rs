//! Who answers a prompt: the agent, the model and the runner that were asked for, or the ones to fall back on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use engine::ports::{Resolved, Runner, Runners, Unresolved, Wanted};
use futures::future::{self, BoxFuture, FutureExt};
use llm::Model;
use protocol::Session;
use protocol::agent::{Agent, AgentMode, Command};
use protocol::message::ModelRef;
use protocol::prompt::{CommandInput, PromptInput};

use crate::native::commands;
use crate::native::mcp::Servers;

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
        let reason = match self.models.get(&model.provider_id) {
            Some(provider) if provider.knows(&model.model_id) => return Ok(model),
            Some(_) => format!("{} has no such model", model.provider_id),
            None => (self.missing)(&model.provider_id)
                .unwrap_or_else(|| format!("there is no provider \"{}\"", model.provider_id)),
        };
        Err(Unresolved::Model {
            name: format!("{}/{}", model.provider_id, model.model_id),
            reason,
            known: self
                .models
                .keys()
                .map(|provider| format!("{provider}/..."))
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// The same for a command that only an MCP server can know.
    async fn served(&self, input: &CommandInput) -> Result<Result<PromptInput, String>, Unresolved> {
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
        Ok(Resolved::new(&agent.name, model, Arc::clone(&self.runner)))
    }
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

#[cfg(test)]
mod tests {
    use engine::ports::{SystemClock, SystemRandom};
    use llm::demo::Demo;
    use serde_json::json;

    use super::*;
    use crate::native::{Native, Options, built_in};

    fn roster() -> Roster {
        let model: Arc<dyn Model> = Arc::new(Demo::built_in().unwrap());
        let models = BTreeMap::from([("demo".to_owned(), model)]);
        let native =
            Native::new(models.clone(), Arc::new(SystemClock), Arc::new(SystemRandom), Options::default());
        Roster {
            agents: built_in(&[]),
            commands: commands::all(Vec::new(), &[]),
            mcp: Servers::default(),
            models,
            model: ModelRef::new("demo", "baton"),
            missing: Arc::new(|provider| (provider == "acme").then(|| "set ACME_KEY".to_owned())),
            runner: Arc::new(native),
        }
    }

    fn session(more: &serde_json::Value) -> Session {
        let mut session = json!({
            "id": "ses_1", "slug": "s", "projectID": "global", "directory": "/", "title": "t", "version": "0",
            "time": { "created": 1, "updated": 1 },
        });
        session.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(session).unwrap()
    }

    fn resolve(session: &Session, agent: Option<&str>, model: Option<&ModelRef>) -> Result<String, String> {
        let resolved = roster().choose(&Wanted { session, agent, model });
        let shown = |it: Resolved| format!("{} {}/{}", it.agent, it.model.provider_id, it.model.model_id);
        resolved.map(shown).map_err(|error| error.to_string())
    }

    #[test]
    fn a_prompt_gets_what_it_asks_for_or_the_next_best() {
        let plain = session(&json!({}));
        let used = session(&json!({ "agent": "plan", "model": { "id": "slow", "providerID": "demo" } }));
        assert_eq!(resolve(&plain, None, None).unwrap(), "build demo/baton");
        assert_eq!(resolve(&used, None, None).unwrap(), "build demo/slow");
        let simple = ModelRef::new("demo", "simple");
        assert_eq!(resolve(&used, Some("build"), Some(&simple)).unwrap(), "build demo/simple");
        assert_eq!(resolve(&plain, Some("general"), None).unwrap(), "general demo/baton");
    }

    #[test]
    fn what_nobody_knows_is_refused_with_what_somebody_does() {
        let plain = session(&json!({}));
        let error = resolve(&plain, Some("nobody"), None).unwrap_err();
        assert!(error.contains("nobody") && error.contains("build, plan, general, explore"), "{error}");
        for (provider, model, reason) in [
            ("demo", "no_such", "demo has no such model"),
            ("nowhere", "baton", "there is no provider \"nowhere\""),
            ("acme", "large", "set ACME_KEY"),
        ] {
            let error = resolve(&plain, None, Some(&ModelRef::new(provider, model))).unwrap_err();
            let name = format!("{provider}/{model}");
            assert!([&name, reason, "demo/..."].iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
