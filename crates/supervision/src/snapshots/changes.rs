//! The file changes of a turn: takes snapshots around tools that can write, and finds out which session made
//! a change.
//!
//! A snapshot is taken at the beginning of a turn, before the first writing tool of a step, and after the
//! last one. Steps that only talk or read take none. The parent module describes how the changes of several
//! sessions are told apart.
//!
//! The turn does not wait for its first snapshot: a task takes it while the model answers. Only a tool that can write
//! waits for it, and the end of a step, which reports it.
//!
//! An abort cancels the snapshots that precede a change. It does not cancel those that follow a change: the
//! change has happened, so it must be recorded to be reverted later. The engine's grace period for aborted
//! turns limits them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use engine::ports::Origins;
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt, Shared, ready};
use parking_lot::{Mutex, MutexGuard};
use protocol::part::PatchPart;
use protocol::{AgentEvent, Extra};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use workspace::snapshot::Tree;

use super::{Claimant, LogicalTime, Snapshots, Worktree};

/// The result of a task that several callers may wait for. The task ends when the last of them is gone.
type Pending<T> = Shared<BoxFuture<'static, Option<T>>>;

/// The file changes of one turn.
pub struct Changes {
    turn: Arc<Turn>,
    /// Yields nothing if no snapshots are taken.
    opening: Pending<Arc<TrackedWorktree>>,
    state: Mutex<State>,
}

struct TrackedWorktree {
    worktree: Arc<Worktree>,
    claimant: Claimant,
    /// The time of opening, from which the changes of a step count that began before it.
    opened: Mutex<Option<LogicalTime>>,
}

#[derive(Default)]
struct State {
    latest: Option<Tree>,
    /// The first snapshot of the turn, until it is the latest.
    first: Option<Pending<Tree>>,
    /// The files that this turn has changed, and the trees that hold their contents before it.
    prompt: Origins,
    /// The same for the whole session. Read from the history when the first change is recorded.
    session: Option<Origins>,
    /// The open step.
    step: Option<Step>,
}

#[derive(Default)]
struct Step {
    /// `None` if the step began before the worktree was open.
    since: Option<LogicalTime>,
    /// True if the tree at the beginning of the step has been returned.
    reported: bool,
    /// The tree before the first writing tool.
    before: Option<Tree>,
    /// The tree after the last writing tool, if a snapshot of it exists.
    after: Option<Tree>,
}

impl State {
    /// Makes the first snapshot the latest if it is taken.
    fn adopt_first(&mut self) {
        if let Some(tree) = self.first.clone().and_then(FutureExt::now_or_never) {
            (self.first, self.latest) = (None, tree);
        }
    }
}

/// The state of the worktree before a command, for [`Changes::after_command`].
#[derive(Debug)]
pub struct BeforeCommand {
    since: LogicalTime,
    before: Tree,
}

impl fmt::Debug for Changes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Changes").field("session", &self.turn.session.id).finish_non_exhaustive()
    }
}

impl Changes {
    /// Opens the worktree's snapshots for a turn, in the background.
    pub fn new(snapshots: Option<&Arc<Snapshots>>, turn: &Arc<Turn>) -> Self {
        let opening = match snapshots.cloned() {
            Some(snapshots) => {
                let turn = Arc::clone(turn);
                in_background(async move { TrackedWorktree::open(&snapshots, &turn).await.map(Arc::new) })
            }
            None => ready(None).boxed().shared(),
        };
        let changes = Self { turn: Arc::clone(turn), opening, state: Mutex::default() };
        changes.state().first = snapshots.map(|_| changes.take_first());
        changes
    }

    /// Takes a snapshot in the background, as soon as the worktree is open.
    fn take_first(&self) -> Pending<Tree> {
        let (opening, cancel) = (self.opening.clone(), self.turn.cancellation().clone());
        in_background(async move {
            let tracked = cancel.run_until_cancelled(opening).await.flatten()?;
            tracked.worktree.track(&cancel).await
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until the worktree's snapshots are open. Returns false if there are none.
    pub async fn opened(&self) -> bool {
        self.tracked().await.is_some()
    }

    /// Returns the worktree once it is open. After an abort it does not wait: no tool has changed anything yet, because
    /// those that can write wait here.
    async fn tracked(&self) -> Option<Arc<TrackedWorktree>> {
        tokio::select! {
            biased;
            tracked = self.opening.clone() => tracked,
            () = self.turn.cancelled() => None,
        }
    }

    async fn track(&self, tracked: &TrackedWorktree, cancel: &CancellationToken) -> Option<Tree> {
        // A later snapshot must not be replaced by the first.
        self.latest().await;
        let tree = tracked.worktree.track(cancel).await?;
        self.state().latest = Some(tree.clone());
        Some(tree)
    }

    /// Returns the newest snapshot. Waits for the first one.
    async fn latest(&self) -> Option<Tree> {
        let first = self.state().first.clone();
        if let Some(first) = first {
            let tree = first.await;
            let mut state = self.state();
            if state.first.take().is_some() {
                state.latest = tree;
            }
        }
        self.state().latest.clone()
    }

    /// Begins a step and returns its tree: the newest snapshot. If there is none yet, [`Changes::begun`] waits for it.
    pub fn begin(&self) -> Option<String> {
        let opened = self.opening.peek().cloned();
        let has_snapshots = !matches!(opened, Some(None));
        let since = opened.flatten().map(|tracked| tracked.claimant.now());
        let mut state = self.state();
        state.adopt_first();
        let reported = state.latest.is_some();
        if !reported && state.first.is_none() && has_snapshots {
            state.first = Some(self.take_first());
        }
        state.step = Some(Step { since, reported, ..Step::default() });
        state.latest.as_ref().map(|tree| tree.as_str().to_owned())
    }

    /// Returns the tree at the beginning of the open step once it is taken. Returns nothing if that fails, or if the
    /// tree has been returned before.
    pub async fn begun(&self) -> Option<String> {
        if self.state().step.as_ref().is_none_or(|step| step.reported) {
            return None;
        }
        let latest = self.latest().await;
        let mut state = self.state();
        let reported = std::mem::replace(&mut state.step.as_mut()?.reported, true);
        latest.filter(|_| !reported).map(|tree| tree.as_str().to_owned())
    }

    /// Claims files before a tool writes them. `after_write` claims them again afterwards, so that a command of
    /// another session that compares trees in between, or starts to, finds the claim.
    pub async fn before_write(&self, files: impl IntoIterator<Item = &Path>) {
        let Some(tracked) = self.tracked().await else { return };
        if self.state().step.as_ref().is_none_or(|step| step.before.is_none()) {
            let before = self.track(&tracked, self.turn.cancellation()).await;
            if let Some(step) = &mut self.state().step {
                step.before = before;
            }
        }
        self.claim(&tracked, files);
    }

    /// Claims a file after a tool has written it.
    pub fn after_write(&self, file: &Path) {
        if let Some(Some(tracked)) = self.opening.peek() {
            self.claim(tracked, [file]);
        }
    }

    fn claim<'f>(&self, tracked: &TrackedWorktree, files: impl IntoIterator<Item = &'f Path>) {
        tracked.claimant.claim(files);
        if let Some(step) = &mut self.state().step {
            step.after = None;
        }
    }

    /// Takes a snapshot before a command that may write any file.
    pub async fn before_command(&self) -> Option<BeforeCommand> {
        let tracked = self.tracked().await?;
        let since = tracked.claimant.now();
        let before = self.track(&tracked, self.turn.cancellation()).await?;
        if let Some(step) = &mut self.state().step {
            step.before.get_or_insert_with(|| before.clone());
        }
        Some(BeforeCommand { since, before })
    }

    /// After a command has run, claims every changed file that no other session has claimed.
    pub async fn after_command(&self, before: Option<&BeforeCommand>) {
        let Some(BeforeCommand { since, before }) = before else { return };
        let Some(tracked) = self.tracked().await else { return };
        let unstopped = CancellationToken::new();
        let Some(after) = self.track(&tracked, &unstopped).await else { return };
        let changed = tracked.worktree.changed(before, &after, &unstopped).await;
        let others = tracked.claimant.others(since);
        tracked.claimant.claim(changed.difference(&others).map(AsRef::as_ref));
        if let Some(step) = &mut self.state().step {
            step.after = Some(after);
        }
    }

    /// Ends the step and returns the newest tree and the files that the step changed. A second call before
    /// the next step returns no files.
    pub async fn finish(&self) -> (Option<String>, Option<PatchPart>) {
        let step = self.state().step.take();
        // A summary is no step of the loop: it begins without a snapshot and reports none.
        let Some(step) = step else { return (None, None) };
        let patch = self.patch(step).await;
        if let Some(patch) = &patch {
            self.note(patch).await;
        }
        (self.latest().await.map(|tree| tree.as_str().to_owned()), patch)
    }

    async fn patch(&self, step: Step) -> Option<PatchPart> {
        let tracked = self.tracked().await?;
        let since = step.since.or_else(|| tracked.opened.lock().take())?;
        let own = tracked.claimant.own(&since);
        if own.is_empty() {
            return None;
        }
        // Without a snapshot of this step's own, only a subagent has changed files.
        let latest = self.latest().await;
        let before = step.before.or(latest)?;
        let unstopped = CancellationToken::new();
        let after = match step.after {
            Some(after) => after,
            None => self.track(&tracked, &unstopped).await?,
        };
        let changed = tracked.worktree.changed(&before, &after, &unstopped).await;
        let files: BTreeSet<String> =
            changed.intersection(&own).map(|file| file.to_string_lossy().into_owned()).collect();
        let hash = before.as_str().to_owned();
        (!files.is_empty()).then(|| PatchPart {
            hash,
            files: files.into_iter().collect(),
            extra: Extra::new(),
        })
    }

    async fn note(&self, patch: &PatchPart) {
        if self.state().session.is_none() {
            let mut origins = Origins::default();
            // If the history cannot be read, the session's changes are those of this turn.
            for earlier in self.turn.patches().await.unwrap_or_default() {
                origins.note(&earlier);
            }
            self.state().session = Some(origins);
        }
        let mut state = self.state();
        state.prompt.note(patch);
        if let Some(session) = &mut state.session {
            session.note(patch);
        }
    }

    /// Returns an event with the differences that the turn and the session have made so far.
    pub async fn diffed(&self) -> Option<AgentEvent> {
        let tracked = self.tracked().await?;
        let worktree = &tracked.worktree;
        let (prompt, session, latest) = {
            let state = self.state();
            (state.prompt.clone(), state.session.clone().unwrap_or_default(), state.latest.clone()?)
        };
        let unstopped = CancellationToken::new();
        let prompt = worktree.compare(&prompt, &latest, &unstopped).await;
        let session = worktree.compare(&session, &latest, &unstopped).await;
        Some(AgentEvent::Diffed { prompt, session })
    }
}

impl TrackedWorktree {
    async fn open(snapshots: &Snapshots, turn: &Turn) -> Option<Self> {
        let worktree = snapshots.open_in_time(&turn.session).await?;
        let claimant = worktree.claims.register(&turn.session.id, turn.session.parent_id.as_ref());
        let opened = Mutex::new(Some(claimant.now()));
        Some(Self { worktree, claimant, opened })
    }
}

fn in_background<T: Clone + Send + Sync + 'static>(
    work: impl Future<Output = Option<T>> + Send + 'static,
) -> Pending<T> {
    AbortOnDropHandle::new(tokio::spawn(work)).map(|ended| ended.ok().flatten()).boxed().shared()
}
