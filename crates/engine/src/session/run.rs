//! A running runner, as its actor sees it.

use std::{sync::Arc, time::Duration};

use protocol::{AgentEvent, MessageError, Part, SessionStatus, TurnEnd};
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::turn::{Call, Signals};
use crate::{lifecycle::Run, ports::Resolved, transcript::Transcript};

pub(super) struct Running {
    pub(super) number: Run,
    pub(super) transcript: Transcript,
    /// `None` if no runner is known for the prompt.
    pub(super) resolved: Option<Resolved>,
    /// The error of a failed run, for the message it leaves.
    pub(super) error: Option<MessageError>,
    /// The status during the current retry wait.
    pub(super) retry: Option<SessionStatus>,
    /// Notifications from the actor to the runner.
    pub(super) signals: Arc<Signals>,
    calls: mpsc::Receiver<Call>,
    /// A call that [`Running::ready_event`] has received and that is no event.
    ahead: Option<Call>,
    task: JoinHandle<TurnEnd>,
    cancel: CancellationToken,
    /// True once the runner has returned; the run may still wait for its children.
    ended: bool,
    /// Time at which a cancelled runner is dropped.
    drop_at: Option<Instant>,
    /// Time at which open text is saved next; set by the first delta after a save.
    save_at: Option<Instant>,
}

/// A call or the end of the runner.
#[expect(
    clippy::large_enum_variant,
    reason = "each value is created and matched at once, so its size does not matter"
)]
pub(super) enum RunnerMessage {
    Call(Call),
    Ended(TurnEnd),
}

impl Running {
    pub(super) fn new(
        number: Run,
        transcript: Transcript,
        resolved: Option<Resolved>,
        calls: mpsc::Receiver<Call>,
        task: JoinHandle<TurnEnd>,
        cancel: CancellationToken,
        signals: Arc<Signals>,
    ) -> Self {
        Self {
            number,
            transcript,
            resolved,
            error: None,
            retry: None,
            signals,
            calls,
            ahead: None,
            task,
            cancel,
            ended: false,
            drop_at: None,
            save_at: None,
        }
    }

    /// The runner's next call. All calls come before the end.
    pub(super) async fn next(run: &mut Option<Self>) -> RunnerMessage {
        let Some(run) = run.as_mut().filter(|run| !run.ended) else { return std::future::pending().await };
        if let Some(call) = run.ahead.take() {
            return RunnerMessage::Call(call);
        }
        tokio::select! {
            biased;
            Some(call) = run.calls.recv() => RunnerMessage::Call(call),
            end = &mut run.task => {
                run.ended = true;
                RunnerMessage::Ended(end.unwrap_or_else(|error| {
                    if error.is_cancelled() { TurnEnd::Cancelled } else { TurnEnd::Error(crashed(error)) }
                }))
            }
        }
    }

    /// The next event, if the runner has already reported it and no other call comes before it.
    pub(super) fn ready_event(&mut self) -> Option<AgentEvent> {
        if self.ahead.is_some() {
            return None;
        }
        match self.calls.try_recv() {
            Ok(Call::Emit(event)) => Some(event),
            Ok(call) => {
                self.ahead = Some(call);
                None
            }
            Err(_) => None,
        }
    }

    /// Notifies the runner that a prompt may join.
    pub(super) fn knock(&self) {
        self.signals.prompted.notify_one();
    }

    /// Cancels the runner; after the grace period it is dropped.
    pub(super) fn cancel(&mut self, grace: Duration) {
        self.cancel.cancel();
        self.drop_at = Some(Instant::now() + grace);
    }

    pub(super) fn drop_if_due(&mut self, now: Instant) {
        if self.drop_at.is_some_and(|at| at <= now) {
            self.drop_at = None;
            self.task.abort();
        }
    }

    /// Schedules a save of open text.
    pub(super) fn touched(&mut self, interval: Duration) {
        if self.save_at.is_none() {
            self.save_at = Some(Instant::now() + interval);
        }
    }

    pub(super) fn take_dirty(&mut self, now: Instant, interval: Duration) -> Vec<Part> {
        if self.save_at.is_none_or(|at| at > now + interval / 8) {
            return Vec::new();
        }
        self.save_at = None;
        self.transcript.take_dirty()
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = Instant> {
        self.drop_at.into_iter().chain(self.save_at)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn crashed(error: tokio::task::JoinError) -> MessageError {
    let what = error.try_into_panic().ok().and_then(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        text.or_else(|| panic.downcast_ref::<String>().cloned())
    });
    let what = what.unwrap_or_else(|| "no message".into());
    MessageError::unknown(format!("the agent crashed ({what}); the session can be used again"))
}
