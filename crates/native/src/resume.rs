//! Resumes a turn that was interrupted while it waited for the user: runs the waiting call in a step of its own,
//! and the model goes on with its result.

use protocol::request::ToolRef;
use protocol::{AgentEvent, Message, MessageWithParts, PartBody, TurnEnd};
use serde_json::Value;

use super::attempt::RequestedCall;
use super::run::{Flow, Loop, or_end};
use super::tools::CallOutcome;

impl Loop<'_> {
    /// Runs the call that waited. The direct requests of the prompt were handled before the interruption.
    pub(super) async fn resume_call(&mut self, waiting: &ToolRef) -> Flow {
        self.new_prompts.clear();
        if let Some(MessageWithParts { info: Message::User(prompt), .. }) =
            or_end(self.turn.message(&self.turn.prompt).await)?
        {
            self.newest_prompt = Some(*prompt);
        }
        let cut_short = or_end(self.turn.message(&waiting.message_id).await)?;
        let Some(call) = cut_short.and_then(|message| repeated_call(&message, &waiting.call_id)) else {
            return Flow::Continue(());
        };
        let step = self.step_context().await?;
        let snapshot = self.supervisor.changes.begin();
        self.turn.emit(AgentEvent::StepStarted { snapshot, speaker: None }).await;
        let mut detector = std::mem::take(&mut self.detector);
        let outcome = step.tools.run(&[call], &self.tool_context(&step), &mut detector).await;
        self.detector = detector;
        if outcome == CallOutcome::Cancelled {
            return Flow::Break(TurnEnd::Cancelled);
        }
        self.finish_calls().await;
        if outcome == CallOutcome::Refused && !self.inner.options.continue_on_deny {
            return Flow::Break(TurnEnd::Blocked);
        }
        Flow::Continue(())
    }
}

/// Returns the same call with a new id, because the interrupted one stays in the conversation.
fn repeated_call(message: &MessageWithParts, call: &str) -> Option<RequestedCall> {
    message.parts.iter().find_map(|part| match &part.body {
        PartBody::Tool(tool) if tool.call_id == call => Some(RequestedCall {
            id: format!("{call}_again"),
            name: tool.tool.clone(),
            input: Value::Object(tool.state.input().clone()),
        }),
        _ => None,
    })
}
