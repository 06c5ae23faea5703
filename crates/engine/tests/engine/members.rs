//! Nodes on one record in memory: beats in time, and the end of a node that has stopped.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use engine::{
    fleet::{
        Kind, Record, Ruling, Terms,
        record::{Ownership, State},
    },
    member::Member,
    ports::{
        Error, Fleet as _, HomeNode, NodeRecord, Owner, Peer, Rows, Stopwatch, StoreFailure, StoreFuture,
        Transaction,
    },
};
use futures::{FutureExt as _, future};
use protocol::{
    WorkspaceId,
    fleet::{FleetNode, FleetWorkspace},
};
use tokio::time::Instant;

use crate::harness::Harness;

const LEASE: Terms = Terms { length: Duration::from_secs(6) };

/// The clock of the runtime, which the tests pause.
#[derive(Debug)]
struct Runtime(Instant);

impl Stopwatch for Runtime {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The reference of the rules as a record that nodes share.
#[derive(Debug)]
struct Shared {
    record: Mutex<Record<String, WorkspaceId>>,
    /// Looks and claims get no answer.
    is_stuck: AtomicBool,
    /// Number of reads of a home.
    questions: AtomicUsize,
}

impl Shared {
    fn new() -> Arc<Self> {
        let record = Mutex::new(Record::new([].into()));
        Arc::new(Self { record, is_stuck: AtomicBool::new(false), questions: AtomicUsize::new(0) })
    }

    fn state(&self, node: &str) -> State {
        self.record.lock().unwrap().members[node].state
    }

    async fn join(self: &Arc<Self>, name: &str) -> Arc<Member> {
        let record: Arc<dyn NodeRecord> = Arc::new(Line { shared: self.clone(), name: name.to_owned() });
        Member::join(name, LEASE, record, Arc::new(Runtime(Instant::now()))).await.unwrap()
    }
}

/// The record as one node reaches it.
#[derive(Debug)]
struct Line {
    shared: Arc<Shared>,
    name: String,
}

impl NodeRecord for Line {
    fn apply(&self, transaction: Transaction) -> StoreFuture<'_, Ruling> {
        let is_stuck = self.shared.is_stuck.load(Ordering::SeqCst);
        if is_stuck && matches!(transaction, Transaction::Claim { .. }) {
            return future::pending().boxed();
        }
        future::ready(Ok(self.shared.record.lock().unwrap().apply(&transaction))).boxed()
    }

    fn look(&self, _: Vec<WorkspaceId>) -> StoreFuture<'_, Rows> {
        if self.shared.is_stuck.load(Ordering::SeqCst) {
            return future::pending().boxed();
        }
        let record = self.shared.record.lock().unwrap();
        let workspaces = record.holdings.iter().map(|(id, row)| (id.clone(), (row.clone(), false))).collect();
        future::ready(Ok(Rows { members: record.members.clone(), workspaces, is_drain_wanted: false }))
            .boxed()
    }

    fn row<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        _: Option<&'a str>,
    ) -> StoreFuture<'a, Ownership<String>> {
        let fresh = Ownership { kind: Kind::Own(self.name.clone()), owner: None, epoch: 0, custody: false };
        let mut record = self.shared.record.lock().unwrap();
        let row = record.holdings.entry(workspace.clone()).or_insert(fresh);
        future::ready(Ok(row.clone())).boxed()
    }

    fn home<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Option<HomeNode>> {
        self.shared.questions.fetch_add(1, Ordering::SeqCst);
        if self.shared.is_stuck.load(Ordering::SeqCst) {
            return future::ready(Err(Error::new(StoreFailure::Unavailable, "no database"))).boxed();
        }
        let record = self.shared.record.lock().unwrap();
        let home = match record.holdings.get(workspace).map(|row| &row.kind) {
            Some(Kind::Own(node)) => {
                let (member, address) = (&record.members[node], format!("http://{node}"));
                let peer = Peer { node: node.clone(), incarnation: member.incarnation, address };
                Some(HomeNode { peer, state: member.state })
            }
            _ => None,
        };
        future::ready(Ok(home)).boxed()
    }

    fn elsewhere<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Vec<WorkspaceId>> {
        future::ready(Ok(Vec::new())).boxed()
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<FleetNode>> {
        future::ready(Ok(Vec::new())).boxed()
    }

    fn workspaces(&self) -> StoreFuture<'_, Vec<FleetWorkspace>> {
        future::ready(Ok(Vec::new())).boxed()
    }

    fn drain<'a>(&'a self, _: &'a str, _: bool) -> StoreFuture<'a, bool> {
        future::ready(Ok(false)).boxed()
    }
}

/// Keeps a node in its fleet.
async fn keep(member: &Arc<Member>) -> tokio::task::JoinHandle<()> {
    let (sessions, member) = (Harness::new().await.sessions, member.clone());
    tokio::spawn(async move { sessions.keep(&member).await })
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_is_declared_dead_and_finds_out() {
    let shared = Shared::new();
    let (a, b) = (shared.join("a").await, shared.join("b").await);
    let (first, second) = (keep(&a).await, keep(&b).await);
    tokio::time::sleep(LEASE.length * 10).await;
    assert_eq!((shared.state("a"), shared.state("b")), (State::Up, State::Up));
    first.abort();
    tokio::time::sleep(LEASE.length * 2).await;
    assert_eq!((shared.state("a"), shared.state("b")), (State::Dead, State::Up));
    assert!(!a.is_lost(), "a process that does not run learns nothing");
    a.round().await;
    assert!(a.is_lost() && a.identity().is_none());
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn a_look_without_an_answer_delays_no_beat() {
    let shared = Shared::new();
    let a = shared.join("a").await;
    let running = keep(&a).await;
    tokio::time::sleep(LEASE.length).await;
    shared.is_stuck.store(true, Ordering::SeqCst);
    let beats = || shared.record.lock().unwrap().members["a"].beat;
    let before = beats();
    tokio::time::sleep(LEASE.length * 4).await;
    assert!(beats() > before + 20, "{} beats", beats() - before);
    assert!(!a.is_lost());
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn callers_of_one_workspace_claim_it_once() {
    let shared = Shared::new();
    let (a, b) = (shared.join("a").await, shared.join("b").await);
    let workspace = a.workspace("/project");
    let (first, second) = tokio::join!(a.claim(&workspace), a.claim(&workspace));
    assert_eq!((first.unwrap().epoch, second.unwrap().epoch), (1, 1));
    let refused = b.claim(&workspace).await.unwrap_err();
    assert!(refused.message.contains("a owns the workspace"), "{refused}");
    assert_ne!(b.workspace("/project"), workspace, "the same path on another machine");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_waiting_for_a_claim_does_not_keep_others_from_it() {
    let shared = Shared::new();
    let a = shared.join("a").await;
    let workspace = a.workspace("/project");
    shared.is_stuck.store(true, Ordering::SeqCst);
    assert!(tokio::time::timeout(LEASE.beat_every(), a.claim(&workspace)).await.is_err());
    shared.is_stuck.store(false, Ordering::SeqCst);
    assert_eq!(a.claim(&workspace).await.unwrap().epoch, 1);
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_a_workspace_is_read_seldom_and_its_death_at_once() {
    let shared = Shared::new();
    let (a, b) = (shared.join("a").await, shared.join("b").await);
    let workspace = a.workspace("/project");
    a.claim_directory("/project").await.unwrap();
    assert_eq!(a.owner(&workspace).await.unwrap(), Owner::Here);
    assert_eq!(a.owner(&a.workspace("/other")).await.unwrap(), Owner::Here, "not used yet");
    let peer = Owner::Peer(Peer { node: "a".to_owned(), incarnation: 1, address: "http://a".to_owned() });
    let before = shared.questions.load(Ordering::SeqCst);
    for _ in 0..10 {
        assert_eq!(b.owner(&workspace).await.unwrap(), peer);
    }
    assert_eq!(shared.questions.load(Ordering::SeqCst), before + 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    shared.is_stuck.store(true, Ordering::SeqCst);
    assert_eq!(b.owner(&workspace).await.unwrap(), peer, "an outage of the database hides no peer");
    shared.is_stuck.store(false, Ordering::SeqCst);
    shared.record.lock().unwrap().members.get_mut("a").unwrap().state = State::Dead;
    assert_eq!(b.owner(&workspace).await.unwrap(), Owner::Away { node: "a".to_owned() });
}
