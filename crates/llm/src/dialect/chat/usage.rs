//! Parses usage under the names of a dozen servers.

use serde_json::Value;

use crate::{Usage, json};

/// Usage in a payload, if it has any.
pub(super) fn find(payload: &Value) -> Option<Usage> {
    let choice = payload.get("choices").and_then(|choices| choices.get(0)).unwrap_or(&Value::Null);
    [
        json::at(payload, &["usage"]),
        json::at(payload, &["x_groq", "usage"]),
        // Moonshot.
        json::at(choice, &["usage"]),
    ]
    .into_iter()
    .find(|usage| usage.is_object())
    .map(read)
}

fn read(usage: &Value) -> Usage {
    let prompt = json::at(usage, &["prompt_tokens_details"]);
    let completion = json::at(usage, &["completion_tokens_details"]);
    let first = |places: &[(&Value, &str)]| {
        places.iter().find_map(|(value, key)| json::count(value, key)).unwrap_or_default()
    };
    let input = first(&[(usage, "prompt_tokens"), (usage, "input_tokens")]);
    let mut output = first(&[(usage, "completion_tokens"), (usage, "output_tokens")]);
    let reasoning = first(&[(completion, "reasoning_tokens"), (usage, "reasoning_tokens")]);
    let total = json::count(usage, "total_tokens");
    // xAI counts reasoning beside the output, all others within it; the total shows which.
    if reasoning > 0 && total == Some(input.saturating_add(output).saturating_add(reasoning)) {
        output = output.saturating_add(reasoning);
    }
    Usage {
        input,
        output,
        reasoning,
        cache_read: first(&[
            (prompt, "cached_tokens"),
            (usage, "prompt_cache_hit_tokens"), // DeepSeek
            (usage, "cached_tokens"),           // Moonshot
            (usage, "cache_read_input_tokens"), // Claude behind a gateway
        ]),
        cache_write: first(&[(prompt, "cache_write_tokens"), (usage, "cache_creation_input_tokens")]),
        total,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_servers_numbers_are_found() {
        let usage = find(&json!({ "choices": [], "usage": {
            "prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150,
            "prompt_tokens_details": { "cached_tokens": 30, "cache_write_tokens": 10 },
            "completion_tokens_details": { "reasoning_tokens": 20 },
        } }));
        let full = Usage {
            input: 100,
            output: 50,
            reasoning: 20,
            cache_read: 30,
            cache_write: 10,
            total: Some(150),
        };
        assert_eq!(usage, Some(full));
        let deepseek = json!({ "usage": { "prompt_tokens": 9, "prompt_cache_hit_tokens": 4 } });
        assert_eq!(find(&deepseek).map(|usage| usage.cache_read), Some(4));
        let groq = json!({ "x_groq": { "usage": { "prompt_tokens": 9 } } });
        assert_eq!(find(&groq).map(|usage| usage.input), Some(9));
        let moonshot = json!({ "choices": [{ "usage": { "prompt_tokens": 9, "cached_tokens": 2 } }] });
        assert_eq!(find(&moonshot).map(|usage| usage.cache_read), Some(2));
        assert_eq!(find(&json!({ "usage": null })), None);
    }

    #[test]
    fn reasoning_beside_the_output_is_counted_into_it() {
        let xai = json!({ "usage": {
            "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115,
            "completion_tokens_details": { "reasoning_tokens": 100 },
        } });
        assert_eq!(find(&xai).map(|usage| (usage.output, usage.reasoning)), Some((105, 100)));
    }
}
