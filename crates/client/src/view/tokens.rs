//! Token counts in the spellings of several servers.

use protocol::{SessionId, session::Tokens};
use serde_json::Value;

const INPUT: &[&str] = &["input", "inputTokens", "input_tokens", "promptTokens", "prompt_tokens"];
const OUTPUT: &[&str] = &["output", "outputTokens", "output_tokens", "completionTokens", "completion_tokens"];
const REASONING: &[&str] = &["reasoning", "reasoningTokens", "reasoning_tokens"];
const CACHE_READ: &[&str] = &[
    "cacheRead",
    "cache_read",
    "cachedInputTokens",
    "cached_input_tokens",
    "cacheReadInputTokens",
    "cache_read_input_tokens",
];
const CACHE_WRITE: &[&str] = &[
    "cacheWrite",
    "cache_write",
    "cacheCreationInputTokens",
    "cache_creation_input_tokens",
    "cacheWriteInputTokens",
];

/// Token counts in OpenCode's spelling.
pub(super) fn normal(tokens: &Tokens) -> Tokens {
    // Another spelling can only be in fields that this version does not know.
    if tokens.extra.is_empty() {
        return tokens.clone();
    }
    serde_json::to_value(tokens).map_or_else(|_| tokens.clone(), |counts| read(&counts))
}

/// The counts of a session's completed step, from a message of an unusual shape.
pub(super) fn from_message(session: &SessionId, properties: &Value) -> Option<Tokens> {
    let info = properties.get("info")?;
    let is_ours = ["sessionID", "sessionId"].iter().any(|name| {
        let of = |value: &Value| value.get(*name).and_then(Value::as_str) == Some(session.as_str());
        of(info) || of(properties)
    });
    let is_complete = info.pointer("/time/completed").is_some_and(|time| !time.is_null());
    if !is_ours || !is_complete || info.get("role").and_then(Value::as_str) != Some("assistant") {
        return None;
    }
    info.get("tokens").or_else(|| info.get("usage")).map(read)
}

fn read(counts: &Value) -> Tokens {
    let mut tokens = Tokens {
        total: counts.get("total").and_then(Value::as_u64),
        input: first(counts, INPUT),
        output: first(counts, OUTPUT),
        reasoning: first(counts, REASONING),
        ..Tokens::default()
    };
    let cache = counts.get("cache").unwrap_or(&Value::Null);
    // A single number counts the tokens that were read.
    tokens.cache.read =
        cache.as_u64().unwrap_or_else(|| first(cache, &["read"]).max(first(counts, CACHE_READ)));
    tokens.cache.write = first(cache, &["write"]).max(first(counts, CACHE_WRITE));
    tokens
}

/// The largest count under these names.
fn first(counts: &Value, names: &[&str]) -> u64 {
    let found = names.iter().filter_map(|name| counts.get(name).and_then(Value::as_u64));
    found.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_spelling_of_token_counts_is_read() {
        let spellings = [
            json!({ "input": 1, "output": 2, "reasoning": 3, "cache": { "read": 4, "write": 5 } }),
            json!({ "inputTokens": 1, "outputTokens": 2, "reasoningTokens": 3, "cachedInputTokens": 4, "cacheWrite": 5 }),
            json!({
                "input_tokens": 1, "output_tokens": 2, "reasoning_tokens": 3,
                "cache_read_input_tokens": 4, "cache_creation_input_tokens": 5,
            }),
            json!({ "prompt_tokens": 1, "completion_tokens": 2, "reasoning": 3, "cacheRead": 4, "cache_write": 5 }),
            json!({ "input": 1, "output": 2, "reasoning": 3, "cache": 4, "cacheWriteInputTokens": 5 }),
        ];
        for spelling in spellings {
            let tokens = read(&spelling);
            let cache = (tokens.cache.read, tokens.cache.write);
            assert_eq!(
                (tokens.input, tokens.output, tokens.reasoning, cache),
                (1, 2, 3, (4, 5)),
                "{spelling}"
            );
        }
    }
}
