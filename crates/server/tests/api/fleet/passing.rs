//! Calls of each class through the node that is not the owner.

use std::sync::Arc;

use engine::{
    bus::Bus,
    ports::{Observer as _, Owner},
};
use futures::{SinkExt, StreamExt};
use protocol::WorkspaceId;
use serde_json::json;
use server::security::Credentials;
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{client_async, tungstenite::Message};

use super::node::{Node, PASSWORD, PATIENCE, Pair, Start};

fn said(answer: &serde_json::Value) -> &str {
    answer["parts"].as_array().unwrap().iter().find_map(|part| part["text"].as_str()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_to_a_session_go_to_its_owner_and_reading_does_not() {
    let Pair { a, b, .. } = Pair::start().await;
    let id = b.session().await;
    let before = b.seen().len();
    let session = a.expect(200, "GET", &format!("/session/{id}"), None).await;
    assert_eq!(session["directory"], json!(b.directory()));
    assert_eq!(b.seen().len(), before, "the record answers");
    let changed = a.expect(200, "PATCH", &format!("/session/{id}"), json!({ "title": "Far away" })).await;
    assert_eq!(changed["title"], "Far away");
    let hello = json!({ "parts": [{ "type": "text", "text": "hello" }] });
    let answer = a.expect(200, "POST", &format!("/session/{id}/message"), hello).await;
    assert_eq!(said(&answer), "Hello to you");
    let messages = a.expect(200, "GET", &format!("/session/{id}/message"), None).await;
    assert_eq!(messages.as_array().unwrap().len(), 2);
    let calls: Vec<_> = b.seen().split_off(before).into_iter().map(|head| head.call).collect();
    assert_eq!(calls, [format!("PATCH /session/{id}"), format!("POST /session/{id}/message")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_answered_through_any_node() {
    let Pair { a, b, .. } = Pair::start().await;
    let id = b.session().await;
    let mut events = a.follow("/global/event").await;
    let ask = json!({ "parts": [{ "type": "text", "text": "permission" }] });
    a.expect(204, "POST", &format!("/session/{id}/prompt_async"), ask).await;
    events.until("permission.asked").await;
    let waiting = a.expect(200, "GET", &format!("/permission?workspace={}", b.workspace()), None).await;
    let request = waiting[0]["id"].as_str().unwrap();
    let reply = json!({ "reply": "once" });
    a.expect(200, "POST", &format!("/permission/{request}/reply"), reply.clone()).await;
    events.until("session.idle").await;
    let gone = a.expect(404, "POST", &format!("/permission/{request}/reply"), reply).await;
    assert_eq!(gone["_tag"], "PermissionNotFoundError");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_of_the_client_stay_on_the_entry_node() {
    let Pair { a, b, .. } = Pair::start().await;
    let id = b.session().await;
    let before = b.seen().len();
    let basic = Credentials::new(None, PASSWORD).unwrap().header();
    let token = basic.strip_prefix("Basic ").unwrap();
    let path = format!("/session/{id}?auth_token={}", token.replace('=', "%3D"));
    let headers = [
        ("authorization", basic.as_str()),
        ("cookie", "baton_session=secret; other=1"),
        ("proxy-authorization", "Basic c2VjcmV0"),
        ("origin", "tauri://localhost"),
        ("connection", "x-private"),
        ("x-private", "of one connection"),
        ("x-baton-workspace", "wrk_forged"),
        ("x-baton-offered", "msg_forged"),
        ("x-kept", "yes"),
    ];
    let answer = a.send("PATCH", &path, json!({ "title": "x" }), &headers).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(a.seen().last().unwrap().headers.contains_key("cookie"));
    let head = b.seen().split_off(before).remove(0);
    assert_eq!(head.call, format!("PATCH /session/{id}"));
    let shown = format!("{:?}", head.headers);
    for secret in [token, PASSWORD, "secret", "authorization", "cookie", "x-private", "tauri", "forged"] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    assert_eq!(head.headers["x-kept"], "yes");
    assert_eq!(head.headers["x-baton-workspace"], b.workspace().as_str());
    assert!(head.headers.contains_key("x-baton-fleet"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_used_on_the_node_that_has_it() {
    let Pair { a, b, fleet, .. } = Pair::start().await;
    std::fs::write(std::path::Path::new(&b.directory()).join("here.txt"), "of b").unwrap();
    // Both nodes of this test are one machine, so the call names the workspace.
    let unknown = a.expect(200, "GET", &format!("/file?path=.&workspace={}", b.workspace()), None).await;
    assert_eq!(unknown, json!([]), "without a session there, its directory is unknown");
    b.session().await;
    let files = a.expect(200, "GET", &format!("/file?path=.&workspace={}", b.workspace()), None).await;
    assert_eq!(files[0]["name"], "here.txt");
    // A directory that this machine does not have.
    let (gone, one) = ("/nowhere/at all", b.workspace());
    a.expect(400, "GET", "/file?path=.&directory=/nowhere/at%20all", None).await;
    fleet.elsewhere(gone, [one.clone()]);
    let before = b.seen().len();
    a.expect(400, "GET", "/file?path=.&directory=/nowhere/at%20all/", None).await;
    assert_eq!(b.seen().len(), before + 1, "the owner says what is wrong with it");
    let two: WorkspaceId = "wrk_0000000000000000000000000000000000000002".parse().unwrap();
    fleet.elsewhere(gone, [one.clone(), two.clone()]);
    let answer = a.expect(409, "GET", "/file?path=.&directory=/nowhere/at%20all", None).await;
    assert_eq!(answer["data"]["workspaces"], json!([one, two]));
    let created = format!("/session?workspace={one}");
    let session = a.expect(200, "POST", &created, json!({})).await;
    assert_eq!(session["directory"], json!(b.directory()));
    let child = a.expect(200, "POST", "/session", json!({ "parentID": session["id"] })).await;
    assert_eq!((&child["directory"], &child["parentID"]), (&json!(b.directory()), &session["id"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_a_directory_on_another_node_are_those_of_its_workspace() {
    let Pair { a, b, fleet, .. } = Pair::start().await;
    let (mine, theirs) = (a.session().await, b.session().await);
    fleet.elsewhere("/only/there", [b.workspace()]);
    let before = b.seen().len();
    for path in ["/session", "/experimental/session", "/api/session"] {
        let list = a.expect(200, "GET", &format!("{path}?directory=/only/there"), None).await;
        let list = list.get("data").cloned().unwrap_or(list);
        assert_eq!(list.as_array().unwrap().len(), 1, "{path}");
        assert_eq!(list[0]["id"], json!(theirs), "{path}");
        let list = a.expect(200, "GET", &format!("{path}?directory={}", a.directory()), None).await;
        let list = list.get("data").cloned().unwrap_or(list);
        assert_eq!(list[0]["id"], json!(mine), "{path}");
    }
    for path in ["/session/status", "/permission", "/question"] {
        a.expect(200, "GET", &format!("{path}?directory=/only/there"), None).await;
    }
    assert_eq!(b.seen().len(), before, "all of them come from the record");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_stream_is_passed_through_while_its_owner_lives() {
    let Pair { a, b, fleet, .. } = Pair::start().await;
    let id = b.session().await;
    let path = format!("/event?workspace={}", b.workspace());
    let mut events = a.follow(&path).await;
    events.until("server.ready").await;
    let hello = json!({ "parts": [{ "type": "text", "text": "hello" }] });
    a.expect(204, "POST", &format!("/session/{id}/prompt_async"), hello).await;
    let text = events.until("session.idle").await;
    assert!(text.contains("message.part.delta"), "live events, too: {text}");
    let cursor = text.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap().to_owned();
    let own = a.follow("/event").await.until("server.ready").await.to_owned();
    assert!(!own.contains(&id), "{own}");
    // The owner is away: the record goes on where its stream ended.
    let peer = b.peer();
    drop(b);
    assert!(events.ended().await);
    fleet.owners(
        &a.sessions.workspace_of(&id.parse().unwrap()).await.unwrap(),
        [Owner::Away { node: peer.node }],
    );
    let mut events = a.follow(&format!("{path}&after={cursor}")).await;
    let text = events.until("server.ready").await;
    assert!(!text.contains("server.resync"), "{text}");
    let session = a.follow(&format!("/api/session/{id}/event")).await.until("text.ended").await.to_owned();
    assert!(session.contains("Hello to you"), "{session}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_of_another_node_waits_until_this_one_has_published_so_far() {
    let Pair { b, memory, log, .. } = Pair::start().await;
    b.session().await;
    let events = log.events.lock().unwrap().clone();
    let cursor = events.last().unwrap().position;
    let bus = Arc::new(Bus::default());
    let late = Node::start(Start::of("c"), memory, bus.clone()).await;
    let follow = async {
        let mut stream = late.follow(&format!("/global/event?after={cursor}")).await;
        stream.until("server.ready").await.to_owned()
    };
    let publish = async {
        while bus.stats().subscribers == 0 {
            tokio::task::yield_now().await;
        }
        bus.committed(events);
    };
    let (text, ()) = tokio::join!(follow, publish);
    assert!(!text.contains("server.resync"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_is_used_through_the_other_node() {
    let Pair { a, b, .. } = Pair::start().await;
    b.session().await;
    let query = format!("workspace={}", b.workspace());
    let order = json!({ "command": "/bin/sh", "args": ["-c", "read line; echo got $line"] });
    let made = a.expect(200, "POST", &format!("/pty?{query}"), order).await;
    assert_eq!(made["cwd"], json!(b.directory()));
    let path = format!("/pty/{}", made["id"].as_str().unwrap());
    let basic = Credentials::new(None, PASSWORD).unwrap().header();
    let headers = [("authorization", basic.as_str()), ("x-opencode-ticket", "1")];
    let ticket = a.send("POST", &format!("{path}/connect-token?{query}"), None, &headers).await.body;
    let ticket = ticket["ticket"].as_str().unwrap();
    let uri = format!("ws://127.0.0.1:{}{path}/connect?{query}&ticket={ticket}", a.port);
    let stream = TcpStream::connect(("127.0.0.1", a.port)).await.unwrap();
    let (mut viewer, _) = timeout(PATIENCE, client_async(uri, stream)).await.unwrap().unwrap();
    viewer.send(Message::binary(b"tea\n".to_vec())).await.unwrap();
    let mut shown = String::new();
    let read = async {
        while let Some(Ok(message)) = viewer.next().await {
            match message {
                Message::Text(text) => shown.push_str(&text),
                Message::Close(frame) => return frame.map(|frame| frame.reason.to_string()),
                _ => {}
            }
        }
        None
    };
    let ended = timeout(PATIENCE, read).await.unwrap();
    assert!(shown.contains("got tea"), "{shown}");
    assert_eq!(ended.as_deref(), Some("the program has ended"));
    let stream = TcpStream::connect(("127.0.0.1", a.port)).await.unwrap();
    let without = format!("ws://127.0.0.1:{}{path}/connect?{query}", a.port);
    client_async(without, stream).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_stream_through_in_both_directions() {
    let Pair { a, b, .. } = Pair::start().await;
    let id = b.session().await;
    let long = "x".repeat(300_000);
    let title = json!({ "title": long });
    let changed = a.expect(200, "PATCH", &format!("/session/{id}"), title).await;
    assert_eq!(changed["title"].as_str().unwrap().len(), long.len());
    let too_long = json!({ "title": "x".repeat(11 * 1024 * 1024) });
    a.expect(413, "PATCH", &format!("/session/{id}"), too_long).await;
}
