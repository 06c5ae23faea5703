//! The supervision of one run: its budget, its file changes and its requests.
//!
//! The native loop reports its own steps to a [`Supervisor`], and its tools claim the files that they write. An external
//! agent does neither: it changes files in its own process without asking. [`Supervisor::follow`] therefore reads the
//! agent's events and treats a step as a command is treated: it compares the trees before and after the step, and claims
//! every change that no other tool has claimed. It counts the usage that the agent reports. A budget that is used up
//! stops the agent, and the turn ends as `budget`. The permission rules answer the agent's requests before the user is
//! asked.

use std::fmt;
use std::sync::Arc;

use engine::ports::{self, Supervision};
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use protocol::agent_event::{Answer, Ask};
use protocol::config::Budget;
use protocol::part::PatchPart;
use protocol::request::Rule;
use protocol::{AgentEvent, TurnEnd};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use crate::budget::Meter;
use crate::snapshots::{BeforeCommand, Changes};
use crate::{Snapshots, requests};

/// Supervises one run of any runner.
#[derive(Debug)]
pub struct Supervisor {
    turn: Arc<Turn>,
    pub meter: Meter,
    pub changes: Changes,
}

impl Supervisor {
    /// Without snapshots, file changes are not recorded.
    pub async fn start(
        snapshots: Option<&Arc<Snapshots>>,
        budget: &Budget,
        turn: &Arc<Turn>,
    ) -> Result<Self, ports::Error> {
        let changes = Changes::new(snapshots, turn);
        let meter = Meter::start(budget, turn).await?;
        Ok(Self { turn: Arc::clone(turn), meter, changes })
    }

    /// Returns the message for the user if a budget is used up, children included.
    pub async fn exceeded(&self) -> Result<Option<String>, ports::Error> {
        self.meter.add_children(&self.turn).await?;
        Ok(self.meter.exceeded())
    }

    /// Reports the snapshot at the beginning of the open step once it is taken, unless the step began with it.
    pub async fn report_snapshot(&self) {
        if let Some(snapshot) = self.changes.begun().await {
            self.turn.emit(AgentEvent::SnapshotTaken { snapshot }).await;
        }
    }

    /// Closes a step with the files that it has changed.
    pub async fn close_step(&self, end: impl FnOnce(Option<String>, Option<PatchPart>) -> AgentEvent) {
        self.report_snapshot().await;
        let (snapshot, patch) = self.changes.finish().await;
        let changed = patch.is_some();
        self.turn.emit(end(snapshot, patch)).await;
        if changed {
            self.report_diffs().await;
        }
    }

    /// Reports the snapshot and the file changes of a step that the run leaves unfinished, if there is one.
    pub async fn report_left_changes(&self) {
        self.report_snapshot().await;
        if let (_, Some(patch)) = self.changes.finish().await {
            self.turn.emit(AgentEvent::Patched(patch)).await;
            self.report_diffs().await;
        }
    }

    async fn report_diffs(&self) {
        if let Some(diffed) = self.changes.diffed().await {
            self.turn.emit(diffed).await;
        }
    }

    /// Runs an external agent under these rules with this turn, which must be [supervised](Turn::supervised), and returns
    /// its end.
    pub async fn follow(
        self,
        rules: Vec<Rule>,
        mut supervised: Turn,
        run: impl FnOnce(Turn) -> BoxFuture<'static, TurnEnd>,
    ) -> TurnEnd {
        // The agent changes files without asking, so snapshots must be possible before it starts.
        self.changes.opened().await;
        let stop = supervised.cancellation().clone();
        let watch = Arc::new(Watch {
            supervisor: self,
            rules,
            stop,
            step: tokio::sync::Mutex::default(),
            over: Mutex::default(),
        });
        watch.check_budget().await;
        if let Some(message) = watch.take_over() {
            return TurnEnd::Budget { message };
        }
        supervised.supervise(Arc::clone(&watch) as Arc<dyn Supervision>);
        let end = watch.until_the_deadline(run(supervised)).await;
        watch.leave().await;
        match watch.take_over() {
            Some(message) if !watch.supervisor.turn.cancellation().is_cancelled() => {
                TurnEnd::Budget { message }
            }
            _ => end,
        }
    }
}

/// Sees the events and the requests of an external agent.
struct Watch {
    supervisor: Supervisor,
    rules: Vec<Rule>,
    /// Stops the agent and not the turn.
    stop: CancellationToken,
    step: tokio::sync::Mutex<Step>,
    /// The message of the budget that is used up.
    over: Mutex<Option<String>>,
}

#[derive(Debug, Default)]
struct Step {
    /// The state of the files at the beginning of the open step.
    before: Option<BeforeCommand>,
    /// True if a tool ran in the open step.
    worked: bool,
}

impl Watch {
    async fn until_the_deadline(&self, mut work: BoxFuture<'static, TurnEnd>) -> TurnEnd {
        let Some((at, message)) = self.supervisor.meter.deadline() else { return work.await };
        tokio::select! {
            biased;
            end = &mut work => return end,
            () = sleep_until(at) => self.exceed(message),
        }
        work.await
    }

    fn exceed(&self, message: String) {
        self.over.lock().get_or_insert(message);
        self.stop.cancel();
    }

    fn take_over(&self) -> Option<String> {
        self.over.lock().take()
    }

    /// Stops the agent if a budget is used up.
    async fn check_budget(&self) {
        let exceeded = self.supervisor.exceeded().await.unwrap_or_else(|error| {
            let session = &self.supervisor.turn.session.id;
            tracing::warn!(%session, %error, "cannot read the usage of subagents; the budget does not include it");
            self.supervisor.meter.exceeded()
        });
        if let Some(message) = exceeded {
            self.exceed(message);
        }
    }

    async fn begin(&self) -> Option<String> {
        let mut step = self.step.lock().await;
        let snapshot = match self.supervisor.changes.begin() {
            Some(snapshot) => Some(snapshot),
            None => self.supervisor.changes.begun().await,
        };
        *step = Step { before: self.supervisor.changes.before_command().await, worked: false };
        snapshot
    }

    /// Claims the changes of the open step. The step stays open if the future is dropped, so that [`Watch::leave`] can
    /// claim them.
    async fn settle(&self) {
        let mut step = self.step.lock().await;
        if step.worked {
            self.supervisor.changes.after_command(step.before.as_ref()).await;
        }
        *step = Step::default();
    }

    /// Reports the changes of a step that the agent has left unfinished.
    async fn leave(&self) {
        self.settle().await;
        self.supervisor.report_left_changes().await;
    }
}

impl Supervision for Watch {
    fn filter(&self, event: AgentEvent) -> BoxFuture<'_, Vec<AgentEvent>> {
        async move {
            match event {
                AgentEvent::StepStarted { snapshot: None, speaker } => {
                    vec![AgentEvent::StepStarted { snapshot: self.begin().await, speaker }]
                }
                AgentEvent::StepFinished { reason, tokens, cost, snapshot: None, patch: None, error } => {
                    self.supervisor.meter.add_step(cost, &tokens);
                    self.check_budget().await;
                    self.settle().await;
                    let (snapshot, patch) = self.supervisor.changes.finish().await;
                    let diffed = if patch.is_some() { self.supervisor.changes.diffed().await } else { None };
                    let finished = AgentEvent::StepFinished { reason, tokens, cost, snapshot, patch, error };
                    [Some(finished), diffed].into_iter().flatten().collect()
                }
                AgentEvent::ToolRunning { .. }
                | AgentEvent::ToolCompleted { .. }
                | AgentEvent::ToolFailed { .. } => {
                    self.step.lock().await.worked = true;
                    vec![event]
                }
                event => vec![event],
            }
        }
        .boxed()
    }

    fn answer<'a>(&'a self, turn: &'a Turn, ask: Ask) -> BoxFuture<'a, Answer> {
        requests::answer(turn, &self.rules, ask).boxed()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Watch").field("supervisor", &self.supervisor).finish_non_exhaustive()
    }
}
