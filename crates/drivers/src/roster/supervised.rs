//! An external agent under supervision: a [`Supervisor`] records its file changes and applies budgets and permission
//! rules, and its prompt contains the history that it does not know.
//!
//! The last prompt that an agent took is noted in the session. Turns of other agents and commands of the user since then
//! are told to the agent with its next prompt. If that prompt was reverted, the agent begins a new conversation.

use std::fmt;
use std::sync::Arc;

use engine::ports::{Draft, Prepared, Runner};
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use protocol::config::Budget;
use protocol::message::Origin;
use protocol::{AgentEvent, Message, MessageError, MessageWithParts, Session, TurnEnd};
use supervision::{Snapshots, Supervisor};

use super::handover::Missed;
use super::{About, External, handover};

/// The runner of an external agent's turns under supervision.
#[derive(Clone)]
pub struct SupervisedAgent {
    agent: Arc<dyn External>,
    snapshots: Option<Arc<Snapshots>>,
    budget: Budget,
}

impl SupervisedAgent {
    /// Without snapshots, file changes are not recorded.
    pub fn new(agent: Arc<dyn External>, snapshots: Option<Arc<Snapshots>>, budget: Budget) -> Self {
        Self { agent, snapshots, budget }
    }

    /// Adds the part of the conversation that the agent has missed to its prompt, and reports to the user that the agent
    /// has no other memory of it.
    async fn introduce(&self, turn: &Turn, supervised: &mut Turn) {
        let about = self.agent.about();
        if turn.session.parent_id.is_some() || !is_prompt(turn).await {
            return;
        }
        let seen = seen(about);
        let missed = match (turn.session.note(&about.id), turn.session.note(&seen)) {
            (Some(_), Some(last)) => handover::missed(turn, &about.id, last).await,
            (Some(_), None) => Missed::Nothing,
            (None, _) => Missed::Undone,
        };
        let message = match missed {
            Missed::Nothing => None,
            Missed::Turns { text, by_others } => {
                supervised.preface(text);
                by_others.then(|| {
                    format!(
                        "{}'s prompt also contains the turns of other agents since its last turn",
                        about.name
                    )
                })
            }
            Missed::Undone => {
                // An agent that never had a conversation keeps the pause after its failed starts.
                if turn.session.note(&about.id).is_some() {
                    self.agent.forget(&turn.session.id).await;
                    forget_note(&mut supervised.session, &about.id);
                }
                handover::conversation(turn).await.map(|conversation| {
                    supervised.preface(conversation);
                    format!(
                        "{} starts a new conversation; its prompt contains the earlier conversation as text",
                        about.name
                    )
                })
            }
        };
        if let Some(message) = message {
            turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
        }
        let note = turn.prompt.to_string();
        turn.emit(AgentEvent::Noted { name: seen, note }).await;
    }
}

/// The name of the note with the last prompt that an agent took.
fn seen(about: &About) -> String {
    format!("{}:prompt", about.id)
}

/// Tells whether a turn begins with a prompt for the agent.
async fn is_prompt(turn: &Turn) -> bool {
    match turn.message(&turn.prompt).await {
        Ok(Some(MessageWithParts { info: Message::User(user), .. })) => {
            !matches!(user.origin(), Some(Origin::Shell { .. } | Origin::Wake))
        }
        _ => false,
    }
}

fn forget_note(session: &mut Session, name: &str) {
    if let Some(notes) = session.extra.get_mut(Session::NOTES).and_then(serde_json::Value::as_object_mut) {
        notes.remove(name);
    }
}

impl fmt::Debug for SupervisedAgent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("SupervisedAgent").field(&self.agent.about().id).finish()
    }
}

impl Runner for SupervisedAgent {
    fn run(&self, mut turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let this = self.clone();
        async move {
            let mut supervised = turn.supervised();
            let turn = Arc::new(turn);
            let supervisor = match Supervisor::start(this.snapshots.as_ref(), &this.budget, &turn).await {
                Ok(supervisor) => supervisor,
                Err(error) => return TurnEnd::Error(MessageError::unknown(error.to_string())),
            };
            this.introduce(&turn, &mut supervised).await;
            let rules = this.agent.rules().to_vec();
            supervisor.follow(rules, supervised, |turn| this.agent.run(turn)).await
        }
        .boxed()
    }

    fn prepare<'a>(&'a self, draft: Draft<'a>) -> BoxFuture<'a, Result<Prepared, String>> {
        self.agent.prepare(draft)
    }
}
