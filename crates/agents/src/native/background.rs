//! Subagents that work while the turn goes on. The turn does not end before they do: what they report is told to the
//! model as soon as it can listen.

use std::sync::atomic::{AtomicUsize, Ordering};

use engine::ports::ChildEnd;
use futures::future::BoxFuture;
use protocol::part::TextPart;
use protocol::{AgentEvent, PartBody, TurnEnd};
use tokio::sync::mpsc;

use super::run::{Flow, Loop};
use super::{limits, tools};

/// The subagents of one turn that nobody waits for.
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
    /// A place for one that is to be started, unless there are too many.
    pub(super) fn reserve(&self) -> Option<Place<'_>> {
        let room = |going| (going < limits::BACKGROUND).then_some(going + 1);
        self.going.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        Some(Place { background: self, taken: false })
    }

    /// A place for one that works already.
    pub(super) fn make_room(&self) -> Place<'_> {
        self.going.fetch_add(1, Ordering::Relaxed);
        Place { background: self, taken: false }
    }

    fn is_empty(&self) -> bool {
        self.going.load(Ordering::Relaxed) == 0
    }

    /// The next one that has ended; none if the engine is going down.
    async fn next(&mut self) -> Option<ChildEnd> {
        let end = self.reports.recv().await.flatten();
        self.going.fetch_sub(1, Ordering::Relaxed);
        end
    }

    /// One that has ended already.
    fn ended(&mut self) -> Option<ChildEnd> {
        let end = self.reports.try_recv().ok()?;
        self.going.fetch_sub(1, Ordering::Relaxed);
        end
    }
}

/// A place that is given back unless it is taken.
#[derive(Debug)]
pub(super) struct Place<'a> {
    background: &'a Background,
    taken: bool,
}

impl Place<'_> {
    /// Takes over the wait for a subagent. If the turn ends first, the engine ends the subagent.
    pub(super) fn take(mut self, end: BoxFuture<'static, Option<ChildEnd>>) {
        self.taken = true;
        let report = self.background.report.clone();
        tokio::spawn(async move {
            let end = end.await;
            // Nobody may want to know any more.
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
    /// Tells the model of subagents that have ended meanwhile.
    pub(super) async fn hear_background(&mut self) {
        while let Some(end) = self.background.ended() {
            self.tell(&end).await;
        }
    }

    /// The model has said all it had to say: ends the turn, or waits for what gives it something to say again.
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
        let text = format!("A subagent in the background has ended.\n{}", tools::told(end));
        let text = TextPart { text, synthetic: Some(true), ..TextPart::default() };
        self.turn.emit(AgentEvent::Continued(vec![PartBody::Text(text)])).await;
    }
}
