//! The last step of the answer, which tells whether the answer is complete.

use protocol::{
    MessageId,
    message::{AssistantMessage, Finish},
};

/// The last step as far as it is known.
#[derive(Debug, Default)]
pub(super) struct LastStep {
    id: Option<MessageId>,
    /// Provider and model of the step, as `provider/model`.
    model: Option<String>,
    finish: Option<Finish>,
    has_content: bool,
    /// The last summary that was noticed.
    summary: Option<MessageId>,
}

impl LastStep {
    pub(super) fn update(&mut self, message: &AssistantMessage) {
        if self.id.as_ref() != Some(&message.id) {
            self.id = Some(message.id.clone());
            self.has_content = false;
        }
        self.model = Some(format!("{}/{}", message.provider_id, message.model_id));
        self.finish = message.finish;
        self.has_content |= message.structured.is_some() || message.error.is_some();
    }

    /// Notes a summary. Returns true for a new one.
    pub(super) fn summarised(&mut self, id: &MessageId) -> bool {
        self.summary.replace(id.clone()).as_ref() != Some(id)
    }

    pub(super) fn note_text(&mut self, message: &MessageId, text: &str) {
        self.has_content |= self.id.as_ref() == Some(message) && !text.trim().is_empty();
    }

    pub(super) fn note_call(&mut self, message: &MessageId) {
        self.has_content |= self.id.as_ref() == Some(message);
    }

    /// The model that answered last, as `provider/model`.
    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    pub(super) fn shortfall(&self) -> Option<&'static str> {
        match self.finish? {
            Finish::Length => Some("the answer was cut off: the model reached its output limit"),
            _ if !self.has_content => Some("the model gave an empty answer"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(id: &str, finish: &str) -> AssistantMessage {
        serde_json::from_value(json!({
            "id": id, "sessionID": "ses_1", "parentID": "msg_0", "time": { "created": 1 }, "modelID": "m",
            "providerID": "p", "mode": "b", "agent": "b", "path": { "cwd": "/", "root": "/" }, "cost": 0,
            "tokens": {}, "finish": finish,
        }))
        .unwrap()
    }

    #[test]
    fn an_answer_that_is_cut_off_or_empty_is_noticed() {
        let (first, second): (MessageId, MessageId) = ("msg_1".parse().unwrap(), "msg_2".parse().unwrap());
        let mut last = LastStep::default();
        assert_eq!(last.shortfall(), None);
        last.update(&message("msg_1", "tool-calls"));
        last.note_call(&first);
        assert_eq!(last.shortfall(), None);
        last.update(&message("msg_2", "stop"));
        last.note_text(&first, "late");
        last.note_text(&second, " \n");
        assert_eq!(last.shortfall(), Some("the model gave an empty answer"));
        last.note_text(&second, "words");
        assert_eq!(last.shortfall(), None);
        last.update(&message("msg_2", "length"));
        assert!(last.shortfall().unwrap().contains("cut off"));
        assert_eq!(last.model(), Some("p/m"));
    }
}
