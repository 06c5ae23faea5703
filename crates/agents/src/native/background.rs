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
    going: AtomicUsize,
    report: mpsc::Sender<Option<ChildEnd>>,
    reports: mpsc::Receiver<Option<ChildEnd>>,
}

impl Default for Background {
    fn default() -> Self {
        let (report, reports) = mpsc::channel(limits::BACKGROUND);
        Self { going: AtomicUsize::new(0), report, reports }
    }
}

impl Background {
    /// Reserves a place for a new subagent. Returns `None` if [`limits::BACKGROUND`] are running.
    pub(super) fn reserve(&self) -> Option<Place<'_>> {
        let room = |going| (going < limits::BACKGROUND).then_some(going + 1);
        self.going.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        Some(Place { background: self, taken: false })
    }

    /// Adds a place for a subagent that is running already, regardless of the limit.
    pub(super) fn make_room(&self) -> Place<'_> {
        self.going.fetch_add(1, Ordering::Relaxed);
        Place { background: self, taken: false }
    }

    fn is_empty(&self) -> bool {
        self.going.load(Ordering::Relaxed) == 0
    }

    /// Waits for the next subagent to end. Returns `None` if the engine shuts down.
    async fn next(&mut self) -> Option<ChildEnd> {
        let end = self.reports.recv().await.flatten();
        self.going.fetch_sub(1, Ordering::Relaxed);
        end
    }

    /// Returns a subagent that has ended already, without waiting.
    fn ended(&mut self) -> Option<ChildEnd> {
        let end = self.reports.try_recv().ok()?;
        self.going.fetch_sub(1, Ordering::Relaxed);
        end
    }
}

/// A reserved place. Dropping it frees the place unless it is taken.
#[derive(Debug)]
pub(super) struct Place<'a> {
    background: &'a Background,
    taken: bool,
}

impl Place<'_> {
    /// Waits for a subagent in a task of its own. If the turn ends first, the engine ends the subagent.
    pub(super) fn take(mut self, end: BoxFuture<'static, Option<ChildEnd>>) {
        self.taken = true;
        let report = self.background.report.clone();
        tokio::spawn(async move {
            let end = end.await;
            // Fails if the turn has ended meanwhile, and then no result is needed.
            let _ = report.send(end).await;
        });
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.taken {
            self.background.going.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Loop<'_> {
    /// Adds the results of ended subagents to the conversation.
    pub(super) async fn hear_background(&mut self) {
        while let Some(end) = self.background.ended() {
            self.tell(&end).await;
        }
    }

    /// Called when the model has stopped: ends the turn, or waits for a background subagent or a prompt that joins.
    pub(super) async fn linger(&mut self) -> Flow {
        while !self.background.is_empty() {
            tokio::select! {
                biased;
                () = self.turn.cancelled() => return Flow::Break(TurnEnd::Cancelled),
                end = self.background.next() => if let Some(end) = end {
                    self.tell(&end).await;
                    return Flow::Continue(());
                },
                () = self.turn.prompted() => if self.take_joined().await {
                    return Flow::Continue(());
                },
            }
        }
        Flow::Break(TurnEnd::Completed)
    }

    async fn tell(&self, end: &ChildEnd) {
        let text = format!("A background subagent has ended.\n{}", tools::told(end));
        let text = TextPart { text, synthetic: Some(true), ..TextPart::default() };
        self.turn.emit(AgentEvent::Continued(vec![PartBody::Text(text)])).await;
    }
}
