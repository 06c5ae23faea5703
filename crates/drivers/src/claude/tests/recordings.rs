//! Replays recordings of the real Claude Code and compares the published events with snapshots.
//!
//! The fake program writes the recorded lines and waits for input where the real one received a line. The replay
//! differs from the recording in two ways: a program that does not report its state gets the second prompt after its
//! result and not before, and its input stays open.

use std::fmt::Write as _;

use protocol::{EndReason, EventBody};
use serde_json::Value;

use super::*;
use crate::external::harness::SimulatedUser;

/// The recordings with the ends of their prompted turns and the number of turns that the agent begins by itself.
const RECORDINGS: [(&str, &[EndReason], usize); 23] = {
    use EndReason::{Aborted, Completed, Error};
    [
        ("simple", &[Completed], 0),
        ("init", &[Completed], 0),
        ("replay_user", &[Completed], 0),
        ("resume", &[Completed], 0),
        ("think", &[Completed], 0),
        ("read_edit", &[Completed], 0),
        ("parallel", &[Completed], 0),
        ("multi_turn", &[Completed, Completed, Completed], 0),
        ("two_queued", &[Completed], 0),
        ("permission", &[Completed], 0),
        ("question", &[Completed], 0),
        ("subagent", &[Completed], 0),
        ("retry", &[Completed], 0),
        ("fail", &[Error], 0),
        ("err400", &[Error], 0),
        ("crash", &[Error], 0),
        ("interrupt", &[Aborted, Completed], 0),
        ("bgtask", &[Completed], 1),
        ("state_read_edit", &[Completed], 0),
        ("state_multi_turn", &[Completed, Completed, Completed], 0),
        ("state_permission", &[Completed], 0),
        ("state_interrupt", &[Aborted, Completed], 0),
        ("state_bgtask", &[Completed], 1),
    ]
};

fn recording(name: &str) -> Vec<Value> {
    let path = format!("{}/src/claude/tests/recordings/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The script that plays a recording in a directory.
fn acts(name: &str, directory: &str) -> String {
    let (mut acts, mut has_ended) = (String::new(), false);
    for (index, record) in recording(name).iter().enumerate() {
        let message = &record["msg"];
        // Without states, only a pause shows that the turn has ended before the agent goes on by itself.
        if has_ended && name == "bgtask" {
            acts.push_str("until [ -e \"$NOTES\" ]; do sleep 0.01; done\n");
        }
        has_ended = message["type"] == "result";
        match record["dir"].as_str().unwrap() {
            "out" => writeln!(
                acts,
                "say '{}'",
                message.to_string().replace("/project", directory).replace('\'', r"'\''")
            )
            .unwrap(),
            "in" if name == "two_queued" && index > 0 => {}
            "in" => {
                let request = message["request"]["subtype"].as_str();
                writeln!(acts, "hear '\"{}\"'", request.or(message["type"].as_str()).unwrap()).unwrap();
            }
            "exit" if message["sig"].is_string() => acts.push_str("kill -9 $$\n"),
            "exit" => writeln!(acts, "linger; exit {}", message["code"]).unwrap(),
            other => panic!("{name}: {other}"),
        }
    }
    acts
}

/// The number of text deltas before the interruption.
fn deltas(name: &str) -> usize {
    let records = recording(name);
    let before = records.iter().take_while(|record| record["msg"]["request"]["subtype"] != "interrupt");
    before.filter(|record| record["msg"]["event"]["delta"]["type"] == "text_delta").count()
}

#[tokio::test]
async fn recordings_publish_one_idle_for_each_turn() {
    for (name, ends, woken) in RECORDINGS {
        let fake = script("");
        let (mut harness, claude) = harness(claude(&fake, patient()), unhurried()).await;
        let session = harness.session().await;
        fake.becomes(&acts(name, &session.directory));
        for end in ends {
            harness.submit(&session, "please").await;
            if *end == EndReason::Aborted {
                for _ in 0..deltas(name) {
                    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
                }
                harness.sessions.abort(&session.id).await.unwrap();
            }
            assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, *end, "{name}");
        }
        fake.note("the turn has ended");
        for _ in 0..woken {
            assert_eq!(
                harness.until_idle(&session, SimulatedUser::Agrees).await,
                EndReason::Completed,
                "{name}"
            );
        }
        assert_eq!(harness.check(&session.id), ends.len() + woken, "{name}");
        assert_eq!(fake.processes().len(), 1, "{name}: one process serves all turns");
        insta::assert_snapshot!(name, harness.story(&session.id));
        for child in harness.sessions.children(&session.id).await.unwrap() {
            assert_eq!(harness.check(&child.id), 1, "{name}: {}", child.title);
            insta::assert_snapshot!(format!("{name}_child"), harness.story(&child.id));
        }
        claude.close().await;
        fake.assert_gone();
    }
}
