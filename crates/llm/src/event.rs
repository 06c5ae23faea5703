//! What a model says, in one vocabulary for every provider.
//!
//! A dialect turns its provider's bytes into these events; the turn loop turns them into parts. The start of a
//! step is implicit (the stream exists), its end is [`ModelEvent::Finish`]. A stream that ends without a
//! `Finish` was cut off by the provider and counts as unfinished.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing a model said.
///
/// Ids tie the start, the deltas and the end of one block together. They are unique within one stream only,
/// except for tool call ids, which the provider needs back with the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ModelEvent {
    /// A block of answer text opens.
    TextStart {
        /// Names the block.
        id: String,
    },
    /// More text for an open block.
    TextDelta {
        /// The block.
        id: String,
        /// What to append.
        text: String,
    },
    /// A block of text is complete.
    TextEnd {
        /// The block.
        id: String,
    },
    /// A block of reasoning opens.
    ReasoningStart {
        /// Names the block.
        id: String,
        /// Opaque provider data that has to be sent back with the block.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    /// More reasoning for an open block.
    ReasoningDelta {
        /// The block.
        id: String,
        /// What to append.
        text: String,
    },
    /// A block of reasoning is complete.
    ReasoningEnd {
        /// The block.
        id: String,
        /// Opaque provider data known only at the end, such as a signature.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    /// The model begins to write the arguments of a call.
    ToolInputStart {
        /// The call's id.
        id: String,
        /// The tool's name as the model wrote it.
        name: String,
    },
    /// More of the arguments, as raw JSON text.
    ToolInputDelta {
        /// The call's id.
        id: String,
        /// A piece of JSON text.
        json: String,
    },
    /// A call with its whole input.
    ToolCall {
        /// The call's id.
        id: String,
        /// The tool's name as the model wrote it.
        name: String,
        /// The arguments. Text that is not JSON arrives as a [`Value::String`] holding that text, so that the
        /// reader can show the model what it wrote; arguments proper are always an object.
        input: Value,
    },
    /// The step is over.
    Finish {
        /// Why the model stopped.
        reason: Finish,
        /// What the step used.
        usage: Usage,
    },
}

/// Why a model stopped, by the names used on the wire.
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
    /// The provider reported a failure as a reason to stop.
    Error,
    /// Anything else, or nothing.
    Unknown,
}

impl Finish {
    /// The reason's name on the wire.
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

/// What one step used, as providers count: totals that include their parts.
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
    /// The provider's own total, when it gives one.
    pub total: Option<u64>,
}

/// What one step used, as sessions store it: numbers that do not overlap.
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
    /// The provider's own total, when it gives one.
    pub total: Option<u64>,
}

impl Usage {
    /// The same usage in numbers that do not overlap.
    ///
    /// Saturates: some providers report caches larger than the input they belong to.
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
    fn exclusive_numbers_leave_out_caches_and_reasoning() {
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
