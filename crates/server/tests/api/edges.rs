//! Unknown paths, operations that are not built, and invalid bodies.

use axum::{body::Body, http::Request};
use http::header;
use insta::assert_json_snapshot;
use serde_json::json;
use server::extract::MAX_BODY;
use tower::ServiceExt;

use crate::harness::{Harness, prompt};

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_in_json() {
    let harness = Harness::new();
    let answers = [
        harness.expect(405, "POST", "/", json!({})).await,
        harness.expect(404, "GET", "/session/ses_1/nothing", None).await,
        harness.expect(404, "POST", "/api/nothing", json!({})).await,
        harness.expect(405, "PUT", "/session", json!({})).await,
        harness.expect(405, "POST", "/global/health", None).await,
    ];
    assert_json_snapshot!(answers);
}

#[tokio::test]
async fn the_root_names_the_server() {
    let harness = Harness::new();
    let ask = |accept: &'static str| {
        harness.send(Request::get("/").header(header::ACCEPT, accept).body(Body::empty()).unwrap())
    };
    let text = ask("text/html, */*").await;
    assert_eq!(text.status, 200);
    let line = String::from_utf8(text.bytes).unwrap();
    assert!(line.starts_with("Baton 1.2.3: ") && line.contains("/doc"), "{line}");
    let json = ask("application/json").await.json();
    assert_eq!(
        (&json["name"], &json["version"], &json["documentation"]),
        (&json!("Baton"), &json!("1.2.3"), &json!("/doc"))
    );
    assert_eq!(harness.call("HEAD", "/", None).await.status, 200);
}

#[tokio::test]
async fn head_is_answered_like_get_without_the_body() {
    let harness = Harness::new();
    let answer = harness.call("HEAD", "/global/health", None).await;
    assert_eq!((answer.status.as_u16(), answer.bytes.len()), (200, 0));
}

#[tokio::test]
async fn large_responses_are_compressed_on_request_and_streams_never() {
    let harness = Harness::new();
    let ask = |path: &str, accepts: &'static str| {
        let call = Request::get(path).header(header::ACCEPT_ENCODING, accepts).body(Body::empty()).unwrap();
        harness.send(call)
    };
    let (plain, small) = (ask("/doc", "identity").await, ask("/doc", "gzip, br").await);
    assert_eq!(
        (plain.headers.get(header::CONTENT_ENCODING), plain.json()["openapi"].as_str()),
        (None, Some("3.1.0"))
    );
    assert_eq!(small.headers[header::CONTENT_ENCODING], "gzip");
    assert_eq!(small.headers[header::VARY], "accept-encoding");
    assert!(small.bytes.len() * 4 < plain.bytes.len(), "{} {}", small.bytes.len(), plain.bytes.len());
    // A gzip file ends with the length of the uncompressed data.
    let length = u32::try_from(plain.bytes.len()).unwrap().to_le_bytes();
    assert!(small.bytes.starts_with(&[0x1f, 0x8b]) && small.bytes.ends_with(&length));
    for path in ["/global/health", "/event", "/global/event"] {
        let answer = ask(path, "gzip").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.headers.get(header::CONTENT_ENCODING), None, "{path}");
    }
}

#[tokio::test]
async fn an_operation_that_is_not_built_is_refused() {
    let harness = Harness::new();
    let id = harness.session().await;
    for method in ["POST", "DELETE"] {
        let answer = harness.expect(501, method, &format!("/session/{id}/share"), json!({})).await;
        assert_eq!(answer["name"], "NotImplemented", "{answer}");
    }
}

#[tokio::test]
async fn bodies_need_a_json_content_type() {
    let harness = Harness::new();
    let id = harness.session().await;
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
        let mut call = Request::post(format!("/session/{id}/prompt_async"));
        if let Some(kind) = kind {
            call = call.header(header::CONTENT_TYPE, kind);
        }
        let answer = harness.send(call.body(Body::from(prompt("hello").to_string())).unwrap()).await;
        assert_eq!(answer.status, 415);
        assert_eq!(answer.json()["name"], "UnsupportedMediaType");
    }
    assert_eq!(harness.get(&format!("/session/{id}/message")).await, json!([]));
}

#[tokio::test]
async fn large_bodies_are_refused_with_and_without_a_length() {
    let harness = Harness::new();
    let id = harness.session().await;
    let call = || {
        Request::post(format!("/session/{id}/prompt_async")).header(header::CONTENT_TYPE, "application/json")
    };
    let announced = call().header(header::CONTENT_LENGTH, MAX_BODY + 1).body(Body::empty()).unwrap();
    assert_eq!(harness.send(announced).await.status, 413);
    let chunks = (0..=MAX_BODY / (64 * 1024)).map(|_| Ok::<_, std::io::Error>(vec![b' '; 64 * 1024]));
    let streamed = call().body(Body::from_stream(futures::stream::iter(chunks))).unwrap();
    let answer = harness.send(streamed).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["name"]), (413, &json!("PayloadTooLarge")));
    let mut fits = prompt(&"x".repeat(MAX_BODY - 100));
    fits["noReply"] = json!(true);
    harness.expect(204, "POST", &format!("/session/{id}/prompt_async"), fits).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_times_out() {
    let harness = Harness::new();
    let call = Request::post("/log")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>()))
        .unwrap();
    let answer = harness.router.clone().oneshot(call).await.unwrap();
    assert_eq!(answer.status(), 408);
}
