//! Commands that choose the session, the model and the agent of a place.

use protocol::{
    Session,
    agent::{Agent, AgentMode},
    message::ModelRef,
};

use super::{
    commands::{Reply, say},
    run::posts,
    worker::Worker,
};
use crate::words;

impl Worker {
    /// Sessions without a parent, newest first.
    async fn roots(&self) -> Result<Vec<Session>, client::Error> {
        let mut sessions = self.context().client.sessions().await?;
        sessions.retain(|session| session.parent_id.is_none());
        sessions.sort_by_key(|session| std::cmp::Reverse(session.time.updated));
        sessions.truncate(words::SHOWN);
        Ok(sessions)
    }

    pub(super) async fn list_sessions(&self) -> Reply {
        let sessions = self.roots().await?;
        let listed = sessions.iter().map(|session| session.id.clone()).collect();
        // The numbers must stay valid until the user chooses, even if newer sessions appear.
        self.ledger().change_place_state(&self.place, |state| state.listed = listed).await?;
        let current = self.place_state().await?.session;
        let text = words::sessions(&sessions, current.as_ref(), self.ledger().now());
        Ok(posts(&*self.adapter, &text))
    }

    pub(super) async fn use_session(&self, which: &str) -> Reply {
        if which.is_empty() {
            return Ok(say("Which one? /sessions lists them; then write /use and the number."));
        }
        let id = match which.parse::<usize>() {
            Ok(number) => {
                let mut listed = self.place_state().await?.listed;
                if listed.is_empty() {
                    listed = self.roots().await?.into_iter().map(|session| session.id).collect();
                }
                number.checked_sub(1).and_then(|index| listed.get(index)).cloned()
            }
            Err(_) => which.parse().ok(),
        };
        let Some(id) = id else { return Ok(say("There is no such session. /sessions lists them.")) };
        match self.context().client.session(&id).await {
            Ok(session) => {
                self.set_session(session.id).await?;
                Ok(say(format!("Continuing “{}”.", words::excerpt(&session.title, 60))))
            }
            Err(error) if error.status() == Some(404) => {
                Ok(say("There is no such session. /sessions lists them."))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn choose_model(&self, name: &str) -> Reply {
        if name == "default" {
            self.ledger().change_place_state(&self.place, |state| state.model = None).await?;
            return Ok(say("The server chooses the model."));
        }
        let models = self.context().client.models().await?;
        if name.is_empty() {
            let chosen = self.place_state().await?.model;
            return Ok(posts(&*self.adapter, &words::models(&models, chosen.as_ref())));
        }
        let Some(model) = find_model(&models, name).cloned() else {
            return Ok(say(format!("There is no model {}. /model lists them.", words::code(name))));
        };
        let said = format!("The model is now {}/{}.", model.provider_id, model.model_id);
        self.ledger().change_place_state(&self.place, |state| state.model = Some(model)).await?;
        Ok(say(said))
    }

    pub(super) async fn choose_agent(&self, name: &str) -> Reply {
        if name == "default" {
            self.ledger().change_place_state(&self.place, |state| state.agent = None).await?;
            return Ok(say("The server chooses the agent."));
        }
        let agents: Vec<Agent> =
            self.context().client.agents().await?.into_iter().filter(is_offered).collect();
        if name.is_empty() {
            let chosen = self.place_state().await?.agent;
            return Ok(posts(&*self.adapter, &words::agents(&agents, chosen.as_deref())));
        }
        let Some(agent) = agents.into_iter().find(|agent| agent.name.eq_ignore_ascii_case(name)) else {
            return Ok(say(format!("There is no agent {}. /agent lists them.", words::code(name))));
        };
        let said = format!("The agent is now {}.", agent.name);
        self.ledger().change_place_state(&self.place, |state| state.agent = Some(agent.name)).await?;
        Ok(say(said))
    }
}

/// Finds a model by `provider/model`, or by its own name if only one provider has it.
fn find_model<'a>(models: &'a [ModelRef], name: &str) -> Option<&'a ModelRef> {
    if let Some((provider, model)) = name.split_once('/') {
        let full = models.iter().find(|it| it.provider_id == provider && it.model_id == model);
        if full.is_some() {
            return full;
        }
    }
    let mut named = models.iter().filter(|it| it.model_id == name);
    named.next().filter(|_| named.next().is_none())
}

fn is_offered(agent: &Agent) -> bool {
    agent.mode != AgentMode::Subagent && agent.hidden != Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_its_full_name_or_by_its_own() {
        let models =
            [ModelRef::new("a", "small"), ModelRef::new("a", "x/large"), ModelRef::new("b", "small")];
        let found = |name: &str| find_model(&models, name).map(|it| it.provider_id.as_str());
        assert_eq!(found("b/small"), Some("b"));
        assert_eq!(found("a/x/large"), Some("a"));
        assert_eq!(found("x/large"), Some("a"));
        assert_eq!(found("small"), None, "two have it");
        assert_eq!(found("medium"), None);
    }
}
