//! `task`: hands work to a subagent in a child session.

use engine::ports::{ChildEnd, ChildSpec};
use futures::future::{BoxFuture, FutureExt};
use protocol::agent::{Agent, AgentMode};
use protocol::{EndReason, Extra};
use serde::Deserialize;
use serde_json::{Value, json};

use super::input::parse;
use super::{Call, Failure, Output, Tool, object};
use crate::native::permission::{Pattern, Wish};

#[derive(Deserialize)]
struct Input {
    description: String,
    prompt: String,
    subagent_type: String,
}

/// Knows which subagents there are.
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

impl Tool for Task {
    fn name(&self) -> &'static str {
        "task"
    }

    fn description(&self) -> String {
        let agents: Vec<String> =
            self.agents.iter().map(|(name, about)| format!("- {name}: {about}")).collect();
        format!(
            "Hands a task to a subagent, which works on it alone in a session of its own and returns one final report. \
             It does not see this conversation, so the prompt has to say everything it needs, and what to report. \
             Several calls in one answer run at the same time.\n\nSubagents:\n{}",
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
            },
            "required": ["description", "prompt", "subagent_type"],
            "additionalProperties": true,
        })
    }

    fn is_concurrent(&self) -> bool {
        true
    }

    fn check(&self, input: &Extra) -> Result<(), String> {
        let agent = parse::<Input>(input)?.subagent_type;
        if self.names().contains(&agent.as_str()) {
            return Ok(());
        }
        Err(format!("unknown subagent_type `{agent}`, expected one of: {}", self.names().join(", ")))
    }

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, Failure>> {
        async move {
            let Input { description, prompt, subagent_type } = parse(call.input).map_err(Failure::Error)?;
            let wish = Wish {
                permission: "task",
                patterns: vec![Pattern::plain(subagent_type.clone())],
                always: vec!["*".to_owned()],
                metadata: object(json!({ "description": description, "subagent_type": subagent_type })),
            };
            call.permissions.get(call.turn, wish, Some(call.id)).await?;
            let spec = ChildSpec {
                title: format!("{description} (@{subagent_type} subagent)"),
                agent: Some(subagent_type),
                model: None,
                prompt,
            };
            let child = call.turn.start_child(spec).await.map_err(Failure::Error)?;
            let model = &call.turn.model;
            let metadata = object(json!({
                "parentSessionId": call.turn.session.id,
                "sessionId": child.session(),
                "model": { "modelID": model.model_id, "providerID": model.provider_id },
            }));
            call.progress(Some(description.clone()), metadata.clone()).await;
            // The engine aborts the child when this turn is aborted; it then ends like any other child.
            let end = child.wait().await.ok_or(Failure::Cancelled)?;
            let output = report(&end)?;
            Ok(Output::new(description, output, metadata))
        }
        .boxed()
    }
}

/// What a child's end means to who started it.
pub(in crate::native) fn report(end: &ChildEnd) -> Result<String, Failure> {
    let (id, text) = (&end.session, end.text.as_str());
    let wrap = |state: &str, tag: &str, text: &str| {
        format!("<task id=\"{id}\" state=\"{state}\">\n<{tag}>\n{text}\n</{tag}>\n</task>")
    };
    match end.reason {
        EndReason::Completed => Ok(wrap("completed", "task_result", text)),
        EndReason::Aborted | EndReason::Interrupted => Err(Failure::Error("Task cancelled".to_owned())),
        reason => {
            let text = if text.is_empty() { "It said nothing." } else { text };
            Err(Failure::Error(wrap(
                "error",
                "task_error",
                &format!("The subagent stopped early ({}). {text}", reason.as_str()),
            )))
        }
    }
}
