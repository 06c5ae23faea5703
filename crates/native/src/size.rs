//! Estimates the size of messages and requests. Pure.
//!
//! Tokens are estimated from bytes: the model's own count is known only after a call.

use llm::{AssistantContent, Message, Request, UserContent};
use protocol::{MessageWithParts, Part, PartBody, ToolState};
use serde_json::Value;

/// Bytes per token, the usual rule of thumb.
const TOKEN_BYTES: u64 = 4;

/// The estimate for a picture or document, in tokens; its length says nothing.
const FILE: u64 = 1_500;

/// The stored size of a part beside its text.
const PART_BYTES: u64 = 200;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// The estimated token count.
    pub(super) tokens: u64,
    /// The number of bytes that are stored or sent.
    pub(super) bytes: u64,
}

impl Size {
    fn text(text: &str) -> Self {
        Self { tokens: tokens(text), bytes: length(text) }
    }

    fn file(url: &str) -> Self {
        Self { tokens: FILE, bytes: length(url) }
    }

    fn value(value: &Value) -> Self {
        Self::text(&value.to_string())
    }
}

impl std::ops::Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |sum, size| sum + size)
    }
}

/// Estimates the token count of a text.
pub(super) fn tokens(text: &str) -> u64 {
    length(text).div_ceil(TOKEN_BYTES)
}

pub(super) fn request(request: &Request) -> Size {
    let tools = request
        .tools
        .iter()
        .map(|tool| Size::text(&tool.name) + Size::text(&tool.description) + Size::value(&tool.schema));
    Size::text(&request.system) + tools.sum() + conversation(&request.messages)
}

pub(super) fn conversation(messages: &[Message]) -> Size {
    messages.iter().map(message).sum()
}

fn message(message: &Message) -> Size {
    match message {
        Message::User(content) => content
            .iter()
            .map(|block| match block {
                UserContent::Text(text) => Size::text(text),
                UserContent::File { url, .. } => Size::file(url),
            })
            .sum(),
        Message::Assistant(content) => content
            .iter()
            .map(|block| match block {
                AssistantContent::Text(text) | AssistantContent::Reasoning { text, .. } => Size::text(text),
                AssistantContent::ToolCall { name, input, .. } => Size::text(name) + Size::value(input),
            })
            .sum(),
        Message::Tool(results) => results
            .iter()
            .map(|result| {
                Size::text(&result.output) + result.files.iter().map(|file| Size::file(&file.url)).sum()
            })
            .sum(),
    }
}

/// Returns the size of a message as it is stored, including parts that were pruned from the model's view.
pub(super) fn stored(message: &MessageWithParts) -> Size {
    message.parts.iter().map(part).sum()
}

fn part(part: &Part) -> Size {
    let size = match &part.body {
        PartBody::Text(text) => Size::text(&text.text),
        PartBody::Reasoning(reasoning) => Size::text(&reasoning.text),
        PartBody::File(file) => Size::file(&file.url),
        PartBody::Tool(tool) => {
            let input: Size = tool.state.input().values().map(Size::value).sum();
            input
                + match &tool.state {
                    ToolState::Completed(state) => {
                        let files = state.attachments.iter().flatten().map(self::part);
                        Size::text(&state.output) + files.sum()
                    }
                    ToolState::Error(state) => Size::text(&state.error),
                    ToolState::Pending(_) | ToolState::Running(_) => Size::default(),
                }
        }
        _ => Size::default(),
    };
    size + Size { tokens: 0, bytes: PART_BYTES }
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}
