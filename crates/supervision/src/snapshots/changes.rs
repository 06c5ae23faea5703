//! The file changes of a turn: takes snapshots around tools that can write, and finds out which session made
//! a change.
//!
//! A snapshot is taken at the beginning of a turn, before the first writing tool of a step, and after the
//! last one. Steps that only talk or read take none. The parent module describes how the changes of several
//! sessions are told apart.
//!
//! An abort cancels the snapshots that precede a change. It does not cancel those that follow a change: the
//! change has happened, so it must be recorded to be reverted later. The engine's grace period for aborted
//! turns limits them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::ports::Origins;
use engine::session::Turn;
use protocol::part::PatchPart;
use protocol::{AgentEvent, Extra};
use tokio_util::sync::CancellationToken;
use workspace::snapshot::Tree;

use super::{Claimant, LogicalTime, Snapshots, Worktree};

/// The file changes of one turn.
pub struct Changes {
    turn: Arc<Turn>,
    /// `None` if no snapshots are taken.
    tracked: Option<TrackedWorktree>,
    state: Mutex<State>,
}

struct TrackedWorktree {
    worktree: Arc<Worktree>,
    claimant: Claimant,
}

#[derive(Default)]
struct State {
    latest: Option<Tree>,
    /// The files that this turn has changed, and the trees that hold their contents before it.
    prompt: Origins,
    /// The same for the whole session. Read from the history when the first change is recorded.
    session: Option<Origins>,
    step: Step,
}

#[derive(Default)]
struct Step {
    since: Option<LogicalTime>,
    /// The tree before the first writing tool.
    before: Option<Tree>,
    /// The tree after the last writing tool, if a snapshot of it exists.
    after: Option<Tree>,
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
    /// Opens the worktree's snapshots for a turn.
    pub async fn new(snapshots: Option<&Snapshots>, turn: &Arc<Turn>) -> Self {
        let worktree = match snapshots {
            Some(snapshots) => snapshots.open_in_time(&turn.session).await,
            None => None,
        };
        let tracked = worktree.map(|worktree| {
            let claimant = worktree.claims.register(&turn.session.id, turn.session.parent_id.as_ref());
            TrackedWorktree { worktree, claimant }
        });
        Self { turn: Arc::clone(turn), tracked, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave a half-made change behind, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn track(&self, tracked: &TrackedWorktree, cancel: &CancellationToken) -> Option<Tree> {
        let tree = tracked.worktree.track(cancel).await?;
        self.state().latest = Some(tree.clone());
        Some(tree)
    }

    /// Begins a step and returns its tree: the newest snapshot, or a new one if there is none yet.
    pub async fn begin(&self) -> Option<String> {
        let tracked = self.tracked.as_ref()?;
        self.state().step = Step { since: Some(tracked.claimant.now()), ..Step::default() };
        let latest = self.state().latest.clone();
        let latest =
            if latest.is_some() { latest } else { self.track(tracked, self.turn.cancellation()).await };
        latest.map(|tree| tree.as_str().to_owned())
    }

    /// Claims files before a tool writes them. `after_write` claims them again afterwards, so that a command of
    /// another session that compares trees in between, or starts to, finds the claim.
    pub async fn before_write(&self, files: impl IntoIterator<Item = &Path>) {
        let Some(tracked) = &self.tracked else { return };
        if self.state().step.before.is_none() {
            let before = self.track(tracked, self.turn.cancellation()).await;
            self.state().step.before = before;
        }
        self.claim(tracked, files);
    }

    /// Claims a file after a tool has written it.
    pub fn after_write(&self, file: &Path) {
        if let Some(tracked) = &self.tracked {
            self.claim(tracked, [file]);
        }
    }

    fn claim<'f>(&self, tracked: &TrackedWorktree, files: impl IntoIterator<Item = &'f Path>) {
        tracked.claimant.claim(files);
        self.state().step.after = None;
    }

    /// Takes a snapshot before a command that may write any file.
    pub async fn before_command(&self) -> Option<BeforeCommand> {
        let tracked = self.tracked.as_ref()?;
        let since = tracked.claimant.now();
        let before = self.track(tracked, self.turn.cancellation()).await?;
        self.state().step.before.get_or_insert_with(|| before.clone());
        Some(BeforeCommand { since, before })
    }

    /// After a command has run, claims every changed file that no other session has claimed.
    pub async fn after_command(&self, before: Option<&BeforeCommand>) {
        let (Some(tracked), Some(BeforeCommand { since, before })) = (&self.tracked, before) else { return };
        let unstopped = CancellationToken::new();
        let Some(after) = self.track(tracked, &unstopped).await else { return };
        let changed = tracked.worktree.changed(before, &after, &unstopped).await;
        let others = tracked.claimant.others(since);
        tracked.claimant.claim(changed.difference(&others).map(AsRef::as_ref));
        self.state().step.after = Some(after);
    }

    /// Ends the step and returns the newest tree and the files that the step changed. A second call before
    /// the next step returns no files.
    pub async fn finish(&self) -> (Option<String>, Option<PatchPart>) {
        let Some(tracked) = &self.tracked else { return (None, None) };
        let step = std::mem::take(&mut self.state().step);
        let patch = self.patch(tracked, step).await;
        if let Some(patch) = &patch {
            self.note(patch).await;
        }
        let latest = self.state().latest.as_ref().map(|tree| tree.as_str().to_owned());
        (latest, patch)
    }

    async fn patch(&self, tracked: &TrackedWorktree, step: Step) -> Option<PatchPart> {
        let own = tracked.claimant.own(&step.since?);
        if own.is_empty() {
            return None;
        }
        // Without a snapshot of this step's own, only a subagent has changed files.
        let before = step.before.or_else(|| self.state().latest.clone())?;
        let unstopped = CancellationToken::new();
        let after = match step.after {
            Some(after) => after,
            None => self.track(tracked, &unstopped).await?,
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
        let worktree = &self.tracked.as_ref()?.worktree;
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
