//! What is asked of a model: one [`Request`] is one call, and one call is one step of a turn.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::CallHeaders;

/// One call to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Which model.
    pub model: ModelRef,
    /// What the answer is for. Cheap side calls are told apart from steps of a turn by this.
    pub purpose: Purpose,
    /// The system prompt.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools the model may call.
    pub tools: Vec<Tool>,
    /// Whether it has to call one of them.
    pub choice: Choice,
    /// How daring the answer is.
    pub sampling: Sampling,
    /// Bounds for the answer.
    pub limits: Limits,
    /// One of the model's named settings, such as an effort of reasoning. A name the model does not have is
    /// ignored: sessions outlive the models they were begun with.
    pub variant: Option<String>,
    /// Settings for the provider, merged into the call after everything else. Names are the provider's own, or
    /// those of OpenCode's configuration.
    pub options: Map<String, Value>,
    /// Headers for the call, after the provider's and the model's.
    pub headers: CallHeaders,
    /// Names the conversation, for providers that find their cache by a name.
    pub cache_key: Option<String>,
    /// 0 for the first try of this step, then the number of the retry.
    pub attempt: u32,
}

impl Request {
    /// A request for one step of a turn, with nothing in it yet.
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

    /// The newest user message and everything after it; empty when nobody has said anything.
    pub fn since_newest_prompt(&self) -> &[Message] {
        let at = self.messages.iter().rposition(|message| matches!(message, Message::User(_)));
        at.and_then(|at| self.messages.get(at..)).unwrap_or_default()
    }
}

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A step of a turn.
    Turn,
    /// A title for the session.
    Title,
    /// A summary that replaces older messages.
    Compaction,
}

/// Whether a model has to call a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// As it likes.
    #[default]
    Free,
    /// It has to call one.
    Required,
}

/// How daring an answer is. What is absent is left to the provider, and a model that knows no such setting
/// is not bothered with it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampling {
    /// 0 for the likeliest words; more for others.
    pub temperature: Option<f64>,
    /// The share of likely words that are considered.
    pub top_p: Option<f64>,
    /// How many likely words are considered.
    pub top_k: Option<u64>,
}

/// Bounds for an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// The most tokens the model may write; the provider's own limit when absent.
    pub output_tokens: Option<u64>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name the model calls it by.
    pub name: String,
    /// When and how to use it.
    pub description: String,
    /// JSON Schema of its input object.
    pub schema: Value,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// What a person said (or what was said in their name).
    User(Vec<UserContent>),
    /// What the model said in one step.
    Assistant(Vec<AssistantContent>),
    /// What the tools called in the step before answered.
    Tool(Vec<ToolResult>),
}

/// A block of a user message.
#[derive(Debug, Clone, PartialEq)]
pub enum UserContent {
    /// Plain text.
    Text(String),
    /// An attachment.
    File {
        /// Its media type.
        mime: String,
        /// Its name, when it has one.
        name: Option<String>,
        /// A `data:` or `http(s):` address.
        url: String,
    },
}

/// A block of an assistant message.
#[derive(Debug, Clone, PartialEq)]
pub enum AssistantContent {
    /// Answer text.
    Text(String),
    /// Reasoning, with the provider's opaque data.
    Reasoning {
        /// The readable part.
        text: String,
        /// What the provider wants back unchanged.
        metadata: Option<Value>,
    },
    /// A call that was made.
    ToolCall {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// Its input.
        input: Value,
    },
}

/// The answer to one call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// What it answered, or what went wrong.
    pub output: String,
    /// Whether `output` describes a failure.
    pub is_error: bool,
    /// Pictures and documents that belong to the answer. For providers that take none there, they follow in
    /// the next user message.
    pub files: Vec<Attachment>,
}

/// A picture or document.
#[derive(Debug, Clone, PartialEq)]
pub struct Attachment {
    /// Its media type.
    pub mime: String,
    /// Its name, when it has one.
    pub name: Option<String>,
    /// A `data:` or `http(s):` address.
    pub url: String,
}

/// A provider and one of its models, written `provider/model`.
///
/// Only the first slash separates: model names may contain more of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelRef {
    /// The provider's id.
    pub provider: String,
    /// The model's id within the provider.
    pub model: String,
}

impl ModelRef {
    /// Names a model.
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
    fn half_a_model_name_is_refused_with_a_hint() {
        for text in ["", "demo", "/baton", "demo/"] {
            let error = text.parse::<ModelRef>().unwrap_err();
            assert!(error.to_string().contains("provider/model"), "{error}");
        }
    }

    #[test]
    fn the_newest_prompt_opens_its_part_of_the_conversation() {
        let mut request = Request::new(ModelRef::new("demo", "simple"));
        assert!(request.since_newest_prompt().is_empty());
        let said = |text: &str| Message::User(vec![UserContent::Text(text.to_owned())]);
        request.messages =
            vec![said("one"), Message::Assistant(vec![]), said("two"), Message::Assistant(vec![])];
        assert_eq!(request.since_newest_prompt().len(), 2);
    }
}
