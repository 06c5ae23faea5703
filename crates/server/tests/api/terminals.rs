//! Terminals through the routes and through real WebSockets.

use std::{fmt::Write as _, time::Duration};

use axum::{body::Body, http::Request};
use engine::{StreamItem, bus::Scope};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use server::{
    security::{AccessPolicy, Credentials, layer},
    serve::serve,
    terminals::{MAX_TERMINALS, MAX_VIEWERS},
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{self, Message, client::IntoClientRequest},
};

use crate::harness::Harness;

const PATIENCE: Duration = Duration::from_secs(30);

async fn open(harness: &Harness, script: &str) -> Value {
    harness.post("/pty", json!({ "command": "/bin/sh", "args": ["-c", script] })).await
}

fn id(terminal: &Value) -> &str {
    terminal["id"].as_str().unwrap()
}

fn lives(process: &Value) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

/// Runs the server on a real socket.
async fn listen(harness: &Harness, policy: AccessPolicy) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = layer(harness.router.clone(), policy.with_tickets(harness.terminals.tickets()));
    tokio::spawn(serve(listener, router, std::future::pending()));
    port
}

type Viewer = WebSocketStream<TcpStream>;

async fn view(port: u16, path: &str, headers: &[(&'static str, &str)]) -> Result<Viewer, u16> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut request = format!("ws://localhost:{port}{path}").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    match timeout(PATIENCE, client_async(request, stream)).await.unwrap() {
        Ok((viewer, _)) => Ok(viewer),
        Err(tungstenite::Error::Http(answer)) => Err(answer.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

/// Collects output until it contains `words`, or until the connection ends.
async fn read(viewer: &mut Viewer, words: Option<&str>) -> String {
    let mut shown = String::new();
    let read = async {
        while words.is_none_or(|words| !shown.contains(words)) {
            match viewer.next().await {
                Some(Ok(Message::Text(text))) => shown.push_str(&text),
                Some(Ok(Message::Binary(mark))) => {
                    assert_eq!(mark[0], 0);
                    let mark: Value = serde_json::from_slice(&mark[1..]).unwrap();
                    write!(shown, "|{}|", mark["cursor"]).unwrap();
                }
                Some(Ok(Message::Close(_))) | None => return,
                Some(Ok(_)) => {}
                Some(Err(error)) => panic!("{error}"),
            }
        }
    };
    timeout(PATIENCE, read).await.unwrap_or_else(|_| panic!("only {shown:?} was shown"));
    shown
}

#[tokio::test]
async fn a_terminal_is_opened_changed_and_removed_with_events() {
    let harness = Harness::new();
    let mut stream = harness.sessions.subscribe(Scope::default(), None).await.unwrap();
    let made = open(&harness, "read line; exit 3").await;
    let path = format!("/pty/{}", id(&made));
    assert_eq!((&made["status"], &made["cwd"]), (&json!("running"), &json!(harness.directory())));
    assert!(lives(&made["pid"]));
    assert_eq!(harness.get("/pty").await, json!([made]));
    assert_eq!(harness.get(&path).await, made);
    let change = json!({ "title": "mine", "size": { "rows": 50, "cols": 132 } });
    let changed = harness.expect(200, "PUT", &path, change).await;
    assert_eq!(changed["title"], "mine");
    assert_eq!(harness.expect(200, "DELETE", &path, None).await, json!(true));
    assert!(!lives(&made["pid"]));
    let gone = harness.expect(404, "GET", &path, None).await;
    assert_eq!((&gone["_tag"], &gone["ptyID"]), (&json!("PtyNotFoundError"), &made["id"]));
    harness.expect(404, "DELETE", &path, None).await;
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let Ok(StreamItem::Frames(frames)) = timeout(PATIENCE, stream.next()).await.unwrap() else {
            panic!()
        };
        seen.extend(frames.iter().map(|frame| serde_json::from_slice::<Value>(frame.json()).unwrap()));
    }
    let event = |kind: &str| seen.iter().find(|event| event["type"] == kind).unwrap()["properties"].clone();
    assert_eq!(event("pty.created"), json!({ "info": made }));
    assert_eq!(event("pty.updated"), json!({ "info": changed }));
    assert_eq!(event("pty.exited"), json!({ "id": made["id"], "exitCode": 129 }));
    assert_eq!(event("pty.deleted"), json!({ "id": made["id"] }));
}

#[tokio::test]
async fn a_terminal_belongs_to_its_directory_and_the_newer_form_names_it() {
    let harness = Harness::new();
    let made = harness.post("/api/pty", json!({ "command": "/bin/cat", "title": "cat" })).await;
    assert_eq!(made["location"]["directory"], json!(harness.directory()));
    let path = format!("/pty/{}", id(&made["data"]));
    assert_eq!(harness.get(&path).await, made["data"]);
    assert_eq!(harness.get(&format!("/api{path}")).await["data"], made["data"]);
    assert_eq!(harness.get("/api/pty").await["data"], json!([made["data"]]));
    assert_eq!(harness.get("/pty?directory=/").await, json!([]));
    for (method, path) in [("GET", &path), ("DELETE", &path), ("GET", &format!("/api{path}"))] {
        harness.expect(404, method, &format!("{path}?directory=/"), None).await;
    }
    harness.expect(204, "DELETE", &format!("/api{path}"), None).await;
    assert_eq!(harness.get("/api/pty").await["data"], json!([]));
}

#[tokio::test]
async fn invalid_calls_are_refused_with_the_reason() {
    let harness = Harness::new();
    let mut refusals = Vec::new();
    for body in [
        json!({ "command": "/nonexistent/program" }),
        json!({ "cwd": "nowhere" }),
        json!({ "env": { "A=B": "c" } }),
        json!({ "title": "x".repeat(2_000) }),
    ] {
        let refused = harness.expect(400, "POST", "/pty", body).await;
        refusals.push(harness.redact(&refused["data"]["message"]));
    }
    insta::assert_json_snapshot!(refusals);
    let made = open(&harness, "read line").await;
    let path = format!("/pty/{}", id(&made));
    harness.expect(400, "PUT", &path, json!({ "size": { "rows": 0, "cols": 80 } })).await;
    let refused = harness.expect(400, "GET", &format!("{path}/connect"), None).await;
    assert!(refused["data"]["message"].as_str().unwrap().starts_with("this route requires a WebSocket"));
    let refused = harness.expect(403, "POST", &format!("{path}/connect-token"), None).await;
    assert_eq!(refused["_tag"], "PtyForbiddenError");
}

#[tokio::test]
async fn a_viewer_sees_earlier_output_can_type_and_sees_the_end() {
    let harness = Harness::new();
    let port = listen(&harness, AccessPolicy::local()).await;
    let script = "echo ready [$CARGO_PKG_NAME] $TERM; read line; echo \"<$line>\"; read line";
    assert!(std::env::vars().any(|(name, _)| name == "CARGO_PKG_NAME"), "there is something to hide");
    let made = open(&harness, script).await;
    let path = format!("/pty/{}/connect", id(&made));
    let mut first = view(port, &path, &[]).await.unwrap();
    let shown = read(&mut first, Some("xterm-256color\r\n")).await;
    assert!(shown.contains("ready [] xterm-256color\r\n"), "{shown}");
    first.send(Message::text("ä💡\n")).await.unwrap();
    read(&mut first, Some("<ä💡>\r\n")).await;
    // The line, its echo and the answer; the emoji counts as two.
    let end = "ready [] xterm-256color\r\n".len() + "ä##\r\n<ä##>\r\n".chars().count();
    for (cursor, past) in [(end - 5, "##>\r\n".replace("##", "💡")), (end, String::new())] {
        let mut later = view(port, &format!("{path}?cursor={cursor}"), &[]).await.unwrap();
        assert_eq!(read(&mut later, Some("|")).await, format!("{past}|{end}|"));
    }
    let mut now = view(port, &format!("/api{path}?cursor=-1"), &[]).await.unwrap();
    assert_eq!(read(&mut now, Some("|")).await, format!("|{end}|"));
    now.send(Message::binary("\n".as_bytes().to_vec())).await.unwrap();
    for viewer in [&mut first, &mut now] {
        assert_eq!(read(viewer, None).await, "\r\n", "the echo, and the end");
    }
    let ended = harness.get(&format!("/pty/{}", id(&made))).await;
    assert_eq!((&ended["status"], &ended["exitCode"]), (&json!("exited"), &json!(0)));
    let mut late = view(port, &path, &[]).await.unwrap();
    assert!(read(&mut late, None).await.starts_with("ready"), "its output can still be read");
}

#[tokio::test]
async fn foreign_origins_and_hosts_cannot_type() {
    let harness = Harness::new();
    let port = listen(&harness, AccessPolicy::local()).await;
    let made = open(&harness, "read line; echo \"<$line>\"").await;
    let path = format!("/pty/{}/connect", id(&made));
    let ticket = token(&harness, id(&made)).await;
    for path in [path.clone(), format!("{path}?ticket={ticket}"), format!("/api{path}")] {
        for headers in [("origin", "https://evil.example"), ("origin", "null"), ("host", "evil.example")] {
            assert_eq!(view(port, &path, &[headers]).await.unwrap_err(), 403, "{path} {headers:?}");
        }
    }
    let mut own = view(port, &path, &[("origin", &format!("http://localhost:{port}"))]).await.unwrap();
    assert_eq!(read(&mut own, Some("|")).await, "|0|", "nothing was typed");
    own.send(Message::text("mine\n")).await.unwrap();
    assert_eq!(read(&mut own, None).await, "mine\r\n<mine>\r\n");
}

async fn token(harness: &Harness, id: &str) -> String {
    let call = Request::post(format!("/pty/{id}/connect-token")).header("x-opencode-ticket", "1");
    let answer = harness.send(call.body(Body::empty()).unwrap()).await.json();
    assert_eq!(answer["expires_in"], 60);
    answer["ticket"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_ticket_replaces_the_password_once() {
    let harness = Harness::new();
    let port =
        listen(&harness, AccessPolicy::local().with_credentials(Credentials::new(None, "secret"))).await;
    let (made, other) = (open(&harness, "read line").await, open(&harness, "read line").await);
    let path = |terminal: &Value, ticket: &str| format!("/pty/{}/connect?ticket={ticket}", id(terminal));
    assert_eq!(view(port, &format!("/pty/{}/connect", id(&made)), &[]).await.unwrap_err(), 401);
    assert_eq!(view(port, &path(&made, "made-up"), &[]).await.unwrap_err(), 401);
    let ticket = token(&harness, id(&made)).await;
    assert_eq!(view(port, &path(&other, &ticket), &[]).await.unwrap_err(), 401);
    view(port, &path(&made, &ticket), &[]).await.unwrap();
    assert_eq!(view(port, &path(&made, &ticket), &[]).await.unwrap_err(), 401);
    let open = listen(&harness, AccessPolicy::local()).await;
    assert_eq!(view(open, &path(&made, &ticket), &[]).await.unwrap_err(), 403, "used up");
}

#[tokio::test]
async fn terminals_and_viewers_are_limited() {
    let harness = Harness::new();
    let port = listen(&harness, AccessPolicy::local()).await;
    let ending = open(&harness, "read line").await;
    for _ in 1..MAX_TERMINALS {
        open(&harness, "read line").await;
    }
    harness.expect(429, "POST", "/pty", json!({ "command": "/bin/cat" })).await;
    let path = format!("/pty/{}/connect", id(&ending));
    let mut viewers = Vec::new();
    for _ in 0..MAX_VIEWERS {
        viewers.push(view(port, &path, &[]).await.unwrap());
    }
    assert_eq!(view(port, &path, &[]).await.unwrap_err(), 429);
    viewers[0].send(Message::text("\n")).await.unwrap();
    read(&mut viewers[0], None).await;
    // Its program has ended, so a new terminal replaces it.
    open(&harness, "read line").await;
    harness.expect(404, "GET", &format!("/pty/{}", id(&ending)), None).await;
}

#[tokio::test]
async fn no_process_is_left_when_the_server_stops() {
    let harness = Harness::new();
    let port = listen(&harness, AccessPolicy::local()).await;
    let script = "trap '' HUP TERM; setsid sleep 600 & echo pid:$!; sleep 600 & echo pid:$! ready; wait";
    let made = open(&harness, script).await;
    let mut viewer = view(port, &format!("/pty/{}/connect", id(&made)), &[]).await.unwrap();
    let shown = read(&mut viewer, Some("ready")).await;
    let number = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok();
    let started = shown.split("pid:").skip(1).filter_map(number);
    let processes: Vec<_> = started.map(|id| json!(id)).chain([made["pid"].clone()]).collect();
    assert_eq!(processes.iter().filter(|id| lives(id)).count(), 3, "{processes:?} {shown}");
    timeout(PATIENCE, harness.terminals.close()).await.unwrap();
    assert!(!processes.iter().any(lives), "{processes:?}");
    read(&mut viewer, None).await;
    harness.expect(503, "POST", "/pty", json!({ "command": "/bin/cat" })).await;
}
