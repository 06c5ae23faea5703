//! Commands that a turn runs before its first step: the command lines in a slash command's template, and shell
//! commands of the user.

use protocol::message::Origin;
use protocol::{AgentEvent, Extra, Message, MessageWithParts, Part, TurnEnd, UserMessage};
use serde_json::json;
use supervision::{ToolFailure, object};

use super::commands;
use super::run::{Flow, Loop};
use super::tools::{Caller, Output};

impl Loop<'_> {
    /// Runs the command lines in a prompt with the permissions of the agent that answers it, and replaces each by
    /// its output.
    pub(super) async fn expand_command_lines(&self, mut message: MessageWithParts) -> Flow<MessageWithParts> {
        for part in &mut message.parts {
            let Some((text, snippets)) = commands::pending_snippets(part) else { continue };
            let step = self.step_context().await?;
            let mut expanded = String::new();
            let (mut at, mut refused) = (0, false);
            for snippet in &snippets {
                // If a client has edited the text meanwhile, the stored positions are wrong.
                if text.get(snippet.start..snippet.end) != Some(&format!("!`{}`", snippet.command)) {
                    continue;
                }
                expanded.push_str(text.get(at..snippet.start).unwrap_or_default());
                at = snippet.end;
                let ran = if refused {
                    Err(ToolFailure::Refused("an earlier command was refused".to_owned()))
                } else {
                    let call = self.tool_context(&step);
                    step.tools.run_command(&call, part.id.as_str(), Caller::Template, &snippet.command).await
                };
                match ran {
                    Ok(output) => expanded.push_str(output.text.trim_end()),
                    Err(ToolFailure::Cancelled) => return Flow::Break(TurnEnd::Cancelled),
                    Err(ToolFailure::Error(why)) => not_run(&mut expanded, &snippet.command, &why),
                    Err(ToolFailure::Refused(why)) => {
                        refused = true;
                        not_run(&mut expanded, &snippet.command, &why);
                    }
                }
            }
            expanded.push_str(text.get(at..).unwrap_or_default());
            *part = commands::with_output(part, expanded);
            self.turn.emit(AgentEvent::Revised(Box::new(part.clone()))).await;
            if refused {
                return Flow::Break(TurnEnd::Blocked);
            }
        }
        Flow::Continue(message)
    }

    /// Runs a shell command of the user. Needs no permission, because the user asked for it.
    pub(super) async fn shell(&self, part: &Part, line: &str) -> Flow {
        let step = self.step_context().await?;
        let call = part.id.to_string();
        let input = object(json!({ "command": line }));
        self.turn.emit(AgentEvent::step_started()).await;
        self.turn.emit(running(&call, input)).await;
        let ended = match step.tools.run_command(&self.tool_context(&step), &call, Caller::User, line).await {
            Ok(output) => {
                let Output { title, text: output, metadata, attachments } = output;
                AgentEvent::ToolCompleted { call, output, title, metadata, attachments }
            }
            Err(ToolFailure::Cancelled) => return Flow::Break(TurnEnd::Cancelled),
            Err(ToolFailure::Error(error) | ToolFailure::Refused(error)) => {
                AgentEvent::ToolFailed { call, error, metadata: None }
            }
        };
        self.turn.emit(ended).await;
        let stopped = self.turn.cancellation().is_cancelled();
        Flow::Break(if stopped { TurnEnd::Cancelled } else { TurnEnd::Completed })
    }
}

/// Returns the shell command that the user runs with this prompt, if it is one.
pub(super) fn shell_line(message: &MessageWithParts) -> Option<String> {
    let Message::User(user) = &message.info else { return None };
    match UserMessage::origin(user)? {
        Origin::Shell { command } => Some(command),
        Origin::Command { .. } | Origin::Wake | Origin::Plugin => None,
    }
}

fn not_run(text: &mut String, command: &str, why: &str) {
    text.push_str("(`");
    text.push_str(command);
    text.push_str("` was not run: ");
    text.push_str(why);
    text.push(')');
}

fn running(call: &str, input: Extra) -> AgentEvent {
    let (title, metadata) = (None, Some(object(json!({ "output": "" }))));
    AgentEvent::ToolRunning { call: call.to_owned(), tool: "bash".to_owned(), input, title, metadata }
}
