//! Decodes the messages of agents into the types of the official schema crate.
//!
//! Agents omit fields that the schema requires, so every message is [repaired](super::lenient) before it is decoded. Three
//! types are defined here because the schema lacks them:
//!
//! - `state_update`, with which agents that follow the draft of version 2 report that they work. Its contents are the
//!   schema's [`StateUpdate`], but version 1 does not list it among the updates.
//! - The older messages to offer and choose models ([`Models`], `session/set_model`). The schema has dropped them, but
//!   agents still use them.
//! - A stop reason that the schema does not define, so that the error for the user can quote it.

use agent_client_protocol_schema::v1::{
    AgentRequest, PromptResponse, SessionId, SessionNotification, SessionUpdate, StateUpdate, ToolCall,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Error, Value};

use super::lenient;
use crate::jsonrpc::{ErrorObject, INVALID_PARAMS};

/// Mends a message and decodes it.
pub(super) fn read<T: DeserializeOwned>(mut message: Value, repair: fn(&mut Value)) -> Result<T, Error> {
    repair(&mut message);
    serde_json::from_value(message)
}

/// The parameters of `session/update`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Notice {
    pub(super) session: SessionId,
    pub(super) update: Update,
}

/// An update of a session.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Update {
    /// An update that version 1 of the protocol defines.
    Session(Box<SessionUpdate>),
    /// The agent reports that it works or is idle.
    State(StateUpdate),
}

impl Notice {
    pub(super) fn read(params: Value) -> Result<Self, Error> {
        if params.pointer("/update/sessionUpdate").is_some_and(|kind| kind == "state_update") {
            return Drafted::deserialize(params).map(Self::from);
        }
        let SessionNotification { session_id, update, .. } = read(params, lenient::notice)?;
        Ok(Self { session: session_id, update: Update::Session(Box::new(update)) })
    }
}

/// The wire form of a `state_update`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Drafted {
    session_id: SessionId,
    update: StateUpdate,
}

impl From<Drafted> for Notice {
    fn from(drafted: Drafted) -> Self {
        Self { session: drafted.session_id, update: Update::State(drafted.update) }
    }
}

/// Converts a new call into an update. Fields with their default values are left out, because some agents announce a
/// call twice and the second announcement must not reset the fields of the first.
pub(super) fn amendment(call: ToolCall) -> ToolCallUpdate {
    let fields = ToolCallUpdateFields::new()
        .title(Some(call.title).filter(|title| !title.is_empty()))
        .name(call.name)
        .kind(Some(call.kind).filter(|kind| *kind != ToolKind::default()))
        .status(Some(call.status).filter(|status| *status != ToolCallStatus::default()))
        .content(Some(call.content).filter(|content| !content.is_empty()))
        .locations(Some(call.locations).filter(|locations| !locations.is_empty()))
        .raw_input(call.raw_input)
        .raw_output(call.raw_output);
    ToolCallUpdate::new(call.tool_call_id, fields).meta(call.meta)
}

/// The decoded answer to a prompt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answered {
    pub(super) response: PromptResponse,
    /// The stop reason, if the protocol does not define it.
    pub(super) unknown: Option<String>,
}

impl Answered {
    pub(super) fn read(mut answer: Value) -> Result<Self, Error> {
        let unknown = lenient::answered(&mut answer);
        Ok(Self { response: serde_json::from_value(answer)?, unknown })
    }
}

/// The models that an agent offers with the older messages.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Models {
    #[serde(default)]
    pub(super) available_models: Vec<Model>,
    #[serde(default)]
    pub(super) current_model_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Model {
    pub(super) model_id: String,
}

impl Models {
    /// Reads the offered models from the answer that opens a session.
    pub(super) fn of(answer: &Value) -> Self {
        answer.get("models").and_then(|models| Self::deserialize(models).ok()).unwrap_or_default()
    }
}

/// The methods that an agent may call.
pub(super) const METHODS: &[&str] = &[
    "session/request_permission",
    "elicitation/create",
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/release",
];

/// Decodes a request of an agent.
pub(super) fn asked(method: &str, params: Value) -> Result<AgentRequest, ErrorObject> {
    let request = match method {
        "session/request_permission" => {
            read(params, lenient::permission).map(AgentRequest::RequestPermissionRequest)
        }
        "elicitation/create" => read(params, lenient::form).map(AgentRequest::CreateElicitationRequest),
        "fs/read_text_file" => read(params, lenient::call).map(AgentRequest::ReadTextFileRequest),
        "fs/write_text_file" => read(params, lenient::call).map(AgentRequest::WriteTextFileRequest),
        "terminal/create" => read(params, lenient::call).map(AgentRequest::CreateTerminalRequest),
        "terminal/output" => read(params, lenient::call).map(AgentRequest::TerminalOutputRequest),
        "terminal/wait_for_exit" => read(params, lenient::call).map(AgentRequest::WaitForTerminalExitRequest),
        "terminal/kill" => read(params, lenient::call).map(AgentRequest::KillTerminalRequest),
        "terminal/release" => read(params, lenient::call).map(AgentRequest::ReleaseTerminalRequest),
        other => return Err(ErrorObject::unknown(other)),
    };
    request.map_err(|error| ErrorObject::new(INVALID_PARAMS, error.to_string()))
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::CLIENT_METHOD_NAMES;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_accepted_method_has_a_type_in_the_schema() {
        // The union of the fields that these methods require.
        let params = json!({
            "path": "/a", "content": "b", "command": "ls", "terminalId": "1", "toolCall": { "toolCallId": "1" },
            "requestedSchema": {},
        });
        for method in METHODS {
            assert_eq!(asked(method, params.clone()).unwrap().method(), *method);
        }
        let names = CLIENT_METHOD_NAMES;
        assert!(
            [names.elicitation_create, names.terminal_wait_for_exit]
                .iter()
                .all(|name| METHODS.contains(name))
        );
        assert_eq!(asked("dance/now", params).unwrap_err(), ErrorObject::unknown("dance/now"));
        assert_eq!(asked("terminal/kill", json!({})).unwrap_err().code, INVALID_PARAMS);
    }

    #[test]
    fn state_updates_of_the_version_2_draft_are_decoded() {
        let notice = |state: &str| {
            Notice::read(
                json!({ "sessionId": "s", "update": { "sessionUpdate": "state_update", "state": state } }),
            )
        };
        assert!(matches!(notice("running").unwrap().update, Update::State(StateUpdate::Running(_))));
        assert!(matches!(notice("idle").unwrap().update, Update::State(StateUpdate::Idle(_))));
        assert!(matches!(notice("dancing").unwrap().update, Update::State(StateUpdate::Other(_))));
    }

    #[test]
    fn second_announcement_of_a_call_does_not_reset_fields() {
        let call = |call: Value| amendment(serde_json::from_value(call).unwrap()).fields;
        let bare = call(json!({ "toolCallId": "1", "title": "" }));
        assert_eq!(bare, ToolCallUpdateFields::new());
        let full = call(json!({ "toolCallId": "1", "title": "List", "kind": "execute", "status": "failed" }));
        assert_eq!((full.kind, full.status), (Some(ToolKind::Execute), Some(ToolCallStatus::Failed)));
        assert_eq!(full.title.as_deref(), Some("List"));
    }

    #[test]
    fn messages_without_essential_fields_are_rejected() {
        let update = |update: Value| Notice::read(json!({ "sessionId": "s", "update": update }));
        assert!(update(json!({ "sessionUpdate": "tool_call", "title": "no id" })).is_err());
        assert!(update(json!({ "sessionUpdate": "confetti", "amount": 3 })).is_err());
        assert!(Answered::read(json!({ "usage": null })).is_err());
    }

    #[test]
    fn models_are_read_from_the_older_message() {
        let models = Models::of(
            &json!({ "models": { "availableModels": [{ "modelId": "a" }], "currentModelId": "a" } }),
        );
        assert_eq!((models.available_models.len(), models.current_model_id.as_deref()), (1, Some("a")));
        assert_eq!(Models::of(&json!({ "models": 7 })), Models::default());
    }
}
