//! One node of a fleet: carries out the decisions of [`crate::fleet`] on the record that the nodes share.
//!
//! The protocol decides and the record carries out; this module only connects the two. It measures the time between two
//! inputs, sends transactions and looks, and feeds the answers back. The repairs that follow from a claim are returned to
//! the caller, because they need sessions.

mod owners;

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream::FuturesUnordered,
};
use protocol::{
    WorkspaceId,
    fleet::{FleetNode, FleetWorkspace},
};
use tokio::sync::Notify;

use crate::{
    fleet::{
        self, Effect, HoldingView, Identity, Node, Terms, View,
        placement::{Candidate, rank},
        record::{Ownership, State},
    },
    ports::{
        Error, Fence, Fleet, NodeRecord, Owner, Rows, Standing, Stopwatch, StoreFailure, StoreFuture,
        Transaction, own_workspace,
    },
};
use owners::Owners;

type Input = fleet::Input<String, WorkspaceId>;
type Effects = Vec<Effect<String, WorkspaceId>>;

/// The share of work that each node takes, until it can be configured.
const CAPACITY: u32 = 1;

/// A repair that a claim requires: the sessions of the workspace are ended as after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    pub workspace: WorkspaceId,
    epoch: u64,
}

/// This process as a node of a fleet.
pub struct Member {
    name: String,
    terms: Terms,
    record: Arc<dyn NodeRecord>,
    stopwatch: Arc<dyn Stopwatch>,
    inner: Mutex<Inner>,
    /// Held during a first use, so that two callers of one workspace do not claim it twice.
    claiming: tokio::sync::Mutex<()>,
    owners: Owners,
    /// Notified when the other nodes have declared this process dead.
    death: Notify,
}

struct Inner {
    node: Node<String, WorkspaceId>,
    /// The stopwatch at the last input.
    measured: Duration,
    /// True while a look is under way. Rounds may overlap, and a second look would find the same rows.
    is_looking: bool,
    /// Workspaces whose repair is under way.
    adopting: BTreeSet<WorkspaceId>,
    /// True once the other nodes have declared this process dead. It never acts again.
    is_lost: bool,
    /// True if a user wants this node to take no new work.
    is_drain_wanted: bool,
    /// True once this process is about to end.
    is_leaving: bool,
    /// The stopwatch at the last look that succeeded.
    looked: Duration,
}

impl fmt::Debug for Member {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Member").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Member {
    /// Registers this process as the node `name`. The caller has made sure that no other process is this node.
    pub async fn join(
        name: &str,
        terms: Terms,
        record: Arc<dyn NodeRecord>,
        stopwatch: Arc<dyn Stopwatch>,
    ) -> Result<Arc<Self>, Error> {
        let node = Node::new(name.to_owned(), terms);
        let measured = stopwatch.elapsed();
        let inner = Inner {
            node,
            measured,
            is_looking: false,
            adopting: BTreeSet::new(),
            is_lost: false,
            is_drain_wanted: false,
            is_leaving: false,
            looked: measured,
        };
        let member = Self {
            name: name.to_owned(),
            terms,
            record,
            stopwatch,
            inner: Mutex::new(inner),
            claiming: tokio::sync::Mutex::default(),
            owners: Owners::default(),
            death: Notify::new(),
        };
        // The look that follows the registration only begins to watch the others; the first round claims.
        member.register().await?;
        Ok(Arc::new(member))
    }

    async fn register(&self) -> Result<(), Error> {
        for effect in self.step(Input::Tick) {
            let Effect::Send(transaction) = effect else { continue };
            let ruling = self.record.apply(transaction.clone()).await?;
            self.step(Input::Answered(transaction, ruling));
        }
        Ok(())
    }

    /// This process as the record knows it; `None` once it was declared dead.
    pub fn identity(&self) -> Option<Identity<String>> {
        let inner = self.lock();
        inner.node.identity().filter(|_| !inner.is_lost)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Interval between two rounds.
    pub fn beat_every(&self) -> Duration {
        self.terms.beat_every()
    }

    /// Takes no new work any more, because this process is about to end, and tells the other nodes.
    pub async fn leave(&self) {
        self.lock().is_leaving = true;
        self.begin_later(self.advance(Input::Drain).await);
    }

    /// Gives back all workspaces. Called when no session has an actor any more.
    pub async fn release(&self) {
        let held: Vec<_> = self.lock().node.held().cloned().collect();
        for workspace in held {
            self.begin_later(self.advance(Input::GiveBack(workspace)).await);
        }
    }

    /// Leaves repairs to the next round, which returns them again.
    pub(crate) fn begin_later(&self, adoptions: Vec<Adoption>) {
        for adoption in adoptions {
            self.not_adopted(&adoption);
        }
    }

    /// Returns true if the other nodes have declared this process dead. Its commits are refused; only a new process can
    /// work as this node.
    pub fn is_lost(&self) -> bool {
        self.lock().is_lost
    }

    /// Waits until the other nodes have declared this process dead. One task may wait.
    pub(crate) async fn lost(&self) {
        if !self.is_lost() {
            self.death.notified().await;
        }
    }

    /// Sends a beat if one is due and looks at the other nodes. Returns the workspaces to repair, which the caller
    /// confirms with [`Self::adopted`]; one whose repair is under way is not returned again.
    pub async fn round(&self) -> Vec<Adoption> {
        self.advance(Input::Tick).await
    }

    /// Confirms that the sessions of a workspace are repaired.
    pub fn adopted(&self, adoption: Adoption) {
        let Adoption { workspace: holding, epoch } = adoption;
        self.lock().adopting.remove(&holding);
        self.step(Input::Adopted { holding, epoch });
    }

    /// Records that a repair has failed; the next round returns it again.
    pub fn not_adopted(&self, adoption: &Adoption) {
        self.lock().adopting.remove(&adoption.workspace);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, input: Input) -> Effects {
        let mut inner = self.lock();
        let now = self.stopwatch.elapsed();
        let elapsed = now.saturating_sub(inner.measured);
        inner.measured = now;
        if inner.is_lost {
            return Vec::new();
        }
        let effects = inner.node.step(elapsed, input);
        if effects.contains(&Effect::StartOver) {
            // A new process starts over. This one has commits under way that carry the old incarnation.
            tracing::error!(node = self.name, "the other nodes have declared this node dead; restart it");
            inner.is_lost = true;
            self.death.notify_one();
            return Vec::new();
        }
        effects
    }

    /// Advances by one input and carries out all transactions and looks that follow from it.
    async fn advance(&self, input: Input) -> Vec<Adoption> {
        let mut answers: FuturesUnordered<BoxFuture<'_, Input>> = FuturesUnordered::new();
        let mut adoptions = Vec::new();
        let mut next = Some(input);
        while let Some(input) = next {
            for effect in self.step(input) {
                match effect {
                    Effect::Send(transaction) => answers.push(self.send(transaction).boxed()),
                    Effect::Look => {
                        if let Some(looking) = Looking::begin(self) {
                            answers.push(looking.look().boxed());
                        }
                    }
                    Effect::Adopt { holding: workspace, epoch, .. } => {
                        if self.lock().adopting.insert(workspace.clone()) {
                            adoptions.push(Adoption { workspace, epoch });
                        }
                    }
                    // The fence of each commit is enough for a node's own directories; these serve shared ones.
                    Effect::Guard(_)
                    | Effect::Quit(_)
                    | Effect::StepBack
                    | Effect::GoOn
                    | Effect::StartOver
                    | Effect::Begin(_)
                    | Effect::Refuse(_) => {}
                }
            }
            next = answers.next().await;
        }
        adoptions
    }

    async fn send(&self, transaction: Transaction) -> Input {
        let mut sent = Sent { member: self, transaction: Some(transaction.clone()) };
        let answer = self.record.apply(transaction.clone()).await;
        sent.transaction = None;
        match answer {
            Ok(ruling) => Input::Answered(transaction, ruling),
            Err(error) => {
                tracing::warn!(node = self.name, %error, "the outcome of a change of the fleet is unknown");
                Input::Lost(transaction)
            }
        }
    }

    /// Adds this node's rank among the living nodes to each workspace.
    fn view(&self, rows: Rows) -> View<String, WorkspaceId> {
        let Rows { members, workspaces, is_drain_wanted } = rows;
        self.note_look(is_drain_wanted);
        let candidates: Vec<_> = members
            .iter()
            .filter(|(_, member)| member.state == State::Up)
            .map(|(node, _)| Candidate { node, capacity: CAPACITY })
            .collect();
        let rank_of = |workspace: &WorkspaceId| {
            rank(&candidates, &self.name, workspace.as_str()).and_then(|rank| u32::try_from(rank).ok())
        };
        let holdings = workspaces
            .into_iter()
            .map(|(workspace, (row, is_unfinished))| {
                let rank = rank_of(&workspace);
                (workspace, HoldingView { row, is_unfinished, rank })
            })
            .collect();
        View { members, holdings }
    }

    fn note_look(&self, is_drain_wanted: bool) {
        let mut inner = self.lock();
        inner.looked = self.stopwatch.elapsed();
        if std::mem::replace(&mut inner.is_drain_wanted, is_drain_wanted) != is_drain_wanted {
            tracing::info!(
                node = self.name,
                drain = is_drain_wanted,
                "a user drains this node, or resumes it"
            );
        }
    }

    fn fence(&self, workspace: &WorkspaceId) -> Option<Fence> {
        let inner = self.lock();
        let epoch = inner.node.epoch(workspace).filter(|_| !inner.is_lost)?;
        Some(Fence { workspace: workspace.clone(), epoch })
    }

    /// Claims a workspace that a client uses for the first time.
    async fn first_use(&self, workspace: &WorkspaceId, directory: Option<&str>) -> Result<Fence, Error> {
        let _one_at_a_time = self.claiming.lock().await;
        if let Some(fence) = self.fence(workspace) {
            return Ok(fence);
        }
        let row = self.record.row(workspace, directory).await?;
        let refusal = refusal(workspace, &row);
        let holding_view = HoldingView { row, is_unfinished: false, rank: Some(0) };
        self.begin_later(self.advance(Input::Use(workspace.clone(), holding_view)).await);
        self.fence(workspace).ok_or(refusal)
    }
}

/// A transaction whose answer the member waits for. If the caller stops to wait, its outcome is unknown: a protocol that
/// went on waiting for the answer would never claim the workspace again.
struct Sent<'a> {
    member: &'a Member,
    /// `None` once the answer is there.
    transaction: Option<Transaction>,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            self.member.step(Input::Lost(transaction));
        }
    }
}

/// A look that is under way, until it is dropped.
struct Looking<'a>(&'a Member);

impl<'a> Looking<'a> {
    /// Begins a look; `None` if one is under way.
    fn begin(member: &'a Member) -> Option<Self> {
        let was_looking = std::mem::replace(&mut member.lock().is_looking, true);
        (!was_looking).then_some(Self(member))
    }

    async fn look(self) -> Input {
        let member = self.0;
        let custodies = member.lock().node.custodies().cloned().collect();
        match member.record.look(custodies).await {
            Ok(rows) => Input::Looked(member.view(rows)),
            Err(error) => {
                tracing::warn!(node = member.name, %error, "failed to look at the other nodes");
                Input::LookFailed
            }
        }
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.lock().is_looking = false;
    }
}

fn refusal(workspace: &WorkspaceId, row: &Ownership<String>) -> Error {
    let owner = row.owner.as_deref().unwrap_or("no node");
    Error::new(StoreFailure::Fenced, format!("{owner} owns the workspace {workspace}"))
}

impl Fleet for Member {
    fn workspace(&self, directory: &str) -> WorkspaceId {
        own_workspace(&self.name, directory)
    }

    fn claim<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Fence> {
        async move {
            match self.fence(workspace) {
                Some(fence) => Ok(fence),
                None => self.first_use(workspace, None).await,
            }
        }
        .boxed()
    }

    fn claim_directory<'a>(&'a self, directory: &'a str) -> StoreFuture<'a, Fence> {
        async move {
            let workspace = self.workspace(directory);
            match self.fence(&workspace) {
                Some(fence) => Ok(fence),
                None => self.first_use(&workspace, Some(directory)).await,
            }
        }
        .boxed()
    }

    fn may_run(&self, workspace: &WorkspaceId) -> bool {
        !self.lock().node.is_in_custody(workspace)
    }

    fn owner<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Owner> {
        async move {
            if self.may_run(workspace) && self.fence(workspace).is_some() {
                return Ok(Owner::Here);
            }
            self.owners.find(workspace, &self.name, &*self.record, self.stopwatch.elapsed()).await
        }
        .boxed()
    }

    fn forget_owner(&self, workspace: &WorkspaceId) {
        self.owners.forget(workspace);
    }

    fn elsewhere<'a>(&'a self, directory: &'a str) -> StoreFuture<'a, Vec<WorkspaceId>> {
        self.record.elsewhere(directory)
    }

    fn standing(&self) -> Option<Standing> {
        let inner = self.lock();
        let custodies = inner.node.custodies().count();
        let owned = inner.node.held().count().saturating_sub(custodies);
        Some(Standing { owned, custodies, silent: self.stopwatch.elapsed().saturating_sub(inner.looked) })
    }

    fn unready(&self) -> Option<String> {
        let inner = self.lock();
        let silent = self.stopwatch.elapsed().saturating_sub(inner.looked);
        if inner.is_lost {
            Some("the other nodes have declared this node dead".to_owned())
        } else if inner.is_leaving || inner.is_drain_wanted {
            Some("this node is draining".to_owned())
        } else if silent >= self.terms.step_back() {
            Some(format!("this node has not reached the database for {} s", silent.as_secs()))
        } else {
            None
        }
    }

    fn is_draining(&self) -> bool {
        let inner = self.lock();
        inner.is_leaving || inner.is_drain_wanted
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<FleetNode>> {
        self.record.nodes()
    }

    fn workspaces(&self) -> StoreFuture<'_, Vec<FleetWorkspace>> {
        self.record.workspaces()
    }

    fn drain<'a>(&'a self, node: &'a str, wanted: bool) -> StoreFuture<'a, bool> {
        self.record.drain(node, wanted)
    }
}
