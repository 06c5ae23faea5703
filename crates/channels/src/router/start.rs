//! Sends a prompt to the server exactly once.

use std::sync::Arc;

use client::streaming::{Pace, PromptStream};
use protocol::{
    SessionId,
    prompt::{Delivery, PromptInput, SessionInput},
};

use super::{Inner, prompt};
use crate::{
    Adapter, Place, Update,
    ledger::{self, PendingUpdate, State},
};

/// A prompt that the server has accepted.
pub(super) struct Started {
    pub(super) stream: PromptStream,
    pub(super) session: SessionId,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

/// Failure of a prompt or a command.
pub(super) enum Failure {
    /// The server refused the call, or the call did not reach it.
    Server(client::Error),
    Ledger(ledger::Error),
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        Self::Server(error)
    }
}

impl From<ledger::Error> for Failure {
    fn from(error: ledger::Error) -> Self {
        Self::Ledger(error)
    }
}

/// Everything needed to start a prompt.
pub(super) struct Start {
    pub(super) router: Arc<Inner>,
    pub(super) place: Place,
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) pending: PendingUpdate,
    /// Further messages of the same album.
    pub(super) album: Vec<PendingUpdate>,
}

impl Start {
    /// Sends the prompt, or resumes it if the server already has it.
    pub(super) async fn go(self) -> Result<Box<Started>, Failure> {
        let context = &self.router.context;
        let update = self.pending.update.with_album(self.album.iter().map(|it| &it.update));
        let update = context.with_quote(&self.place, update).await?;
        let made = prompt::make(&*self.adapter, &context.files, self.pending.id, &update).await;
        let mut notes = made.notes;
        let state = context.ledger.place_state(&self.place).await?;
        let mut input = made.prompt;
        (input.model, input.agent) = (state.model, state.agent);
        if let State::Running(run) = &self.pending.state {
            input.message_id = Some(run.prompt.clone());
            match self.take_up(&run.session, input.clone()).await {
                // The session was deleted, and the prompt with it; start again.
                Err(error) if error.status() == Some(404) => {}
                stream => {
                    return Ok(Box::new(Started { stream: stream?, session: run.session.clone(), notes }));
                }
            }
        }
        let (session, is_replaced) = self.session(state.session).await?;
        if is_replaced {
            notes.push("The session was deleted on the server, so this is a new one.".to_owned());
        }
        if self.is_busy(&session).await? {
            // Another client's turn runs there. `delivery` is not set otherwise, because OpenCode does not know it.
            input.delivery = Some(Delivery::Queue);
        }
        let id = client::id::message();
        let run = ledger::Run { session: session.clone(), prompt: id.clone() };
        let ids = std::iter::once(&self.pending).chain(&self.album).map(|it| it.id).collect();
        context.ledger.run_all(ids, run).await?;
        input.message_id = Some(id);
        let events = context.feed.watch(&session);
        let stream = context.client.prompt_streaming_on(events, &session, input, self.pace()).await?;
        Ok(Box::new(Started { stream, session, notes }))
    }

    async fn take_up(&self, session: &SessionId, input: PromptInput) -> Result<PromptStream, client::Error> {
        let context = &self.router.context;
        let events = context.feed.watch(session);
        context.client.take_up_streaming_on(events, session, input, self.pace()).await
    }

    fn pace(&self) -> Pace {
        self.router.context.pace(&*self.adapter)
    }

    async fn is_busy(&self, session: &SessionId) -> Result<bool, client::Error> {
        let statuses = self.router.context.client.statuses().await?;
        Ok(statuses.get(session).is_some_and(|status| !status.is_idle()))
    }

    /// The session of the place; true if it replaces one that was deleted.
    async fn session(&self, current: Option<SessionId>) -> Result<(SessionId, bool), Failure> {
        let context = &self.router.context;
        if let Some(session) = &current {
            match context.client.session(session).await {
                Err(error) if error.status() == Some(404) => {}
                found => return Ok((found?.id, false)),
            }
        }
        let session = context.client.create_session(&SessionInput::default()).await?.id;
        let new = session.clone();
        context.ledger.change_place_state(&self.place, |state| state.session = Some(new)).await?;
        Ok((session, current.is_some()))
    }
}

impl super::Context {
    /// Adds the text of the message that an update replies to, if only the ledger has it.
    pub(super) async fn with_quote(
        &self,
        place: &Place,
        mut update: Update,
    ) -> Result<Update, ledger::Error> {
        if let (None, Some(id)) = (&update.quoted, &update.replies_to) {
            update.quoted = self.ledger.text_of(place, id).await?;
        }
        Ok(update)
    }

    /// Timing of progress reports. Every tool call is reported, because the board limits their rate.
    pub(super) fn pace(&self, adapter: &dyn Adapter) -> Pace {
        Pace {
            timeout: std::time::Duration::from_millis(self.settings.timeout_ms),
            tools: std::time::Duration::ZERO,
            heartbeat: self.settings.progress.heartbeat(),
            shows_text: self.settings.stream && adapter.features().streaming,
        }
    }
}
