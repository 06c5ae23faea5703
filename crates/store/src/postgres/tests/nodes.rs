//! The rows of the nodes follow the same rules as `engine::fleet::Record`.

use std::{collections::BTreeMap, time::Duration};

use engine::{
    fleet::{
        Identity, Kind, Record, Refusal, Ruling,
        lease::Seen as Counter,
        record::{Ownership, State},
    },
    ports::{Log as _, NodeRecord as _, Transaction},
};
use protocol::WorkspaceId;
use tokio::time::timeout;

use super::{
    super::{Nodes, OpenError, connect::LOCK_LOG},
    *,
};
use crate::contract::{commit, created, here, id};

/// Longer than any step takes on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);
const STEPS: usize = 600;
const NODES: [&str; 3] = ["a", "b", "c"];
const WORKSPACES: [&str; 3] = ["wrk_a", "wrk_b", "wrk_shared"];

/// A small generator of numbers that are the same in each run.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn node(&mut self) -> String {
        NODES[usize::try_from(self.below(3)).unwrap()].to_owned()
    }

    /// A number that was read: mostly the present one, sometimes an older one.
    fn read(&mut self, now: u64) -> u64 {
        if self.below(5) == 0 { now.saturating_sub(1) } else { now }
    }
}

fn random(numbers: &mut Numbers, record: &Record<String, WorkspaceId>) -> Transaction {
    let node = numbers.node();
    let known = record.members.get(&node).map_or(0, |member| member.incarnation);
    let by = Identity { node: node.clone(), incarnation: numbers.read(known) };
    let holding: WorkspaceId = id(WORKSPACES[usize::try_from(numbers.below(3)).unwrap()]);
    let epoch = record.holdings[&holding].epoch;
    match numbers.below(12) {
        0 => Transaction::Register { node },
        1 => Transaction::Drain { by },
        2 => Transaction::Connect { by },
        3 | 4 => Transaction::Beat { by },
        5 | 6 => {
            let node = numbers.node();
            let member = record.members.get(&node);
            let (incarnation, beat) = member.map_or((0, 0), |member| (member.incarnation, member.beat));
            Transaction::Declare { by, node, seen: Counter { incarnation, beat: numbers.read(beat) } }
        }
        7 | 8 => Transaction::Release { by, holding, epoch: numbers.read(epoch) },
        _ => Transaction::Claim { by, holding, epoch: numbers.read(epoch), custody: numbers.below(2) == 0 },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_rules_as_the_reference_does() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let nodes = Nodes::open(&url, "a", "http://a", "1").await.unwrap();
    let homes = [Some("a"), Some("b"), None];
    let client = connect(&url).await;
    let mut holdings = BTreeMap::new();
    for (name, home) in WORKSPACES.into_iter().zip(homes) {
        let sql = "INSERT INTO baton.workspace (id, home, epoch) VALUES ($1, $2, 0)";
        client.execute(sql, &[&name, &home]).await.unwrap();
        let kind = home.map_or(Kind::Shared, |home| Kind::Own(home.to_owned()));
        let row = Ownership { kind, owner: None, epoch: 0, custody: false };
        holdings.insert(id::<WorkspaceId>(name), row);
    }
    let mut record = Record::new(holdings);
    let mut numbers = Numbers(7);
    let mut has_died = false;
    let mut rulings = BTreeMap::<String, usize>::new();
    for step in 0..STEPS {
        let transaction = random(&mut numbers, &record);
        let expected = record.apply(&transaction);
        let ruling = nodes.apply(transaction.clone()).await.unwrap();
        assert_eq!(ruling, expected, "step {step}: {transaction:?}");
        assert_eq!(
            nodes.look(Vec::new()).await.unwrap().members,
            record.members,
            "step {step}: {transaction:?}"
        );
        for (workspace, row) in &record.holdings {
            assert_eq!(nodes.row(workspace, None).await.unwrap(), *row, "step {step}: {transaction:?}");
        }
        has_died |= record.members.values().any(|member| member.state == State::Dead);
        let kind = format!("{ruling:?}");
        *rulings.entry(kind.split([' ', '(']).next().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(rulings.len(), 5, "every kind of ruling has occurred: {rulings:?}");
    assert!(has_died, "a node was declared dead");
}

/// Waits until a session of the database waits for a lock.
async fn until_blocked(client: &Client) {
    let blocked = async {
        let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
    };
    timeout(DEADLINE, blocked).await.expect("a session waits for a lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_beat_saves_a_node_that_is_being_declared_dead() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let nodes = Nodes::open(&url, "a", "", "1").await.unwrap();
    for node in ["a", "b"] {
        nodes.apply(Transaction::Register { node: node.to_owned() }).await.unwrap();
    }
    let (client, watcher) = (connect(&url).await, connect(&url).await);
    client.batch_execute("BEGIN; UPDATE baton.node SET beat = beat + 1 WHERE id = 'b'").await.unwrap();
    let by = Identity { node: "a".to_owned(), incarnation: 1 };
    let seen = Counter { incarnation: 1, beat: 0 };
    let declare = Transaction::Declare { by, node: "b".to_owned(), seen };
    let (declarer, refused) = (Arc::clone(&nodes), Ruling::Refused(Refusal::Changed));
    let declaring = tokio::spawn(async move { declarer.apply(declare).await });
    until_blocked(&watcher).await;
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(declaring.await.unwrap().unwrap(), refused);
    let rows = nodes.look(Vec::new()).await.unwrap();
    assert_eq!(rows.members["b"].state, State::Up);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_beat_does_not_wait_for_commits() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let nodes = Nodes::open(&url, "a", "", "1").await.unwrap();
    nodes.apply(Transaction::Register { node: "a".to_owned() }).await.unwrap();
    let client = connect(&url).await;
    let commit = format!(
        "BEGIN; {LOCK_LOG}; SELECT baton.append('a', 1, 0, pg_backend_pid(), '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')"
    );
    client.batch_execute(&commit).await.unwrap();
    let by = Identity { node: "a".to_owned(), incarnation: 1 };
    assert_eq!(nodes.apply(Transaction::Beat { by }).await.unwrap(), Ruling::Done);
    client.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_used_once_and_never_beside_a_server_without_one() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let (alone, _) = open(&url, Options::default()).await;
    let refused = Nodes::open(&url, "a", "", "1").await.unwrap_err();
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    alone.close().await.unwrap();
    let first = Nodes::open(&url, "a", "", "1").await.unwrap();
    let refused = Nodes::open(&url, "a", "", "1").await.unwrap_err();
    assert!(matches!(refused, OpenError::Running { .. }), "{refused}");
    let second = Nodes::open(&url, "b", "", "1").await.unwrap();
    let refused = Postgres::open(&url, Options::default(), Arc::new(Seen::default())).await.unwrap_err();
    assert!(matches!(refused, OpenError::Fleet { .. }), "{refused}");
    drop((first, second));
    open(&url, Options::default()).await.0.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_a_server_without_a_name_do_not_take_over_each_others_sessions() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let node = Nodes::open(&url, "a", "", "1").await.unwrap();
    node.row(&here(), Some("/here")).await.unwrap();
    drop(node);
    let refused = Postgres::open(&url, Options::default(), Arc::new(Seen::default())).await.unwrap_err();
    assert!(matches!(refused, OpenError::Fleet { .. }), "{refused}");

    let url = databases.url();
    let (alone, _) = open(&url, Options::default()).await;
    alone.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    alone.close().await.unwrap();
    let refused = Nodes::open(&url, "a", "", "1").await.unwrap_err();
    assert!(matches!(refused, OpenError::Nameless { .. }), "{refused}");
}
