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
use protocol::prompt::Delivery;
use protocol::request::Rule;
use protocol::{AgentEvent, Message, MessageError, MessageWithParts, Session, SessionId, TurnEnd};
use supervision::{Snapshots, Supervisor};

use super::handover::Missed;
use super::{About, External, handover};

/// An external agent under supervision.
#[derive(Clone)]
pub struct SupervisedAgent {
    runner: Arc<dyn External>,
    snapshots: Option<Arc<Snapshots>>,
    budget: Budget,
}

impl SupervisedAgent {
    /// Without snapshots, file changes are not recorded.
    pub fn new(runner: Arc<dyn External>, snapshots: Option<Arc<Snapshots>>, budget: Budget) -> Self {
        Self { runner, snapshots, budget }
    }

    /// Adds the part of the conversation that the agent has missed to its prompt, and reports to the user that the agent
    /// has no other memory of it.
    async fn introduce(&self, turn: &Turn, supervised: &mut Turn) {
        let about = self.about();
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
                    self.runner.forget(&turn.session.id).await;
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
        out.debug_tuple("SupervisedAgent").field(&self.about().id).finish()
    }
}

impl External for SupervisedAgent {
    fn about(&self) -> &About {
        self.runner.about()
    }

    fn rules(&self) -> &[Rule] {
        self.runner.rules()
    }

    fn delivery(&self) -> Delivery {
        self.runner.delivery()
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        self.runner.forget(session)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.runner.close()
    }
}

impl Runner for SupervisedAgent {
    fn run(&self, mut turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let watched = self.clone();
        async move {
            let mut supervised = turn.supervised();
            let turn = Arc::new(turn);
            let supervisor = match Supervisor::start(watched.snapshots.as_ref(), &watched.budget, &turn).await
            {
                Ok(supervisor) => supervisor,
                Err(error) => return TurnEnd::Error(MessageError::unknown(error.to_string())),
            };
            watched.introduce(&turn, &mut supervised).await;
            let rules = watched.rules().to_vec();
            supervisor.follow(rules, supervised, |turn| watched.runner.run(turn)).await
        }
        .boxed()
    }

    fn prepare<'a>(&'a self, draft: Draft<'a>) -> BoxFuture<'a, Result<Prepared, String>> {
        self.runner.prepare(draft)
    }
}
