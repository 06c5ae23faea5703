//! The client with a scripted server.

use std::time::Duration;

use client::{Client, Error, Password, Received, Scope};
use futures::StreamExt;
use protocol::{
    EventBody, MessageId, SessionId,
    channel::ChannelState,
    prompt::{PromptInput, SessionInput},
    queue::QueuePatch,
    request::PermissionReply,
    wire_error::{NamedError, TaggedError, WireError},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// A received request.
#[derive(Debug)]
struct Asked {
    line: String,
    headers: String,
    body: Value,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// Answers each connection with the next answer of the script, then closes it. After the script, the port is
/// closed.
async fn play(script: Vec<String>) -> (Client, mpsc::UnboundedReceiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let (asked, log) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for answer in script {
            let (mut socket, _) = listener.accept().await.unwrap();
            if let Some(request) = read(&mut socket).await {
                let _ = asked.send(request);
            }
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (client, log)
}

async fn read(socket: &mut TcpStream) -> Option<Asked> {
    let mut text = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let count = socket.read(&mut chunk).await.ok()?;
        text.extend_from_slice(&chunk[..count]);
        let all = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = all.split_once("\r\n\r\n") {
            let (line, headers) = head.split_once("\r\n")?;
            let mut asked = Asked { line: line.into(), headers: headers.into(), body: Value::Null };
            let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() == length {
                asked.body = serde_json::from_str(body).unwrap_or_default();
                return Some(asked);
            }
        }
        if count == 0 {
            return None;
        }
    }
}

fn answer(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn ok(body: &Value) -> String {
    answer("200 OK", "application/json", &body.to_string())
}

fn refused(status: &str, body: &Value) -> String {
    answer(status, "application/json", &body.to_string())
}

fn stream(frames: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{frames}")
}

/// A frame with an event that its number identifies.
fn frame(id: Option<u64>, number: u64) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}data: {{\"id\":\"evt_{number}\",\"type\":\"server.heartbeat\",\"properties\":{{}}}}\n\n")
}

fn session(id: &str) -> Value {
    json!({
        "id": id, "slug": "tidy-comet", "projectID": "global", "directory": "/project", "title": "t",
        "version": "0.1.0", "time": { "created": 1, "updated": 2 },
    })
}

#[tokio::test]
async fn calls_carry_directory_login_and_body() {
    let (client, mut log) =
        play(vec![ok(&session("ses_1")), answer("204 No Content", "text/plain", "")]).await;
    let client = client.in_directory("/a b").with_login("ada", Password::new("pw"));
    let input = SessionInput { title: Some("Hello".into()), ..SessionInput::default() };
    let created = client.create_session(&input).await.unwrap();
    client.prompt_async(&created.id, &PromptInput::text("hi")).await.unwrap();

    let asked = log.recv().await.unwrap();
    assert_eq!(asked.line, "POST /session HTTP/1.1");
    assert_eq!(asked.header("x-opencode-directory"), Some("%2Fa%20b"));
    assert_eq!(asked.header("authorization"), Some("Basic YWRhOnB3"));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.body, json!({ "title": "Hello" }));
    let asked = log.recv().await.unwrap();
    assert_eq!(asked.line, "POST /session/ses_1/prompt_async HTTP/1.1");
    assert_eq!(asked.body, json!({ "parts": [{ "type": "text", "text": "hi" }] }));
}

#[tokio::test]
async fn every_call_has_its_route() {
    let message = json!({
        "info": {
            "id": "msg_1", "sessionID": "ses_1", "role": "user", "time": { "created": 1 }, "agent": "build",
            "model": { "providerID": "demo", "modelID": "demo" },
        },
        "parts": [],
    });
    let (client, mut log) = play(vec![
        ok(&json!({ "healthy": true, "version": "1" })),
        ok(&json!([session("ses_1")])),
        ok(&session("ses_1")),
        ok(&json!([session("ses_2")])),
        ok(&json!([{ "content": "c", "status": "pending", "priority": "high" }])),
        ok(&json!([message])),
        ok(&json!({ "ses_1": { "type": "busy" } })),
        ok(&message),
        ok(&json!(true)),
        ok(&session("ses_3")),
        ok(&json!([])),
        ok(&json!(true)),
        ok(&json!([])),
        ok(&json!(true)),
        ok(&json!(true)),
        ok(&json!(true)),
        ok(&json!(true)),
    ])
    .await;
    let id: SessionId = "ses_1".parse().unwrap();
    assert!(client.health().await.unwrap().healthy);
    assert_eq!(client.sessions().await.unwrap().len(), 1);
    assert_eq!(client.session(&id).await.unwrap().id, id);
    assert_eq!(client.children(&id).await.unwrap().len(), 1);
    assert_eq!(client.todos(&id).await.unwrap().len(), 1);
    assert_eq!(client.messages(&id).await.unwrap().len(), 1);
    assert!(!client.statuses().await.unwrap()[&id].is_idle());
    client.prompt(&id, &PromptInput::text("hi")).await.unwrap();
    client.abort(&id).await.unwrap();
    client.fork_session(&id, Some("msg_1".parse().unwrap())).await.unwrap();
    client.permissions().await.unwrap();
    client.reply_permission(&"per_1".parse().unwrap(), PermissionReply::Once, None).await.unwrap();
    client.questions().await.unwrap();
    client.reply_question(&"que_1".parse().unwrap(), vec![vec!["Blue".into()]]).await.unwrap();
    client.reject_question(&"que_1".parse().unwrap()).await.unwrap();
    client.delete_unused_session(&id, 5).await.unwrap();
    client.delete_session(&id).await.unwrap();

    let mut asked = Vec::new();
    while let Ok(request) = log.try_recv() {
        let line = request.line.trim_end_matches(" HTTP/1.1").to_owned();
        asked.push(if request.body.is_null() { line } else { format!("{line} {}", request.body) });
    }
    insta::assert_snapshot!(asked.join("\n"), @r#"
    GET /global/health
    GET /session
    GET /session/ses_1
    GET /session/ses_1/children
    GET /session/ses_1/todo
    GET /session/ses_1/message
    GET /session/status
    POST /session/ses_1/message {"parts":[{"type":"text","text":"hi"}]}
    POST /session/ses_1/abort
    POST /session/ses_1/fork {"messageID":"msg_1"}
    GET /permission
    POST /permission/per_1/reply {"reply":"once"}
    GET /question
    POST /question/que_1/reply {"answers":[["Blue"]]}
    POST /question/que_1/reject
    DELETE /session/ses_1?unusedSince=5
    DELETE /session/ses_1
    "#);
}

#[tokio::test]
async fn a_refusal_carries_the_server_s_own_words() {
    let (client, _log) = play(vec![
        refused(
            "404 Not Found",
            &json!({ "name": "NotFoundError", "data": { "message": "Session not found: ses_1" } }),
        ),
        refused(
            "409 Conflict",
            &json!({ "_tag": "SessionBusyError", "sessionID": "ses_1", "message": "busy" }),
        ),
    ])
    .await;
    let id: SessionId = "ses_1".parse().unwrap();
    let error = client.session(&id).await.unwrap_err();
    assert_eq!(error.to_string(), "the server answered 404 NotFoundError: Session not found: ses_1");
    assert!(matches!(&error, Error::Refused { error, .. }
        if matches!(**error, WireError::Named(NamedError::NotFound { .. }))));
    let error = client.delete_session(&id).await.unwrap_err();
    assert_eq!(error.status(), Some(409));
    assert!(matches!(&error, Error::Refused { error, .. }
        if matches!(**error, WireError::Tagged(TaggedError::SessionBusy { .. }))));
}

#[tokio::test]
async fn a_web_page_is_not_an_answer() {
    let page = answer("200 OK", "text/html; charset=utf-8", "<html>");
    let (client, _log) = play(vec![page, answer("502 Bad Gateway", "text/html", "<html>")]).await;
    let error = client.health().await.unwrap_err();
    assert_eq!(error.to_string(), "the server answered 200 with unexpected content: <html>");
    assert!(client.health().await.unwrap_err().is_transient());
}

#[tokio::test]
async fn an_unreachable_server_is_an_immediate_error() {
    let (client, _log) = play(vec![]).await;
    tokio::task::yield_now().await;
    assert!(matches!(client.health().await, Err(Error::Transport(_))));
    let mut events = client.events(Scope::Directory, None);
    assert!(matches!(events.next().await, Some(Err(Error::Transport(_)))));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_stream_resumes_after_the_last_id_it_saw() {
    let first = format!("retry: 10\n{}{}{}", frame(Some(1), 1), frame(Some(2), 2), frame(None, 3));
    let (client, mut log) = play(vec![
        stream(&first),
        refused(
            "503 Service Unavailable",
            &json!({ "_tag": "ServiceUnavailableError", "message": "starting" }),
        ),
        stream(&frame(Some(3), 4)),
        refused("401 Unauthorized", &json!({ "_tag": "UnauthorizedError", "message": "who?" })),
    ])
    .await;
    let items: Vec<_> = client.events(Scope::Directory, None).collect().await;
    let (end, received) = items.split_last().unwrap();
    let seen: Vec<_> = received
        .iter()
        .map(|item| {
            let Received { cursor, event, .. } = item.as_ref().unwrap();
            (*cursor, event.id.as_str())
        })
        .collect();
    assert_eq!(seen, [(Some(1), "evt_1"), (Some(2), "evt_2"), (None, "evt_3"), (Some(3), "evt_4")]);
    assert_eq!(end.as_ref().unwrap_err().status(), Some(401));

    let mut sent = Vec::new();
    while let Ok(asked) = log.try_recv() {
        assert_eq!(asked.line, "GET /event HTTP/1.1");
        sent.push(asked.header("last-event-id").map(str::to_owned));
    }
    assert_eq!(sent, [None, Some("2".into()), Some("2".into()), Some("3".into())]);
}

#[tokio::test]
async fn a_stream_can_begin_at_a_cursor() {
    let (client, mut log) = play(vec![stream(&frame(Some(8), 1))]).await;
    let received = client.events(Scope::Directory, Some(7)).next().await.unwrap().unwrap();
    assert_eq!(received.cursor, Some(8));
    assert_eq!(log.recv().await.unwrap().header("last-event-id"), Some("7"));
}

#[tokio::test]
async fn global_events_carry_their_directory() {
    let frames = "data: {\"directory\":\"/p\",\"payload\":{\"id\":\"evt_1\",\"type\":\"sync\",\"syncEvent\":{}}}\n\n\
        data: {\"directory\":\"/p\",\"payload\":{\"id\":\"evt_2\",\"type\":\"server.connected\",\"properties\":{}}}\n\n";
    let (client, mut log) = play(vec![stream(frames)]).await;
    let received = client.events(Scope::Global, None).next().await.unwrap().unwrap();
    assert_eq!(received.directory.as_deref(), Some("/p"));
    assert!(matches!(received.event.body, EventBody::ServerConnected(_)));
    assert_eq!(log.recv().await.unwrap().line, "GET /global/event HTTP/1.1");
}

#[tokio::test]
async fn a_frame_that_is_no_event_does_not_end_the_stream() {
    let (client, _log) = play(vec![stream(&format!("data: nonsense\n\n{}", frame(None, 1)))]).await;
    let mut events = client.events(Scope::Directory, None);
    assert!(matches!(events.next().await, Some(Err(Error::Decode(_)))));
    assert_eq!(events.next().await.unwrap().unwrap().event.id.as_str(), "evt_1");
}

#[tokio::test]
async fn an_answer_that_is_not_a_stream_is_refused() {
    let (client, _log) = play(vec![answer("200 OK", "text/html", "<html>")]).await;
    let error = client.events(Scope::Directory, None).next().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server answered 200 with unexpected content: content type text/html");
}

#[tokio::test]
async fn channels_are_read_with_their_states() {
    let list = r#"[{"name":"slack","state":"reconnecting","since":5,"reason":"reset"}]"#;
    let (client, mut log) = play(vec![answer("200 OK", "application/json", list)]).await;
    let channels = client.channels().await.unwrap();
    assert_eq!((channels[0].state, channels[0].since), (ChannelState::Reconnecting, Some(5)));
    assert!(log.recv().await.unwrap().line.starts_with("GET /channel "));
}

#[tokio::test]
async fn dropping_a_stream_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read(&mut socket).await.unwrap();
        socket.write_all(stream(&frame(None, 1)).as_bytes()).await.unwrap();
        socket.read(&mut [0; 1]).await
    });
    let mut events = client.events(Scope::Directory, None);
    events.next().await.unwrap().unwrap();
    drop(events);
    let end = tokio::time::timeout(Duration::from_secs(5), server).await.expect("the connection stayed open");
    assert!(matches!(end.unwrap(), Ok(0) | Err(_)));
}

#[tokio::test]
async fn batons_own_calls_have_their_routes_and_the_name_of_the_client() {
    let waiting = json!({
        "messageID": "msg_1", "delivery": "queue", "agent": "build", "time": { "created": 1 }, "parts": [],
        "model": { "providerID": "demo", "modelID": "demo" },
    });
    let family = json!({
        "rootID": "ses_1", "sessions": [], "cost": 0,
        "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
    });
    let conflict =
        json!({ "_tag": "ConflictError", "message": "prompt msg_1 no longer waits", "resource": "msg_1" });
    let (client, mut log) = play(vec![
        ok(&json!([waiting])),
        ok(&waiting),
        refused("409 Conflict", &conflict),
        ok(&json!(true)),
        ok(&family),
        ok(&json!([])),
    ])
    .await;
    let client = client.named("telegram");
    let (id, prompt): (SessionId, MessageId) = ("ses_1".parse().unwrap(), "msg_1".parse().unwrap());
    assert_eq!(client.queue(&id).await.unwrap()[0].message_id, prompt);
    let patch = QueuePatch { position: Some(0), ..QueuePatch::default() };
    client.requeue(&id, &prompt, &patch).await.unwrap();
    assert_eq!(client.withdraw(&id, &prompt).await.unwrap_err().status(), Some(409));
    client.mark_seen(&id, 41).await.unwrap();
    assert_eq!(client.family(&id).await.unwrap().root_id, id);
    client.find_messages("two words", 5).await.unwrap();

    let expected = [
        ("GET /session/ses_1/queue", Value::Null),
        ("PATCH /session/ses_1/queue/msg_1", json!({ "position": 0 })),
        ("DELETE /session/ses_1/queue/msg_1", Value::Null),
        ("PUT /session/ses_1/seen", json!({ "cursor": 41 })),
        ("GET /session/ses_1/family", Value::Null),
        ("GET /find/message?query=two+words&limit=5", Value::Null),
    ];
    for (line, body) in expected {
        let asked = log.recv().await.unwrap();
        assert_eq!((asked.line, asked.body), (format!("{line} HTTP/1.1"), body));
        assert_eq!(
            asked.headers.lines().filter(|it| it.eq_ignore_ascii_case("x-baton-client: telegram")).count(),
            1
        );
    }
}
