//! What an agent is asked and told, in the types of the official schema crate, so that it is right by construction.

use std::sync::Arc;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    CancelNotification, ClientCapabilities, ClientNotification, ClientRequest, ContentBlock,
    ElicitationCapabilities, ElicitationFormCapabilities, ExtRequest, FileSystemCapabilities, Implementation,
    InitializeRequest, LoadSessionRequest, McpServer, NewSessionRequest, PromptRequest, ResumeSessionRequest,
    SessionConfigValueId, SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

/// A message as JSON. There is nothing in it that JSON has no word for: every path in it was text before.
pub(super) fn value(message: &impl Serialize) -> Value {
    serde_json::to_value(message).unwrap_or_default()
}

/// Who we are, and what can be asked of us.
pub(super) fn greeting() -> ClientRequest {
    let files = FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
    let forms = ElicitationCapabilities::new().form(ElicitationFormCapabilities::new());
    let able = ClientCapabilities::new().fs(files).terminal(true).elicitation(forms);
    let us = Implementation::new("baton", env!("CARGO_PKG_VERSION")).title("Baton");
    ClientRequest::InitializeRequest(
        InitializeRequest::new(ProtocolVersion::V1).client_capabilities(able).client_info(us),
    )
}

/// Begins a session.
pub(super) fn begin(directory: &str, servers: Vec<McpServer>) -> ClientRequest {
    ClientRequest::NewSessionRequest(NewSessionRequest::new(directory).mcp_servers(servers))
}

/// Goes on with a session.
pub(super) fn resume(session: &str, directory: &str, servers: Vec<McpServer>) -> ClientRequest {
    let request = ResumeSessionRequest::new(session.to_owned(), directory).mcp_servers(servers);
    ClientRequest::ResumeSessionRequest(request)
}

/// Goes on with a session, and wants all of it repeated.
pub(super) fn load(session: &str, directory: &str, servers: Vec<McpServer>) -> ClientRequest {
    let request = LoadSessionRequest::new(session.to_owned(), directory).mcp_servers(servers);
    ClientRequest::LoadSessionRequest(request)
}

/// Chooses a mode.
pub(super) fn set_mode(session: &str, mode: &str) -> ClientRequest {
    ClientRequest::SetSessionModeRequest(SetSessionModeRequest::new(session.to_owned(), mode.to_owned()))
}

/// Chooses something that is offered.
pub(super) fn set_option(session: &str, option: &str, value: &str) -> ClientRequest {
    let (session, option, value) = (session.to_owned(), option.to_owned(), SessionConfigValueId::new(value));
    ClientRequest::SetSessionConfigOptionRequest(SetSessionConfigOptionRequest::new(session, option, value))
}

/// Chooses a model in the older way, which the schema has no type for.
pub(super) fn set_model(session: &str, model: &str) -> ClientRequest {
    let params = to_raw_value(&json!({ "sessionId": session, "modelId": model })).unwrap_or_default();
    ClientRequest::ExtMethodRequest(ExtRequest::new("session/set_model", Arc::from(params)))
}

/// A prompt.
pub(super) fn prompt(session: &str, blocks: Vec<ContentBlock>) -> ClientRequest {
    ClientRequest::PromptRequest(PromptRequest::new(session.to_owned(), blocks))
}

/// Stops what a session does.
pub(super) fn cancel(session: &str) -> ClientNotification {
    ClientNotification::CancelNotification(CancelNotification::new(session.to_owned()))
}
