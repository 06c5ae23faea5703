//! Resumes a turn that was interrupted while it waited for the user: runs the waiting call in a step of its own,
//! and the model goes on with its result.

use protocol::message::Finish;
use protocol::number::Number;
use protocol::request::ToolRef;
use protocol::session::Tokens;
use protocol::{AgentEvent, Message, MessageWithParts, PartBody, TurnEnd};
use serde_json::Value;

use super::attempt::Called;
use super::run::{Flow, Loop, or_end};
use super::tools::Fate;

impl Loop<'_> {
    /// Runs the call that waited. The direct requests of the prompt were handled before the interruption.
    pub(super) async fn take_up(&mut self, waiting: &ToolRef) -> Flow {
        self.fresh.clear();
        if let Some(MessageWithParts { info: Message::User(prompt), .. }) =
            or_end(self.turn.message(&self.turn.prompt).await)?
        {
            self.asked = Some(*prompt);
        }
        let cut_short = or_end(self.turn.message(&waiting.message_id).await)?;
        let Some(call) = cut_short.and_then(|message| again(&message, &waiting.call_id)) else {
            return Flow::Continue(());
        };
        let stage = self.stage().await?;
        self.turn.emit(AgentEvent::step_started()).await;
        let mut doom = std::mem::take(&mut self.doom);
        let fate = stage.bench.run(&[call], &self.setting(&stage), &mut doom).await;
        self.doom = doom;
        if fate == Fate::Cancelled {
            return Flow::Break(TurnEnd::Cancelled);
        }
        let finished = AgentEvent::StepFinished {
            reason: Finish::ToolCalls,
            tokens: Tokens::default(),
            cost: Number(0.0),
            snapshot: None,
            patch: None,
            error: None,
        };
        self.turn.emit(finished).await;
        if fate == Fate::Refused && !self.inner.options.continue_on_deny {
            return Flow::Break(TurnEnd::Blocked);
        }
        Flow::Continue(())
    }
}

/// Returns the same call with a new id, because the interrupted one stays in the conversation.
fn again(message: &MessageWithParts, call: &str) -> Option<Called> {
    message.parts.iter().find_map(|part| match &part.body {
        PartBody::Tool(tool) if tool.call_id == call => Some(Called {
            id: format!("{call}_again"),
            name: tool.tool.clone(),
            input: Value::Object(tool.state.input().clone()),
        }),
        _ => None,
    })
}
