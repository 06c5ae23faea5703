//! Calls through a carrier: same decoding and same timeouts as own calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, stream};
use llm::{Carried, Carrier, Deadline, Headers, Reply, Retry};

use super::*;

/// Answers every call with this status and these pieces, then stays silent or closes; without a status it never
/// answers.
#[derive(Debug, Default)]
struct Messenger {
    status: Option<u16>,
    pieces: Vec<Result<&'static str, Error>>,
    is_silent: bool,
    calls: Mutex<Vec<Carried>>,
}

impl Carrier for Messenger {
    fn carry(&self, call: Carried) -> BoxFuture<'static, Result<Reply, Error>> {
        self.calls.lock().unwrap().push(call);
        let Some(status) = self.status else { return std::future::pending().boxed() };
        let pieces = self.pieces.clone().into_iter().map(|piece| piece.map(|text| text.as_bytes().into()));
        let rest = if self.is_silent { stream::pending().boxed() } else { stream::empty().boxed() };
        let body = stream::iter(pieces.collect::<Vec<_>>()).chain(rest).boxed();
        let headers = Headers::from([("content-type".to_owned(), "text/event-stream".to_owned())]);
        std::future::ready(Ok(Reply { status, headers, body })).boxed()
    }
}

async fn carried(messenger: &Arc<Messenger>) -> Result<Vec<Result<ModelEvent, Error>>, Error> {
    let options = json!({
        "baseURL": "https://acme.test/v1", "apiKey": KEY, "headers": { "x-team": "blue" },
        "headerTimeout": 200, "chunkTimeout": 200,
    });
    let config = json!({ "npm": DIALECTS[2].0, "options": options });
    let client = Client::default().through(messenger.clone());
    ask(&HttpModel::new(client, Provider::named("fake").configured(&config).unwrap()), request("m")).await
}

#[tokio::test]
async fn the_carrier_gets_the_whole_call_and_its_response_is_decoded() {
    let messenger =
        Arc::new(Messenger { status: Some(200), pieces: vec![Ok(RECORDINGS[2])], ..Messenger::default() });
    let heard = carried(&messenger).await.unwrap();
    assert!(matches!(heard.last(), Some(Ok(ModelEvent::Finish { .. }))), "{heard:?}");
    let call = messenger.calls.lock().unwrap().remove(0);
    assert_eq!(call.url, "https://acme.test/v1/chat/completions");
    assert_eq!(call.headers.get("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(
        (call.headers.get("x-team"), call.headers.get("content-type")),
        (Some("blue"), Some("application/json"))
    );
    assert!(call.headers.get("user-agent").unwrap().starts_with("baton/"));
    assert_eq!(serde_json::from_str::<Value>(&call.body).unwrap()["model"], "m");
    assert!(!format!("{call:?}").contains(KEY));
}

#[tokio::test]
async fn a_refusal_is_read_and_contains_no_key() {
    let quoted = "{\"error\":{\"message\":\"no such key: sk-0123456789abcdef\"}}";
    let messenger =
        Arc::new(Messenger { status: Some(401), pieces: vec![Ok(quoted)], ..Messenger::default() });
    let error = carried(&messenger).await.unwrap_err();
    assert!(matches!(&error, Error::Http { status: 401, .. }), "{error:?}");
    assert!(!format!("{error:?}").contains(KEY));
}

#[tokio::test]
async fn silences_time_out_as_in_own_calls() {
    let never = Arc::new(Messenger::default());
    let stalled = |deadline| Error::Stalled { deadline, after: Duration::from_millis(200) };
    assert_eq!(carried(&never).await.unwrap_err(), stalled(Deadline::Headers));
    let silent = Arc::new(Messenger { status: Some(200), is_silent: true, ..Messenger::default() });
    assert_eq!(carried(&silent).await.unwrap(), [Err(stalled(Deadline::FirstChunk))]);
}

#[tokio::test]
async fn a_carrier_lost_during_the_response_is_retried() {
    let pieces = vec![Err(Error::Dropped)];
    let lost = Arc::new(Messenger { status: Some(200), pieces, ..Messenger::default() });
    let heard = carried(&lost).await.unwrap();
    let [Err(error)] = heard.as_slice() else { panic!("{heard:?}") };
    assert_ne!(error.retry(), Retry::Never);
}
