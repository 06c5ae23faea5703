//! Hooks that the engine calls for every runner. They are called in the runner's task, so that the session's actor
//! never waits for one and an abort wins over all of them.

use protocol::{
    AgentEvent,
    agent_event::{Answer, Ask},
    request::{Action, Request},
};

use super::turn::{Call, Settled, Turn};
use crate::{
    ports::{
        HookPoint,
        hooks::{HookOutput, PermissionAsk, PermissionStatus, Text, TextComplete},
    },
    transcript::OpenText,
};

/// The message that the model receives when a plugin rejects a permission.
const REFUSED: &str = "a plugin of this project does not allow this; find another way or ask the user";

impl Turn {
    /// Lets hooks change a text part that is about to end.
    pub(super) async fn complete_texts(&self, event: &AgentEvent) {
        let key = match event {
            AgentEvent::TextEnded { key } => Some(key.clone()),
            // Ends all texts that the runner has left open.
            AgentEvent::StepFinished { .. } => None,
            _ => return,
        };
        if !self.hooks.wants(HookPoint::TextComplete) {
            return;
        }
        let texts = self.call(|reply| Call::Texts(key, reply)).await.unwrap_or_default();
        for OpenText { key, part, message, text } in texts {
            let about =
                TextComplete { session_id: self.session.id.clone(), message_id: message, part_id: part };
            let before = Text { text };
            let after = self.unless_cancelled(&about, before.clone()).await;
            if after != before {
                self.send(AgentEvent::TextReplaced { key, text: after.text }).await;
            }
        }
    }

    /// Lets hooks answer a permission; asks the user if they leave it open.
    pub(super) async fn ask_hooks_first(&self, ask: Ask, settled: Settled) -> Option<Answer> {
        let (request, asked) = self.call(|reply| Call::Request(ask, reply)).await?;
        let status = match &request {
            Request::Permission(permission) => {
                let about = PermissionAsk::new(permission, asked);
                let before = PermissionStatus { status: Action::Ask };
                self.unless_cancelled(&about, before).await.status
            }
            Request::Question(_) => Action::Ask,
        };
        match status {
            Action::Allow => Some(Answer::Once),
            Action::Deny => Some(Answer::Rejected { message: Some(REFUSED.into()) }),
            Action::Ask => self.call(|reply| Call::Show(request, settled, reply)).await,
        }
    }

    /// Returns the value as hooks have changed it, or as it was if they take too long or the turn is stopped.
    async fn unless_cancelled<O: HookOutput>(&self, input: &O::Input, before: O) -> O {
        tokio::select! {
            biased;
            () = self.cancelled() => before,
            after = self.hooks.change_within(self.hook_limit, input, before.clone()) => after,
        }
    }
}
