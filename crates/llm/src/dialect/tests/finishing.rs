//! Finish reasons and failures of streams.

use serde_json::json;

use super::*;
use crate::{Finish, Retry};

fn reason(dialect: Dialect, payloads: &[Value]) -> Finish {
    match hear_payloads(dialect, payloads).last() {
        Some(Ok(ModelEvent::Finish { reason, .. })) => *reason,
        other => panic!("{dialect:?} {payloads:?} ended with {other:?}"),
    }
}

#[test]
fn every_finish_reason_is_mapped() {
    let anthropic = |reason: &str| json!({ "type": "message_delta", "delta": { "stop_reason": reason } });
    for (said, meant) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("tool_use", Finish::ToolCalls),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("refusal", Finish::ContentFilter),
        ("pause_turn", Finish::Unknown),
        ("compaction", Finish::Unknown),
    ] {
        let stop = json!({ "type": "message_stop" });
        assert_eq!(reason(Dialect::Anthropic, &[anthropic(said), stop]), meant, "{said}");
        assert_eq!(reason(Dialect::Anthropic, &[anthropic(said)]), meant, "{said} and a closed connection");
    }

    let chat = |reason: &str| json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] });
    for (said, meant) in [
        ("stop", Finish::Stop),
        ("tool_calls", Finish::ToolCalls),
        ("function_call", Finish::ToolCalls),
        ("length", Finish::Length),
        ("model_length", Finish::Length),
        ("content_filter", Finish::ContentFilter),
        ("error", Finish::Error),
        ("because", Finish::Unknown),
    ] {
        assert_eq!(reason(Dialect::Chat, &[chat(said)]), meant, "{said}");
    }

    let gemini = |reason: &str| json!({ "candidates": [{ "finishReason": reason }] });
    for (said, meant) in [
        ("STOP", Finish::Stop),
        ("MAX_TOKENS", Finish::Length),
        ("SAFETY", Finish::ContentFilter),
        ("RECITATION", Finish::ContentFilter),
        ("PROHIBITED_CONTENT", Finish::ContentFilter),
        ("MALFORMED_FUNCTION_CALL", Finish::Error),
        ("OTHER", Finish::Unknown),
    ] {
        assert_eq!(reason(Dialect::Gemini, &[gemini(said)]), meant, "{said}");
    }
    let called = json!({ "candidates": [{ "finishReason": "STOP",
        "content": { "parts": [{ "functionCall": { "name": "x" } }] } }] });
    assert_eq!(reason(Dialect::Gemini, &[called]), Finish::ToolCalls);
    let blocked = json!({ "promptFeedback": { "blockReason": "PROHIBITED_CONTENT" } });
    assert_eq!(reason(Dialect::Gemini, &[blocked]), Finish::ContentFilter);

    let responses = |status: &str, why: Value| {
        json!({ "type": format!("response.{status}"),
            "response": { "status": status, "incomplete_details": why } })
    };
    for (status, why, meant) in [
        ("completed", Value::Null, Finish::Stop),
        ("incomplete", json!({ "reason": "max_output_tokens" }), Finish::Length),
        ("incomplete", json!({ "reason": "content_filter" }), Finish::ContentFilter),
        ("incomplete", json!({ "reason": "steam" }), Finish::Unknown),
    ] {
        assert_eq!(reason(Dialect::Responses, &[responses(status, why.clone())]), meant, "{status} {why}");
    }
    let call = json!({ "type": "response.output_item.done", "output_index": 0,
        "item": { "type": "function_call", "call_id": "a", "name": "x", "arguments": "" } });
    let end = responses("completed", Value::Null);
    assert_eq!(reason(Dialect::Responses, &[call, end]), Finish::ToolCalls);
}

#[test]
fn an_end_mark_without_a_reason_is_unknown() {
    let mut decoder = Dialect::Chat.decoder(0);
    let said = json!({ "choices": [{ "index": 0, "delta": { "content": "Hi" } }] }).to_string();
    decoder.push(&Frame { data: said, ..Frame::default() });
    let heard = decoder.push(&Frame { data: "[DONE]".into(), ..Frame::default() });
    assert!(
        matches!(heard.last(), Some(Ok(ModelEvent::Finish { reason: Finish::Unknown, .. }))),
        "{heard:?}"
    );
}

#[test]
fn only_usage_can_follow_a_reason() {
    let chunks = [
        (Dialect::Chat, json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] })),
        (Dialect::Gemini, json!({ "candidates": [{ "finishReason": "STOP" }] })),
        (Dialect::Anthropic, json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } })),
    ];
    for (dialect, chunk) in chunks {
        let mut decoder = dialect.decoder(0);
        assert!(!decoder.is_settled());
        decoder.push(&Frame { data: chunk.to_string(), ..Frame::default() });
        assert!(decoder.is_settled() && !decoder.is_over(), "{dialect:?}");
    }
}

fn failure(dialect: Dialect, payload: Value) -> Error {
    match hear_payloads(dialect, &[payload]).as_slice() {
        [Err(error)] => error.clone(),
        other => panic!("{dialect:?}: {other:?}"),
    }
}

#[test]
fn failures_inside_a_stream_keep_code_and_message() {
    let said =
        |code: &str, message: &str| Error::InStream { code: Some(code.into()), message: message.into() };
    let cases = [
        (
            Dialect::Anthropic,
            json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } }),
            said("overloaded_error", "Overloaded"),
            true,
        ),
        (
            Dialect::Anthropic,
            json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "no" } }),
            said("invalid_request_error", "no"),
            false,
        ),
        (
            Dialect::Responses,
            json!({ "type": "error", "code": "server_error", "message": "Sorry", "sequence_number": 2 }),
            said("server_error", "Sorry"),
            true,
        ),
        (
            Dialect::Responses,
            json!({ "type": "error", "error": { "type": "server_error", "code": null, "message": "Sorry" } }),
            said("server_error", "Sorry"),
            true,
        ),
        (
            Dialect::Responses,
            json!({ "type": "response.failed", "response": { "status": "failed",
                "error": { "code": "insufficient_quota", "message": "no money" } } }),
            said("insufficient_quota", "no money"),
            false,
        ),
        (
            Dialect::Responses,
            json!({ "type": "response.failed", "response": { "status": "failed",
                "error": { "code": "rate_limit_exceeded", "message": "Please try again in 2s." } } }),
            said("rate_limit_exceeded", "Please try again in 2s."),
            true,
        ),
        (
            Dialect::Chat,
            json!({ "error": { "code": 502, "message": "Provider returned error" }, "choices": [
                { "index": 0, "delta": { "content": "" }, "finish_reason": "error" }] }),
            said("502", "Provider returned error"),
            true,
        ),
        (
            Dialect::Chat,
            json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "insufficient_system_resource" }] }),
            said(
                "insufficient_system_resource",
                "the provider ran out of resources in the middle of the answer",
            ),
            true,
        ),
        (
            Dialect::Gemini,
            json!({ "error": { "code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE" } }),
            said("UNAVAILABLE", "The model is overloaded."),
            true,
        ),
        (
            Dialect::Gemini,
            json!({ "error": { "code": 400, "message": "bad", "status": "INVALID_ARGUMENT" } }),
            said("INVALID_ARGUMENT", "bad"),
            false,
        ),
    ];
    for (dialect, payload, meant, again) in cases {
        let error = failure(dialect, payload.clone());
        assert_eq!(error, meant, "{payload}");
        assert_eq!(error.retry() != Retry::Never, again, "{payload}");
    }
    let plain = failure(Dialect::Chat, json!({ "error": "model not found" }));
    assert_eq!(plain, Error::InStream { code: None, message: "model not found".into() });
}

#[test]
fn an_overflow_inside_a_stream_is_detected() {
    let cases = [
        (
            Dialect::Responses,
            json!({ "type": "response.failed", "response": {
                "error": { "code": "context_length_exceeded", "message": "too much" } } }),
        ),
        (
            Dialect::Anthropic,
            json!({ "type": "error",
                "error": { "type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum" } }),
        ),
        (
            Dialect::Chat,
            json!({ "error": { "message": "This model's maximum context length is 8192 tokens." } }),
        ),
    ];
    for (dialect, payload) in cases {
        assert!(failure(dialect, payload).is_overflow(), "{dialect:?}");
    }
}

#[test]
fn a_failure_keeps_earlier_events() {
    let heard = hear_payloads(
        Dialect::Anthropic,
        &[
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Half" } }),
            json!({ "type": "error", "error": { "type": "api_error", "message": "Internal server error" } }),
            json!({ "type": "message_stop" }),
        ],
    );
    assert_eq!(heard.len(), 3, "{heard:?}");
    assert!(heard[2].is_err());
}

#[test]
fn open_blocks_are_closed_at_the_end() {
    let heard = hear_payloads(
        Dialect::Anthropic,
        &[
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Hi" } }),
            json!({ "type": "content_block_start", "index": 1,
                "content_block": { "type": "tool_use", "id": "t", "name": "x", "input": {} } }),
            json!({ "type": "content_block_delta", "index": 1,
                "delta": { "type": "input_json_delta", "partial_json": "{\"a\": [1, 2" } }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "max_tokens" } }),
            json!({ "type": "message_stop" }),
        ],
    );
    let cut = AssistantContent::ToolCall { id: "t".into(), name: "x".into(), input: json!("{\"a\": [1, 2") };
    assert_eq!(told(&heard), [AssistantContent::Text("Hi".into()), cut]);
    assert!(heard.contains(&Ok(ModelEvent::TextEnd { id: "0".into() })));
}
