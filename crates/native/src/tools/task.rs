//! `task`: gives a task to a subagent in a child session.

use engine::ports::{ChildEnd, ChildSpec};
use futures::future::FutureExt;
use protocol::agent::{Agent, AgentMode};
use protocol::{EndReason, Extra, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{BuiltIn, Call, Output, ToolFailure, object};
use crate::limits;

/// The error when the limit of background tasks is reached.
const FULL: &str = "the limit of background tasks is reached; wait for their reports";

/// The result of a background task's call.
const RUNNING: &str = "The subagent works in the background. You will receive its report when it ends.";

#[derive(Deserialize)]
pub(super) struct Input {
    description: String,
    prompt: String,
    subagent_type: String,
    /// An earlier task to continue.
    task_id: Option<SessionId>,
    /// True if the call returns before the task ends.
    background: Option<bool>,
}

/// The tool with the list of available subagents.
pub(super) struct Task {
    agents: Vec<(String, String)>,
}

impl Task {
    pub(super) fn new(agents: &[Agent]) -> Self {
        let usable = |agent: &&Agent| agent.mode != AgentMode::Primary && agent.hidden != Some(true);
        let named = |agent: &Agent| (agent.name.clone(), agent.description.clone().unwrap_or_default());
        Self { agents: agents.iter().filter(usable).map(named).collect() }
    }

    fn names(&self) -> Vec<&str> {
        self.agents.iter().map(|(name, _)| name.as_str()).collect()
    }
}

impl BuiltIn for Task {
    const NAME: &'static str = "task";
    const IS_CONCURRENT: bool = true;

    type Input = Input;

    fn description(&self) -> String {
        let agents: Vec<String> =
            self.agents.iter().map(|(name, about)| format!("- {name}: {about}")).collect();
        format!(
            "Gives a task to a subagent, which works on it alone in a session of its own and returns one final report. \
             It does not see this conversation, so the prompt must contain everything it needs, and what to report. \
             Several calls in one answer run at the same time. With `background` the call returns at once and you receive \
             the report when the task ends: do something else meanwhile, or stop. With `task_id`, which every report names, \
             an earlier task continues with its own conversation.\n\nSubagents:\n{}",
            agents.join("\n")
        )
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "description": { "type": "string", "description": "The task in three to five words" },
                "prompt": { "type": "string", "description": "Everything the subagent needs to know" },
                "subagent_type": { "type": "string", "enum": self.names(), "description": "Which subagent" },
                "task_id": { "type": "string", "description": "The id of an earlier task to continue" },
                "background": { "type": "boolean", "description": "Go on without waiting for the report" },
            },
            "required": ["description", "prompt", "subagent_type"],
            "additionalProperties": true,
        })
    }

    fn check(&self, input: &Input) -> Result<(), String> {
        let (agent, names) = (input.subagent_type.as_str(), self.names());
        if names.contains(&agent) {
            return Ok(());
        }
        Err(format!("unknown subagent_type `{agent}`, expected one of: {}", names.join(", ")))
    }

    async fn run(&self, call: &Call<'_>, input: Input) -> Result<Output, ToolFailure> {
        let mut slot = None;
        if input.background == Some(true) {
            let full = || ToolFailure::Error(format!("{FULL} ({})", limits::BACKGROUND));
            slot = Some(call.background.reserve().ok_or_else(full)?);
        }
        let metadata =
            object(json!({ "description": input.description, "subagent_type": input.subagent_type }));
        call.require(Self::NAME, &input.subagent_type, metadata).await?;
        let Input { description, prompt, subagent_type, task_id, .. } = input;
        let spec = ChildSpec {
            title: format!("{description} (@{subagent_type} subagent)"),
            agent: Some(subagent_type),
            model: None,
            prompt,
            resume: task_id,
        };
        // The subagent's changes count as this session's from the beginning.
        call.changes.opened().await;
        let child = call.turn.start_child(spec).await.map_err(ToolFailure::Error)?;
        let (id, mut metadata) = (child.session().clone(), about(call, child.session()));
        if slot.is_some() {
            metadata.insert("background".to_owned(), true.into());
        }
        call.progress(Some(description.clone()), metadata.clone()).await;
        let mut end = child.wait().boxed();
        if slot.is_none() {
            // The engine aborts the child when this turn is aborted; it then ends like any other child.
            tokio::select! {
                end = &mut end => {
                    let output = report(&end.ok_or(ToolFailure::Cancelled)?)?;
                    return Ok(Output::new(description, output, metadata));
                }
                () = call.turn.sent_to_background() => {}
            }
            metadata.insert("background".to_owned(), true.into());
        }
        slot.unwrap_or_else(|| call.background.add_running()).watch(end);
        Ok(Output::new(description, wrap(&id, "running", "task_result", RUNNING), metadata))
    }
}

/// Returns the metadata by which clients find the child.
fn about(call: &Call<'_>, child: &SessionId) -> Extra {
    let model = &call.turn.model;
    object(json!({
        "parentSessionId": call.turn.session.id,
        "sessionId": child,
        "model": { "modelID": model.model_id, "providerID": model.provider_id },
    }))
}

fn wrap(id: &SessionId, state: &str, tag: &str, text: &str) -> String {
    format!("<task id=\"{id}\" state=\"{state}\">\n<{tag}>\n{text}\n</{tag}>\n</task>")
}

/// Returns the report of a background task.
pub(crate) fn describe_end(end: &ChildEnd) -> String {
    match report(end) {
        Ok(report) => report,
        Err(_) => wrap(&end.session, "error", "task_error", &early(end)),
    }
}

fn early(end: &ChildEnd) -> String {
    let text = if end.text.is_empty() { "It returned no text." } else { &end.text };
    format!("The subagent stopped early ({}). {text}", end.reason.as_str())
}

/// Returns the report of a child, or the failure of the call.
pub(crate) fn report(end: &ChildEnd) -> Result<String, ToolFailure> {
    match end.reason {
        EndReason::Completed => Ok(wrap(&end.session, "completed", "task_result", &end.text)),
        EndReason::Aborted | EndReason::Interrupted | EndReason::Withdrawn => {
            Err(ToolFailure::Error("Task cancelled".to_owned()))
        }
        _ => Err(ToolFailure::Error(wrap(&end.session, "error", "task_error", &early(end)))),
    }
}
