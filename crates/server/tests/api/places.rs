//! The newer interface about a directory: its choices, its pending requests and its events.

use std::time::Duration;

use axum::{body::Body, http::Request};
use futures::StreamExt;
use insta::assert_json_snapshot;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

use crate::harness::Harness;

#[tokio::test]
async fn a_place_lists_everything_in_it() {
    let harness = Harness::new();
    for path in [
        "/api/health",
        "/api/location",
        "/api/agent",
        "/api/model",
        "/api/provider",
        "/api/provider/demo",
        "/api/integration",
        "/api/command",
        "/api/skill",
        "/api/reference",
        "/api/permission/request",
        "/api/question/request",
    ] {
        let answer = harness.get(path).await;
        assert!(!answer.to_string().contains("sk-secret"), "{path} gives a secret away: {answer}");
        insta::with_settings!({ description => path, omit_expression => true }, {
            assert_json_snapshot!(format!("place{}", path.replace('/', "_")), harness.redact(&answer));
        });
    }
    let gone = harness.expect(404, "GET", "/api/provider/nobody", None).await;
    assert_eq!((&gone["_tag"], &gone["providerID"]), (&json!("ProviderNotFoundError"), &json!("nobody")));
    let gone = harness.expect(400, "GET", "/api/integration/nobody", None).await;
    assert_eq!(gone["_tag"], "InvalidRequestError");
}

#[tokio::test]
async fn pending_requests_are_listed_only_in_their_place() {
    let harness = Harness::new();
    let (asking, posing) = (harness.session().await, harness.session().await);
    harness.submit(&asking, "permission").await;
    harness.submit(&posing, "question").await;
    for (path, session) in [("/api/permission/request", asking), ("/api/question/request", posing)] {
        let waiting = harness.until(path, |waiting| waiting["data"] != json!([])).await;
        assert_eq!(waiting["data"][0]["sessionID"], session.as_str());
        let elsewhere = harness.get(&format!("{path}?location[directory]=/")).await;
        assert_eq!(elsewhere["data"], json!([]));
    }
}

#[tokio::test]
async fn a_key_is_kept_and_removed_and_an_empty_one_refused() {
    let harness = Harness::new();
    let path = "/api/integration/acme/connect/key";
    harness.expect(204, "POST", path, json!({ "key": "sk-1", "label": "mine" })).await;
    let refused = harness.expect(400, "POST", path, json!({ "key": " " })).await;
    assert_eq!(refused["message"], "the key is empty");
    harness.expect(204, "DELETE", "/api/credential/acme", None).await;
}

#[tokio::test]
async fn file_contents_are_unchanged_and_limited_to_the_directory() {
    let harness = Harness::new();
    let inner = harness.tree.path().join("a b");
    std::fs::create_dir_all(inner.join(".git")).unwrap();
    let bytes = b"<script>\0\xff</script>";
    std::fs::write(inner.join("page.html"), bytes).unwrap();
    std::fs::write(inner.join(".git/config"), "secret").unwrap();
    let answer = harness.call("GET", "/api/fs/read/a%20b/page.html", None).await;
    assert_eq!((answer.status.as_u16(), answer.bytes.as_slice()), (200, bytes.as_slice()));
    assert_eq!(answer.headers["content-type"], "application/octet-stream");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    for (status, path) in [
        (404, "a%20b/nothing"),
        (400, "a%20b"),
        (400, "a%20b/.git/config"),
        (400, "..%2F..%2Fetc/passwd"),
        (400, "%2Fetc/passwd"),
        (400, "a%00b"),
    ] {
        let refused = harness.expect(status, "GET", &format!("/api/fs/read/{path}"), None).await;
        assert!(refused["_tag"].is_string(), "{path}: {refused}");
    }
}

#[tokio::test]
async fn an_operation_that_is_not_built_says_why() {
    let harness = Harness::new();
    let older = harness.expect(501, "POST", "/sync/steal", json!({ "sessionID": "ses_1" })).await;
    let newer = harness.expect(501, "GET", "/api/integration/attempt/x", None).await;
    assert_json_snapshot!([older, newer]);
}

#[tokio::test]
async fn the_log_can_be_read_from_a_known_position() {
    let harness = Harness::new();
    let (one, other) = (harness.session().await, harness.session().await);
    harness.submit(&one, "hello").await;
    harness.idle().await;
    let all = harness.post("/sync/history", json!({})).await;
    let of = |events: &Value, id: &str| -> Vec<Value> {
        let events = events.as_array().unwrap().iter();
        events.filter(|event| event["aggregate_id"] == id).cloned().collect()
    };
    let (first, second) = (of(&all, &one), of(&all, &other));
    assert_eq!((&first[0]["type"], &first[0]["seq"]), (&json!("session.created.1"), &json!(1)));
    assert_eq!(first[0]["data"]["info"]["id"], one.as_str());
    let known = json!({ &one: 2, "ses_unknown": 7 });
    let rest = harness.post("/sync/history", known).await;
    assert_eq!((of(&rest, &one), of(&rest, &other)), (first[2..].to_vec(), second));
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_sends_a_heartbeat_every_fifteen_seconds() {
    let harness = Harness::new();
    let call = Request::get("/api/event").body(Body::empty()).unwrap();
    let mut stream = harness.router.clone().oneshot(call).await.unwrap().into_body().into_data_stream();
    let mut next = async || stream.next().await.unwrap().unwrap();
    assert!(next().await.starts_with(b"data: "));
    for _ in 0..3 {
        let before = Instant::now();
        assert_eq!(next().await, b": heartbeat\n\n".as_slice());
        assert_eq!(before.elapsed(), Duration::from_secs(15));
    }
}

#[tokio::test]
async fn every_event_is_sent_in_the_shapes_of_both_interfaces() {
    let harness = Harness::new();
    let call = Request::get("/api/event").body(Body::empty()).unwrap();
    let mut stream = harness.router.clone().oneshot(call).await.unwrap().into_body().into_data_stream();
    let session = harness.session().await;
    harness.submit(&session, "hello").await;
    let mut told = Vec::new();
    loop {
        let chunk = stream.next().await.unwrap().unwrap();
        let text = std::str::from_utf8(&chunk).unwrap();
        let event: Value = serde_json::from_str(text.trim_end().strip_prefix("data: ").unwrap()).unwrap();
        let kind = event["type"].as_str().unwrap().to_owned();
        if kind == "server.connected" {
            assert!(told.is_empty() && event.get("location").is_none(), "{event}");
        } else {
            assert_eq!(event["location"]["directory"], harness.directory(), "{event}");
            assert!(event["data"].is_object() && event.get("properties").is_none(), "{event}");
        }
        told.push(kind);
        if told.last().unwrap() == "session.idle" {
            break;
        }
    }
    assert_eq!(told[..2], ["server.connected", "session.created"]);
    told.retain(|kind| kind.starts_with("session.next."));
    assert_json_snapshot!(told);
}
