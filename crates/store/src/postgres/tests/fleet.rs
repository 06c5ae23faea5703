//! Two nodes on one database: their leases, and the directories of a node that has died.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use engine::{
    Parts, Sessions,
    bus::Bus,
    fleet::Terms,
    limits::Limits,
    member::Member,
    ports::{
        Commit, Fleet as _, Log as _, NoUndo, Owner, Reads as _, Resolved, Runners, Stopwatch, StoreFailure,
        SystemClock, SystemRandom, Unresolved, Wanted,
    },
};
use futures::future::BoxFuture;

use super::{super::Nodes, *};
use crate::contract::{DIRECTORY, busy, commit, created, id, queued, started, user};

pub(super) const LEASE: Duration = Duration::from_secs(6);
const SECOND: Duration = Duration::from_secs(1);

/// Seconds that a test lets pass.
#[derive(Debug, Default)]
pub(super) struct Seconds(AtomicU64);

impl Seconds {
    pub(super) fn pass(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Stopwatch for Seconds {
    fn elapsed(&self) -> Duration {
        SECOND * u32::try_from(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

/// Refuses every prompt that would run.
struct NoRunners;

impl Runners for NoRunners {
    fn resolve<'a>(&'a self, _: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        let unknown = Unresolved::Agent { name: "build".to_owned(), known: String::new() };
        Box::pin(std::future::ready(Err(unknown)))
    }
}

/// One server of the fleet.
pub(super) struct Server {
    pub(super) member: Arc<Member>,
    pub(super) store: Arc<Postgres>,
    pub(super) sessions: Sessions,
}

impl Server {
    pub(super) async fn start(url: &str, name: &str, time: &Arc<Seconds>) -> Self {
        let nodes = Nodes::open(url, name, "http://127.0.0.1", "1").await.unwrap();
        let member = Member::join(name, Terms { length: LEASE }, nodes, time.clone()).await.unwrap();
        let bus = Arc::new(Bus::new(member.clone()));
        let identity = member.identity().unwrap();
        let store = Postgres::open_node(url, &identity, Options::default(), bus.clone()).await.unwrap();
        let sessions = Sessions::new(Parts {
            log: store.clone(),
            reads: store.clone(),
            runners: Arc::new(NoRunners),
            undo: Arc::new(NoUndo),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            bus,
            limits: Limits::default(),
            version: "1".to_owned(),
        });
        sessions.recover_node(&member, store.first()).await.unwrap();
        Self { member, store, sessions }
    }

    /// A commit of a session in this node's own directory.
    async fn commit(&self, session: &str, expected: u64, events: Vec<engine::ports::Encoded>) -> Commit {
        let fence = self.member.claim(&self.member.workspace(DIRECTORY)).await.unwrap();
        Commit { fence, ..commit(session, expected, events) }
    }

    /// The ends of all turns in the log.
    async fn idles(&self) -> usize {
        let span = engine::ports::Span { after: 0, upto: u64::MAX, workspace: None, limit: usize::MAX };
        let log = self.store.replay(span).await.unwrap();
        log.iter().filter(|event| String::from_utf8_lossy(&event.json).contains("\"session.idle\"")).count()
    }
}

/// A session with a running turn and a second prompt that waits.
async fn leave_a_turn(server: &Server) {
    let events = vec![
        created("ses_a"),
        user("ses_a", "msg_1", 1),
        queued("ses_a", "msg_1", "queue"),
        busy("ses_a"),
        started("ses_a", "msg_1"),
        user("ses_a", "msg_2", 2),
        queued("ses_a", "msg_2", "queue"),
    ];
    let commit = server.commit("ses_a", 0, events).await;
    // Confirms the claim. The turn of this test has no actor, so a later repair would end it.
    server.sessions.tend(&server.member).await;
    server.store.append(commit).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_beat_are_left_alone() {
    let Some(databases) = Databases::start() else { return };
    let (url, time) = (databases.url(), Arc::new(Seconds::default()));
    let (a, b) = (Server::start(&url, "a", &time).await, Server::start(&url, "b", &time).await);
    leave_a_turn(&a).await;
    for _ in 0..30 {
        time.pass();
        a.sessions.tend(&a.member).await;
        b.sessions.tend(&b.member).await;
    }
    assert!(!a.member.is_lost() && !b.member.is_lost());
    assert_eq!(b.idles().await, 0, "the turn goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_of_a_dead_node_are_ended_once_and_its_prompts_wait_for_it() {
    let Some(databases) = Databases::start() else { return };
    let (url, time) = (databases.url(), Arc::new(Seconds::default()));
    let a = Server::start(&url, "a", &time).await;
    let b = Server::start(&url, "b", &time).await;
    leave_a_turn(&a).await;
    let late = a.commit("ses_a", 7, vec![busy("ses_a")]).await;
    b.sessions.tend(&b.member).await;
    for _ in 0..LEASE.as_secs() - 1 {
        time.pass();
        b.sessions.tend(&b.member).await;
        assert_eq!(b.idles().await, 0, "the lease is not over");
    }
    for _ in 0..3 {
        time.pass();
        b.sessions.tend(&b.member).await;
        assert_eq!(b.idles().await, 1, "the turn is ended once");
    }
    let workspace = a.member.workspace(DIRECTORY);
    assert!(!b.member.may_run(&workspace));
    assert!(b.store.status(&id("ses_a")).await.unwrap().is_none());
    let waiting = b.store.prompts(&id("ses_a")).await.unwrap();
    assert_eq!(waiting.iter().map(|prompt| prompt.message.as_str()).collect::<Vec<_>>(), ["msg_2"]);

    let refused = a.store.append(late).await.unwrap_err();
    assert_eq!(refused.failure, StoreFailure::Fenced, "{refused}");
    a.sessions.tend(&a.member).await;
    assert!(a.member.is_lost(), "the beat of a dead node fails");
    assert_eq!(b.idles().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_returns_takes_its_directories_back() {
    let Some(databases) = Databases::start() else { return };
    let (url, time) = (databases.url(), Arc::new(Seconds::default()));
    let a = Server::start(&url, "a", &time).await;
    let b = Server::start(&url, "b", &time).await;
    leave_a_turn(&a).await;
    b.sessions.tend(&b.member).await;
    for _ in 0..=LEASE.as_secs() {
        time.pass();
        b.sessions.tend(&b.member).await;
    }
    let workspace = a.member.workspace(DIRECTORY);
    let custody = b.member.claim(&workspace).await.unwrap();
    drop(a);
    let a = Server::start(&url, "a", &time).await;
    let owned = a.member.claim(&workspace).await.unwrap();
    assert!(owned.epoch > custody.epoch && a.member.may_run(&workspace));
    // The runner of this test knows no agent, so the prompt that waited ends at once.
    assert!(a.store.prompts(&id("ses_a")).await.unwrap().is_empty());
    assert_eq!(a.idles().await, 1);
    b.sessions.tend(&b.member).await;
    let refused = b.member.claim(&workspace).await.unwrap_err();
    assert!(refused.message.contains("a owns the workspace"), "{refused}");
    let late = Commit { fence: custody, ..commit("ses_b", 0, vec![created("ses_b")]) };
    assert_eq!(b.store.append(late).await.unwrap_err().failure, StoreFailure::Fenced);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_started_again_ends_its_turns_without_waiting() {
    let Some(databases) = Databases::start() else { return };
    let (url, time) = (databases.url(), Arc::new(Seconds::default()));
    let a = Server::start(&url, "a", &time).await;
    let b = Server::start(&url, "b", &time).await;
    leave_a_turn(&a).await;
    drop(a);
    let a = Server::start(&url, "a", &time).await;
    assert_eq!(a.idles().await, 1, "no time has passed");
    assert!(b.store.status(&id("ses_a")).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_find_the_node_that_has_a_directory() {
    let Some(databases) = Databases::start() else { return };
    let (url, time) = (databases.url(), Arc::new(Seconds::default()));
    let a = Server::start(&url, "a", &time).await;
    let b = Server::start(&url, "b", &time).await;
    let workspace = a.member.workspace(DIRECTORY);
    assert!(b.member.elsewhere(DIRECTORY).await.unwrap().is_empty(), "no session has used it yet");
    assert_eq!(a.member.claim_directory(DIRECTORY).await.unwrap().workspace, workspace);
    leave_a_turn(&a).await;
    assert_eq!(b.member.elsewhere(DIRECTORY).await.unwrap(), std::slice::from_ref(&workspace));
    assert!(a.member.elsewhere(DIRECTORY).await.unwrap().is_empty());
    assert_eq!(a.member.owner(&workspace).await.unwrap(), Owner::Here);
    let Owner::Peer(peer) = b.member.owner(&workspace).await.unwrap() else { panic!("a is alive") };
    assert_eq!((peer.node.as_str(), peer.incarnation, peer.address.as_str()), ("a", 1, "http://127.0.0.1"));
    drop(a);
    for _ in 0..=LEASE.as_secs() {
        time.pass();
        b.sessions.tend(&b.member).await;
    }
    assert!(!b.member.may_run(&workspace), "b has it in custody");
    let away = Owner::Away { node: "a".to_owned() };
    assert_eq!(b.member.owner(&workspace).await.unwrap(), away);
    let c = Server::start(&url, "c", &time).await;
    assert_eq!(c.member.owner(&workspace).await.unwrap(), away, "on every node");
    let a = Server::start(&url, "a", &time).await;
    assert_eq!(a.member.owner(&workspace).await.unwrap(), Owner::Here);
    let Owner::Peer(peer) = b.member.owner(&workspace).await.unwrap() else { panic!("a is back") };
    assert_eq!(peer.incarnation, a.member.identity().unwrap().incarnation);
}
