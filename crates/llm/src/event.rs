//! Events of a model, common to all providers.
//!
//! A dialect decodes its provider's bytes into these events; the turn loop turns them into parts. The start of
//! a step is implicit (the stream exists), its end is [`ModelEvent::Finish`]. A stream that ends without a
//! `Finish` was cut off by the provider and counts as unfinished.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event of a model.
///
/// Ids connect the start, the deltas and the end of one block. They are unique within one stream only, except
/// for tool call ids, which the provider needs back with the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ModelEvent {
    /// A block of answer text opens.
    TextStart {
        /// Shared by the start, the deltas and the end of the block.
        id: String,
    },
    /// More text for an open block.
    TextDelta {
        id: String,
        /// Text to append.
        text: String,
    },
    /// A block of text is complete.
    TextEnd { id: String },
    /// A block of reasoning opens.
    ReasoningStart {
        id: String,
        /// Opaque provider data that must be sent back with the block.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    /// More reasoning for an open block.
    ReasoningDelta {
        id: String,
        /// Text to append.
        text: String,
    },
    /// A block of reasoning is complete.
    ReasoningEnd {
        id: String,
        /// Opaque provider data known only at the end, such as a signature.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    /// The model begins to write the arguments of a call.
    ToolInputStart {
        id: String,
        /// The tool's name as the model wrote it.
        name: String,
    },
    /// More of the arguments, as raw JSON text.
    ToolInputDelta {
        id: String,
        /// A piece of JSON text.
        json: String,
    },
    /// A call with its complete input.
    ToolCall {
        id: String,
        /// The tool's name as the model wrote it.
        name: String,
        /// The arguments. Text that is not JSON becomes a [`Value::String`] with that text, so that the error
        /// can show the model what it wrote; valid arguments are always an object.
        input: Value,
    },
    /// The step is over.
    Finish { reason: Finish, usage: Usage },
}

/// Reason why a model stopped, with its name on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// The answer is complete.
    Stop,
    /// The model waits for tool results.
    ToolCalls,
    /// The output limit was reached.
    Length,
    /// The provider withheld the answer.
    ContentFilter,
    /// The provider reported an error as the finish reason.
    Error,
    /// Any other reason, or none.
    Unknown,
}

impl Finish {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool-calls",
            Self::Length => "length",
            Self::ContentFilter => "content-filter",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for Finish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Usage of one step as providers count it: totals that include their parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Reasoning tokens within `output`.
    pub reasoning: u64,
    /// Tokens read from the provider's cache, within `input`.
    pub cache_read: u64,
    /// Tokens written to the provider's cache, within `input`.
    pub cache_write: u64,
    /// The provider's own total, if it gives one.
    pub total: Option<u64>,
}

/// Usage of one step as sessions store it: numbers that do not overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input tokens that were not cached.
    pub input: u64,
    /// Output tokens that were not reasoning.
    pub output: u64,
    /// Reasoning tokens.
    pub reasoning: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Tokens written to the cache.
    pub cache_write: u64,
    /// The provider's own total, if it gives one.
    pub total: Option<u64>,
}

impl Usage {
    /// Converts to numbers that do not overlap.
    ///
    /// Saturates, because some providers report caches larger than the input they belong to.
    pub fn exclusive(self) -> Tokens {
        Tokens {
            input: self.input.saturating_sub(self.cache_read).saturating_sub(self.cache_write),
            output: self.output.saturating_sub(self.reasoning),
            reasoning: self.reasoning,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            total: self.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_numbers_exclude_caches_and_reasoning() {
        let usage = Usage {
            input: 100,
            output: 50,
            reasoning: 20,
            cache_read: 30,
            cache_write: 10,
            total: Some(150),
        };
        assert_eq!(
            usage.exclusive(),
            Tokens {
                input: 60,
                output: 30,
                reasoning: 20,
                cache_read: 30,
                cache_write: 10,
                total: Some(150)
            }
        );
    }

    #[test]
    fn exclusive_numbers_never_underflow() {
        let usage = Usage { input: 5, output: 1, reasoning: 9, cache_read: 3, cache_write: 7, total: None };
        assert_eq!(usage.exclusive().input, 0);
        assert_eq!(usage.exclusive().output, 0);
    }

    #[test]
    fn finish_reasons_have_one_name_in_text_and_json() {
        for reason in [
            Finish::Stop,
            Finish::ToolCalls,
            Finish::Length,
            Finish::ContentFilter,
            Finish::Error,
            Finish::Unknown,
        ] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
