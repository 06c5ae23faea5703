//! Tasks that a prompt gives to a subagent directly, without a call of the model.

use engine::ports::ChildSpec;
use engine::ports::hooks::Refusal;
use protocol::agent_event::Speaker;
use protocol::part::{SubtaskPart, TextPart};
use protocol::{AgentEvent, Extra, Part, PartBody, TurnEnd};
use serde_json::{Value, json};
use supervision::{ToolFailure, object};

use super::hooks;
use super::run::{Flow, Loop};
use super::tools::{self, Output};

/// The message for the model after a command's task is done.
const NEXT: &str = "Summarize the task tool output above and continue with your task.";

/// The name of the tool that a task is displayed as.
const TOOL: &str = "task";

impl Loop<'_> {
    /// Runs a task as if the model had called the tool for it: a step of its own, with one call.
    pub(super) async fn subtask(&mut self, part: &Part, task: &SubtaskPart) -> Flow {
        let arguments = input(task);
        let shaped = tokio::select! {
            biased;
            () = self.turn.cancelled() => return Flow::Break(TurnEnd::Cancelled),
            shaped = hooks::before(self.turn, TOOL, part.id.as_str(), &arguments) => shaped,
        };
        let (shaped, forbidden) = match shaped {
            Ok(shaped) => (shaped, None),
            Err(Refusal(why)) => (arguments, Some(why)),
        };
        let task = &changed(task, &shaped);
        let own = self.inner.agent(&task.agent).and_then(|agent| agent.model.clone());
        let model = task.model.clone().or(own).unwrap_or_else(|| self.turn.model.clone());
        let speaker = Speaker {
            agent: task.agent.clone(),
            model: model.clone(),
            summary: false,
            answers: Some(part.message_id.clone()),
        };
        let snapshot = self.supervisor.changes.begin();
        self.turn.emit(AgentEvent::StepStarted { snapshot, speaker: Some(speaker) }).await;
        let call = part.id.to_string();
        let running = |metadata: Option<Extra>| AgentEvent::ToolRunning {
            call: call.clone(),
            tool: TOOL.to_owned(),
            input: input(task),
            title: metadata.as_ref().map(|_| task.description.clone()),
            metadata,
        };
        self.turn.emit(running(None)).await;
        let spec = ChildSpec {
            title: format!("{} (@{} subagent)", task.description, task.agent),
            agent: Some(task.agent.clone()),
            model: Some(model.clone()),
            prompt: task.prompt.clone(),
            resume: None,
        };
        let mut metadata = Extra::new();
        let started = match forbidden {
            None => self.delegate(spec).await,
            Some(why) => Err(why),
        };
        let result = match started {
            Ok(child) => {
                metadata = object(json!({
                    "parentSessionId": self.turn.session.id,
                    "sessionId": child.session(),
                    "model": { "modelID": model.model_id, "providerID": model.provider_id },
                }));
                self.turn.emit(running(Some(metadata.clone()))).await;
                match child.wait().await {
                    Some(end) => tools::report(&end),
                    None => Err(ToolFailure::Cancelled),
                }
            }
            Err(error) => Err(ToolFailure::Error(error)),
        };
        if self.turn.cancellation().is_cancelled() {
            return Flow::Break(TurnEnd::Cancelled);
        }
        let ended = match result {
            Ok(text) => {
                let mut output = Output::new(task.description.clone(), text, metadata);
                tokio::select! {
                    biased;
                    () = self.turn.cancelled() => return Flow::Break(TurnEnd::Cancelled),
                    _ = hooks::after(self.turn, TOOL, &call, &shaped, &mut output) => {}
                }
                let Output { title, text: output, metadata, attachments } = output;
                AgentEvent::ToolCompleted { call, output, title, metadata, attachments }
            }
            Err(ToolFailure::Cancelled) => return Flow::Break(TurnEnd::Cancelled),
            Err(ToolFailure::Error(error) | ToolFailure::Refused(error)) => {
                AgentEvent::ToolFailed { call, error, metadata: Some(metadata) }
            }
        };
        self.turn.emit(ended).await;
        self.finish_calls().await;
        if task.command.is_some() {
            let text = TextPart { text: NEXT.to_owned(), synthetic: Some(true), ..TextPart::default() };
            self.turn.emit(AgentEvent::Continued(vec![PartBody::Text(text)])).await;
        }
        Flow::Continue(())
    }

    async fn delegate(&self, spec: ChildSpec) -> Result<engine::session::Child, String> {
        let most = usize::try_from(self.inner.options.subagent_depth).unwrap_or(usize::MAX);
        if self.depth >= most {
            return Err(format!("subagents may not nest deeper than {most}"));
        }
        // The subagent's changes count as this session's from the beginning.
        self.supervisor.changes.opened().await;
        self.turn.start_child(spec).await
    }
}

/// Returns the task with the changes of hooks.
fn changed(task: &SubtaskPart, shaped: &Extra) -> SubtaskPart {
    let text = |name: &str, default: &String| {
        shaped.get(name).and_then(Value::as_str).map_or_else(|| default.clone(), str::to_owned)
    };
    SubtaskPart {
        prompt: text("prompt", &task.prompt),
        description: text("description", &task.description),
        agent: text("subagent_type", &task.agent),
        ..task.clone()
    }
}

fn input(task: &SubtaskPart) -> Extra {
    let mut input = object(json!({
        "prompt": task.prompt, "description": task.description, "subagent_type": task.agent,
    }));
    if let Some(command) = &task.command {
        input.insert("command".to_owned(), Value::String(command.clone()));
    }
    input
}
