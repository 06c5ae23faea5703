//! Whether a turn is over. It is when OpenCode says so and the turns of all its children are; when it says nothing, it
//! is asked.

use protocol::{AgentEvent, EventBody, SessionStatus, TurnEnd};
use tokio::time::Instant;

use super::run::{Drive, Flow, chain, in_time, until_cancelled};

/// An end that waits for children.
pub(super) struct Held {
    end: TurnEnd,
    /// Whether OpenCode may go on with what they have done, so that it is asked once more.
    may_go_on: bool,
}

impl Drive<'_> {
    /// Notes who is heard of. Whoever listens for everybody hears of much that is not about this session.
    pub(super) async fn note(&mut self, body: &EventBody) {
        let Some(session) = body.session_id() else { return };
        if *session != self.session && !self.children.contains_key(session) {
            return;
        }
        if self.pulse.heard(Instant::now()) {
            self.turn.emit(AgentEvent::Resumed).await;
        }
        let is_idle =
            matches!(body, EventBody::SessionStatus(it) if matches!(it.status, SessionStatus::Idle { .. }));
        if is_idle || matches!(body, EventBody::SessionIdle(_)) {
            self.busy.remove(session);
        }
    }

    /// The turn has ended there: it is over when those of its children are. Those that work in the background may
    /// make OpenCode go on.
    pub(super) fn hold(&mut self, end: TurnEnd) -> Flow {
        if self.born.is_empty() && self.held.is_none() {
            return Flow::Break(end);
        }
        self.translator.reopen();
        let may_go_on = !self.busy.is_empty();
        // OpenCode says idle more than once, and only the first says how it ended.
        self.held.get_or_insert(Held { end, may_go_on });
        Flow::Continue(())
    }

    /// A child's turn has ended.
    pub(super) fn release(&mut self) -> Flow {
        if self.born.is_empty() {
            match self.held.take() {
                Some(Held { end, may_go_on: false }) => return Flow::Break(end),
                Some(held) => {
                    self.held = Some(held);
                    self.pulse.unsure(Instant::now());
                }
                None => {}
            }
        }
        Flow::Continue(())
    }

    /// Asks the server whether it is idle.
    pub(super) async fn check(&mut self) -> Flow {
        self.pulse.asked(Instant::now());
        let asking = async { self.client.statuses().await.map_err(|error| chain(&error)) };
        let asking = in_time(self.agent.patience.call, "OpenCode did not say who is at work", asking);
        match until_cancelled(self.turn, asking).await? {
            Ok(statuses) => match statuses.get(&self.session) {
                None | Some(SessionStatus::Idle { .. }) => self.rest().await,
                Some(_) => {
                    self.remark().await;
                    Flow::Continue(())
                }
            },
            Err(error) => {
                // The stream finds out whether the server is gone.
                tracing::debug!(error, "OpenCode could not be asked whether it is idle");
                self.pulse.unsure(Instant::now());
                Flow::Continue(())
            }
        }
    }

    /// OpenCode says that it is idle.
    async fn rest(&mut self) -> Flow {
        match self.held.take() {
            Some(held) if self.born.is_empty() => Flow::Break(held.end),
            Some(held) => {
                self.held = Some(held);
                Flow::Continue(())
            }
            None => {
                let said = self.translator.settle();
                self.act(said).await
            }
        }
    }

    /// OpenCode says that it is busy. If nothing was heard of that for long, people are told what they wait for, unless
    /// it is a tool, a child or themselves.
    async fn remark(&mut self) {
        if self.translator.is_acting() || !self.asked.is_empty() || !self.born.is_empty() {
            return;
        }
        let Some(silence) = self.pulse.silence(Instant::now()) else { return };
        let minutes = silence.as_secs() / 60;
        let message = format!(
            "OpenCode says that it is busy, but has not said anything for {minutes} minutes: its model may not answer. \
             It is waited for until it ends or is aborted."
        );
        let next = self.agent.mint.now();
        self.turn.emit(AgentEvent::Retrying { attempt: 1, message, next }).await;
    }
}
