//! Two nodes on a real Postgres, with the leases and claims of the engine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use engine::{bus::Bus, fleet::Terms, member::Member, ports::Stopwatch};
use serde_json::json;
use store::postgres::{Nodes, Options, Postgres};
use testkit::postgres::Cluster;
use tokio::net::TcpListener;

use super::node::{Node, Start, key};

const LEASE: Duration = Duration::from_secs(6);

/// Seconds that the test lets pass.
#[derive(Debug, Default)]
struct Seconds(AtomicU64);

impl Stopwatch for Seconds {
    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

struct Server {
    node: Node,
    member: Arc<Member>,
}

impl Server {
    async fn start(url: &str, name: &'static str, time: &Arc<Seconds>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let nodes = Nodes::open(url, name, &address, "1").await.unwrap();
        let member = Member::join(name, Terms { length: LEASE }, nodes, time.clone()).await.unwrap();
        let bus = Arc::new(Bus::new(member.clone()));
        let identity = member.identity().unwrap();
        let store = Postgres::open_node(url, &identity, Options::default(), bus.clone()).await.unwrap();
        let start = Start { name, incarnation: identity.incarnation, key: Some(key()) };
        let node = Node::listen(start, store.clone(), bus, listener);
        node.sessions.recover_node(&member, store.first()).await.unwrap();
        Self { node, member }
    }

    async fn tend(&self) {
        self.node.sessions.tend(&self.member).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_one_node_works_in_a_session_of_another_until_that_dies() {
    let Some(cluster) = Cluster::start().unwrap() else { return };
    let (url, time) = (cluster.database("fleet").unwrap(), Arc::new(Seconds::default()));
    let (a, b) = (Server::start(&url, "a", &time).await, Server::start(&url, "b", &time).await);
    let id = b.node.session().await;
    let hello = json!({ "parts": [{ "type": "text", "text": "hello" }] });
    let path = format!("/session/{id}");
    let workspace = b.node.workspace();
    let mut events = a.node.follow(&format!("/event?workspace={workspace}")).await;
    events.until("server.ready").await;
    let answer = a.node.expect(200, "POST", &format!("{path}/message"), hello.clone()).await;
    assert_eq!(answer["info"]["role"], "assistant");
    let seen = events.until("session.idle").await;
    assert_eq!(seen.matches("\"session.idle\"").count(), 1);
    assert!(seen.contains("message.part.delta"));
    let cursor = seen.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap().to_owned();
    // The cursor of a stream through one node is good on the other, and on one that has not published so far yet.
    let text = b.node.follow(&format!("/event?after={cursor}")).await.until("server.ready").await.to_owned();
    assert!(!text.contains("server.resync"), "{text}");

    let Server { node, member } = b;
    drop((node, member));
    for _ in 0..=LEASE.as_secs() {
        time.0.fetch_add(1, Ordering::SeqCst);
        a.tend().await;
    }
    let away = a.node.expect(503, "POST", &format!("{path}/message"), hello).await;
    assert_eq!((&away["name"], &away["data"]["node"]), (&json!("NodeAway"), &json!("b")));
    let messages = a.node.expect(200, "GET", &format!("{path}/message"), None).await;
    assert_eq!(messages.as_array().unwrap().len(), 2);
    let mut events = a.node.follow(&format!("/event?workspace={workspace}&after={cursor}")).await;
    assert!(!events.until("server.ready").await.contains("server.resync"));
}
