//! Requests to a model: one [`Request`] is one call, and one call is one step of a turn.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::CallHeaders;

/// One call to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub model: ModelRef,
    /// Distinguishes cheap side calls from steps of a turn.
    pub purpose: Purpose,
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    pub tools: Vec<Tool>,
    pub choice: Choice,
    pub sampling: Sampling,
    pub limits: Limits,
    /// One of the model's variants, such as a reasoning effort. A name that the model does not have is ignored,
    /// because sessions outlive the models they were started with.
    pub variant: Option<String>,
    /// Settings for the provider, merged into the call last. Names are the provider's own or those of
    /// OpenCode's configuration.
    pub options: Map<String, Value>,
    /// Headers of the call; they override the provider's and the model's.
    pub headers: CallHeaders,
    /// Name of the conversation, for providers that find their cache by a name.
    pub cache_key: Option<String>,
    /// 0 for the first attempt of this step, then the number of the retry.
    pub attempt: u32,
}

impl Request {
    /// An empty request for one step of a turn.
    pub fn new(model: ModelRef) -> Self {
        Self {
            model,
            purpose: Purpose::Turn,
            system: String::new(),
            messages: Vec::new(),
            tools: Vec::new(),
            choice: Choice::Free,
            sampling: Sampling::default(),
            limits: Limits::default(),
            variant: None,
            options: Map::new(),
            headers: CallHeaders::default(),
            cache_key: None,
            attempt: 0,
        }
    }

    /// The newest user message and everything after it; empty without a user message.
    pub fn since_newest_prompt(&self) -> &[Message] {
        let at = self.messages.iter().rposition(|message| matches!(message, Message::User(_)));
        at.and_then(|at| self.messages.get(at..)).unwrap_or_default()
    }
}

/// Purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A step of a turn.
    Turn,
    /// A title for the session.
    Title,
    /// A summary that replaces older messages.
    Compaction,
}

/// Controls tool calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The model decides.
    #[default]
    Free,
    /// The model must call a tool.
    Required,
}

/// Sampling parameters. Absent ones are left to the provider, and models that do not support one do not receive
/// it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampling {
    /// 0 prefers the likeliest tokens; higher values vary more.
    pub temperature: Option<f64>,
    /// Share of the probability mass to sample from.
    pub top_p: Option<f64>,
    /// Number of likeliest tokens to sample from.
    pub top_k: Option<u64>,
}

/// Limits of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Most tokens the model may write; the provider's limit if absent.
    pub output_tokens: Option<u64>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// JSON Schema of its input object.
    pub schema: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Input of the user, or of Baton on their behalf.
    User(Vec<UserContent>),
    /// Output of the model in one step.
    Assistant(Vec<AssistantContent>),
    /// Results of the tools called in the previous step.
    Tool(Vec<ToolResult>),
}

/// A block of a user message.
#[derive(Debug, Clone, PartialEq)]
pub enum UserContent {
    Text(String),
    File {
        mime: String,
        name: Option<String>,
        /// A `data:` or `http(s):` address.
        url: String,
    },
}

/// A block of an assistant message.
#[derive(Debug, Clone, PartialEq)]
pub enum AssistantContent {
    Text(String),
    /// Reasoning, with the provider's opaque data.
    Reasoning {
        text: String,
        /// Data that the provider expects back unchanged.
        metadata: Option<Value>,
    },
    ToolCall {
        id: String,
        name: String,
        input: Value,
    },
}

/// Result of one tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Id of the call.
    pub id: String,
    pub name: String,
    /// The result, or the error.
    pub output: String,
    /// True if `output` describes a failure.
    pub is_error: bool,
    /// Images and documents of the result. For providers that accept none there, they follow in the next user
    /// message.
    pub files: Vec<ToolFile>,
}

/// An image or document.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolFile {
    pub mime: String,
    pub name: Option<String>,
    /// A `data:` or `http(s):` address.
    pub url: String,
}

/// A provider and one of its models, written `provider/model`.
///
/// Only the first slash separates: model names may contain more of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelRef {
    pub provider: String,
    /// The model's id within the provider.
    pub model: String,
}

impl ModelRef {
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// A text that does not name a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not name a model; write it as `provider/model`")]
pub struct ParseModelRefError(String);

impl FromStr for ModelRef {
    type Err = ParseModelRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(Self::new(provider, model))
            }
            _ => Err(ParseModelRefError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_slash_separates_provider_and_model() {
        let model: ModelRef = "router/meta/llama".parse().unwrap();
        assert_eq!(model, ModelRef::new("router", "meta/llama"));
        assert_eq!(model.to_string(), "router/meta/llama");
    }

    #[test]
    fn an_incomplete_model_name_is_refused_with_a_hint() {
        for text in ["", "demo", "/baton", "demo/"] {
            let error = text.parse::<ModelRef>().unwrap_err();
            assert!(error.to_string().contains("provider/model"), "{error}");
        }
    }

    #[test]
    fn messages_since_the_newest_prompt_begin_with_it() {
        let mut request = Request::new(ModelRef::new("demo", "simple"));
        assert!(request.since_newest_prompt().is_empty());
        let said = |text: &str| Message::User(vec![UserContent::Text(text.to_owned())]);
        request.messages =
            vec![said("one"), Message::Assistant(vec![]), said("two"), Message::Assistant(vec![])];
        assert_eq!(request.since_newest_prompt().len(), 2);
    }
}
