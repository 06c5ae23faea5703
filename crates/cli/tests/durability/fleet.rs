//! Three real nodes on one real Postgres: they are killed, paused, started again and lose their database, and every turn
//! still ends once, on every node's stream alike.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use protocol::{EndReason, EventBody, SessionStatus};
use serde_json::{Value, json};
use testkit::{
    calls::Calls,
    dice::Dice,
    postgres::Cluster,
    process::{Baton, Home},
    watch::{Seen, Watch},
};
use tokio::{task::JoinHandle, time::timeout};

use super::kills::{Ledger, judge};

const NAMES: [&str; 3] = ["a", "b", "c"];
const KEY: &str = "a key of a fleet for tests, long enough";
const SEED: u64 = 20_261_118;
/// Faults of the random test.
const FAULTS: u64 = 6;
/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// Outages up to this length end no turn, with some time left for the nodes to connect again.
const PATIENCE_OF_COMMITS: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
/// Longer than a lease and the looks that declare a node dead.
const DEAD: Duration = Duration::from_secs(9);

/// A node, with everything durable that its stream has shown over all its processes.
struct Node {
    home: Home,
    server: Option<Baton>,
    session: String,
    url: Arc<Mutex<Option<String>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    watcher: JoinHandle<()>,
}

struct Fleet {
    cluster: Cluster,
    nodes: BTreeMap<&'static str, Node>,
    prompts: usize,
    accepted: Vec<String>,
}

/// Follows a node's stream across its processes, each time after the last durable event.
async fn follow(url: Arc<Mutex<Option<String>>>, seen: Arc<Mutex<Vec<Seen>>>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(url) = url.lock().unwrap().clone() else { continue };
        let after = seen.lock().unwrap().last().and_then(|last| last.cursor).unwrap_or(0);
        let Ok(mut watch) = Watch::connect(&url, "/global/event", Some(after)).await else { continue };
        while let Ok(Some(frame)) = watch.next().await {
            assert!(!matches!(frame.event.body, EventBody::ServerResync(_)), "a cursor was lost");
            if frame.cursor.is_some() {
                seen.lock().unwrap().push(frame);
            }
        }
    }
}

impl Fleet {
    async fn start() -> Option<Self> {
        let cluster = Cluster::start().unwrap()?;
        let store = cluster.database("baton").unwrap();
        let mut fleet = Self { cluster, nodes: BTreeMap::new(), prompts: 0, accepted: Vec::new() };
        for name in NAMES {
            let mut home = Home::new(env!("CARGO_BIN_EXE_baton")).unwrap().with_errors_kept();
            home.set_variable("BATON_STORE", &store);
            home.set_variable("BATON_FLEET_KEY", KEY);
            let (url, seen) = (Arc::default(), Arc::default());
            let watcher = tokio::spawn(follow(Arc::clone(&url), Arc::clone(&seen)));
            let node = Node { home, server: None, session: String::new(), url, seen, watcher };
            fleet.nodes.insert(name, node);
            fleet.run(name).await;
            fleet.node(name).session = fleet.calls(name).session().await.unwrap();
        }
        Some(fleet)
    }

    fn node(&mut self, name: &str) -> &mut Node {
        self.nodes.get_mut(name).unwrap()
    }

    fn calls(&self, name: &str) -> Calls {
        Calls::new(&self.nodes[name].server.as_ref().expect("the node runs").url)
    }

    async fn run(&mut self, name: &'static str) {
        let node = self.node(name);
        let server = node.home.start_with(&["--node", name]).await;
        let server = server.unwrap_or_else(|error| panic!("{name}: {error}: {}", node.home.errors()));
        *node.url.lock().unwrap() = Some(server.url.clone());
        node.server = Some(server);
    }

    async fn kill(&mut self, name: &str) {
        let node = self.node(name);
        *node.url.lock().unwrap() = None;
        node.server.take().unwrap().kill().await.unwrap();
    }

    /// Sends a prompt to a node's session and returns its id once it is accepted.
    async fn prompt(&mut self, name: &str, scenario: &str) -> String {
        let session = self.nodes[name].session.clone();
        self.prompt_at(name, &session, scenario).await
    }

    /// Sends a prompt to a session through any node.
    async fn prompt_at(&mut self, name: &str, session: &str, scenario: &str) -> String {
        self.prompts += 1;
        let message = format!("msg_fleet{}", self.prompts);
        self.calls(name).prompt(session, scenario, Some(&message)).await.unwrap();
        self.accepted.push(message.clone());
        message
    }

    /// Waits until a node's stream satisfies a condition.
    async fn until(&self, name: &str, what: &str, condition: impl Fn(&[Seen]) -> bool) {
        let seen = &self.nodes[name].seen;
        let reached = async {
            while !condition(&seen.lock().unwrap()) {
                tokio::time::sleep(LOOK).await;
            }
        };
        if timeout(PATIENCE, reached).await.is_err() {
            let errors = self.nodes.values().map(|node| node.home.errors()).collect::<Vec<_>>();
            panic!("{name} did not show {what}: {errors:#?}");
        }
    }

    /// Waits until a list of the nodes satisfies a condition.
    async fn until_nodes(&self, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let calls = self.calls(name);
        let reached = async {
            loop {
                let nodes = calls.get("/baton/nodes").await.unwrap_or_default();
                if condition(&nodes) {
                    return nodes;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        timeout(PATIENCE, reached).await.expect("the nodes agree in time")
    }

    /// Ends every turn, and checks that the streams of all nodes equal the log and that each prompt ended once.
    async fn finish(mut self) -> usize {
        for name in NAMES {
            if self.nodes[name].server.is_none() {
                self.run(name).await;
            }
            let session = self.nodes[name].session.clone();
            self.calls(name).post(&format!("/session/{session}/abort"), &json!({})).await.unwrap();
        }
        let last = self.prompt("a", "simple").await;
        self.until("a", "the last end", |seen| ends(seen, &last).is_some()).await;
        self.until("a", "the last idle", |seen| is_idle(seen, &self.nodes["a"].session)).await;
        let end = self.nodes["a"].seen.lock().unwrap().last().unwrap().cursor;
        for name in NAMES {
            self.until(name, "the end of the log", |seen| seen.last().and_then(|it| it.cursor) >= end).await;
        }
        let streams: Vec<Vec<Seen>> =
            self.nodes.values().map(|node| std::mem::take(&mut *node.seen.lock().unwrap())).collect();
        let log = replay(&self.nodes["b"].server.as_ref().unwrap().url, end.unwrap()).await;
        for stream in streams {
            let upto = stream.iter().filter(|it| it.cursor <= end).map(|it| (it.cursor, &it.event));
            let wanted = log.iter().map(|it| (it.cursor, &it.event));
            assert!(upto.eq(wanted), "a stream differs from the log");
        }
        for node in self.nodes.values() {
            node.watcher.abort();
        }
        let events = log.len();
        judge(&Ledger { accepted: std::mem::take(&mut self.accepted), seen: log, ..Ledger::default() });
        for name in NAMES {
            let (status, _) = self.node(name).server.take().unwrap().terminate().await.unwrap();
            assert!(status.success(), "{name}: {status}");
        }
        events
    }
}

/// One replay of the log up to a position.
async fn replay(url: &str, end: u64) -> Vec<Seen> {
    let mut watch = Watch::connect(url, "/global/event", Some(0)).await.unwrap();
    let mut log: Vec<Seen> = Vec::new();
    while log.last().and_then(|it| it.cursor) < Some(end) {
        let frame = timeout(PATIENCE, watch.next()).await.expect("the log ends").unwrap().expect("a frame");
        log.extend(Some(frame).filter(|frame| frame.cursor.is_some()));
    }
    log
}

/// The reason with which a prompt ended.
fn ends(seen: &[Seen], message: &str) -> Option<EndReason> {
    seen.iter().find_map(|it| match &it.event.body {
        EventBody::PromptEnded(ended) if ended.message_id.as_str() == message => Some(ended.reason),
        _ => None,
    })
}

fn has_started(seen: &[Seen], message: &str) -> bool {
    let is_start = |it: &Seen| matches!(&it.event.body, EventBody::PromptStarted(it) if it.message_id.as_str() == message);
    seen.iter().any(is_start)
}

fn is_idle(seen: &[Seen], session: &str) -> bool {
    let mut statuses = seen.iter().filter_map(|it| match &it.event.body {
        EventBody::SessionStatus(it) if it.session_id.as_str() == session => Some(&it.status),
        _ => None,
    });
    statuses.next_back().is_none_or(|status| matches!(status, SessionStatus::Idle { .. }))
}

fn state<'a>(nodes: &'a Value, name: &str) -> &'a str {
    let nodes = nodes.as_array().map(Vec::as_slice).unwrap_or_default();
    nodes.iter().find(|node| node["name"] == name).and_then(|node| node["state"].as_str()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_share_their_sessions_and_survive_the_death_of_each_other() {
    let Some(mut fleet) = Fleet::start().await else { return };

    // Every node lists the sessions of all, and shows the nodes.
    for name in NAMES {
        let message = fleet.prompt(name, "simple").await;
        for other in NAMES {
            fleet
                .until(other, "the end of a prompt", |seen| {
                    ends(seen, &message) == Some(EndReason::Completed)
                })
                .await;
        }
    }
    for name in NAMES {
        let listed = fleet.calls(name).get("/experimental/session").await.unwrap();
        assert_eq!(listed.as_array().unwrap().len(), 3, "{listed}");
        for node in fleet.nodes.values() {
            let messages =
                fleet.calls(name).get(&format!("/session/{}/message", node.session)).await.unwrap();
            assert_eq!(messages.as_array().unwrap().len(), 2, "{messages}");
        }
        let nodes =
            fleet.until_nodes(name, |nodes| NAMES.iter().all(|name| state(nodes, name) == "up")).await;
        assert_eq!(nodes[0]["workspaces"], 1, "{nodes}");
        assert_eq!(fleet.calls(name).get("/baton/ready").await.unwrap(), json!({}));
    }

    // Every node takes prompts for the sessions of all.
    for (entry, owner) in [("a", "b"), ("b", "c"), ("c", "a")] {
        let session = fleet.nodes[owner].session.clone();
        let message = fleet.prompt_at(entry, &session, "simple").await;
        fleet
            .until(entry, "the end of a prompt", |seen| ends(seen, &message) == Some(EndReason::Completed))
            .await;
    }

    // A killed node: its turn ends once as interrupted, and the prompt that waited runs when the node is back.
    let running = fleet.prompt("b", "slow:4000@10").await;
    let waiting = fleet.prompt("b", "simple").await;
    fleet.until("a", "the start of the turn", |seen| has_started(seen, &running)).await;
    fleet.kill("b").await;
    fleet
        .until("a", "the interrupted turn", |seen| ends(seen, &running) == Some(EndReason::Interrupted))
        .await;
    fleet.until_nodes("a", |nodes| state(nodes, "b") == "away").await;
    assert!(ends(&fleet.nodes["a"].seen.lock().unwrap(), &waiting).is_none(), "the prompt waits");
    let session = fleet.nodes["b"].session.clone();
    let away = fleet.calls("a").prompt(&session, "simple", None).await.unwrap_err().to_string();
    assert!(away.contains("503") && away.contains("NodeAway"), "{away}");
    fleet.run("b").await;
    fleet
        .until("c", "the end of the prompt that waited", |seen| {
            ends(seen, &waiting) == Some(EndReason::Completed)
        })
        .await;

    // A paused node: it learns that it was declared dead, says nothing more and exits with a code of its own.
    let running = fleet.prompt("c", "slow:4000@10").await;
    fleet.until("a", "the start of the turn", |seen| has_started(seen, &running)).await;
    let paused = fleet.node("c").server.take().unwrap();
    paused.freeze().await.unwrap();
    fleet
        .until("a", "the interrupted turn", |seen| ends(seen, &running) == Some(EndReason::Interrupted))
        .await;
    *fleet.node("c").url.lock().unwrap() = None;
    paused.thaw().unwrap();
    assert_eq!(paused.ended().await.unwrap().code(), Some(7));
    assert!(fleet.nodes["c"].home.errors().contains("declared the node c dead"));
    fleet.run("c").await;

    // Restarted in place: no lease has to end first.
    let running = fleet.prompt("a", "slow:4000@10").await;
    fleet.until("b", "the start of the turn", |seen| has_started(seen, &running)).await;
    fleet.kill("a").await;
    fleet.run("a").await;
    fleet
        .until("b", "the interrupted turn", |seen| ends(seen, &running) == Some(EndReason::Interrupted))
        .await;
    fleet.until_nodes("b", |nodes| NAMES.iter().all(|name| state(nodes, name) == "up")).await;

    // The database is killed and comes back: no turn is interrupted and no node is declared dead.
    let running = fleet.prompt("b", "slow:100@20").await;
    fleet.until("c", "the start of the turn", |seen| has_started(seen, &running)).await;
    let begun = Instant::now();
    fleet.cluster.kill().unwrap();
    fleet.cluster.run().unwrap();
    let outage = begun.elapsed();
    fleet.until("c", "the end of the turn", |seen| ends(seen, &running).is_some()).await;
    let end = ends(&fleet.nodes["c"].seen.lock().unwrap(), &running);
    // On a busy machine, the database may need longer to start than commits wait for it.
    let is_late = outage > PATIENCE_OF_COMMITS && end == Some(EndReason::Error);
    assert!(end == Some(EndReason::Completed) || is_late, "{end:?} after {outage:?}");
    fleet.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_takes_no_new_prompts_until_it_is_resumed_and_stops_when_its_turn_has_ended() {
    let Some(mut fleet) = Fleet::start().await else { return };
    assert_eq!(fleet.calls("b").post("/baton/nodes/a/drain", &json!({})).await.unwrap(), json!(true));
    fleet.until_nodes("c", |nodes| state(nodes, "a") == "draining").await;
    let session = fleet.nodes["a"].session.clone();
    let refused = async {
        while fleet.calls("a").get("/baton/ready").await.is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    };
    timeout(PATIENCE, refused).await.expect("a drained node is not ready");
    let error = fleet.calls("a").prompt(&session, "simple", None).await.unwrap_err().to_string();
    assert!(error.contains("503") && error.contains("draining"), "{error}");
    let error = fleet.calls("a").session().await.unwrap_err().to_string();
    assert!(error.contains("503") && error.contains("draining"), "{error}");
    let error = fleet.calls("b").post("/baton/nodes/nobody/drain", &json!({})).await.unwrap_err().to_string();
    assert!(error.contains("404"), "{error}");
    fleet.calls("c").post("/baton/nodes/a/resume", &json!({})).await.unwrap();
    let accepted = async {
        while fleet.calls("a").get("/baton/ready").await.is_err() {
            tokio::time::sleep(LOOK).await;
        }
    };
    timeout(PATIENCE, accepted).await.expect("a resumed node is ready");

    // SIGTERM lets the turn go on to its end.
    let running = fleet.prompt("a", "slow:100@20").await;
    fleet.until("b", "the start of the turn", |seen| has_started(seen, &running)).await;
    *fleet.node("a").url.lock().unwrap() = None;
    let (status, _) = fleet.node("a").server.take().unwrap().terminate().await.unwrap();
    assert!(status.success(), "{status}");
    fleet.until("b", "the end of the turn", |seen| ends(seen, &running) == Some(EndReason::Completed)).await;
    fleet.finish().await;
}

/// Faults of one kind or another while turns run on all nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seeded_faults_lose_nothing_and_end_nothing_twice() {
    let Some(mut fleet) = Fleet::start().await else { return };
    let mut dice = Dice::new(SEED);
    eprintln!("seed {SEED}");
    for fault in 0..FAULTS {
        for name in NAMES {
            if fleet.nodes[name].server.is_none() {
                fleet.run(name).await;
            }
            fleet
                .prompt(name, ["simple", "slow:60@20", "read_edit"][usize::try_from(dice.roll(3)).unwrap()])
                .await;
            fleet.prompt(name, "simple").await;
        }
        tokio::time::sleep(Duration::from_millis(dice.roll(400))).await;
        let name = NAMES[usize::try_from(dice.roll(3)).unwrap()];
        let kind = dice.roll(4);
        eprintln!("fault {fault}: {kind} on {name}");
        match kind {
            0 => fleet.kill(name).await,
            1 => {
                fleet.kill(name).await;
                fleet.run(name).await;
            }
            2 => {
                let paused = fleet.node(name).server.take().unwrap();
                paused.freeze().await.unwrap();
                tokio::time::sleep(DEAD).await;
                *fleet.node(name).url.lock().unwrap() = None;
                paused.thaw().unwrap();
                assert_eq!(paused.ended().await.unwrap().code(), Some(7));
            }
            _ => {
                fleet.cluster.kill().unwrap();
                fleet.cluster.run().unwrap();
            }
        }
    }
    let events = fleet.finish().await;
    eprintln!("{events} durable events, {FAULTS} faults");
}
