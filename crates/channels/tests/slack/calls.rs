//! Receiving by the Events API.

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    extract::Request,
    response::{IntoResponse, Response},
    routing::any,
};
use channels::{
    Adapter as _, Button, Content, Inbox, Post,
    settings::{self, Secret},
    slack::Slack,
    webhook::{Call, MAX_BODY, Reply},
};
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use testkit::platforms::{
    service_state::{Platform as _, Tap},
    slack::{Options, signature},
};

use crate::room::{Room, place, said};

const SECRET: &str = "fake-signing-secret";

async fn room() -> Room {
    Room::with(
        Options { retries_ms: vec![0, 10, 10], ..Options::default() },
        json!({"signingSecret": SECRET}),
    )
    .await
}

/// A listener that passes calls to the adapter, except for the first `stumbles`.
async fn called(mut room: Room, stumbles: usize) -> Room {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/slack", listener.local_addr().unwrap());
    let (slack, inbox) = (room.slack.clone(), room.inbox.clone());
    let left = Arc::new(std::sync::atomic::AtomicUsize::new(stumbles));
    let serve = any(move |request: Request| {
        let (slack, inbox, left) = (slack.clone(), inbox.clone(), left.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 2 * MAX_BODY).await.unwrap();
            let is_challenge = body.windows(16).any(|it| it == b"url_verification");
            let is_bad = |count: usize| (!is_challenge && count > 0).then(|| count - 1);
            let order = std::sync::atomic::Ordering::SeqCst;
            if left.try_update(order, order, is_bad).is_ok() {
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
            answer(&slack, &inbox, parts.method, parts.headers, body).await
        }
    });
    let service = Router::new().route("/slack", serve);
    room.keep(tokio::spawn(async move { axum::serve(listener, service).await.unwrap() }));
    room.fake.call_at(&url).await.unwrap();
    room
}

async fn answer(slack: &Slack, inbox: &Inbox, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let Reply { status, mime, body } =
        slack.webhook(Call { method, query: String::new(), headers, body }, inbox).await;
    (status, [("content-type", mime)], body).into_response()
}

/// Makes a call with the given timestamp and signature.
async fn call(room: &Room, body: &str, moment: i64, tag: &str) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json".parse().unwrap());
    headers.insert("x-slack-request-timestamp", moment.into());
    headers.insert("x-slack-signature", tag.parse().unwrap());
    let call =
        Call { method: Method::POST, query: String::new(), headers, body: Bytes::from(body.to_owned()) };
    room.slack.webhook(call, &room.inbox).await
}

async fn signed(room: &Room, body: &str) -> Reply {
    let now = jiff::Timestamp::now().as_second();
    call(room, body, now, &signature(SECRET, now, body)).await
}

fn message() -> Value {
    let event = json!({"type": "message", "channel": "D1", "channel_type": "im", "user": "U1", "text": "hi", "ts": "1.0"});
    json!({"type": "event_callback", "event_id": "Ev1", "event": event})
}

#[tokio::test]
async fn messages_buttons_and_commands_come_by_signed_calls() {
    let mut room = called(room().await, 0).await;
    let ts = room.say("C1", None, "@baton fix it");
    let update = room.next().await;
    assert_eq!((update.place.clone(), said(&update)), (place("C1", Some(&ts)), "fix it"));
    room.until("both acknowledgements", |_, state| state.acknowledged == 2).await;
    let button = Button { label: "Once".to_owned(), token: "token-1".to_owned() };
    let post = Post { buttons: vec![button], ..Post::text("May I?") };
    let sent = room.slack.send(&update.place, &post).await.unwrap();
    room.fake.tap(Tap { message: sent.0, label: "Once".to_owned(), from: "U1".to_owned(), ..Tap::default() });
    let tap = room.next().await;
    assert_eq!(tap.content, Content::Tap { token: "token-1".to_owned(), receipt: None });
    room.say("D1", None, "/baton a & b");
    assert_eq!(said(&room.next().await), "a & b");
    room.is_fine();
}

#[tokio::test]
async fn a_refused_call_is_repeated_and_stored_once() {
    let mut room = called(room().await, 3).await;
    room.say("D1", None, "again and again");
    let update = room.next().await;
    room.until("an acknowledgement", |_, state| state.acknowledged == 1).await;
    room.fake.repeat();
    room.until("another", |_, state| state.acknowledged == 2).await;
    assert_eq!(room.ledger.open_updates(&update.place).await.unwrap().len(), 1);
    room.is_fine();
}

#[tokio::test]
async fn a_forged_or_old_call_is_refused_and_nothing_is_stored() {
    let mut room = room().await;
    let now = jiff::Timestamp::now().as_second();
    let body = message().to_string();
    let forged = call(&room, &body, now, &signature("another secret", now, &body)).await;
    let unsigned = call(&room, &body, now, "").await;
    let old = now - 301;
    let recorded = call(&room, &body, old, &signature(SECRET, old, &body)).await;
    let changed = call(&room, &body.replace("hi", "ho"), now, &signature(SECRET, now, &body)).await;
    for reply in [forged, unsigned, recorded, changed] {
        assert_eq!(reply, Reply::refused());
    }
    let challenge = json!({"type": "url_verification", "challenge": "c"}).to_string();
    assert_eq!(call(&room, &challenge, now, "v0=00").await, Reply::refused());
    assert!(!room.has_more());
    assert_eq!(signed(&room, &body).await, Reply::done());
    assert!(room.has_more());
}

#[tokio::test]
async fn a_malformed_or_too_long_call_is_refused() {
    let mut room = room().await;
    for body in ["", "nonsense", "[]", "{}", "{\"type\": 5}"] {
        assert_eq!(signed(&room, body).await, Reply::malformed(), "{body}");
    }
    let mut long = message();
    long["event"]["text"] = json!("x".repeat(MAX_BODY));
    assert_eq!(signed(&room, &long.to_string()).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(!room.has_more());
}

#[tokio::test]
async fn without_an_identity_nothing_is_acknowledged() {
    let mut room = room().await;
    let fault = testkit::platforms::service_state::ServiceFault::Unavailable;
    room.fake.service_state().plan(&testkit::platforms::service_state::Planned {
        method: "auth.test".to_owned(),
        times: 1,
        fault,
    });
    assert_eq!(signed(&room, &message().to_string()).await, Reply::failed());
    assert!(!room.has_more());
    assert_eq!(signed(&room, &message().to_string()).await, Reply::done());
}

#[tokio::test]
async fn with_socket_mode_the_webhook_is_absent() {
    let room = Room::new(Options::default()).await;
    assert_eq!(signed(&room, &message().to_string()).await, Reply::absent());
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let with = |app: Option<&str>, signing: Option<&str>, api: &str| settings::Slack {
        bot_token: Secret::new("xoxb-fake"),
        app_token: app.map(Secret::new),
        signing_secret: signing.map(Secret::new),
        api: api.to_owned(),
        allow: Vec::new(),
    };
    let slack = "https://slack.com/api";
    let no_bot = settings::Slack { bot_token: Secret::new(""), ..with(Some("xapp-fake"), None, slack) };
    for (settings, word) in [
        (with(None, None, slack), "needs an appToken"),
        (no_bot, "`botToken` is empty"),
        (with(None, Some(" "), slack), "`signingSecret` is empty"),
        (with(Some(""), Some(SECRET), slack), "`appToken` is empty"),
        (with(Some("xapp-fake"), None, "ftp://slack.com"), "http://"),
    ] {
        let fault = Slack::new(&settings).unwrap_err();
        assert!(fault.to_string().contains(word), "{fault}");
    }
}
