//! Background subagents, which work while the turn goes on. The turn does not end before they do: the model gets
//! their results before its next step.

use std::sync::atomic::{AtomicUsize, Ordering};

use engine::ports::ChildEnd;
use futures::future::BoxFuture;
use protocol::part::TextPart;
use protocol::{AgentEvent, PartBody, TurnEnd};
use tokio::sync::mpsc;

use super::run::{Flow, Loop};
use super::{limits, tools};

/// The background subagents of one turn.
#[derive(Debug)]
pub(super) struct Background {
    running: AtomicUsize,
    report: mpsc::Sender<Option<ChildEnd>>,
    reports: mpsc::Receiver<Option<ChildEnd>>,
}

impl Default for Background {
    fn default() -> Self {
        let (report, reports) = mpsc::channel(limits::BACKGROUND);
        Self { running: AtomicUsize::new(0), report, reports }
    }
}

impl Background {
    /// Reserves a slot for a new subagent. Returns `None` if [`limits::BACKGROUND`] are running.
    pub(super) fn reserve(&self) -> Option<Slot<'_>> {
        let room = |running| (running < limits::BACKGROUND).then_some(running + 1);
        self.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        Some(Slot { background: self, used: false })
    }

    /// Adds a slot for a subagent that is running already, regardless of the limit.
    pub(super) fn add_running(&self) -> Slot<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Slot { background: self, used: false }
    }

    fn is_empty(&self) -> bool {
        self.running.load(Ordering::Relaxed) == 0
    }

    /// Waits for the next subagent to end. Returns `None` if the engine shuts down.
    async fn next(&mut self) -> Option<ChildEnd> {
        let end = self.reports.recv().await.flatten();
        self.running.fetch_sub(1, Ordering::Relaxed);
        end
    }

    /// Returns a subagent that has ended already, without waiting.
    fn ended(&mut self) -> Option<ChildEnd> {
        let end = self.reports.try_recv().ok()?;
        self.running.fetch_sub(1, Ordering::Relaxed);
        end
    }
}

/// A reserved slot. Dropping it frees the slot unless it is used.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    background: &'a Background,
    used: bool,
}

impl Slot<'_> {
    /// Waits for a subagent in a task of its own. If the turn ends first, the engine ends the subagent.
    pub(super) fn watch(mut self, end: BoxFuture<'static, Option<ChildEnd>>) {
        self.used = true;
        let report = self.background.report.clone();
        tokio::spawn(async move {
            let end = end.await;
            // Fails if the turn has ended meanwhile, and then no result is needed.
            let _ = report.send(end).await;
        });
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.background.running.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Loop<'_> {
    /// Adds the results of ended subagents to the conversation.
    pub(super) async fn report_ended_subagents(&mut self) {
        while let Some(end) = self.background.ended() {
            self.report(&end).await;
        }
    }

    /// Called when the model has stopped: ends the turn, or waits for a background subagent or a prompt that joins.
    pub(super) async fn wait_for_background(&mut self) -> Flow {
        while !self.background.is_empty() {
            tokio::select! {
                biased;
                () = self.turn.cancelled() => return Flow::Break(TurnEnd::Cancelled),
                end = self.background.next() => if let Some(end) = end {
                    self.report(&end).await;
                    return Flow::Continue(());
                },
                () = self.turn.prompted() => if self.take_joined_prompts().await {
                    return Flow::Continue(());
                },
            }
        }
        Flow::Break(TurnEnd::Completed)
    }

    async fn report(&self, end: &ChildEnd) {
        let text = format!("A background subagent has ended.\n{}", tools::describe_end(end));
        let text = TextPart { text, synthetic: Some(true), ..TextPart::default() };
        self.turn.emit(AgentEvent::Continued(vec![PartBody::Text(text)])).await;
    }
}
