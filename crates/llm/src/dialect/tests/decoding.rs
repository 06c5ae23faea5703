//! Recordings to events, in any pieces.

use serde_json::json;

use super::*;

#[test]
fn recordings_match_their_snapshots() {
    for (name, dialect, stream) in RECORDINGS {
        insta::assert_snapshot!(format!("heard_{name}"), lines(&hear(dialect, [stream.as_bytes()])));
    }
}

#[test]
fn events_do_not_depend_on_chunk_boundaries() {
    for (name, dialect, stream) in RECORDINGS {
        let bytes = stream.as_bytes();
        let whole = hear(dialect, [bytes]);
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(hear(dialect, [head, tail]), whole, "{name} cut at {cut}");
        }
        assert_eq!(hear(dialect, bytes.chunks(1)), whole, "{name} byte by byte");
    }
}

#[test]
fn a_truncated_stream_is_dropped_at_any_position() {
    for (name, dialect, stream) in RECORDINGS {
        let whole = hear(dialect, [stream.as_bytes()]);
        for end in 0..stream.len() {
            let heard = hear(dialect, [&stream.as_bytes()[..end]]);
            match heard.last() {
                Some(Err(Error::Dropped)) => assert_eq!(heard[..heard.len() - 1], whole[..heard.len() - 1]),
                // The finish reason arrived; only usage can be missing.
                Some(Ok(ModelEvent::Finish { .. })) => {
                    assert_eq!(heard.len(), whole.len(), "{name} at {end}");
                }
                other => panic!("{name} at {end}: {other:?}"),
            }
        }
    }
}

#[test]
fn nothing_follows_the_end() {
    for (_, dialect, stream) in RECORDINGS {
        let mut frames = net::sse::Decoder::default();
        frames.push(stream.repeat(2).as_bytes()).unwrap();
        let mut decoder = dialect.decoder(3);
        let mut heard: Heard =
            std::iter::from_fn(|| frames.frame()).flat_map(|frame| decoder.push(&frame)).collect();
        heard.extend(decoder.end());
        let ends =
            heard.iter().filter(|event| matches!(event, Ok(ModelEvent::Finish { .. }) | Err(_))).count();
        assert_eq!(ends, 1, "{dialect:?}");
        assert!(matches!(heard.last(), Some(Ok(ModelEvent::Finish { .. }))), "{dialect:?}");
        assert!(decoder.is_over() && decoder.push(&Frame::default()).is_empty() && decoder.end().is_empty());
    }
}

#[test]
fn keep_alives_produce_no_events() {
    let frames = [
        Frame { event: Some("ping".into()), data: "{\"type\": \"ping\"}".into(), ..Frame::default() },
        Frame { event: Some("ping".into()), data: "2026-11-15".into(), ..Frame::default() },
        Frame { event: Some("keepalive".into()), data: "...".into(), ..Frame::default() },
        Frame { data: "  ".into(), ..Frame::default() },
        Frame { data: "{\"choices\":[],\"usage\":null}".into(), ..Frame::default() },
    ];
    for dialect in ALL {
        let mut decoder = dialect.decoder(0);
        for frame in &frames {
            assert_eq!(decoder.push(frame), [], "{dialect:?} {frame:?}");
        }
    }
}

#[test]
fn invalid_json_ends_the_stream() {
    for dialect in ALL {
        let mut decoder = dialect.decoder(0);
        let heard = decoder.push(&Frame { data: "<html>".into(), ..Frame::default() });
        assert!(matches!(heard.as_slice(), [Err(Error::Garbled(_))]), "{heard:?}");
        assert!(decoder.is_over());
    }
}

#[test]
fn a_response_without_streaming_is_decoded() {
    let whole = [
        (
            Dialect::Anthropic,
            json!({
                "type": "message", "role": "assistant", "stop_reason": "tool_use",
                "content": [
                    { "type": "thinking", "thinking": "hm", "signature": "s" },
                    { "type": "text", "text": "Yes." },
                    { "type": "tool_use", "id": "t1", "name": "read", "input": { "filePath": "a" } },
                ],
                "usage": { "input_tokens": 3, "output_tokens": 4 },
            }),
        ),
        (
            Dialect::Responses,
            json!({
                "object": "response", "status": "completed",
                "output": [
                    { "type": "reasoning", "id": "rs", "encrypted_content": "e",
                      "summary": [{ "type": "summary_text", "text": "hm" }] },
                    { "type": "message", "content": [{ "type": "output_text", "text": "Yes." }] },
                    { "type": "function_call", "call_id": "t1", "name": "read", "arguments": "{\"filePath\":\"a\"}" },
                ],
                "usage": { "input_tokens": 3, "output_tokens": 4 },
            }),
        ),
        (
            Dialect::Chat,
            json!({
                "object": "chat.completion",
                "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
                    "role": "assistant", "reasoning_content": "hm", "content": "Yes.",
                    "tool_calls": [{ "id": "t1", "type": "function",
                        "function": { "name": "read", "arguments": "{\"filePath\":\"a\"}" } }],
                } }],
                "usage": { "prompt_tokens": 3, "completion_tokens": 4 },
            }),
        ),
        (
            Dialect::Gemini,
            json!([
                { "candidates": [{ "content": { "parts": [{ "text": "hm", "thought": true }, { "text": "Yes." }] } }] },
                { "candidates": [{ "finishReason": "STOP", "content": { "parts": [
                    { "functionCall": { "id": "t1", "name": "read", "args": { "filePath": "a" } } }] } }],
                  "usageMetadata": { "promptTokenCount": 3, "candidatesTokenCount": 4 } },
            ]),
        ),
    ];
    for (dialect, body) in whole {
        let heard = hear_payloads(dialect, &[body]);
        let read = AssistantContent::ToolCall {
            id: "t1".into(),
            name: "read".into(),
            input: json!({ "filePath": "a" }),
        };
        let said = told(&heard);
        assert!(matches!(&said[0], AssistantContent::Reasoning { text, .. } if text == "hm"), "{dialect:?}");
        assert_eq!(said[1..], [AssistantContent::Text("Yes.".into()), read], "{dialect:?}");
        let Some(Ok(ModelEvent::Finish { usage, .. })) = heard.last() else { panic!("{dialect:?}") };
        assert_eq!((usage.input, usage.output), (3, 4), "{dialect:?}");
    }
}

fn chat_calls(pieces: &[Value]) -> Vec<(String, String, Value)> {
    let chunk = |piece: &Value| json!({ "choices": [{ "index": 0, "delta": { "tool_calls": piece } }] });
    let mut payloads: Vec<Value> = pieces.iter().map(chunk).collect();
    payloads.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] }));
    hear_payloads(Dialect::Chat, &payloads)
        .into_iter()
        .filter_map(|event| match event {
            Ok(ModelEvent::ToolCall { id, name, input }) => Some((id, name, input)),
            _ => None,
        })
        .collect()
}

fn call(id: &str, name: &str, input: Value) -> (String, String, Value) {
    (id.to_owned(), name.to_owned(), input)
}

#[test]
fn calls_of_all_chat_compatible_servers_are_decoded() {
    let function = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    // No index: another id is another call.
    assert_eq!(
        chat_calls(&[
            json!([{ "id": "a", "function": function("x", json!("{}")) }]),
            json!([{ "id": "b", "function": function("y", json!("{}")) }]),
        ]),
        [call("a", "x", json!({})), call("b", "y", json!({}))]
    );
    // The same index for all of them.
    assert_eq!(
        chat_calls(&[
            json!([{ "index": 0, "id": "a", "function": function("x", json!("{}")) }]),
            json!([{ "index": 0, "id": "b", "function": function("y", json!("{}")) }]),
        ]),
        [call("a", "x", json!({})), call("b", "y", json!({}))]
    );
    // Id and name repeated with every piece.
    assert_eq!(
        chat_calls(&[
            json!([{ "index": 0, "id": "a", "function": function("x", json!("{\"k\":")) }]),
            json!([{ "index": 0, "id": "a", "function": function("x", json!("1}")) }]),
        ]),
        [call("a", "x", json!({ "k": 1 }))]
    );
    // Neither index nor id, and the arguments as an object.
    assert_eq!(
        chat_calls(&[
            json!([{ "function": function("x", json!({ "k": 1 })) }]),
            json!([{ "function": function("y", json!({})) }]),
        ]),
        [call("call_3_0", "x", json!({ "k": 1 })), call("call_3_1", "y", json!({}))]
    );
    // The id first, the name later, empty strings in between.
    assert_eq!(
        chat_calls(&[
            json!([{ "index": 0, "id": "a", "function": function("", json!("")) }]),
            json!([{ "index": 0, "id": "", "function": function("x", json!("{}")) }]),
            json!([{ "index": 0, "id": null, "function": { "name": null, "arguments": null } }]),
        ]),
        [call("a", "x", json!({}))]
    );
    // Placeholders that never become a call.
    assert_eq!(chat_calls(&[json!([{ "index": 0 }]), json!([]), json!(null)]), []);
    // Arguments that were cut off.
    assert_eq!(
        chat_calls(&[json!([{ "index": 0, "id": "a", "function": function("x", json!("{\"k\": \"v")) }])]),
        [call("a", "x", json!("{\"k\": \"v"))]
    );
}

#[test]
fn mistrals_nested_thinking_is_decoded() {
    let chunk = |content: Value| json!({ "choices": [{ "index": 0, "delta": { "content": content } }] });
    let heard = hear_payloads(
        Dialect::Chat,
        &[
            chunk(json!("")),
            chunk(json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": "Oh" }] }])),
            chunk(json!([
                { "type": "thinking", "thinking": [{ "type": "text", "text": "!" }] }, { "type": "text", "text": "3" }
            ])),
            json!({ "choices": [{ "index": 0, "delta": { "content": "91" }, "finish_reason": "stop" }] }),
        ],
    );
    let thought = AssistantContent::Reasoning { text: "Oh!".into(), metadata: None };
    assert_eq!(told(&heard), [thought, AssistantContent::Text("391".into())]);
}

#[test]
fn the_field_of_reasoning_is_kept_in_metadata() {
    for field in ["reasoning_content", "reasoning"] {
        let heard = hear_payloads(
            Dialect::Chat,
            &[
                json!({ "choices": [{ "index": 0, "delta": { field: "hm" } }] }),
                json!({ "choices": [{ "index": 0, "delta": { "content": "Yes." }, "finish_reason": "stop" }] }),
            ],
        );
        let mut request = request();
        request.messages.push(Message::Assistant(told(&heard)));
        let body = Dialect::Chat.encode(&request, &target("any")).body;
        assert_eq!(body["messages"][2], json!({ "role": "assistant", "content": "Yes.", field: "hm" }));
    }
}
