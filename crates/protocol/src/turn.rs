//! Summary of a turn, for clients that do not assemble it from messages (Baton's addition).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{
    EndReason, Message, MessageId, MessageWithParts, PartBody, Rest, SessionId, ToolState, number::Number,
    session::Tokens,
};

/// The answer of `GET /session/{id}/turn`: the newest user prompt and its answer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastTurn {
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The user message.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// Text of the prompt.
    pub prompt: String,
    /// Text of the answer, without summaries.
    pub answer: String,
    /// All assistant messages of the turn, oldest first, including answers to automatic continuations.
    pub messages: Vec<MessageWithParts>,
    /// Number of model calls.
    pub steps: u64,
    /// Tool calls in order.
    pub tools: Vec<ToolUse>,
    pub tokens: Tokens,
    pub cost: Number,
    /// Number of automatic continuations.
    pub continued: u64,
    /// End of the turn; absent while it runs or waits.
    pub end: Option<EndReason>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// A tool call of a turn.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolUse {
    /// The model's call id.
    #[serde(rename = "callID")]
    pub call_id: String,
    pub tool: String,
    /// `pending`, `running`, `completed` or `error`.
    pub status: String,
    /// Short description for users.
    pub title: Option<String>,
    #[serde(flatten)]
    pub extra: Rest,
}

impl LastTurn {
    /// Builds a turn from its prompt and all later messages, oldest first.
    pub fn new(
        session_id: SessionId,
        prompt: &MessageWithParts,
        after: Vec<MessageWithParts>,
        end: Option<EndReason>,
    ) -> Self {
        let (answers, said): (Vec<_>, Vec<_>) =
            after.into_iter().partition(|message| matches!(message.info, Message::Assistant(_)));
        let (mut tokens, mut cost) = (Tokens::default(), Number(0.0));
        for message in &answers {
            if let Message::Assistant(answer) = &message.info {
                tokens.add(&answer.tokens);
                cost += answer.cost;
            }
        }
        let answer = answers.iter().filter(|it| !is_summary(it)).map(words).filter(|it| !it.is_empty());
        let answer = answer.collect::<Vec<_>>().join("\n");
        Self {
            session_id,
            message_id: prompt.info.id().clone(),
            prompt: words(prompt),
            answer,
            steps: count_steps(&answers),
            tools: answers.iter().flat_map(tools).collect(),
            messages: answers,
            tokens,
            cost,
            continued: count(said.iter().filter(|message| is_marked(message))),
            end,
            extra: Rest::NONE,
        }
    }
}

/// Counts the model calls in the messages of an answer.
pub fn count_steps(messages: &[MessageWithParts]) -> u64 {
    let parts = messages.iter().flat_map(|message| &message.parts);
    count(parts.filter(|part| matches!(part.body, PartBody::StepStart(_))))
}

fn count<T>(things: impl Iterator<Item = T>) -> u64 {
    things.fold(0, |count, _| count + 1)
}

fn is_summary(message: &MessageWithParts) -> bool {
    matches!(&message.info, Message::Assistant(answer) if answer.summary == Some(true))
}

/// Returns true if the message is an automatic continuation.
fn is_marked(message: &MessageWithParts) -> bool {
    message.parts.iter().any(|part| match &part.body {
        PartBody::Text(text) => {
            text.metadata.as_ref().is_some_and(|it| it.contains_key(crate::continuation::Mark::FIELD))
        }
        _ => false,
    })
}

/// Joins the texts of a message with newlines, without generated and ignored ones.
fn words(message: &MessageWithParts) -> String {
    let texts = message.parts.iter().filter_map(|part| match &part.body {
        PartBody::Text(text) if text.synthetic != Some(true) && text.ignored != Some(true) => {
            Some(text.text.as_str())
        }
        _ => None,
    });
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

fn tools(message: &MessageWithParts) -> Vec<ToolUse> {
    let calls = message.parts.iter().filter_map(|part| match &part.body {
        PartBody::Tool(tool) => {
            let (status, title) = match &tool.state {
                ToolState::Pending(_) => ("pending", None),
                ToolState::Running(running) => ("running", running.title.clone()),
                ToolState::Completed(completed) => ("completed", Some(completed.title.clone())),
                ToolState::Error(_) => ("error", None),
            };
            let (call_id, tool) = (tool.call_id.clone(), tool.tool.clone());
            Some(ToolUse { call_id, tool, status: status.to_owned(), title, extra: Rest::NONE })
        }
        _ => None,
    });
    calls.collect()
}
