//! Builds the bodies of calls to OpenCode.

use protocol::agent_event::{Answer, Ask};
use protocol::config::PermissionMode;
use protocol::message::ModelRef;
use protocol::part::TextPart;
use protocol::prompt::{PartInput, PartInputBody, PromptInput, SessionInput};
use protocol::request::{Action, PermissionReply, PermissionRequest, QuestionRequest, Rule};
use protocol::{MessageId, MessageWithParts, PartBody};

use crate::roster::DEFAULT_MODEL;

/// OpenCode's agent that makes no changes.
const PLAN: &str = "plan";

/// The body that creates a session with the rules of a permission mode.
pub(super) fn session(mode: PermissionMode) -> SessionInput {
    let allow = |permission: &str| Some(vec![Rule::new(permission, "*", Action::Allow)]);
    let permission = match mode {
        PermissionMode::Ask | PermissionMode::Plan => None,
        PermissionMode::AcceptEdits => allow("edit"),
        PermissionMode::Bypass => allow("*"),
    };
    SessionInput { permission, ..SessionInput::default() }
}

/// The body of a prompt. Baton's own names of agents and models are left out, because OpenCode does not know them.
pub(super) fn prompt(
    id: MessageId,
    message: &MessageWithParts,
    model: &ModelRef,
    agent: &str,
    mode: PermissionMode,
) -> PromptInput {
    let parts = message.parts.iter().filter_map(|part| {
        let body = match &part.body {
            PartBody::Text(it) if it.ignored != Some(true) => {
                PartInputBody::Text(TextPart { time: None, ..it.clone() })
            }
            PartBody::File(it) => PartInputBody::File(it.clone()),
            _ => return None,
        };
        Some(PartInput { id: None, body })
    });
    let named = model.model_id.split_once('/').filter(|_| model.model_id != DEFAULT_MODEL);
    let plans = mode == PermissionMode::Plan || agent == PLAN;
    PromptInput {
        message_id: Some(id),
        model: named.map(|(provider, model)| ModelRef::new(provider, model)),
        variant: model.variant.clone(),
        agent: plans.then(|| PLAN.to_owned()),
        parts: parts.collect(),
        ..PromptInput::text("")
    }
}

/// Converts a permission request of OpenCode.
pub(super) fn permission(request: &PermissionRequest) -> Ask {
    Ask::Permission {
        permission: request.permission.clone(),
        patterns: request.patterns.clone(),
        metadata: request.metadata.clone(),
        always: request.always.clone(),
        call: request.tool.as_ref().map(|tool| tool.call_id.clone()),
    }
}

/// Converts a question of OpenCode.
pub(super) fn question(request: &QuestionRequest) -> Ask {
    Ask::Question {
        questions: request.questions.clone(),
        call: request.tool.as_ref().map(|tool| tool.call_id.clone()),
    }
}

/// Converts the user's answer to a permission request. A request without an answer is refused.
pub(super) fn reply(answer: &Answer) -> (PermissionReply, Option<String>) {
    match answer {
        Answer::Once | Answer::Answers(_) => (PermissionReply::Once, None),
        Answer::Always => (PermissionReply::Always, None),
        Answer::Rejected { message } => (PermissionReply::Reject, message.clone()),
        Answer::Default(reply) => (*reply, None),
        Answer::Withdrawn => (PermissionReply::Reject, None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    fn said(model: &str, agent: &str, mode: PermissionMode) -> serde_json::Value {
        let message = serde_json::from_value(json!({
            "info": {
                "id": "msg_1", "sessionID": "ses_1", "role": "user", "time": { "created": 1 }, "agent": agent,
                "model": { "providerID": "opencode-agent", "modelID": model },
            },
            "parts": [
                { "id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "text": "Hello" },
                { "id": "prt_2", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "text": "x", "ignored": true },
                { "id": "prt_3", "sessionID": "ses_1", "messageID": "msg_1", "type": "file", "mime": "image/png", "url": "data:x" },
                { "id": "prt_4", "sessionID": "ses_1", "messageID": "msg_1", "type": "agent", "name": "general" },
            ],
        }))
        .unwrap();
        let model = ModelRef::new("opencode-agent", model);
        to_value(prompt("msg_2".parse().unwrap(), &message, &model, agent, mode)).unwrap()
    }

    #[test]
    fn a_prompt_has_text_files_and_names_that_opencode_knows() {
        let plain = said("default", "build", PermissionMode::Ask);
        assert_eq!(
            plain,
            json!({
                "messageID": "msg_2",
                "parts": [
                    { "type": "text", "text": "Hello" },
                    { "type": "file", "mime": "image/png", "url": "data:x" },
                ],
            })
        );
        let chosen = said("acme/large/two", "plan", PermissionMode::Ask);
        assert_eq!(chosen["model"], json!({ "providerID": "acme", "modelID": "large/two" }));
        assert_eq!(chosen["agent"], "plan");
        assert_eq!(said("default", "build", PermissionMode::Plan)["agent"], "plan");
    }

    #[test]
    fn a_permission_mode_becomes_rules_of_the_session() {
        let rules = |mode| to_value(session(mode)).unwrap();
        assert_eq!(rules(PermissionMode::Ask), json!({}));
        assert_eq!(rules(PermissionMode::Bypass)["permission"][0]["permission"], "*");
        assert_eq!(rules(PermissionMode::AcceptEdits)["permission"][0]["permission"], "edit");
    }

    #[test]
    fn an_unanswered_permission_is_refused() {
        assert_eq!(reply(&Answer::Withdrawn), (PermissionReply::Reject, None));
        assert_eq!(reply(&Answer::Default(PermissionReply::Once)), (PermissionReply::Once, None));
        let corrected = Answer::Rejected { message: Some("no".into()) };
        assert_eq!(reply(&corrected), (PermissionReply::Reject, Some("no".into())));
    }
}
