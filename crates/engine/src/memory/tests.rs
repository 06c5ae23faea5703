//! Tests of what only this backend has. The contract suite of `store` tests the behaviour that all backends share.

use std::time::Duration;

use bytes::Bytes;
use protocol::Event;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::ports::{Encoded, Fleet, Logged};

#[derive(Default)]
struct Positions(Mutex<Vec<u64>>);

impl Observer for Positions {
    fn committed(&self, events: Vec<Logged>) {
        self.0.lock().unwrap().extend(events.iter().map(|event| event.position));
    }
}

fn session() -> Session {
    serde_json::from_value(json!({
        "id": "ses_1", "slug": "calm-otter", "projectID": "global", "directory": "/tmp", "title": "A title",
        "version": "1", "time": { "created": 1, "updated": 1 },
    }))
    .unwrap()
}

/// A commit of one event; the first one creates the session.
fn commit(expected: u64) -> Commit {
    let kind = if expected == 0 { "session.created" } else { "session.updated" };
    let event: Event = serde_json::from_value(json!({
        "id": "evt_1", "type": kind, "properties": { "sessionID": "ses_1", "info": session() },
    }))
    .unwrap();
    let json = Bytes::from(serde_json::to_vec(&event).unwrap());
    Commit {
        session: session().id,
        fence: Fence { workspace: Alone.workspace("/tmp"), epoch: Alone::EPOCH },
        directory: "/tmp".into(),
        project: "global".into(),
        expected,
        events: vec![Encoded { event, json }],
        flush: false,
    }
}

#[tokio::test]
async fn a_refused_append_leaves_no_trace() {
    let memory = Memory::new(Arc::new(Positions::default()));
    memory.faults().next(2, Fault::Refuse(StoreFailure::Full));
    for _ in 0..2 {
        assert_eq!(memory.append(commit(0)).await.unwrap_err().failure, StoreFailure::Full);
    }
    assert_eq!(memory.bounds().await.unwrap(), (1, 0));
    assert_eq!(memory.append(commit(0)).await.unwrap(), Appended { head: 1, position: 1 });
}

#[tokio::test]
async fn a_lost_acknowledgement_hides_a_commit_that_happened() {
    let observer = Arc::new(Positions::default());
    let memory = Memory::new(observer.clone());
    memory.faults().next(1, Fault::LoseAcknowledgement);
    assert_eq!(memory.append(commit(0)).await.unwrap_err().failure, StoreFailure::Unavailable);
    assert_eq!(*observer.0.lock().unwrap(), [1]);
    assert_eq!(memory.append(commit(0)).await.unwrap_err().failure, StoreFailure::Conflict);
}

#[tokio::test(start_paused = true)]
async fn delays_run_on_the_clock_of_the_runtime() {
    let memory = Memory::new(Arc::new(Positions::default()));
    memory.faults().next(1, Fault::Delay(Duration::from_secs(3)));
    memory.faults().pass(1);
    memory.faults().next(1, Fault::DelayAcknowledgement(Duration::from_secs(4)));
    let start = Instant::now();
    memory.append(commit(0)).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    memory.append(commit(1)).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    memory.append(commit(2)).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(7));
}

#[tokio::test]
async fn a_reopened_log_is_out_of_reach_for_the_dead_process() {
    let old = Memory::new(Arc::new(Positions::default()));
    old.append(commit(0)).await.unwrap();
    let observer = Arc::new(Positions::default());
    let new = old.reopen(observer.clone());
    assert_eq!(old.append(commit(1)).await.unwrap_err().failure, StoreFailure::Unavailable);
    assert_eq!(new.append(commit(1)).await.unwrap(), Appended { head: 2, position: 2 });
    assert_eq!(*observer.0.lock().unwrap(), [2]);
}

#[tokio::test]
async fn a_trimmed_log_reports_its_first_position() {
    let memory = Memory::new(Arc::new(Positions::default()));
    for expected in 0..3 {
        memory.append(commit(expected)).await.unwrap();
    }
    memory.trim(2);
    assert_eq!(memory.bounds().await.unwrap(), (3, 3));
    memory.trim(9);
    assert_eq!(memory.bounds().await.unwrap(), (4, 3));
    assert_eq!(memory.append(commit(3)).await.unwrap().position, 4);
}
