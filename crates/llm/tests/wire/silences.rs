//! Silences at every stage of a call. The waits are real and short; long ones are tested on a paused clock,
//! beside the code.

use std::time::{Duration, Instant};

use llm::{Deadline, Retry};
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use fake::Reply;

/// Long enough for a call on this machine, short enough for a test.
const SHORT: Duration = Duration::from_millis(300);

fn short(option: &str) -> Value {
    json!({ option: 300 })
}

/// The timeout that passed.
async fn stalled(reply: Reply, options: &Value) -> Deadline {
    let fake = Fake::start([reply]).await;
    let begun = Instant::now();
    let heard = ask(&model(&fake, DIALECTS[2].0, options), request("m")).await;
    let error = match heard {
        Err(error) => error,
        Ok(heard) => match heard.last() {
            Some(Err(error)) => error.clone(),
            other => panic!("expected a failure, got {other:?}"),
        },
    };
    assert!(begun.elapsed() < Duration::from_secs(5), "{error:?}");
    let Error::Stalled { deadline, after } = error else { panic!("{error:?}") };
    assert_eq!(after, SHORT);
    // The call was closed as well.
    fake.hung_up().await;
    deadline
}

fn word() -> String {
    format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": { "content": "Hi" } }] }))
}

#[tokio::test]
async fn no_headers() {
    assert_eq!(stalled(Reply::silence(), &short("headerTimeout")).await, Deadline::Headers);
}

#[tokio::test]
async fn headers_and_nothing_else() {
    assert_eq!(stalled(Reply::events().hang(), &short("chunkTimeout")).await, Deadline::FirstChunk);
}

#[tokio::test]
async fn headers_and_keep_alives() {
    let mut reply = Reply::events();
    for _ in 0..20 {
        reply = reply.send(": keep-alive\n\n").wait(50);
    }
    assert_eq!(stalled(reply.hang(), &short("chunkTimeout")).await, Deadline::FirstChunk);
}

#[tokio::test]
async fn an_event_and_then_keep_alives() {
    let mut reply = Reply::events().send(word());
    for _ in 0..20 {
        reply = reply.send("event: ping\ndata: {}\n\n").wait(50);
    }
    assert_eq!(stalled(reply.hang(), &short("chunkTimeout")).await, Deadline::NextChunk);
}

#[tokio::test]
async fn events_without_end() {
    let mut reply = Reply::events();
    for _ in 0..40 {
        reply = reply.send(word()).wait(50);
    }
    assert_eq!(stalled(reply.hang(), &short("timeout")).await, Deadline::Total);
}

#[tokio::test]
async fn no_tls_handshake() {
    // Accepts connections, but never answers the TLS handshake.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    let config = json!({ "options": { "baseURL": url } });
    let client = Client::with_connect_deadline(SHORT);
    let model = HttpModel::new(client, Provider::named("fake").configured(&config).unwrap());
    let error = ask(&model, request("m")).await.unwrap_err();
    assert_eq!(error, Error::Stalled { deadline: Deadline::Connect, after: SHORT });
    assert_ne!(error.retry(), Retry::Never);
}

#[tokio::test]
async fn a_connection_lost_during_the_response() {
    for (dialect, recording) in RECORDINGS.iter().enumerate() {
        let half = recording.get(..recording.find("größe").unwrap()).unwrap();
        for reply in [Reply::events().send(half).close(), Reply::events().send(half)] {
            let fake = Fake::start([reply]).await;
            let heard = ask_fake(&fake, dialect).await.unwrap();
            assert_eq!(heard.last(), Some(&Err(Error::Dropped)), "{dialect}: {heard:?}");
            assert_eq!(Error::Dropped.retry(), Retry::After { delay_hint: None });
        }
    }
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection() {
    let fake = Fake::start([Reply::events().send(word()).hang()]).await;
    let model = model(&fake, DIALECTS[2].0, &json!({}));
    let mut events = model.stream(request("m")).await.unwrap();
    assert!(matches!(events.next().await, Some(Ok(ModelEvent::TextStart { .. }))));
    drop(events);
    fake.hung_up().await;

    let fake = Fake::start([Reply::silence()]).await;
    let model = self::model(&fake, DIALECTS[2].0, &json!({}));
    let call = tokio::time::timeout(Duration::from_millis(200), model.stream(request("m"))).await;
    assert!(call.is_err(), "the future was dropped before any headers");
    fake.hung_up().await;
}
