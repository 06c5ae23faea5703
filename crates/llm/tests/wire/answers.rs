//! Responses in any pieces and encodings.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use llm::{Finish, Usage};
use serde_json::json;

use super::*;
use fake::Reply;

type Gist = (String, Vec<(String, Value)>, Option<(Finish, Usage)>);

/// Text, calls and end of a response.
fn gist(heard: &[Result<ModelEvent, Error>]) -> Gist {
    let (mut text, mut calls, mut finish) = (String::new(), Vec::new(), None);
    for event in heard {
        match event.as_ref().expect("nothing went wrong") {
            ModelEvent::TextDelta { text: more, .. } => text.push_str(more),
            ModelEvent::ToolCall { name, input, .. } => calls.push((name.clone(), input.clone())),
            ModelEvent::Finish { reason, usage } => finish = Some((*reason, *usage)),
            _ => {}
        }
    }
    (text, calls, finish)
}

#[tokio::test]
async fn every_dialect_works_over_the_wire_byte_by_byte() {
    for (dialect, recording) in RECORDINGS.iter().enumerate() {
        let fake =
            Fake::start([Reply::events().send_in(1, recording), Reply::events().send(recording)]).await;
        let in_bytes = ask_fake(&fake, dialect).await.unwrap();
        let at_once = ask_fake(&fake, dialect).await.unwrap();
        assert_eq!(in_bytes, at_once, "{dialect}");
        let (text, calls, finish) = gist(&at_once);
        assert!(text.contains("größe"), "{text}");
        assert_eq!(calls.len(), 2, "{calls:?}");
        assert!(calls[0].1["filePath"].as_str().unwrap().starts_with("größe"), "{calls:?}");
        let (reason, usage) = finish.unwrap();
        assert_eq!(reason, Finish::ToolCalls);
        assert!(usage.input > 0 && usage.output > 0 && usage.reasoning == 20 && usage.cache_read > 0);
    }
}

#[tokio::test]
async fn calls_have_the_providers_headers_and_paths() {
    let expected = [
        ("/v1/messages", "x-api-key", KEY.to_owned()),
        ("/v1/responses", "authorization", format!("Bearer {KEY}")),
        ("/v1/chat/completions", "authorization", format!("Bearer {KEY}")),
        ("/v1/models/gemini-test:streamGenerateContent?alt=sse&v=1", "x-goog-api-key", KEY.to_owned()),
    ];
    for (dialect, (path, header, value)) in expected.into_iter().enumerate() {
        let fake = Fake::start([Reply::events().send(RECORDINGS[dialect])]).await;
        let (npm, name) = DIALECTS[dialect];
        let query = if dialect == 3 { json!({ "v": "1" }) } else { json!({}) };
        let options = json!({ "headers": { "X-Team": "blue" }, "queryParams": query });
        let mut request = request(name);
        request.headers.set("x-session-id", "ses_1");
        ask(&model(&fake, npm, &options), request).await.unwrap();
        let seen = fake.only();
        assert_eq!(seen.path, path);
        assert_eq!(seen.headers[header], value);
        assert_eq!(
            (seen.headers["x-team"].as_str(), seen.headers["x-session-id"].as_str()),
            ("blue", "ses_1")
        );
        assert_eq!(seen.headers["content-type"], "application/json");
        assert_eq!(seen.headers["accept"], "text/event-stream");
        assert!(seen.headers["user-agent"].starts_with("baton/"), "{:?}", seen.headers);
        assert!(seen.body.to_string().contains("Hello?"), "{}", seen.body);
    }
}

#[tokio::test]
async fn a_connection_is_reused() {
    let fake = Fake::start([Reply::events().send(RECORDINGS[2])]).await;
    let model = model(&fake, DIALECTS[2].0, &json!({}));
    for _ in 0..3 {
        ask(&model, request("any")).await.unwrap();
    }
    assert_eq!((fake.seen().len(), fake.connections()), (3, 1));
}

#[tokio::test]
async fn compressed_streams_are_decoded_without_delay() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    let mut reply = Reply::new(200, &[("content-type", "text/event-stream"), ("content-encoding", "gzip")]);
    for line in RECORDINGS[0].split_inclusive("\n\n") {
        gzip.write_all(line.as_bytes()).unwrap();
        gzip.flush().unwrap();
        reply = reply.send(std::mem::take(gzip.get_mut()));
    }
    let reply = reply.send(gzip.finish().unwrap());
    let fake = Fake::start([reply, Reply::events().send(RECORDINGS[0])]).await;
    let compressed = ask_fake(&fake, 0).await.unwrap();
    assert_eq!(compressed, ask_fake(&fake, 0).await.unwrap());
    assert_eq!(fake.seen()[0].headers["accept-encoding"], "identity");
}

#[tokio::test]
async fn unsupported_compression_is_an_error() {
    let reply = Reply::new(200, &[("content-type", "text/event-stream"), ("content-encoding", "br")]);
    let fake = Fake::start([reply.send("whatever")]).await;
    let error = ask_fake(&fake, 2).await.unwrap_err();
    assert!(matches!(&error, Error::Garbled(why) if why.contains("`br`")), "{error:?}");
}

#[tokio::test]
async fn a_response_without_streaming_is_decoded() {
    let body =
        json!({ "choices": [{ "index": 0, "finish_reason": "length", "message": { "content": "Hi" } }] });
    let fake =
        Fake::start([Reply::new(200, &[("content-type", "application/json")]).send(body.to_string())]).await;
    let (text, _, finish) = gist(&ask_fake(&fake, 2).await.unwrap());
    assert_eq!((text.as_str(), finish.map(|(reason, _)| reason)), ("Hi", Some(Finish::Length)));
}

#[tokio::test]
async fn a_web_page_is_an_error() {
    let fake =
        Fake::start([Reply::new(200, &[("content-type", "text/html")]).send("<html>log in</html>")]).await;
    let heard = ask_fake(&fake, 2).await.unwrap();
    assert!(matches!(heard.as_slice(), [Err(Error::Other(why))] if why.contains("web page")), "{heard:?}");
}

#[tokio::test]
async fn a_failure_inside_the_stream_is_its_last_event() {
    let failures = [
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        r#"{"type":"error","code":"server_error","message":"Overloaded"}"#,
        r#"{"error":{"message":"Overloaded","code":502}}"#,
        r#"{"error":{"message":"Overloaded","code":503,"status":"UNAVAILABLE"}}"#,
    ];
    for (dialect, failure) in failures.into_iter().enumerate() {
        let cut = RECORDINGS[dialect].find("größe").unwrap();
        let begun = RECORDINGS[dialect].get(..RECORDINGS[dialect][..cut].rfind("\n\n").unwrap() + 2).unwrap();
        let fake =
            Fake::start([Reply::events().send(begun).send(format!("data: {failure}\n\n")).hang()]).await;
        let heard = ask_fake(&fake, dialect).await.unwrap();
        assert!(heard.len() > 2, "{dialect}: {heard:?}");
        let Some(Err(error)) = heard.last() else { panic!("{heard:?}") };
        assert!(matches!(error, Error::InStream { message, .. } if message == "Overloaded"), "{error:?}");
        assert_ne!(error.retry(), llm::Retry::Never);
        fake.hung_up().await;
    }
}

#[tokio::test]
async fn installed_models_can_be_listed() {
    let list =
        json!({ "object": "list", "data": [{ "id": "qwen3:8b" }, { "id": "llama4" }, { "no": "id" }] });
    let fake =
        Fake::start([Reply::new(200, &[("content-type", "application/json")]).send(list.to_string())]).await;
    let model = model(&fake, "@ai-sdk/openai-compatible", &json!({}));
    assert_eq!(model.installed().await.unwrap(), ["qwen3:8b", "llama4"]);
    assert_eq!(fake.only().path, "/v1/models");
}
