//! Arbitrary input: no panic, exactly one end, and blocks that open before their deltas and close once.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Keys that have a meaning in some dialect.
const KEYS: [&str; 44] = [
    "type",
    "index",
    "delta",
    "content_block",
    "message",
    "usage",
    "error",
    "text",
    "thinking",
    "signature",
    "partial_json",
    "input",
    "id",
    "name",
    "stop_reason",
    "input_tokens",
    "output_index",
    "item",
    "response",
    "output",
    "summary",
    "arguments",
    "call_id",
    "encrypted_content",
    "status",
    "choices",
    "content",
    "reasoning_content",
    "reasoning_details",
    "tool_calls",
    "function",
    "finish_reason",
    "candidates",
    "parts",
    "functionCall",
    "args",
    "thought",
    "thoughtSignature",
    "finishReason",
    "usageMetadata",
    "promptFeedback",
    "blockReason",
    "object",
    "code",
];

const TEXTS: [&str; 36] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
    "text_delta",
    "thinking_delta",
    "signature_delta",
    "input_json_delta",
    "tool_use",
    "redacted_thinking",
    "text",
    "thinking",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta",
    "response.completed",
    "response.failed",
    "reasoning",
    "function_call",
    "message",
    "stop",
    "tool_calls",
    "STOP",
    "end_turn",
    "{\"a\":",
    "1}",
    "",
    "response",
    "[DONE]",
    "🙂",
];

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => proptest::sample::select(&TEXTS[..]).prop_map(Value::from),
        2 => (0_u64..4).prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            1 => vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => vec((proptest::sample::select(&KEYS[..]), inner), 0..6)
                .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

/// Payloads of the right outline with arbitrary values, which get further than fully arbitrary ones.
fn plausible() -> impl Strategy<Value = Value> {
    prop_oneof![
        arbitrary_json(),
        (proptest::sample::select(&TEXTS[..]), 0_u64..3, arbitrary_json()).prop_map(|(kind, index, any)| json!({
            "type": kind, "index": index, "output_index": index, "delta": any, "content_block": any, "item": any,
            "response": any,
        })),
        (arbitrary_json(), arbitrary_json()).prop_map(|(delta, reason)| json!({
            "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
            "candidates": [{ "content": { "parts": [delta] }, "finishReason": reason }],
        })),
    ]
}

/// Invariants of every stream.
fn check(dialect: Dialect, heard: &Heard) -> Result<(), TestCaseError> {
    let ends = heard.iter().filter(|event| matches!(event, Err(_) | Ok(ModelEvent::Finish { .. }))).count();
    prop_assert_eq!(ends, 1, "{:?} {}", dialect, lines(heard));
    let ended = matches!(heard.last(), Some(Err(_) | Ok(ModelEvent::Finish { .. })));
    prop_assert!(ended, "{}", lines(heard));
    let mut open = HashSet::new();
    let mut announced = HashSet::new();
    for event in heard.iter().flatten() {
        match event {
            ModelEvent::TextStart { id } | ModelEvent::ReasoningStart { id, .. } => {
                prop_assert!(open.insert(id.clone()), "{id} opened twice in {}", lines(heard));
            }
            ModelEvent::TextDelta { id, text } | ModelEvent::ReasoningDelta { id, text } => {
                prop_assert!(open.contains(id) && !text.is_empty(), "{}", lines(heard));
            }
            ModelEvent::TextEnd { id } | ModelEvent::ReasoningEnd { id, .. } => {
                prop_assert!(open.remove(id), "{}", lines(heard));
            }
            ModelEvent::ToolInputStart { id, .. } => {
                announced.insert(id.clone());
            }
            ModelEvent::ToolInputDelta { id, .. } => prop_assert!(announced.contains(id)),
            ModelEvent::ToolCall { id, input, .. } => {
                prop_assert!(announced.contains(id));
                prop_assert!(input.is_object() || input.is_string());
            }
            ModelEvent::Finish { .. } => prop_assert!(open.is_empty(), "{}", lines(heard)),
        }
    }
    Ok(())
}

/// Payloads of a recording.
fn payloads(stream: &str) -> Vec<Value> {
    let lines = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Removes or replaces one value.
fn spoil(value: &mut Value, path: u64, with: &Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let count = fields.len() as u64;
            if let Some(inner) = fields.values_mut().nth(usize::try_from(path % count).unwrap()) {
                spoil(inner, path / count, with);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let count = items.len() as u64;
            spoil(&mut items[usize::try_from(path % count).unwrap()], path / count, with);
        }
        value => *value = with.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_payloads_keep_the_invariants(payloads in vec(plausible(), 0..12)) {
        for dialect in ALL {
            check(dialect, &hear_payloads(dialect, &payloads))?;
        }
    }

    #[test]
    fn recordings_in_any_order_keep_the_invariants(
        which in 0..RECORDINGS.len(),
        order in vec(any::<proptest::sample::Index>(), 0..30),
        spoilt in vec((any::<proptest::sample::Index>(), any::<u64>(), arbitrary_json()), 0..3),
    ) {
        let (_, dialect, stream) = RECORDINGS[which];
        let known = payloads(stream);
        let mut shuffled: Vec<Value> = order.iter().map(|at| known[at.index(known.len())].clone()).collect();
        for (at, path, with) in spoilt.into_iter().filter(|_| !order.is_empty()) {
            let at = at.index(shuffled.len());
            spoil(&mut shuffled[at], path, &with);
        }
        check(dialect, &hear_payloads(dialect, &shuffled))?;
    }

    #[test]
    fn arbitrary_bytes_keep_the_invariants(pieces in vec(vec(any::<u8>(), 0..60), 0..8)) {
        for dialect in ALL {
            check(dialect, &hear(dialect, pieces.iter().map(Vec::as_slice)))?;
        }
    }

    #[test]
    fn damaged_recordings_keep_the_invariants(
        which in 0..RECORDINGS.len(),
        damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        lost in any::<(proptest::sample::Index, u8)>(),
    ) {
        let (_, dialect, stream) = RECORDINGS[which];
        let mut bytes = stream.as_bytes().to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let from = lost.0.index(bytes.len());
        let to = (from + usize::from(lost.1)).min(bytes.len());
        bytes.drain(from..to);
        let heard = hear(dialect, [bytes.as_slice()]);
        let ends = heard.iter().filter(|event| matches!(event, Err(_) | Ok(ModelEvent::Finish { .. }))).count();
        prop_assert_eq!(ends, 1, "{}", lines(&heard));
    }
}
