//! What a turn does to files: snapshots around what can change them, and whose change it was.
//!
//! A snapshot is taken at the beginning of a turn, before the first thing in a step that writes, and after the last.
//! Steps that only talk or read cost nothing. See the module above for how the changes of several sessions are told
//! apart.
//!
//! An abort stops what looks at files before something is done to them. It does not stop what looks afterwards, as far
//! as the engine's patience with an aborted turn goes: what was done is to be known, so that it can be taken back.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::ports::Origins;
use engine::session::Turn;
use protocol::part::PatchPart;
use protocol::{AgentEvent, Extra};
use tokio_util::sync::CancellationToken;
use workspace::snapshot::Tree;

use super::{Moment, Snapshots, Visit, Worktree};

/// The changes of one turn.
pub(crate) struct Changes<'a> {
    turn: &'a Turn,
    /// Nothing where no snapshots are taken.
    place: Option<Place>,
    state: Mutex<State>,
}

struct Place {
    worktree: Arc<Worktree>,
    visit: Visit,
}

#[derive(Default)]
struct State {
    /// The newest snapshot.
    latest: Option<Tree>,
    /// Files that this turn has changed, as they were before.
    prompt: Origins,
    /// The same for the session; read when it is needed first.
    session: Option<Origins>,
    step: Step,
}

/// The changes of one step.
#[derive(Default)]
struct Step {
    since: Option<Moment>,
    /// The tree before the first thing that writes.
    before: Option<Tree>,
    /// The tree after the last one, if it is known.
    after: Option<Tree>,
}

/// What a command is compared with when it is done.
pub(crate) struct Around {
    since: Moment,
    before: Tree,
}

impl<'a> Changes<'a> {
    /// Gets ready for a turn.
    pub(crate) async fn new(snapshots: Option<&Snapshots>, turn: &'a Turn) -> Self {
        let worktree = match snapshots {
            Some(snapshots) => snapshots.open_soon(&turn.session).await,
            None => None,
        };
        let place = worktree.map(|worktree| {
            let visit = worktree.ledger.enter(&turn.session.id, turn.session.parent_id.as_ref());
            Place { worktree, visit }
        });
        Self { turn, place, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn track(&self, place: &Place, cancel: &CancellationToken) -> Option<Tree> {
        let tree = place.worktree.track(cancel).await?;
        self.state().latest = Some(tree.clone());
        Some(tree)
    }

    /// A step begins: the tree as far as it is known.
    pub(crate) async fn begin(&self) -> Option<String> {
        let place = self.place.as_ref()?;
        self.state().step = Step { since: Some(place.visit.moment()), ..Step::default() };
        let latest = self.state().latest.clone();
        let latest =
            if latest.is_some() { latest } else { self.track(place, self.turn.cancellation()).await };
        latest.map(|tree| tree.as_str().to_owned())
    }

    /// Files are about to be written. Claimed now and once more afterwards, so that whoever compares in between, or
    /// begins to, knows whose they are.
    pub(crate) async fn before(&self, files: impl IntoIterator<Item = &Path>) {
        let Some(place) = &self.place else { return };
        if self.state().step.before.is_none() {
            let before = self.track(place, self.turn.cancellation()).await;
            self.state().step.before = before;
        }
        self.claim(place, files);
    }

    /// A file was written.
    pub(crate) fn wrote(&self, file: &Path) {
        if let Some(place) = &self.place {
            self.claim(place, [file]);
        }
    }

    fn claim<'f>(&self, place: &Place, files: impl IntoIterator<Item = &'f Path>) {
        place.visit.claim(files);
        self.state().step.after = None;
    }

    /// Something is about to run that may write anything.
    pub(crate) async fn around(&self) -> Option<Around> {
        let place = self.place.as_ref()?;
        let since = place.visit.moment();
        let before = self.track(place, self.turn.cancellation()).await?;
        self.state().step.before.get_or_insert_with(|| before.clone());
        Some(Around { since, before })
    }

    /// It has run: what has changed and is nobody else's is ours.
    pub(crate) async fn settle(&self, around: Option<Around>) {
        let (Some(place), Some(Around { since, before })) = (&self.place, around) else { return };
        let unstopped = CancellationToken::new();
        let Some(after) = self.track(place, &unstopped).await else { return };
        let changed = place.worktree.changed(&before, &after, &unstopped).await;
        let others = place.visit.others(&since);
        place.visit.claim(changed.difference(&others).map(AsRef::as_ref));
        self.state().step.after = Some(after);
    }

    /// A step ends: the tree as far as it is known, and what the step has changed. After that nothing until the next
    /// one begins.
    pub(crate) async fn finish(&self) -> (Option<String>, Option<PatchPart>) {
        let Some(place) = &self.place else { return (None, None) };
        let step = std::mem::take(&mut self.state().step);
        let patch = self.patch(place, step).await;
        if let Some(patch) = &patch {
            self.note(patch).await;
        }
        let latest = self.state().latest.as_ref().map(|tree| tree.as_str().to_owned());
        (latest, patch)
    }

    async fn patch(&self, place: &Place, step: Step) -> Option<PatchPart> {
        let own = place.visit.own(&step.since?);
        if own.is_empty() {
            return None;
        }
        // Without one of its own: a subagent has done it all.
        let before = step.before.or_else(|| self.state().latest.clone())?;
        let unstopped = CancellationToken::new();
        let after = match step.after {
            Some(after) => after,
            None => self.track(place, &unstopped).await?,
        };
        let changed = place.worktree.changed(&before, &after, &unstopped).await;
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
            // Without its history a session has changed what this turn has.
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

    /// What the turn and the session have changed altogether.
    pub(crate) async fn diffed(&self) -> Option<AgentEvent> {
        let worktree = &self.place.as_ref()?.worktree;
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
