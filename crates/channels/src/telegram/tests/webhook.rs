//! Updates by webhook, accepted only from Telegram.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::{Router, extract::State, routing::post};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::*;

/// A world whose bot receives by webhook.
async fn harness() -> Harness {
    let mut harness = Harness::new().await;
    harness.settings.webhook =
        Some(TelegramWebhook { url: "http://127.0.0.1:9/telegram".into(), secret: Secret::new(SECRET) });
    harness
}

/// The adapter, its inbox, and the number of calls.
type Served = (Arc<Telegram>, Inbox, Arc<AtomicUsize>);

fn call(secret: Option<&'static str>, body: &str) -> Call {
    let mut headers = HeaderMap::new();
    if let Some(secret) = secret {
        headers.insert("X-Telegram-Bot-Api-Secret-Token", HeaderValue::from_static(secret));
    }
    Call {
        method: Method::POST,
        query: String::new(),
        headers,
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

fn update(id: i64, text: &str) -> String {
    let from = json!({"id": 1, "is_bot": false, "first_name": "Ada"});
    let message = json!({
        "message_id": id, "date": 5, "chat": {"id": 7, "type": "private"}, "from": from, "text": text,
    });
    json!({"update_id": id, "message": message}).to_string()
}

#[tokio::test]
async fn the_webhook_is_registered_and_called_until_it_accepts() {
    let mut harness = harness().await;
    // A listener that fails at first, as one that cannot write.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/telegram", listener.local_addr().unwrap());
    harness.settings.webhook = Some(TelegramWebhook { url, secret: Secret::new(SECRET) });
    let mut gateway = harness.receive();
    let answer = async |State((adapter, inbox, count)): State<Served>, headers: HeaderMap, body: Bytes| {
        if count.fetch_add(1, Ordering::SeqCst) < 2 {
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        let call = Call { method: Method::POST, query: String::new(), headers, body };
        adapter.webhook(call, &inbox).await.status
    };
    let served: Served = (Arc::clone(&gateway.adapter), gateway.inbox.clone(), Arc::default());
    let router = Router::new().route("/telegram", post(answer)).with_state(served);
    tokio::spawn(async move { axum::serve(listener, router).await });
    harness.say("hello");
    assert_eq!(text(&gateway.next().await[0]), "hello");
    harness.fake.repeat();
    harness.say("again");
    assert_eq!(gateway.next().await.len(), 2, "a repetition is known");
    assert!(harness.problems().is_empty(), "{:?}", harness.problems());
    assert_eq!(harness.fake.service_state().state().calls.get("getUpdates"), None);
}

#[tokio::test]
async fn a_call_without_the_right_secret_is_refused() {
    let harness = harness().await;
    let gateway = harness.receive();
    for secret in
        [None, Some(""), Some("webhook-secret_"), Some("webhook-secret_2"), Some("webhook-secret_11")]
    {
        let reply = gateway.adapter.webhook(call(secret, &update(1, "hello")), &gateway.inbox).await;
        assert_eq!(reply, Reply::refused(), "{secret:?}");
    }
    assert!(gateway.stored(&place()).await.is_empty());
}

#[tokio::test]
async fn bad_input_is_refused_and_nothing_is_stored() {
    let harness = harness().await;
    let gateway = harness.receive();
    let huge = update(1, &"x".repeat(1 << 20));
    for (body, status) in [
        ("", StatusCode::BAD_REQUEST),
        ("{", StatusCode::BAD_REQUEST),
        ("[]", StatusCode::BAD_REQUEST),
        ("{\"update_id\": \"1\"}", StatusCode::BAD_REQUEST),
        (&huge, StatusCode::PAYLOAD_TOO_LARGE),
        // Genuine calls with content that cannot be used: a retry would not help, so they succeed.
        ("{\"update_id\": 1}", StatusCode::OK),
        ("{\"update_id\": 1, \"message\": {\"chat\": 7}}", StatusCode::OK),
        ("{\"update_id\": 1, \"edited_message\": {}}", StatusCode::OK),
    ] {
        let reply = gateway.adapter.webhook(call(Some(SECRET), body), &gateway.inbox).await;
        assert_eq!(reply.status, status, "{}", body.get(..60).unwrap_or(body));
    }
    let get = Call { method: Method::GET, ..call(Some(SECRET), "") };
    assert_eq!(gateway.adapter.webhook(get, &gateway.inbox).await.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(gateway.stored(&place()).await.is_empty());
}

#[tokio::test]
async fn a_call_is_answered_with_success_when_the_update_is_stored() {
    let harness = harness().await;
    let gateway = harness.receive();
    let reply = gateway.adapter.webhook(call(Some(SECRET), &update(1, "hello")), &gateway.inbox).await;
    assert_eq!(reply, Reply::done());
    assert_eq!(gateway.stored(&place()).await.len(), 1);
}

#[tokio::test]
async fn without_a_webhook_calls_are_refused() {
    let harness = Harness::new().await;
    let gateway = harness.receive();
    let reply = gateway.adapter.webhook(call(Some(SECRET), &update(1, "hello")), &gateway.inbox).await;
    assert_eq!(reply, Reply::absent());
}

#[tokio::test]
async fn a_webhook_that_telegram_refuses_ends_it() {
    let mut harness = harness().await;
    harness.settings.webhook =
        Some(TelegramWebhook { url: "http://a.example/telegram".into(), secret: Secret::new(SECRET) });
    let fault = harness.receive().fault().await.to_string();
    assert!(fault.contains("HTTPS URL must be provided"), "{fault}");
    assert!(!fault.contains(SECRET) && !fault.contains(TOKEN));
}
