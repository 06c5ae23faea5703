//! The model request for a summary that replaces older messages. Pure.

use engine::ports::hooks::CompactionPrompt;
use llm::{AssistantContent, Message, UserContent};

use crate::limits;
use crate::size::tokens;

/// The system prompt of the agent that summarises.
pub(crate) const PROMPT: &str = "\
You keep the memory of a coding session. You are shown a conversation between a user and a coding agent, or the \
part of it that is about to be dropped, and write down what the agent needs to go on. The agent will have your \
summary and not the conversation, so what you leave out is lost.

Be exact about what only the conversation knows: wishes and corrections in the user's words, decisions and their \
reasons, names of files, commands, errors and values. Be brief about what the files themselves tell. Do not answer \
anything that is asked in the conversation, do not go on with the work, and do not address the reader. Write in the \
language of the conversation.";

const TEMPLATE: &str = "\
Write the summary in this form, with all of its headings. Under a heading without content write \"(none)\".

## Objective
What the user wants, as they last put it.

## Important details
Constraints, preferences, decisions and facts that the work depends on.

## Work state
### Completed
What is done, and how it was checked.
### Active
What was being done at the end, and how far it got.
### Blocked
What does not work or is not clear, and what was tried.

## Next move
The one or two steps that come next.

## Relevant files
Paths, each with a word about what it has to do with the work.";

const MERGE: &str = "\
The conversation before this part is summarised in <previous_summary>. Write one summary of both: keep what still \
holds, change what has changed, and leave out what no longer matters. Do not mention that there was an earlier one.";

/// Returns the user message of the request.
///
/// If the conversation does not fit into `room` tokens, the oldest messages are left out. Plugins may replace the
/// instructions or add to them.
pub(super) fn question(
    conversation: &[Message],
    previous: Option<&str>,
    shaped: &CompactionPrompt,
    room: u64,
) -> String {
    let mut sections = Vec::new();
    if let Some(previous) = previous {
        sections.push(format!("<previous_summary>\n{previous}\n</previous_summary>"));
    }
    sections.push(format!("<conversation>\n{}\n</conversation>", render(conversation, room)));
    if let Some(prompt) = &shaped.prompt {
        sections.push(prompt.clone());
        return sections.join("\n\n");
    }
    if previous.is_some() {
        sections.push(MERGE.to_owned());
    }
    sections.push(TEMPLATE.to_owned());
    sections.extend(shaped.context.iter().cloned());
    sections.join("\n\n")
}

/// Writes a conversation as one text.
fn render(conversation: &[Message], room: u64) -> String {
    let mut left = room;
    let mut kept: Vec<String> = Vec::new();
    let mut lines_back = conversation.iter().rev().flat_map(|message| lines(message).into_iter().rev());
    for line in lines_back.by_ref() {
        let Some(rest) = left.checked_sub(tokens(&line)) else {
            kept.push("[Older messages are left out here.]".to_owned());
            break;
        };
        left = rest;
        kept.push(line);
    }
    kept.reverse();
    kept.join("\n\n")
}

fn lines(message: &Message) -> Vec<String> {
    match message {
        Message::User(content) => content
            .iter()
            .map(|block| match block {
                UserContent::Text(text) => format!("User: {text}"),
                UserContent::File { mime, name, .. } => {
                    format!("User attached {} ({mime})", name.as_deref().unwrap_or("a file"))
                }
            })
            .collect(),
        Message::Assistant(content) => content
            .iter()
            .filter_map(|block| match block {
                AssistantContent::Text(text) => Some(format!("Agent: {text}")),
                AssistantContent::Reasoning { .. } => None,
                AssistantContent::ToolCall { name, input, .. } => {
                    Some(format!("Agent called {name}: {}", cut(&input.to_string())))
                }
            })
            .collect(),
        Message::Tool(results) => results
            .iter()
            .map(|result| {
                let went = if result.is_error { "failed" } else { "answered" };
                format!("{} {went}: {}", result.name, cut(&result.output))
            })
            .collect(),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(limits::SUMMARY_OUTPUT) {
        Some((end, _)) => format!("{}[...]", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use llm::ToolResult;
    use serde_json::json;

    use super::*;

    fn conversation() -> Vec<Message> {
        let result = |output: String, is_error| ToolResult {
            id: "c".into(),
            name: "read".into(),
            output,
            is_error,
            files: Vec::new(),
        };
        vec![
            Message::User(vec![
                UserContent::Text("Fix the build".into()),
                UserContent::File {
                    mime: "image/png".into(),
                    name: Some("a.png".into()),
                    url: "data:".into(),
                },
            ]),
            Message::Assistant(vec![
                AssistantContent::Reasoning { text: "hm".into(), metadata: None },
                AssistantContent::Text("Looking.".into()),
                AssistantContent::ToolCall {
                    id: "c".into(),
                    name: "read".into(),
                    input: json!({ "filePath": "a" }),
                },
            ]),
            Message::Tool(vec![result("é".repeat(3_000), false), result("no such file".into(), true)]),
        ]
    }

    #[test]
    fn a_conversation_becomes_one_question() {
        let question = question(&conversation(), Some("Earlier."), &CompactionPrompt::default(), 10_000)
            .replace(&"é".repeat(2_000), "é...");
        insta::assert_snapshot!(question);
    }

    #[test]
    fn the_oldest_is_left_out_first() {
        let question = question(&conversation(), None, &CompactionPrompt::default(), 1_015);
        assert!(question.contains("[Older messages are left out here.]\n\nread answered: é"), "{question}");
        assert!(!question.contains("Fix the build"));
        assert!(!question.contains("previous_summary"));
    }
}
