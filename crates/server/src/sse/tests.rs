//! Event streams, byte by byte.

use std::time::Duration;

use axum::{Router, body::BodyDataStream, routing::get};
use engine::{
    Home, Parts,
    bus::{Bus, MAX_QUEUED_FRAMES},
    limits::Limits,
    memory::Memory,
    ports::{NoUndo, Resolved, Runners, SystemClock, SystemRandom, Unresolved, Wanted},
};
use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture};
use http::Request;
use protocol::{Session, prompt::SessionInput};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

use super::*;
use crate::{Facts, instance::Everywhere};

/// No runners: these tests only create sessions.
struct NoRunners;

impl Runners for NoRunners {
    fn resolve<'a>(&'a self, _: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        async move { Err(Unresolved::Agent { name: "none".into(), known: String::new() }) }.boxed()
    }
}

struct Harness {
    sessions: Sessions,
    router: Router,
    directory: String,
}

impl Harness {
    fn new() -> Self {
        let bus = Arc::new(Bus::default());
        let log = Arc::new(Memory::new(bus.clone()));
        let sessions = Sessions::new(Parts {
            log: log.clone(),
            reads: log,
            runners: Arc::new(NoRunners),
            undo: Arc::new(NoUndo),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            bus,
            limits: Limits::default(),
            version: "0".into(),
        });
        let directory = std::env::current_dir().unwrap().canonicalize().unwrap();
        let directory = directory.to_str().unwrap().to_owned();
        let facts = Facts { directory: directory.clone(), ..Facts::default() };
        let router = Router::new().route("/event", get(event)).route("/global/event", get(global_event));
        Self {
            router: router.with_state(App::new(sessions.clone(), facts, Arc::new(Everywhere::default()))),
            sessions,
            directory,
        }
    }

    async fn create(&self, directory: &str) -> Session {
        let home = Home { directory: directory.into(), project: "global".into(), path: String::new() };
        self.sessions.create(home, SessionInput::default()).await.unwrap()
    }

    async fn call(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut call = Request::builder().uri(path);
        for (name, value) in headers {
            call = call.header(*name, *value);
        }
        self.router.clone().oneshot(call.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn stream(&self, path: &str, headers: &[(&str, &str)]) -> BodyDataStream {
        self.call(path, headers).await.into_body().into_data_stream()
    }
}

async fn text(stream: &mut BodyDataStream) -> String {
    let chunk = tokio::time::timeout(Duration::from_mins(1), stream.next()).await.unwrap();
    String::from_utf8(chunk.unwrap().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn a_stream_sends_connected_and_then_events_of_its_directory() {
    let harness = Harness::new();
    let response = harness.call("/event", &[]).await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream");
    assert_eq!(header("cache-control"), "no-cache, no-transform");
    assert_eq!(header("x-accel-buffering"), "no");
    assert_eq!(header("x-content-type-options"), "nosniff");
    // The body was not polled yet, and still includes events since the response.
    harness.create("/elsewhere").await;
    let session = harness.create(&harness.directory).await;
    let mut stream = response.into_body().into_data_stream();
    let hello = text(&mut stream).await;
    assert!(hello.starts_with("data: {\"id\":\"evt_"), "{hello}");
    assert!(hello.ends_with("\"type\":\"server.connected\",\"properties\":{\"cursor\":0}}\n\n"), "{hello}");
    assert!(text(&mut stream).await.contains("\"type\":\"server.ready\",\"properties\":{\"cursor\":0}"));
    let created = text(&mut stream).await;
    assert!(created.starts_with("id: 2\ndata: {\"id\":\"evt_"), "{created}");
    assert!(created.contains("session.created") && created.contains(session.id.as_str()), "{created}");
}

#[tokio::test]
async fn a_global_stream_names_the_directory_of_each_event() {
    let harness = Harness::new();
    let mut stream = harness.stream("/global/event", &[]).await;
    assert!(text(&mut stream).await.starts_with("data: {\"payload\":{\"id\":\"evt_"));
    assert!(text(&mut stream).await.contains("server.ready"));
    harness.create("/elsewhere").await;
    let created = text(&mut stream).await;
    assert!(
        created.starts_with("id: 1\ndata: {\"directory\":\"/elsewhere\",\"project\":\"global\","),
        "{created}"
    );
}

#[tokio::test]
async fn a_cursor_replays_later_events() {
    let harness = Harness::new();
    for _ in 0..3 {
        harness.create(&harness.directory).await;
    }
    for (path, headers) in [
        ("/event", vec![("last-event-id", "1")]),
        ("/event?after=1", vec![]),
        ("/event?after=1", vec![("last-event-id", "3")]),
    ] {
        let mut stream = harness.stream(path, &headers).await;
        assert!(text(&mut stream).await.contains("server.connected"));
        let replayed = text(&mut stream).await;
        assert!(replayed.starts_with("id: 2\n") && replayed.contains("\n\nid: 3\n"), "{path}: {replayed}");
    }
    let mut future = harness.stream("/event?after=99", &[]).await;
    text(&mut future).await;
    assert!(text(&mut future).await.contains("server.resync"));
}

/// Frames up to `server.ready`.
async fn opening(stream: &mut BodyDataStream) -> String {
    let mut seen = String::new();
    while !seen.contains("server.ready") {
        seen.push_str(&text(stream).await);
    }
    seen
}

#[tokio::test]
async fn a_stream_says_where_it_begins_and_when_it_has_caught_up() {
    let harness = Harness::new();
    for _ in 0..3 {
        harness.create(&harness.directory).await;
    }
    for (path, connected) in
        [("/event", 3), ("/event?after=1", 1), ("/event?after=99", 3), ("/global/event?after=0", 0)]
    {
        let mut stream = harness.stream(path, &[]).await;
        let seen = opening(&mut stream).await;
        let hello = format!("\"server.connected\",\"properties\":{{\"cursor\":{connected}}}");
        assert!(seen.contains(&hello), "{path}: {seen}");
        assert!(seen.contains("\"server.ready\",\"properties\":{\"cursor\":3}"), "{path}: {seen}");
        assert_eq!(
            seen.matches("id: ").count(),
            if connected == 3 { 0 } else { 3 - connected },
            "{path}: {seen}"
        );
        // Nothing was missed between the replay and the live events.
        let place = harness.sessions.place_in(harness.directory.as_str(), "global");
        harness.sessions.publish(Some(&place), EventBody::LspUpdated(Extra::new()));
        assert!(text(&mut stream).await.contains("lsp.updated"), "{path}");
    }
}

#[tokio::test]
async fn a_client_chooses_the_sessions_whose_deltas_it_receives() {
    let harness = Harness::new();
    let place = harness.sessions.place_in(harness.directory.as_str(), "global");
    let delta = |session: &str| {
        let delta = serde_json::json!({
            "sessionID": session, "messageID": "msg_1", "partID": "prt_1", "field": "text", "delta": "x",
        });
        EventBody::PartDelta(serde_json::from_value(delta).unwrap())
    };
    for (query, wanted) in
        [("", "ab"), ("?deltas=none", ""), ("?deltas=ses_b", "b"), ("?deltas=ses_a,%20ses_b", "ab")]
    {
        for path in ["/event", "/global/event"] {
            let mut stream = harness.stream(&format!("{path}{query}"), &[]).await;
            opening(&mut stream).await;
            for session in ["ses_a", "ses_b"] {
                harness.sessions.publish(Some(&place), delta(session));
            }
            harness.sessions.publish(Some(&place), EventBody::LspUpdated(Extra::new()));
            let mut seen = String::new();
            while !seen.contains("lsp.updated") {
                seen.push_str(&text(&mut stream).await);
            }
            for session in ["a", "b"] {
                let is_sent = seen.contains(&format!("ses_{session}"));
                assert_eq!(is_sent, wanted.contains(session), "{path}{query}: {seen}");
            }
        }
    }
    for bad in ["", "x", "ses_a,", "none,ses_a"] {
        assert_eq!(harness.call(&format!("/event?deltas={bad}"), &[]).await.status(), 400, "{bad}");
    }
}

#[tokio::test]
async fn an_invalid_cursor_is_refused() {
    let harness = Harness::new();
    for (path, header) in
        [("/event?after=x", ""), ("/event?after=-1", ""), ("/event", "evt_1"), ("/event?after=", "")]
    {
        let response = harness.call(path, &[("last-event-id", header)]).await;
        assert_eq!(response.status(), 400, "{path} {header}");
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(String::from_utf8_lossy(&body).contains(NOT_A_CURSOR), "{body:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_comes_every_ten_seconds() {
    let harness = Harness::new();
    let mut stream = harness.stream("/event", &[]).await;
    text(&mut stream).await;
    assert!(text(&mut stream).await.contains("server.ready"));
    let started = Instant::now();
    for beat in 1..=3 {
        assert!(text(&mut stream).await.contains("\"type\":\"server.heartbeat\",\"properties\":{}"));
        assert_eq!(started.elapsed().as_secs(), 10 * beat);
    }
}

#[tokio::test]
async fn a_shutdown_ends_streams_cleanly_after_the_last_event() {
    let harness = Harness::new();
    let stream = harness.stream("/event", &[]).await;
    harness.create(&harness.directory).await;
    harness.sessions.shutdown().await;
    let chunks: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert_eq!(chunks.len(), 3, "connected, ready and the new session");
}

fn flood(sessions: &Sessions, frames: usize) {
    let place = sessions.place_in("/elsewhere", "global");
    for _ in 0..frames {
        sessions.publish(Some(&place), EventBody::LspUpdated(Extra::new()));
    }
}

#[tokio::test]
async fn a_client_that_does_not_keep_up_is_cut_off_with_an_error() {
    let harness = Harness::new();
    let stream = harness.stream("/global/event", &[]).await;
    flood(&harness.sessions, MAX_QUEUED_FRAMES + 1);
    assert!(stream.try_collect::<Vec<Bytes>>().await.is_err());
    assert_eq!(harness.sessions.stats().bus.cut_off, 1);
}

#[tokio::test]
async fn a_cut_off_connection_breaks_and_a_finished_one_ends() {
    let harness = Harness::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(crate::serve::serve(listener, harness.router.clone(), std::future::pending()));
    let connect = || async move {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /global/event HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut head = [0; 17];
        stream.read_exact(&mut head).await.unwrap();
        stream
    };
    let mut lagging = connect().await;
    // Nothing yields in between, so the server cannot send any of these frames.
    flood(&harness.sessions, MAX_QUEUED_FRAMES + 1);
    let mut text = String::new();
    // The peer may see a reset or an end, but never the last chunk.
    let _ = lagging.read_to_string(&mut text).await;
    assert!(!text.ends_with("0\r\n\r\n"), "{text:?}");

    let mut finished = connect().await;
    harness.sessions.shutdown().await;
    let mut text = [0; 4096];
    let mut seen = Vec::new();
    while !seen.ends_with(b"0\r\n\r\n") {
        let count = finished.read(&mut text).await.unwrap();
        assert_ne!(count, 0, "{seen:?}");
        seen.extend_from_slice(&text[..count]);
    }
}

#[test]
fn small_frames_are_sent_together_and_large_ones_alone() {
    let frame = |length: usize, byte: u8| Arc::new(Frame::live(None, Bytes::from(vec![byte; length])));
    let small: Vec<_> = (0..100).map(|_| frame(200, b's')).collect();
    assert_eq!(pack(&small, Frame::plain).len(), 1);
    let many: Vec<_> = (0..1_000).map(|_| frame(200, b's')).collect();
    let chunks = pack(&many, Frame::plain);
    assert_eq!(chunks.len(), 4);
    assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK));

    let mixed = [frame(10, b'a'), frame(10, b'b'), frame(LARGE, b'c'), frame(10, b'd')];
    let chunks = pack(&mixed, Frame::plain);
    let first: Vec<_> = chunks.iter().map(|chunk| char::from(chunk["data: ".len()])).collect();
    assert_eq!(first, ['a', 'c', 'd']);
    let whole: Vec<u8> = chunks.into_iter().flatten().collect();
    let wanted: Vec<u8> = mixed.iter().flat_map(|frame| frame.plain()).collect();
    assert_eq!(whole, wanted);
}
