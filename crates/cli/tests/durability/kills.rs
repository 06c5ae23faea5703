//! Kills the server with SIGKILL, two hundred times or together with its database, at seeded moments in the middle of many
//! turns.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use client::check::{Checker, End};
use protocol::{EventBody, MessageId, SessionStatus};
use testkit::{
    calls::Calls,
    dice::Dice,
    postgres::Cluster,
    process::Home,
    watch::{Seen, Watch},
};

const SEED: u64 = 20_261_115;
const KILLS: u64 = 200;
const KILLS_WITH_DATABASE: u64 = 24;
const SESSIONS: usize = 5;
/// Longest time in milliseconds from listening to the kill.
const LIFE: u64 = 120;
const SCENARIOS: [&str; 6] = ["simple", "slow", "read_edit", "todo", "long_tool", "parallel_tools"];

/// Knowledge of the outside world.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) sessions: Vec<String>,
    /// Prompts that the server acknowledged.
    pub(crate) accepted: Vec<String>,
    /// Prompts sent to a server that died; the next server receives them again under the same id.
    pub(crate) unsure: Vec<(String, String)>,
    /// Every durable frame from all servers.
    pub(crate) seen: Vec<Seen>,
}

type Shared = Arc<Mutex<Ledger>>;

async fn watch(url: String, ledger: Shared) {
    let after = ledger.lock().unwrap().seen.last().and_then(|seen| seen.cursor).unwrap_or(0);
    let Ok(mut watch) = Watch::connect(&url, "/global/event", Some(after)).await else { return };
    while let Ok(Some(seen)) = watch.next().await {
        assert!(
            !matches!(seen.event.body, EventBody::ServerResync(_)),
            "the cursor from the previous server is still valid"
        );
        if seen.cursor.is_some() {
            ledger.lock().unwrap().seen.push(seen);
        }
    }
}

/// Submits prompts as fast as the server accepts them, until it dies.
async fn talk(calls: Calls, ledger: Shared, life: u64) {
    let mut dice = Dice::new(SEED ^ (life << 8));
    let unsure = ledger.lock().unwrap().unsure.clone();
    for (session, message) in unsure {
        send(&calls, &ledger, &session, "simple", &message).await;
    }
    for count in 0.. {
        let known = ledger.lock().unwrap().sessions.clone();
        if known.len() < SESSIONS {
            let Ok(session) = calls.session().await else { return };
            ledger.lock().unwrap().sessions.push(session);
            continue;
        }
        let session = &known[usize::try_from(dice.roll(SESSIONS as u64)).unwrap()];
        let scenario = SCENARIOS[usize::try_from(dice.roll(SCENARIOS.len() as u64)).unwrap()];
        if !send(&calls, &ledger, session, scenario, &format!("msg_life{life}n{count}")).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(dice.roll(40))).await;
    }
}

async fn send(calls: &Calls, ledger: &Shared, session: &str, scenario: &str, message: &str) -> bool {
    // Recorded before the call, because the task may be cancelled at any await.
    let entry = (session.to_owned(), message.to_owned());
    {
        let unsure = &mut ledger.lock().unwrap().unsure;
        if !unsure.contains(&entry) {
            unsure.push(entry);
        }
    }
    let sent = calls.prompt(session, scenario, Some(message)).await.is_ok();
    if sent {
        let mut ledger = ledger.lock().unwrap();
        ledger.unsure.retain(|(_, unsure)| unsure != message);
        ledger.accepted.push(message.to_owned());
    }
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_kills_lose_nothing_and_answer_nothing_twice() {
    let home = Home::new(env!("CARGO_BIN_EXE_baton")).unwrap();
    kill_and_judge(&home, KILLS, None).await;
}

/// Every fourth time, the database is killed in the middle of the turns as well, and the server lives through it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_the_server_and_of_its_postgres_lose_nothing_and_answer_nothing_twice() {
    let Some(mut cluster) = Cluster::start().unwrap() else { return };
    let mut home = Home::new(env!("CARGO_BIN_EXE_baton")).unwrap();
    home.set_variable("BATON_STORE", cluster.database("baton").unwrap());
    kill_and_judge(&home, KILLS_WITH_DATABASE, Some(&mut cluster)).await;
    assert_eq!(std::fs::metadata(home.data().join("baton.db")).unwrap().len(), 0, "the file was not used");
}

async fn kill_and_judge(home: &Home, kills: u64, mut cluster: Option<&mut Cluster>) {
    let ledger = Shared::default();
    let mut dice = Dice::new(SEED);
    for life in 0..kills {
        let server = home.start().await.unwrap();
        let calls = Calls::new(&server.url);
        let watcher = tokio::spawn(watch(server.url.clone(), ledger.clone()));
        let talker = tokio::spawn(talk(calls, ledger.clone(), life));
        tokio::time::sleep(Duration::from_millis(dice.roll(LIFE))).await;
        if let Some(cluster) = cluster.as_mut().filter(|_| life % 4 == 3) {
            cluster.kill().unwrap();
            cluster.run().unwrap();
            tokio::time::sleep(Duration::from_millis(dice.roll(LIFE))).await;
        }
        server.kill().await.unwrap();
        talker.abort();
        let _ = talker.await;
        watcher.await.unwrap();
    }
    let server = home.start().await.unwrap();
    let calls = Calls::new(&server.url);
    let watcher = tokio::spawn(watch(server.url.clone(), ledger.clone()));
    let unsure = ledger.lock().unwrap().unsure.clone();
    for (session, message) in unsure {
        assert!(send(&calls, &ledger, &session, "simple", &message).await);
    }
    let sessions = ledger.lock().unwrap().sessions.clone();
    for session in &sessions {
        // An abort waits for idle and ends a long remaining queue.
        calls.post(&format!("/session/{session}/abort"), &serde_json::json!({})).await.unwrap();
    }
    assert_eq!(calls.get("/session/status").await.unwrap(), serde_json::json!({}), "no session is busy");
    for session in &sessions {
        let messages = calls.get(&format!("/session/{session}/message")).await.unwrap();
        assert_closed(&messages);
    }
    let (status, _) = server.terminate().await.unwrap();
    assert!(status.success(), "{status}");
    watcher.await.unwrap();

    let ledger = std::mem::take(&mut *ledger.lock().unwrap());
    eprintln!(
        "{} prompts accepted, {} durable events, {kills} kills",
        ledger.accepted.len(),
        ledger.seen.len()
    );
    assert!(ledger.accepted.len() as u64 > kills / 4, "too few prompts were accepted for a meaningful test");
    judge(&ledger);
    same_as_one_replay(home, &ledger).await;
}

/// Asserts that every message and part is closed, although the process that opened it is dead.
fn assert_closed(messages: &serde_json::Value) {
    let messages: Vec<protocol::MessageWithParts> = serde_json::from_value(messages.clone()).unwrap();
    for message in messages {
        if let protocol::Message::Assistant(info) = &message.info {
            assert!(info.time.completed.is_some(), "{info:?}");
        }
        assert!(!message.parts.iter().any(protocol::Part::is_open), "{message:?}");
    }
}

pub(crate) fn judge(ledger: &Ledger) {
    let mut started: BTreeMap<MessageId, u32> = BTreeMap::new();
    let mut ended: BTreeMap<MessageId, u32> = BTreeMap::new();
    let mut busy: BTreeMap<String, bool> = BTreeMap::new();
    let mut checker = Checker::default();
    for seen in &ledger.seen {
        checker.observe(None, &seen.event);
        match &seen.event.body {
            EventBody::PromptStarted(it) => *started.entry(it.message_id.clone()).or_default() += 1,
            EventBody::PromptEnded(it) => *ended.entry(it.message_id.clone()).or_default() += 1,
            EventBody::SessionStatus(it) => {
                let idle = matches!(it.status, SessionStatus::Idle { .. });
                let was = busy.insert(it.session_id.to_string(), !idle);
                assert!(!idle || was == Some(true), "{} became idle twice", it.session_id);
            }
            _ => {}
        }
    }
    assert!(busy.values().all(|busy| !busy), "every started turn has its end recorded");
    for message in &ledger.accepted {
        let id: MessageId = message.parse().unwrap();
        assert_eq!(ended.get(&id), Some(&1), "{message} was accepted and ended {:?} times", ended.get(&id));
        assert!(started.get(&id).is_none_or(|count| *count == 1), "{message} was taken up more than once");
    }
    let report = checker.finish(End::Complete);
    assert!(report.passed(), "{:#?}", report.violations().collect::<Vec<_>>());
}

/// Asserts that the watcher's events over all servers equal one replay of the log.
async fn same_as_one_replay(home: &Home, ledger: &Ledger) {
    let server = home.start().await.unwrap();
    let mut watch = Watch::connect(&server.url, "/global/event", Some(0)).await.unwrap();
    let mut pieced = ledger.seen.iter();
    let mut count = 0;
    while count < ledger.seen.len() {
        let Some(seen) = watch.next().await.unwrap() else { panic!("the replay ended early") };
        if seen.cursor.is_none() {
            continue;
        }
        let other = pieced.next().unwrap();
        assert_eq!((seen.cursor, &seen.event), (other.cursor, &other.event));
        count += 1;
    }
    server.kill().await.unwrap();
}
