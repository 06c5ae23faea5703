//! Nodes that die, pause and return in any order: every turn still ends once.

use std::collections::BTreeMap;

use engine::ports::{Commit, Fleet as _, Log as _, Reads as _, Span, StoreFailure};
use serde_json::Value;

use super::{
    fleet::{LEASE, Seconds, Server},
    nodes::Numbers,
    *,
};
use crate::contract::{DIRECTORY, busy, commit, created, ended, id, idle, queued, started, user};

const NODES: [&str; 3] = ["a", "b", "c"];
const SEEDS: u64 = 2;
const STEPS: usize = 100;

/// A node of the test: its server while it runs, and if it is paused.
#[derive(Default)]
struct Slot {
    server: Option<Server>,
    is_paused: bool,
}

struct TestFleet {
    url: String,
    time: Arc<Seconds>,
    slots: BTreeMap<&'static str, Slot>,
    turns: usize,
    refused: usize,
}

impl TestFleet {
    async fn start(&mut self, name: &'static str) {
        let server = Server::start(&self.url, name, &self.time).await;
        self.slots.insert(name, Slot { server: Some(server), is_paused: false });
    }

    /// Lets a second pass, in which every node that is not paused takes part in the fleet.
    async fn second(&self) {
        self.time.pass();
        for slot in self.slots.values().filter(|slot| !slot.is_paused) {
            if let Some(server) = &slot.server {
                server.sessions.tend(&server.member).await;
            }
        }
    }

    /// Begins a turn in the node's session, or ends the one that is open. A node that was declared dead is refused.
    async fn work(&mut self, name: &'static str) {
        let Some(server) = &self.slots[name].server else { return };
        let session = format!("ses_{name}");
        let found = server.store.session(&id(&session)).await.unwrap();
        let prompts = server.store.prompts(&id(&session)).await.unwrap();
        let Ok(fence) = server.member.claim(&server.member.workspace(DIRECTORY)).await else { return };
        if !self.slots[name].is_paused {
            // Confirms the claim, because a turn without an actor is one that needs repair.
            server.sessions.tend(&server.member).await;
        }
        let message = format!("msg_{}", self.turns);
        let turn = vec![
            user(&session, &message, 1),
            queued(&session, &message, "queue"),
            busy(&session),
            started(&session, &message),
        ];
        let (head, events) = match (found, prompts.first()) {
            (Some((_, head)), Some(prompt)) => {
                (head, vec![ended(&session, prompt.message.as_str()), idle(&session)])
            }
            (Some((_, head)), None) => (head, turn),
            (None, _) => (0, [vec![created(&session)], turn].concat()),
        };
        match server.store.append(Commit { fence, ..commit(&session, head, events) }).await {
            Ok(_) => self.turns += usize::from(prompts.is_empty()),
            Err(error) => {
                assert_eq!(error.failure, StoreFailure::Fenced, "{error}");
                assert!(self.slots[name].is_paused || server.member.is_lost(), "a living node was refused");
                self.refused += 1;
            }
        }
    }

    async fn step(&mut self, numbers: &mut Numbers) {
        let name = NODES[usize::try_from(numbers.below(3)).unwrap()];
        let is_running = self.slots[name].server.is_some();
        match numbers.below(9) {
            0 if is_running => drop(self.slots.insert(name, Slot::default())),
            1 | 2 if !is_running => self.start(name).await,
            3 if is_running => {
                let slot = self.slots.get_mut(name).unwrap();
                slot.is_paused = !slot.is_paused;
            }
            4..=6 => self.work(name).await,
            _ => {
                for _ in 0..=numbers.below(LEASE.as_secs() / 2) {
                    self.second().await;
                }
            }
        }
        // A process that was declared dead ends, and its supervisor starts another.
        let is_lost = |slot: &Slot| slot.server.as_ref().is_some_and(|server| server.member.is_lost());
        let lost: Vec<_> =
            self.slots.iter().filter(|(_, slot)| is_lost(slot)).map(|(name, _)| *name).collect();
        for name in lost {
            self.slots.insert(name, Slot::default());
            self.start(name).await;
        }
    }

    /// Checks that each session is busy and idle in turns, and idle at the end.
    async fn check(&self) {
        let span = Span { after: 0, upto: u64::MAX, workspace: None, limit: usize::MAX };
        let log = self.slots["a"].server.as_ref().unwrap().store.replay(span).await.unwrap();
        let mut open: BTreeMap<String, bool> = BTreeMap::new();
        let mut idles = 0;
        for stored in log {
            let event: Value = serde_json::from_slice(&stored.json).unwrap();
            let session = event["properties"]["sessionID"].as_str().unwrap_or_default().to_owned();
            if event["type"] != "session.status" {
                continue;
            }
            let is_busy = event["properties"]["status"]["type"] == "busy";
            let was_busy = open.insert(session, is_busy).unwrap_or_default();
            assert_ne!(was_busy, is_busy, "two statuses in a row at position {}", stored.position);
            idles += usize::from(!is_busy);
        }
        assert!(open.values().all(|is_open| !is_open), "a turn has not ended: {open:?}");
        assert_eq!(idles, self.turns);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_turn_ends_once_while_nodes_die_pause_and_return() {
    let Some(databases) = Databases::start() else { return };
    let (mut turns, mut refused) = (0, 0);
    for seed in 1..=SEEDS {
        println!("seed {seed}");
        let mut fleet = TestFleet {
            url: databases.url(),
            time: Arc::default(),
            slots: NODES.into_iter().map(|name| (name, Slot::default())).collect(),
            turns: 0,
            refused: 0,
        };
        for name in NODES {
            fleet.start(name).await;
        }
        let mut numbers = Numbers(seed);
        for _ in 0..STEPS {
            fleet.step(&mut numbers).await;
        }
        // Each node is started once more, which ends the turns that are still open on it.
        for name in NODES {
            fleet.slots.insert(name, Slot::default());
            fleet.start(name).await;
        }
        fleet.check().await;
        (turns, refused) = (turns + fleet.turns, refused + fleet.refused);
    }
    assert!(turns > 15, "{turns} turns");
    assert!(refused > 0, "no commit of a dead node was tried");
}
