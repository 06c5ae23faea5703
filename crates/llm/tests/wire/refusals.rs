//! Error responses of every class.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use llm::Retry;
use llm::transport::MAX_REFUSAL;

use super::*;
use fake::Reply;

async fn refused(reply: Reply) -> Error {
    let fake = Fake::start([reply]).await;
    match ask_fake(&fake, 0).await {
        Err(error) => error,
        Ok(heard) => panic!("the call succeeded: {heard:?}"),
    }
}

fn json_reply(status: u16, body: &Value) -> Reply {
    Reply::new(status, &[("Content-Type", "application/json")]).send(body.to_string())
}

#[tokio::test]
async fn every_status_has_its_class() {
    let body = json!({ "type": "error", "error": { "type": "some_error", "message": "The reason." } });
    for (status, again) in [
        (400, false),
        (401, false),
        (402, false),
        (403, false),
        (404, false),
        (408, true),
        (409, true),
        (422, false),
        (425, true),
        (429, true),
        (500, true),
        (502, true),
        (503, true),
        (504, true),
        (524, true),
        (529, true),
    ] {
        let error = refused(json_reply(status, &body)).await;
        let Error::Http { status: told, message, .. } = &error else { panic!("{error:?}") };
        assert_eq!((*told, message.as_str()), (status, "The reason."));
        assert_eq!(error.retry() != Retry::Never, again, "{status}");
    }
}

#[tokio::test]
async fn an_error_keeps_everything_but_the_key() {
    let reply = Reply::new(
        401,
        &[
            ("Content-Type", "application/json"),
            ("X-Request-ID", "req_1"),
            ("Set-Cookie", "session=secret"),
            ("X-Echo", KEY),
        ],
    )
    .send(json!({ "error": { "message": format!("Incorrect API key provided: {KEY}.") } }).to_string());
    let error = refused(reply).await;
    let Error::Http { headers, body, message, .. } = &error else { panic!("{error:?}") };
    assert_eq!(headers["x-request-id"], "req_1");
    assert!(!headers.contains_key("set-cookie"));
    assert!(message.contains("Incorrect API key provided: [hidden]"), "{message}");
    assert!(body.contains("Incorrect API key"), "{body}");
    assert!(!format!("{error:?} {error}").contains(KEY), "{error:?}");
}

#[tokio::test]
async fn the_providers_delay_is_passed_on() {
    let hint = |error: &Error| match error.retry() {
        Retry::After { delay_hint } => delay_hint,
        Retry::Never => panic!("{error:?}"),
    };
    let slow = |headers: &[(&str, &str)]| Reply::new(429, headers).send("{\"error\":\"slow down\"}");
    assert_eq!(hint(&refused(slow(&[("Retry-After", "7")])).await), Some(Duration::from_secs(7)));
    assert_eq!(hint(&refused(slow(&[("retry-after-ms", "1500")])).await), Some(Duration::from_millis(1500)));
    assert_eq!(hint(&refused(slow(&[("retry-after", "0")])).await), None);
    assert_eq!(hint(&refused(slow(&[])).await), None);
    let dates = [("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Retry-After", "Sun, 06 Nov 1994 08:50:07 GMT")];
    assert_eq!(hint(&refused(slow(&dates)).await), Some(Duration::from_secs(30)));
}

#[tokio::test]
async fn an_overlong_conversation_is_distinguished() {
    let too_long = [
        json_reply(
            400,
            &json!({ "error": { "message": "prompt is too long: 213462 tokens > 200000 maximum" } }),
        ),
        json_reply(400, &json!({ "error": { "code": "context_length_exceeded", "message": "no" } })),
        json_reply(
            413,
            &json!({ "error": { "type": "request_too_large", "message": "Request exceeds the maximum size" } }),
        ),
        Reply::new(400, &[]),
        Reply::new(413, &[]).send("<html><h1>413 Request Entity Too Large</h1></html>"),
    ];
    for reply in too_long {
        let error = refused(reply).await;
        assert!(error.is_overflow(), "{error:?}");
        assert_eq!(error.retry(), Retry::Never);
    }
}

#[tokio::test]
async fn refusals_without_a_message_get_one() {
    let page = Reply::new(502, &[("content-type", "text/html")]).send("<html><title>502</title></html>");
    let error = refused(page).await;
    assert!(error.to_string().contains("a gateway or proxy"), "{error}");
    let error = refused(Reply::new(503, &[])).await;
    assert_eq!(error.to_string(), "the provider answered 503 Service Unavailable");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(br#"{"error":{"message":"squeezed"}}"#).unwrap();
    let error = refused(Reply::new(500, &[("content-encoding", "gzip")]).send(gzip.finish().unwrap())).await;
    assert_eq!(error.to_string(), "squeezed");
}

#[tokio::test]
async fn a_refusal_is_read_up_to_its_limit() {
    let endless = Reply::new(500, &[]).send("x".repeat(MAX_REFUSAL)).send("y".repeat(1000)).hang();
    let Error::Http { body, .. } = refused(endless).await else { panic!("another error") };
    assert_eq!(body.len(), MAX_REFUSAL);
    let broken = Reply::new(500, &[]).send("half of it").close();
    assert_eq!(refused(broken).await.to_string(), "half of it");
}

#[tokio::test]
async fn a_key_does_not_follow_a_redirect() {
    let elsewhere = Fake::start([Reply::events()]).await;
    let location = format!("{}/messages", elsewhere.url);
    let error = refused(Reply::new(307, &[("location", &location)])).await;
    assert!(matches!(error, Error::Http { status: 307, .. }), "{error:?}");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn without_a_key_no_call_is_made() {
    let provider = llm::Catalogue::built_in().unwrap().provider("anthropic").unwrap().unwrap();
    let model = HttpModel::new(Client::default(), provider);
    let error = ask(&model, request("claude-haiku-4-5")).await.unwrap_err();
    assert!(matches!(&error, Error::Auth { provider, .. } if provider == "anthropic"), "{error:?}");
    assert!(!model.knows("claude-0"));
    let error = ask(&model, request("claude-0")).await.unwrap_err();
    assert_eq!(error, Error::UnknownModel("anthropic/claude-0".into()));
}

#[tokio::test]
async fn a_refused_connection_is_an_immediate_error_and_retried() {
    let fake = Fake::start([]).await;
    let url = fake.url.clone();
    drop(fake);
    let config = json!({ "options": { "baseURL": url, "apiKey": KEY } });
    let provider = Provider::named("fake").configured(&config).unwrap();
    let error = ask(&HttpModel::new(Client::default(), provider), request("m")).await.unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error:?}");
    assert_eq!(error.retry(), Retry::After { delay_hint: None });
    assert!(!error.to_string().contains("127.0.0.1:"), "addresses may hold secrets: {error}");
}

#[tokio::test]
async fn invalid_addresses_and_headers_are_reported() {
    for options in [
        json!({ "baseURL": "not an address" }),
        json!({ "baseURL": "http://127.0.0.1:1", "headers": { "a b": "c" } }),
    ] {
        let config = json!({ "options": options });
        let model = HttpModel::new(Client::default(), Provider::named("fake").configured(&config).unwrap());
        let error = ask(&model, request("m")).await.unwrap_err();
        assert!(matches!(error, Error::Other(_)), "{error:?}");
    }
}
