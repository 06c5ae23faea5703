//! Classifies errors by their wording. The last resort after status and code, because many servers use one
//! status or code for everything.

/// Messages for an overlong conversation. `*` stands for any text, `#` for a number.
const OVERFLOW: [&str; 30] = [
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input length and `max_tokens` exceed context limit",
    "exceeds the context window",
    "exceed context window of #",
    "exceeds the model's context",
    "input token count*exceeds the maximum",
    "maximum prompt length is #",
    "reduce the length of the messages",
    "reduce the length of the input",
    "maximum context length is #",
    "maximum context length of # tokens",
    "token*exceeds the limit of #",
    "exceeds the available context size",
    "greater than the context length",
    "longer than the model's context length",
    "context window exceeds limit",
    "context size has been exceeded",
    "exceeded model token limit",
    "context_length_exceeded",
    "context length exceeded",
    "context length is only # tokens",
    "input length*exceeds*context length",
    "too large for model with # maximum context length",
    "model_context_window_exceeded",
    "range of input length should be",
    "request entity too large",
    "request_too_large",
    "string_above_max_length",
];

/// Messages about rate limits: waiting helps, a shorter conversation does not.
const RATE: [&str; 8] = [
    "rate limit",
    "rate_limit",
    "rate-limit",
    "ratelimit",
    "too many requests",
    "too_many_requests",
    "throttl",
    "per minute",
];

/// Messages about trouble at the provider or on the network.
const TROUBLE: [&str; 32] = [
    "overloaded",
    "unavailable",
    "exhausted",
    "at capacity",
    "insufficient_system_resource",
    "server error",
    "server_error",
    "internal error",
    "internal_error",
    "provider returned error",
    "bad gateway",
    "fetch failed",
    "network error",
    "network-error",
    "network_error",
    "upstream connect",
    "connection refused",
    "connection lost",
    "connection reset",
    "connection closed",
    "socket hang up",
    "econnreset",
    "econnrefused",
    "econnaborted",
    "etimedout",
    "enotfound",
    "eai_again",
    "epipe",
    "getaddrinfo",
    "deadline exceeded",
    "deadline_exceeded",
    "stream disconnected",
];

/// Messages that suggest a retry.
const AGAIN: [&str; 4] = ["try again later", "try again in", "retry your request", "try your request again"];

/// Words before `timeout` that make it the provider's timeout and not a setting of that name.
const TIMEOUTS_OF: [&str; 8] =
    ["request", "response", "connection", "network", "stream", "read", "gateway", "operation"];

/// Statuses that suggest a retry wherever they are mentioned.
const STATUSES: [&str; 7] = ["429", "500", "502", "503", "504", "524", "529"];

/// Words before a number that make it a status.
const STATUS_WORDS: [&str; 6] = ["status", "code", "error", "http", "status:", "code:"];

/// Returns true if the message is about the length of the conversation.
pub(crate) fn is_overflow(text: &str) -> bool {
    let text = text.to_lowercase();
    OVERFLOW.iter().any(|pattern| matches(pattern, &text)) && !RATE.iter().any(|word| text.contains(word))
}

/// Returns true if the message is about a rate limit.
pub(crate) fn is_rate_limit(text: &str) -> bool {
    let text = text.to_lowercase();
    RATE.iter().any(|word| text.contains(word))
}

/// Returns true if the message suggests temporary trouble of the provider.
pub(crate) fn is_trouble(text: &str) -> bool {
    let text = text.to_lowercase();
    RATE.iter().chain(&TROUBLE).any(|word| text.contains(word)) || text.trim() == "terminated"
}

/// Returns true if the message otherwise suggests that a later attempt may work.
pub(crate) fn is_invitation(sentence: &str) -> bool {
    let text = sentence.to_lowercase();
    AGAIN.iter().any(|words| text.contains(words)) || is_timeout(&text) || mentions_status(&text)
}

fn is_timeout(text: &str) -> bool {
    text.trim() == "timeout"
        || TIMEOUTS_OF.iter().any(|what| {
            ["timeout", "timed out", "time-out"].iter().any(|how| text.contains(&format!("{what} {how}")))
        })
}

/// A number at the beginning, or after a word that makes it a status. Other numbers could be limits.
fn mentions_status(text: &str) -> bool {
    let mut before = None;
    for word in text.split_whitespace() {
        let number = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
        if STATUSES.contains(&number) && before.is_none_or(|before| STATUS_WORDS.contains(&before)) {
            return true;
        }
        before = Some(word);
    }
    false
}

/// Returns true if the pieces between the stars occur in this order.
fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = text;
    pattern.split('*').all(|piece| match find(piece, rest) {
        Some(after) => {
            rest = after;
            true
        }
        None => false,
    })
}

/// The text after the first match of a piece.
fn find<'t>(piece: &str, text: &'t str) -> Option<&'t str> {
    let (first, more) = piece.split_once('#').map_or((piece, None), |(first, more)| (first, Some(more)));
    let mut rest = text;
    while let Some(at) = rest.find(first) {
        let after = rest.get(at + first.len()..)?;
        let Some(more) = more else { return Some(after) };
        let end = after.trim_start_matches(|letter: char| letter.is_ascii_digit() || ",._".contains(letter));
        if end.len() < after.len() && end.starts_with(more) {
            return end.get(more.len()..);
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Original messages of the providers in the comments.
    const TOO_LONG: [&str; 20] = [
        "prompt is too long: 213462 tokens > 200000 maximum", // Anthropic
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000", // Anthropic
        "Input is too long for requested model.",             // Bedrock
        "Your input exceeds the context window of this model. Please adjust your input and try again.", // OpenAI
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", // Gemini
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",    // xAI
        "Please reduce the length of the messages or completion.",                                 // Groq
        "This endpoint's maximum context length is 128,000 tokens. However, you requested about 150000.", // OpenRouter
        "prompt token count of 210000 exceeds the limit of 128000", // Copilot
        "the request exceeds the available context size, try increasing it", // llama.cpp
        "The number of tokens to keep from the initial prompt is greater than the context length.", // LM Studio
        "invalid params, context window exceeds limit (2013)",                                      // MiniMax
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)", // Moonshot
        "The engine prompt length 9000 exceeds; context length is only 8192 tokens",            // vLLM
        "Input length (9000) exceeds the model's maximum context length (8192)",                // vLLM
        "prompt too long; exceeded max context length by 3 tokens",                             // Ollama
        "Prompt contains 90000 tokens, too large for model with 32768 maximum context length",  // Mistral
        "Range of input length should be [1, 129024]",                                          // DashScope
        "Requested tokens (5000) exceed context window of 4096", // llama-cpp-python
        "model_context_window_exceeded",                         // Z.ai
    ];

    #[test]
    fn an_overlong_conversation_is_recognised_in_every_wording() {
        for text in TOO_LONG {
            assert!(is_overflow(text), "{text}");
        }
    }

    #[test]
    fn limits_per_time_and_other_limits_are_no_overflow() {
        for text in [
            "Rate limit reached: token usage exceeds the limit of 30000 tokens per min",
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35364.",
            "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens",
            "maximum context length is a setting",
            "tools.0.name is too long",
        ] {
            assert!(!is_overflow(text), "{text}");
        }
    }

    #[test]
    fn trouble_and_retry_suggestions_are_recognised() {
        for text in [
            "Overloaded",
            "429 Too Many Requests",
            "Resource has been exhausted (e.g. check quota).",
            "The model is currently at capacity.",
            "Provider returned error",
            "request to https://x failed, reason: getaddrinfo ENOTFOUND x",
            "terminated",
        ] {
            assert!(is_trouble(text), "{text}");
        }
        for text in [
            "timeout",
            "stream read timeout",
            "Request timed out.",
            "502 Bad Request From Upstream",
            "upstream answered with status 503",
            "unexpected error code: 524",
            "We are busy. Please try again later.",
            "Rate reached. Please try again in 1.5s.",
        ] {
            assert!(is_invitation(text), "{text}");
        }
    }

    #[test]
    fn messages_about_settings_are_not_trouble() {
        for text in [
            "max_tokens must be at most 500",
            "the timeout parameter must be a number",
            "the string is not terminated",
            "Thinking level MINIMAL is not supported for this model. Please retry with other thinking level.",
            "you passed 429 messages",
        ] {
            assert!(!is_trouble(text) && !is_invitation(text), "{text}");
        }
    }

    #[test]
    fn pieces_match_in_order_and_hashes_match_numbers() {
        assert!(matches("a*b", "xxaxxbxx"));
        assert!(!matches("a*b", "xxbxxaxx"));
        assert!(matches("is # tokens", "it is big, it is 12,000 tokens"));
        assert!(!matches("is # tokens", "it is many tokens"));
    }
}
