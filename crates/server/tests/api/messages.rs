//! Messages and their parts.

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use http::{Request, header};
use insta::assert_json_snapshot;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::harness::{Harness, prompt};

#[tokio::test]
async fn messages_come_oldest_first_with_their_parts() {
    let harness = Harness::new();
    let id = harness.session().await;
    harness.post(&format!("/session/{id}/message"), prompt("hello")).await;
    let list = harness.get(&format!("/session/{id}/message")).await;
    assert_json_snapshot!(harness.redact(&list));
    let message = list[1]["info"]["id"].as_str().unwrap();
    assert_eq!(harness.get(&format!("/session/{id}/message/{message}")).await, list[1]);
    harness.expect(404, "GET", &format!("/session/{id}/message/msg_nothing"), None).await;
    harness.expect(404, "GET", "/session/ses_nobody/message", None).await;
}

#[tokio::test]
async fn open_text_is_there_while_it_streams() {
    let harness = Harness::new();
    let id = harness.session().await;
    harness.submit(&id, "wait").await;
    let text = |list: &Value| list[1]["parts"][1]["text"].as_str().map(str::to_owned);
    let path = format!("/session/{id}/message");
    harness.until(&path, |list| text(list).as_deref() == Some("Waiting")).await;
    harness.expect(200, "POST", &format!("/session/{id}/abort"), None).await;
}

#[tokio::test]
async fn pages_go_back_from_the_newest() {
    let harness = Harness::new();
    let id = harness.session().await;
    for _ in 0..5 {
        let quiet = json!({ "noReply": true, "parts": [{ "type": "text", "text": "x" }] });
        harness.post(&format!("/session/{id}/message"), quiet).await;
    }
    let path = format!("/session/{id}/message");
    let all: Vec<Value> = harness.get(&path).await.as_array().unwrap().clone();
    assert_eq!(all.len(), 5);
    assert_eq!(harness.get(&format!("{path}?limit=0")).await, json!(all));

    let (mut seen, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let before = cursor.map_or_else(String::new, |cursor| format!("&before={cursor}"));
        let answer = harness.call("GET", &format!("{path}?limit=2{before}"), None).await;
        assert_eq!(answer.status, 200);
        let page = answer.json().as_array().unwrap().clone();
        seen.splice(0..0, page);
        let next = answer.headers.get("x-next-cursor").map(|next| next.to_str().unwrap().to_owned());
        let link = answer.headers.get(header::LINK).map(|link| link.to_str().unwrap().to_owned());
        assert_eq!(link, next.as_ref().map(|next| format!("<{path}?limit=2&before={next}>; rel=\"next\"")));
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, all);

    let refused = harness.expect(400, "GET", &format!("{path}?before=x"), None).await;
    assert_eq!(refused["data"]["kind"], "Query");
    harness.expect(400, "GET", &format!("{path}?limit=2&before=x"), None).await;
    harness.expect(400, "GET", &format!("{path}?limit=-1"), None).await;
}

/// A session with messages that do not fit into one page.
async fn long_session(harness: &Harness) -> (String, Vec<String>) {
    let id = harness.session().await;
    let texts: Vec<String> = ["a", "b", "c", "d", "e", "f"].map(|name| name.repeat(100_000)).into();
    for text in &texts {
        let quiet = json!({ "noReply": true, "parts": [{ "type": "text", "text": text }] });
        harness.post(&format!("/session/{id}/message"), quiet).await;
    }
    (id, texts)
}

/// Reads a body piece by piece. Returns the pieces, and whether it ended properly.
async fn pieces(harness: &Harness, path: &str, mut between: impl AsyncFnMut()) -> (Vec<Bytes>, bool) {
    let call = Request::get(path).body(Body::empty()).unwrap();
    let response = harness.router.clone().oneshot(call).await.unwrap();
    assert_eq!(response.status(), 200);
    let (mut body, mut pieces) = (response.into_body().into_data_stream(), Vec::new());
    while let Some(piece) = body.next().await {
        let Ok(piece) = piece else { return (pieces, false) };
        pieces.push(piece);
        between().await;
    }
    (pieces, true)
}

#[tokio::test]
async fn a_long_session_is_listed_in_pieces() {
    for harness in [Harness::new(), Harness::on_disk()] {
        let (id, texts) = long_session(&harness).await;
        for (path, list) in [
            (format!("/session/{id}/message"), ""),
            (format!("/session/{id}/message?limit=5"), ""),
            (format!("/api/session/{id}/context"), "/data"),
        ] {
            let (pieces, ended) = pieces(&harness, &path, async || {}).await;
            assert!(ended);
            assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.len() < 400_000), "{path}");
            let whole: Value = serde_json::from_slice(&pieces.concat()).unwrap();
            let said: Vec<&str> =
                whole.pointer(list).unwrap().as_array().unwrap().iter().map(words).collect();
            let expected = if path.ends_with("=5") { &texts[1..] } else { &texts };
            assert_eq!(said, expected, "{path}");
        }
        let newest = harness.get(&format!("/session/{id}/message?limit=1")).await;
        assert_eq!(words(&newest[0]), texts[5]);
    }
}

/// The text of a message, in either interface.
fn words(message: &Value) -> &str {
    message.pointer("/parts/0/text").or_else(|| message.get("text")).and_then(Value::as_str).unwrap()
}

#[tokio::test]
async fn a_list_that_cannot_be_finished_is_cut_off() {
    let harness = Harness::on_disk();
    let (id, _) = long_session(&harness).await;
    let path = format!("/session/{id}/message");
    let (pieces, ended) =
        pieces(&harness, &path, async || drop(harness.call("DELETE", &format!("/session/{id}"), None).await))
            .await;
    assert!(!ended, "a list of {} pieces ended properly although it is incomplete", pieces.len());
    assert!(serde_json::from_slice::<Value>(&pieces.concat()).is_err());
}

#[tokio::test]
async fn a_message_can_be_deleted_when_idle() {
    let harness = Harness::new();
    let id = harness.session().await;
    let answer = harness.post(&format!("/session/{id}/message"), prompt("hello")).await;
    let path = format!("/session/{id}/message/{}", answer["info"]["id"].as_str().unwrap());
    harness.submit(&id, "wait").await;
    harness.until("/session/status", |status| *status != json!({})).await;
    let busy = harness.expect(409, "DELETE", &path, None).await;
    assert_eq!((&busy["_tag"], &busy["sessionID"]), (&json!("SessionBusyError"), &json!(id)));
    harness.expect(200, "POST", &format!("/session/{id}/abort"), None).await;
    assert_eq!(harness.expect(200, "DELETE", &path, None).await, json!(true));
    harness.expect(404, "DELETE", &path, None).await;
    harness.expect(404, "GET", &path, None).await;
}

#[tokio::test]
async fn a_part_can_be_replaced_and_deleted() {
    let harness = Harness::new();
    let id = harness.session().await;
    let answer = harness.post(&format!("/session/{id}/message"), prompt("hello")).await;
    let mut part = answer["parts"][1].clone();
    let message = part["messageID"].as_str().unwrap().to_owned();
    let path = format!("/session/{id}/message/{message}/part/{}", part["id"].as_str().unwrap());
    part["text"] = json!("Better");
    assert_eq!(harness.expect(200, "PATCH", &path, part.clone()).await, part);
    let stored = harness.get(&format!("/session/{id}/message/{message}")).await;
    assert_eq!(stored["parts"][1], part);

    let mut other = part.clone();
    other["id"] = json!("prt_other");
    assert_eq!(harness.expect(400, "PATCH", &path, other).await["data"]["kind"], "Payload");
    let mut odd = part.clone();
    odd["type"] = json!("song");
    harness.expect(400, "PATCH", &path, odd).await;
    let mut broken = part.clone();
    broken["text"] = json!(5);
    let refused = harness.expect(400, "PATCH", &path, broken).await;
    assert_json_snapshot!(refused);

    assert_eq!(harness.expect(200, "DELETE", &path, None).await, json!(true));
    harness.expect(404, "DELETE", &path, None).await;
    harness.expect(404, "PATCH", &path, part).await;
}

#[tokio::test]
async fn texts_of_all_sessions_are_found_page_by_page() {
    for harness in [Harness::new(), Harness::on_disk()] {
        let (one, two) = (harness.session().await, harness.session().await);
        for session in [&one, &two, &one] {
            harness.post(&format!("/session/{session}/message"), prompt("hello")).await;
        }
        // Each turn has said "hello" and "Hello to you".
        let first = harness.call("GET", "/find/message?query=HELLO&limit=4", None).await;
        let cursor = first.headers["x-next-cursor"].to_str().unwrap().to_owned();
        let rest =
            harness.call("GET", &format!("/find/message?query=hello&limit=4&cursor={cursor}"), None).await;
        assert_eq!(rest.headers.get("x-next-cursor"), None);
        let (first, rest) = (first.json(), rest.json());
        assert_eq!((first.as_array().unwrap().len(), rest.as_array().unwrap().len()), (4, 2));
        assert_eq!((&first[0]["snippet"], &first[0]["sessionID"]), (&json!("Hello to you"), &json!(one)));
        assert_eq!(first[2]["sessionID"], json!(two));
        let answers = harness.get("/find/message?query=you+hel").await;
        assert_eq!(answers.as_array().unwrap().len(), 3);
        harness.expect(200, "DELETE", &format!("/session/{two}"), None).await;
        assert_eq!(harness.get("/find/message?query=you").await.as_array().unwrap().len(), 2);
        let reverted = first[1]["messageID"].as_str().unwrap();
        harness.post(&format!("/session/{one}/revert"), json!({ "messageID": reverted })).await;
        assert_eq!(
            harness.get("/find/message?query=you").await.as_array().unwrap().len(),
            1,
            "hidden by a revert"
        );
        harness.post(&format!("/session/{one}/unrevert"), json!({})).await;
        assert_eq!(harness.get("/find/message?query=you").await.as_array().unwrap().len(), 2);
        harness.expect(400, "GET", "/find/message?query=%22*", None).await;
    }
}

#[tokio::test]
async fn messages_are_read_around_a_place_and_onwards() {
    for harness in [Harness::new(), Harness::on_disk()] {
        let session = harness.session().await;
        let path = format!("/session/{session}/message");
        for number in 0..9 {
            let note = json!({ "noReply": true, "messageID": format!("msg_{number}"), "parts": prompt("x")["parts"] });
            harness.post(&path, note).await;
        }
        let read = async |query: &str| {
            let answer = harness.call("GET", &format!("{path}?{query}"), None).await;
            let list = answer.json();
            let ids =
                list.as_array().unwrap().iter().map(|it| it["info"]["id"].as_str().unwrap()[4..].to_owned());
            let cursor = |name: &str| answer.headers.get(name).map(|it| it.to_str().unwrap().to_owned());
            (ids.collect::<String>(), cursor("x-next-cursor"), cursor("x-newer-cursor"))
        };
        let (ids, older, newer) = read("around=msg_4&limit=4").await;
        assert_eq!(ids, "2345");
        let (ids, _, none) = read(&format!("before={}&limit=9", older.unwrap())).await;
        assert_eq!((ids.as_str(), none), ("01", None));
        let (ids, none, newer) = read(&format!("after={}&limit=2", newer.unwrap())).await;
        assert_eq!((ids.as_str(), none), ("67", None));
        let (ids, _, none) = read(&format!("after={}&limit=2", newer.unwrap())).await;
        assert_eq!((ids.as_str(), none), ("8", None));
        let (ids, older, newer) = read("around=msg_4&limit=1").await;
        assert_eq!((ids.as_str(), older.is_some(), newer.is_some()), ("4", true, true));
        let (ids, older, newer) = read("around=msg_0&limit=100").await;
        assert_eq!((ids.len(), older, newer), (9, None, None));
        harness.expect(404, "GET", &format!("{path}?around=msg_none&limit=2"), None).await;
        for bad in ["around=msg_4", "after=x&limit=1", "around=msg_4&after=x&limit=1"] {
            harness.expect(400, "GET", &format!("{path}?{bad}"), None).await;
        }
    }
}
