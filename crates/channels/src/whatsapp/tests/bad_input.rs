//! Forged and malformed calls.

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use testkit::platforms::whatsapp::sign;

use super::*;

fn call(body: impl Into<Bytes>, signature: Option<&str>) -> Call {
    let mut headers = HeaderMap::new();
    if let Some(signature) = signature {
        headers.insert("x-hub-signature-256", signature.parse().unwrap());
    }
    Call { method: Method::POST, query: String::new(), headers, body: body.into() }
}

fn genuine(harness: &Harness, body: &str) -> Call {
    let signature = sign(&harness.service.options().app_secret, body.as_bytes());
    call(body.to_owned(), Some(&signature))
}

fn body(number: &str, messages: &[Value]) -> String {
    let value = json!({ "metadata": { "phone_number_id": number }, "messages": messages });
    json!({ "entry": [{ "changes": [{ "field": "messages", "value": value }] }] }).to_string()
}

fn hello(id: &str) -> Value {
    json!({ "from": ADA, "id": id, "timestamp": "1", "type": "text", "text": { "body": "Hello." } })
}

impl Harness {
    async fn status(&self, call: Call) -> u16 {
        self.adapter.webhook(call, &self.inbox).await.status.as_u16()
    }

    fn number(&self) -> &str {
        &self.service.options().phone_number_id
    }
}

#[tokio::test]
async fn an_unsigned_call_is_refused() {
    let harness = Harness::new().await;
    let body = body(harness.number(), &[hello("wamid.1")]);
    let forged = sign("another secret", body.as_bytes());
    let right = sign("app-secret", body.as_bytes());
    let of_another = sign("app-secret", b"{}");
    let cut = &right[..right.len() - 2];
    let odd = &right[..right.len() - 1];
    let bare = right.trim_start_matches("sha256=");
    let signatures = [
        None,
        Some(""),
        Some("sha256="),
        Some("sha256=zz"),
        Some("sha256=é"),
        Some(forged.as_str()),
        Some(&of_another),
        Some(cut),
        Some(odd),
        Some(bare),
    ];
    for signature in signatures {
        let mut call = call(body.clone(), None);
        if let Some(signature) = signature {
            let value = http::HeaderValue::from_bytes(signature.as_bytes()).unwrap();
            call.headers.insert("x-hub-signature-256", value);
        }
        assert_eq!(harness.status(call).await, 401, "{signature:?}");
    }
    let huge = "x".repeat(MAX_BODY);
    assert_eq!(harness.status(call(huge, Some(&forged))).await, 401);
    assert!(harness.updates(ADA).await.is_empty());
    assert_eq!(harness.status(call(body, Some(&right))).await, 200);
    assert_eq!(harness.updates(ADA).await.len(), 1);
}

#[test]
fn an_empty_secret_is_refused() {
    let options = Options::default();
    for empty in [
        Options { token: String::new(), ..options.clone() },
        Options { app_secret: " ".into(), ..options.clone() },
        Options { verify_token: String::new(), ..options.clone() },
        Options { phone_number_id: String::new(), ..options },
    ] {
        let fault = WhatsApp::new(&configured("http://127.0.0.1:9/", &empty)).unwrap_err();
        assert!(fault.to_string().contains("is empty"), "{fault}");
    }
}

#[tokio::test]
async fn the_webhook_is_registered_with_the_verify_token() {
    let harness = Harness::new().await;
    let get = |query: &str| Call { method: Method::GET, query: query.into(), ..call("", None) };
    let right = "hub.mode=subscribe&hub.challenge=a%20b&hub.verify_token=verify%2Dtoken";
    let reply = harness.adapter.webhook(get(right), &harness.inbox).await;
    assert_eq!((reply.status.as_u16(), reply.body.as_str()), (200, "a b"));
    let long = format!("{right}&x").replace("a%20b", &"x".repeat(1_025));
    for wrong in [
        "",
        "hub.mode=subscribe&hub.challenge=1",
        "hub.mode=subscribe&hub.challenge=1&hub.verify_token=verify-toke",
        "hub.mode=subscribe&hub.challenge=1&hub.verify_token=",
        "hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=verify-token",
        "hub.mode=subscribe&hub.verify_token=verify-token",
        &long,
    ] {
        assert_eq!(harness.status(get(wrong)).await, 401, "{wrong}");
    }
    let other = Call { method: Method::DELETE, ..call("", None) };
    assert_eq!(harness.status(other).await, 404);
}

#[tokio::test]
async fn a_signed_call_without_sense_does_no_harm() {
    let harness = Harness::new().await;
    for malformed in ["", "{", "[7]", "7", "{\"entry\":7}"] {
        assert_eq!(harness.status(genuine(&harness, malformed)).await, 400, "{malformed}");
    }
    let other = body("999", &[hello("wamid.1")]);
    let field = body(harness.number(), &[hello("wamid.2")]).replace("\"messages\"}", "\"account_update\"}");
    let field = field.replace("\"field\":\"messages\"", "\"field\":\"account_update\"");
    let odd = [
        other,
        field,
        "{}".to_owned(),
        "{\"entry\":[{\"changes\":[{\"value\":7}]},null]}".to_owned(),
        body(harness.number(), &[json!({}), json!(null), json!({ "id": "wamid.3", "type": "text" })]),
        body(harness.number(), &[json!({ "id": "wamid.4", "from": ADA, "type": "text", "text": 7 })]),
        body(
            harness.number(),
            &[json!({ "id": "wamid.5", "from": ADA, "type": "reaction", "reaction": {} })],
        ),
        body(harness.number(), &[json!({ "id": "wamid.6", "from": ADA, "type": "system" })]),
    ];
    for body in odd {
        assert_eq!(harness.status(genuine(&harness, &body)).await, 200, "{body}");
    }
    assert!(harness.updates(ADA).await.is_empty());
    // A message that cannot be parsed does not affect the others.
    let mixed = body(harness.number(), &[json!({ "id": 7 }), hello("wamid.7")]);
    assert_eq!(harness.status(genuine(&harness, &mixed)).await, 200);
    assert_eq!(harness.updates(ADA).await.len(), 1);
}

#[tokio::test]
async fn ten_thousand_messages_in_one_call_are_stored_at_once() {
    let harness = Harness::new().await;
    let messages: Vec<Value> = (0..10_000).map(|at| hello(&format!("wamid.{at}"))).collect();
    let body = body(harness.number(), &messages);
    assert!(body.len() > 900_000 && body.len() <= MAX_BODY);
    for _ in 0..2 {
        assert_eq!(harness.status(genuine(&harness, &body)).await, 200);
    }
    let updates = harness.updates(ADA).await;
    assert_eq!(updates.len(), 10_000);
    assert!(updates.iter().enumerate().all(|(at, update)| update.id == format!("wamid.{at}")));
}
