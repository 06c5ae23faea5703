//! Follows one turn through a stream of events: selects its events and determines its end.

use std::collections::HashMap;

use protocol::{EndReason, Event, EventBody, Message, MessageError, MessageId, SessionId, SessionStatus};

/// Follows the turn of one prompt.
#[derive(Debug)]
pub(super) struct Follower {
    session: SessionId,
    prompt: MessageId,
    /// The session and all its descendants, with their titles.
    family: HashMap<SessionId, String>,
    /// True once the prompt is stored; an earlier idle belongs to another turn.
    accepted: bool,
    /// End of our prompt as reported by the server.
    ended: Option<EndReason>,
    /// True after the first event of the idle pair.
    idle: bool,
    /// The reason in that event, if it had one.
    said: Option<EndReason>,
    /// End of the last answer, for servers that report no reason.
    failed: Option<EndReason>,
}

impl Follower {
    pub(super) fn new(session: SessionId, prompt: MessageId) -> Self {
        let family = HashMap::from([(session.clone(), String::new())]);
        Self { session, prompt, family, accepted: false, ended: None, idle: false, said: None, failed: None }
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// True if an event concerns the session or one of its descendants.
    pub(super) fn concerns(&self, event: &Event) -> bool {
        event.body.session_id().is_some_and(|id| self.family.contains_key(id))
    }

    /// Title of the subagent that an event comes from, which may be empty; `None` for the session itself.
    pub(super) fn child(&self, event: &Event) -> Option<&str> {
        let id = event.body.session_id().filter(|id| **id != self.session)?;
        Some(self.family.get(id).map_or("", String::as_str))
    }

    /// True once the server has stored the prompt.
    pub(super) fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// Processes the next event. Returns the end of the turn once it has ended.
    pub(super) fn observe(&mut self, event: &Event) -> Option<EndReason> {
        match &event.body {
            EventBody::SessionCreated(it)
                if it.info.parent_id.as_ref().is_some_and(|parent| self.family.contains_key(parent)) =>
            {
                self.family.insert(it.session_id.clone(), it.info.title.clone());
            }
            EventBody::MessageUpdated(it) if it.session_id == self.session => self.read(&it.info),
            EventBody::SessionError(it) if it.session_id.as_ref() == Some(&self.session) => {
                self.failed = it.error.as_ref().map(reason_of).or(self.failed);
            }
            EventBody::PromptEnded(it) if it.message_id == self.prompt => self.ended = Some(it.reason),
            EventBody::SessionDeleted(it) if it.session_id == self.session => {
                return Some(EndReason::Aborted);
            }
            EventBody::SessionStatus(it) if it.session_id == self.session && self.accepted => {
                (self.idle, self.said) = match it.status {
                    SessionStatus::Idle { reason, .. } => (true, reason),
                    _ => (false, None),
                };
            }
            EventBody::SessionIdle(it) if it.session_id == self.session && self.idle => {
                return Some(self.reason());
            }
            _ => {}
        }
        None
    }

    /// True if only the second event of the idle pair is missing.
    pub(super) fn is_idle(&self) -> bool {
        self.idle
    }

    /// The end of the turn from the most reliable source available.
    pub(super) fn reason(&self) -> EndReason {
        self.ended.or(self.said).or(self.failed).unwrap_or(EndReason::Completed)
    }

    fn read(&mut self, message: &Message) {
        match message {
            Message::User(message) => self.accepted |= message.id == self.prompt,
            Message::Assistant(message) => self.failed = message.error.as_ref().map(reason_of),
        }
    }
}

fn reason_of(error: &MessageError) -> EndReason {
    match error {
        MessageError::Aborted { .. } => EndReason::Aborted,
        _ => EndReason::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn follow(events: &[Value]) -> Vec<Option<EndReason>> {
        let mut follower = Follower::new("ses_a".parse().unwrap(), "msg_1".parse().unwrap());
        let events = events.iter().map(|event| {
            let mut event = event.clone();
            event["id"] = "evt_1".into();
            serde_json::from_value::<Event>(event).unwrap()
        });
        events.map(|event| follower.observe(&event)).collect()
    }

    fn idle(status: &Value) -> [Value; 2] {
        let idle = json!({ "type": "session.idle", "properties": { "sessionID": "ses_a" } });
        [self::status(status), idle]
    }

    fn status(status: &Value) -> Value {
        json!({ "type": "session.status", "properties": { "sessionID": "ses_a", "status": status } })
    }

    fn user(id: &str) -> Value {
        json!({ "type": "message.updated", "properties": { "sessionID": "ses_a", "info": {
            "id": id, "sessionID": "ses_a", "role": "user", "time": { "created": 0 }, "agent": "b",
            "model": { "providerID": "p", "modelID": "m" },
        } } })
    }

    #[test]
    fn an_idle_from_before_the_prompt_is_not_ours() {
        let [first, second] = idle(&json!({ "type": "idle", "reason": "completed" }));
        let busy = status(&json!({ "type": "busy" }));
        let seen = follow(&[
            user("msg_0"),
            first.clone(),
            second.clone(),
            user("msg_1"),
            second.clone(),
            busy,
            first,
            second,
        ]);
        assert_eq!(seen.iter().flatten().count(), 1);
        assert_eq!(seen.last(), Some(&Some(EndReason::Completed)));
    }

    #[test]
    fn the_end_reported_for_our_prompt_takes_precedence() {
        let ended = json!({ "type": "prompt.ended", "properties": {
            "sessionID": "ses_a", "messageID": "msg_1", "reason": "blocked",
        } });
        let [first, second] = idle(&json!({ "type": "idle", "reason": "completed" }));
        assert_eq!(follow(&[user("msg_1"), ended, first, second]).pop().unwrap(), Some(EndReason::Blocked));
    }

    #[test]
    fn without_a_reason_the_end_follows_from_the_last_answer() {
        let error = |name: &str| {
            json!({ "type": "session.error", "properties": {
                "sessionID": "ses_a", "error": { "name": name, "data": { "message": "m" } },
            } })
        };
        let [first, second] = idle(&json!({ "type": "idle" }));
        let end =
            |error| follow(&[user("msg_1"), error, first.clone(), second.clone()]).pop().unwrap().unwrap();
        assert_eq!(end(error("UnknownError")), EndReason::Error);
        assert_eq!(end(error("MessageAbortedError")), EndReason::Aborted);
        assert_eq!(end(status(&json!({ "type": "busy" }))), EndReason::Completed);
    }
}
