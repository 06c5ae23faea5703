//! The streams of several nodes: each is the whole log, in its order.

use std::time::Duration;

use engine::{
    fleet::Identity,
    ports::{
        Commit, Fence, Log as _, NodeRecord as _, Reads as _, Span, StoreFailure, Transaction, own_workspace,
    },
};
use protocol::WorkspaceId;
use tokio::time::timeout;

use super::{
    super::Nodes,
    proxy::{Line, Proxy},
    *,
};
use crate::contract::{commit, created, deleted, idle, saved, text, updated};

/// Longer than any step takes on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);
const WRITERS: u64 = 8;
const COMMITS: u64 = 40;

/// A node without the protocol of leases: its store, its stream, and the fence of its one workspace.
struct Writer {
    _nodes: Arc<Nodes>,
    store: Arc<Postgres>,
    seen: Arc<Seen>,
    fence: Fence,
}

impl Writer {
    /// Registers over `url` and opens the store over `line`, which may be a proxy.
    async fn start(url: &str, line: &str, name: &str) -> Self {
        let nodes = Nodes::open(url, name, "", "1").await.unwrap();
        let engine::fleet::Ruling::Registered { incarnation } =
            nodes.apply(Transaction::Register { node: name.to_owned() }).await.unwrap()
        else {
            panic!("not registered")
        };
        let by = Identity { node: name.to_owned(), incarnation };
        let workspace: WorkspaceId = own_workspace(name, "/project");
        let epoch = nodes.row(&workspace, None).await.unwrap().epoch;
        let claim = Transaction::Claim { by: by.clone(), holding: workspace.clone(), epoch, custody: false };
        nodes.apply(claim).await.unwrap();
        let seen = Arc::new(Seen::default());
        let store = Postgres::open_node(line, &by, Options::default(), seen.clone()).await.unwrap();
        Self { _nodes: nodes, store, seen, fence: Fence { workspace, epoch: epoch + 1 } }
    }

    fn commit(&self, session: &str, expected: u64, events: Vec<engine::ports::Encoded>) -> Commit {
        Commit { fence: self.fence.clone(), ..commit(session, expected, events) }
    }

    async fn until_seen(&self, position: u64) {
        let seen = async {
            while self.seen.newest() < position {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, seen).await.expect("the tail publishes the commits of both nodes");
    }
}

/// Commits that put texts into the search index too, because its numbers come from all nodes.
async fn write(node: Arc<Writer>, session: String) {
    let first = node.commit(&session, 0, vec![created(&session)]);
    node.store.append(first).await.unwrap();
    let mut head = 1;
    for number in 0..COMMITS {
        let message = format!("msg_{number}");
        let part = text(&session, &message, "prt_1", &format!("text {number}"), Some(1));
        let events = vec![saved(&part), updated(&session, serde_json::json!({}))];
        let appended = node.store.append(node.commit(&session, head, events)).await.unwrap();
        assert!(node.seen.newest() >= appended.position, "published before it is acknowledged");
        head = appended.head;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn streams_of_both_nodes_equal_the_log_under_parallel_writers() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let nodes =
        [Arc::new(Writer::start(&url, &url, "a").await), Arc::new(Writer::start(&url, &url, "b").await)];
    let writers = (0..WRITERS).map(|number| {
        let node = Arc::clone(&nodes[usize::try_from(number % 2).unwrap()]);
        tokio::spawn(write(node, format!("ses_{number}")))
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let end = WRITERS * (1 + COMMITS * 2);
    let span = Span { after: 0, upto: u64::MAX, workspace: None, limit: usize::MAX };
    let log = nodes[0].store.replay(span).await.unwrap();
    assert_eq!(log.iter().map(|event| event.position).collect::<Vec<_>>(), (1..=end).collect::<Vec<_>>());
    for node in &nodes {
        node.until_seen(end).await;
        assert_eq!(
            node.seen.bodies(),
            log.iter().map(|event| (event.position, event.json.clone())).collect::<Vec<_>>()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_after_events_that_were_deleted_with_their_session() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let a = Writer::start(&url, &url, "a").await;
    a.store.append(a.commit("ses_a", 0, vec![created("ses_a"), deleted("ses_a")])).await.unwrap();
    let b = Writer::start(&url, &url, "b").await;
    assert_eq!(b.store.first(), 2, "a node publishes only later commits");
    let both = vec![created("ses_b"), deleted("ses_b")];
    a.store.append(a.commit("ses_b", 0, both)).await.unwrap();
    b.store.append(b.commit("ses_c", 0, vec![created("ses_c")])).await.unwrap();
    assert_eq!(b.seen.positions(), [4, 5], "the created session of position 3 no longer exists");
    a.until_seen(5).await;
    // The tail of the writer itself may read its commit from the log before the answer arrives.
    let kept: Vec<_> = a.seen.positions().into_iter().filter(|position| ![1, 3].contains(position)).collect();
    assert_eq!(kept, [2, 4, 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_continues_after_the_database_has_lost_commits() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let (a, b) = (Writer::start(&url, &url, "a").await, Writer::start(&url, &url, "b").await);
    a.store.append(a.commit("ses_a", 0, vec![created("ses_a"), idle("ses_a")])).await.unwrap();
    b.until_seen(2).await;
    let client = connect(&url).await;
    let lose = "DELETE FROM baton.log WHERE position = 2; DELETE FROM baton.event WHERE seq = 2;
        UPDATE baton.session SET head = 1";
    client.batch_execute(lose).await.unwrap();
    // The writer of the first node connects again; the second one has not noticed anything.
    let writer = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'COMMIT'";
    client.query(writer, &[]).await.unwrap();
    let error = a.store.append(a.commit("ses_a", 2, vec![idle("ses_a")])).await.unwrap_err();
    assert!(error.message.contains("lost acknowledged commits"), "{error}");
    let error = b.store.append(b.commit("ses_b", 0, vec![created("ses_b")])).await.unwrap_err();
    assert_eq!(error.failure, StoreFailure::Fenced, "{error}");
    drop((a, b));
    let again = Writer::start(&url, &url, "a").await;
    assert!(again.fence.epoch > 1 << 32, "no epoch of the old generation is used again");
    let commit = again.commit("ses_a", 1, vec![idle("ses_a")]);
    assert_eq!(again.store.append(commit).await.unwrap().position, (1 << 40) + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_after_its_connection_was_lost() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let (a, b) = (Writer::start(&url, &url, "a").await, Writer::start(&url, &url, "b").await);
    let client = connect(&url).await;
    for number in 0..4 {
        let session = format!("ses_{number}");
        a.store.append(a.commit(&session, 0, vec![created(&session)])).await.unwrap();
        b.until_seen(number + 1).await;
        let listeners = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND query LIKE '%LEFT JOIN event%'";
        client.query(listeners, &[]).await.unwrap();
    }
    assert_eq!(b.seen.positions(), [1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_is_found_among_those_of_other_nodes() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let proxy = Proxy::start(databases.socket());
    let a = Writer::start(&url, &proxy.url("test0"), "a").await;
    let b = Writer::start(&url, &url, "b").await;
    a.store.append(a.commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    // The writer looks for expired events after its first commit.
    a.store.forget(&crate::contract::id("psv_1")).await.unwrap();
    proxy.set(Line::Mute);
    let (store, lost) = (a.store.clone(), a.commit("ses_a", 1, vec![idle("ses_a"), idle("ses_a")]));
    let waiting = tokio::spawn(async move { store.append(lost).await });
    b.until_seen(3).await;
    b.store.append(b.commit("ses_b", 0, vec![created("ses_b")])).await.unwrap();
    proxy.cut();
    let appended = waiting.await.unwrap().unwrap();
    assert_eq!((appended.head, appended.position), (3, 3));
    a.until_seen(4).await;
    assert_eq!(a.seen.positions(), [1, 2, 3, 4]);
    assert_eq!(b.seen.positions(), [1, 2, 3, 4]);
}
