//! Tests of `baton check`.

use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{Harness, finish};

fn recording(name: &str) -> String {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../protocol/tests/fixtures/opencode");
    fixtures.join(name).to_str().unwrap().to_owned()
}

#[tokio::test]
async fn opencodes_double_idles_are_found() {
    let harness = Harness::new();
    for name in ["error_400.jsonl", "abort.jsonl"] {
        let ended = harness.run(&["check", &recording(name)]).await;
        assert_eq!(ended.code, Some(1), "{name}: {ended:?}");
        assert!(ended.stdout.contains("violation idle-twice at event "), "{name}: {}", ended.stdout);
        assert!(ended.stdout.trim_end().lines().last().unwrap().contains("failed: "), "{}", ended.stdout);
    }
    let ended = harness.run(&["check", &recording("simple.jsonl")]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("1 turn, 1 idle pair: passed"), "{}", ended.stdout);
}

#[tokio::test]
async fn programs_can_read_the_findings() {
    let harness = Harness::new();
    let ended = harness.run(&["check", &recording("error_400.jsonl"), "--format", "json"]).await;
    assert_eq!(ended.code, Some(1));
    let lines: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, findings) = lines.split_last().unwrap();
    assert!(findings.iter().any(|finding| finding["kind"] == "idle-twice"), "{findings:?}");
    assert_eq!(summary["summary"]["passed"], false);
    let violations = findings.iter().filter(|finding| finding["severity"] == "violation").count();
    assert_eq!(summary["summary"]["violations"], violations);
}

#[tokio::test]
async fn a_stream_can_be_piped_in() {
    let harness = Harness::new();
    let text = std::fs::read_to_string(recording("simple.jsonl")).unwrap();
    let ended = finish(harness.command(&["check", "-"]), &text).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test]
async fn an_input_that_cannot_be_checked_does_not_pass() {
    let harness = Harness::new();
    let nonsense = harness.path("nonsense");
    std::fs::write(&nonsense, "{\"hello\": 1}\n").unwrap();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", taken.local_addr().unwrap());
    drop(taken);
    for target in ["no/such/file", nonsense.to_str().unwrap(), &nobody] {
        let ended = harness.run(&["check", target]).await;
        assert_eq!(ended.code, Some(2), "{target}: {ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn batons_own_stream_passes_live() {
    let harness = Harness::new();
    let server = harness.serve().await;
    let session = server.calls.session().await.unwrap();
    let watching = harness.command(&["check", &server.url, "--until-idle", "--timeout", "30"]);
    let watching = tokio::spawn(async move { finish(watching, "").await });
    // The check has begun once the server has a subscriber.
    while !server.metrics().await.contains("baton_subscribers 1\n") {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    server.calls.prompt(&session, "slow:10@20", None).await.unwrap();
    let ended = watching.await.unwrap();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("1 session, 1 turn, 1 idle pair: passed"), "{}", ended.stdout);
    server.stop().await;
}
