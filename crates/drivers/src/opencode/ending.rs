//! Decides when a turn has ended: OpenCode must report it and the turns of all children must have ended. If OpenCode
//! sends nothing, Baton asks for its status.

use net::chain;
use protocol::{AgentEvent, EventBody, SessionStatus, TurnEnd};
use tokio::time::Instant;

use super::run::{Flow, TurnState, in_time, until_cancelled};

/// An end that waits for children.
pub(super) struct Held {
    end: TurnEnd,
    /// True if OpenCode may continue with the results of the children, so that its status is checked once more.
    may_go_on: bool,
}

impl TurnState<'_> {
    /// Records the activity of this session and its children. The stream also carries the events of other sessions.
    pub(super) async fn note(&mut self, body: &EventBody) {
        let Some(session) = body.session_id() else { return };
        if *session != self.session && !self.children.contains_key(session) {
            return;
        }
        if self.checks.heard(Instant::now()) {
            self.turn.emit(AgentEvent::Resumed).await;
        }
        let is_idle =
            matches!(body, EventBody::SessionStatus(it) if matches!(it.status, SessionStatus::Idle { .. }));
        if is_idle || matches!(body, EventBody::SessionIdle(_)) {
            self.busy.remove(session);
        }
    }

    /// Takes in the end of the turn at OpenCode. The turn ends here when the turns of its children have ended too.
    /// Children in the background may make OpenCode continue.
    pub(super) fn hold(&mut self, end: TurnEnd) -> Flow {
        if self.born.is_empty() && self.held.is_none() {
            return Flow::Break(end);
        }
        self.translator.reopen();
        let may_go_on = !self.busy.is_empty();
        // OpenCode reports idle more than once, and only the first report determines the end.
        self.held.get_or_insert(Held { end, may_go_on });
        Flow::Continue(())
    }

    /// Ends the turn if the last child has ended.
    pub(super) fn release(&mut self) -> Flow {
        if self.born.is_empty() {
            match self.held.take() {
                Some(Held { end, may_go_on: false }) => return Flow::Break(end),
                Some(held) => {
                    self.held = Some(held);
                    self.checks.unsure(Instant::now());
                }
                None => {}
            }
        }
        Flow::Continue(())
    }

    /// Asks the server whether it is idle.
    pub(super) async fn check(&mut self) -> Flow {
        self.checks.asked(Instant::now());
        let asking = async { self.client.statuses().await.map_err(|error| chain(&error)) };
        let asking = in_time(self.agent.timeouts.call, "OpenCode did not report its status", asking);
        match until_cancelled(self.turn, asking).await? {
            Ok(statuses) => match statuses.get(&self.session) {
                None | Some(SessionStatus::Idle { .. }) => self.rest().await,
                Some(_) => {
                    self.remark().await;
                    Flow::Continue(())
                }
            },
            Err(error) => {
                // If the server has ended, the event stream reports it.
                tracing::debug!(error, "cannot read the status of OpenCode");
                self.checks.unsure(Instant::now());
                Flow::Continue(())
            }
        }
    }

    /// Handles the status idle.
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

    /// Handles the status busy. After a long silence the user sees a retry status with an explanation, unless the turn
    /// waits for a tool, a child or the user.
    async fn remark(&mut self) {
        if self.translator.is_acting() || !self.asked.is_empty() || !self.born.is_empty() {
            return;
        }
        let Some(silence) = self.checks.silence(Instant::now()) else { return };
        let minutes = silence.as_secs() / 60;
        let message = format!(
            "OpenCode reports that it is busy, but has sent nothing for {minutes} minutes. Its model may not be answering. \
             The turn continues until OpenCode ends it or you abort it."
        );
        let next = self.agent.mint.now();
        self.turn.emit(AgentEvent::Retrying { attempt: 1, limit: None, message, next }).await;
    }
}
