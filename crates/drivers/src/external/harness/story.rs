//! The events of a session in short words.

use std::collections::HashSet;

use protocol::{EndReason, EventBody, Message, Part, PartBody, Session, SessionId, SessionStatus, ToolState};
use testkit::published;

use super::Harness;

impl Harness {
    /// The published events of a session in short form.
    pub(crate) fn story(&self, session: &SessionId) -> String {
        let mut running = HashSet::new();
        let story = published::story(&self.seen, session, |body| {
            let is_progress = published::is_progress(&mut running, body);
            Some(if is_progress { "(progress)".to_owned() } else { word(body) })
        });
        let directory = self.project.path().canonicalize().unwrap();
        story.replace(directory.to_str().unwrap(), "/project")
    }
}

fn word(body: &EventBody) -> String {
    match body {
        EventBody::SessionStatus(it) => match &it.status {
            SessionStatus::Idle { reason, .. } => format!("IDLE({})", reason.map_or("-", EndReason::as_str)),
            SessionStatus::Busy { .. } => "BUSY".into(),
            SessionStatus::Retry { attempt, message, .. } => format!("RETRY{attempt}({message})"),
        },
        EventBody::SessionUpdated(it) => {
            let (cost, notes) = (it.info.cost.unwrap_or_default().0, it.info.extra.get(Session::NOTES));
            format!(
                "session.updated cost={cost} notes={}",
                notes.map(ToString::to_string).unwrap_or_default()
            )
        }
        EventBody::MessageUpdated(it) => match &it.info {
            Message::User(_) => "user".into(),
            Message::Assistant(message) => {
                let finish = message.finish.map(|finish| serde_json::to_value(finish).unwrap());
                let finish = finish.as_ref().and_then(|finish| finish.as_str()).unwrap_or("-").to_owned();
                let done = if message.time.completed.is_some() { ",done" } else { "" };
                let error = message.error.as_ref().map(|error| format!(",{:?}", error.message()));
                format!("assistant[{finish}{done}{}]", error.unwrap_or_default())
            }
        },
        EventBody::PartUpdated(it) => part(&it.part),
        EventBody::SessionError(it) => {
            format!("ERROR({:?})", it.error.as_ref().map(protocol::MessageError::message).unwrap_or_default())
        }
        EventBody::PermissionAsked(it) => format!("permission.asked({} {:?})", it.permission, it.patterns),
        EventBody::QuestionAsked(it) => {
            let asked: Vec<&str> = it.questions.iter().map(|question| question.question.as_str()).collect();
            format!("question.asked({asked:?})")
        }
        EventBody::TodoUpdated(it) => {
            let todos: Vec<String> =
                it.todos.iter().map(|todo| format!("{}: {}", todo.content, todo.status)).collect();
            format!("todo.updated({todos:?})")
        }
        other => other.kind().to_owned(),
    }
}

fn part(part: &Part) -> String {
    match &part.body {
        PartBody::Tool(tool) => {
            let input = || serde_json::to_string(tool.state.input()).unwrap();
            match &tool.state {
                ToolState::Pending(_) => format!("{}:pending", tool.tool),
                ToolState::Running(_) => format!("{}:running {}", tool.tool, input()),
                ToolState::Completed(done) => {
                    format!("{}:completed {:?} {:?}", tool.tool, done.title, done.output)
                }
                ToolState::Error(failed) => format!("{}:error {:?}", tool.tool, failed.error),
            }
        }
        PartBody::StepFinish(it) => {
            let tokens = (it.tokens.input, it.tokens.output);
            let reason = serde_json::to_value(it.reason).unwrap();
            format!("step-finish({} {}+{} cost={})", reason.as_str().unwrap(), tokens.0, tokens.1, it.cost.0)
        }
        body => {
            let kind = serde_json::to_value(body).unwrap()["type"].as_str().unwrap().to_owned();
            match part.text() {
                Some(_) if part.is_open() => format!("{kind}+start"),
                Some(text) => format!("{kind}+end {text:?}"),
                None => kind,
            }
        }
    }
}
