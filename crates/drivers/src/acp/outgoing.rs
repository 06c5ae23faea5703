//! Builds the messages to an agent from the types of the official schema crate, which makes them valid by construction.

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

/// Encodes a message as JSON. Encoding cannot fail, because every path in it is made from a string.
pub(super) fn value(message: &impl Serialize) -> Value {
    serde_json::to_value(message).unwrap_or_default()
}

/// The `initialize` request, with the capabilities that Baton offers.
pub(super) fn greeting() -> ClientRequest {
    let files = FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
    let forms = ElicitationCapabilities::new().form(ElicitationFormCapabilities::new());
    let able = ClientCapabilities::new().fs(files).terminal(true).elicitation(forms);
    let us = Implementation::new("baton", env!("CARGO_PKG_VERSION")).title("Baton");
    ClientRequest::InitializeRequest(
        InitializeRequest::new(ProtocolVersion::V1).client_capabilities(able).client_info(us),
    )
}

/// Opens a new session.
pub(super) fn begin(directory: &str, servers: Vec<McpServer>) -> ClientRequest {
    ClientRequest::NewSessionRequest(NewSessionRequest::new(directory).mcp_servers(servers))
}

/// Resumes a session without a replay of its messages.
pub(super) fn resume(session: &str, directory: &str, servers: Vec<McpServer>) -> ClientRequest {
    let request = ResumeSessionRequest::new(session.to_owned(), directory).mcp_servers(servers);
    ClientRequest::ResumeSessionRequest(request)
}

/// Resumes a session; the agent replays all of its messages.
pub(super) fn load(session: &str, directory: &str, servers: Vec<McpServer>) -> ClientRequest {
    let request = LoadSessionRequest::new(session.to_owned(), directory).mcp_servers(servers);
    ClientRequest::LoadSessionRequest(request)
}

/// Chooses a mode.
pub(super) fn set_mode(session: &str, mode: &str) -> ClientRequest {
    ClientRequest::SetSessionModeRequest(SetSessionModeRequest::new(session.to_owned(), mode.to_owned()))
}

/// Sets a configuration option that the agent offers.
pub(super) fn set_option(session: &str, option: &str, value: &str) -> ClientRequest {
    let (session, option, value) = (session.to_owned(), option.to_owned(), SessionConfigValueId::new(value));
    ClientRequest::SetSessionConfigOptionRequest(SetSessionConfigOptionRequest::new(session, option, value))
}

/// Chooses a model with the older method, which the schema no longer has.
pub(super) fn set_model(session: &str, model: &str) -> ClientRequest {
    let params = to_raw_value(&json!({ "sessionId": session, "modelId": model })).unwrap_or_default();
    ClientRequest::ExtMethodRequest(ExtRequest::new("session/set_model", Arc::from(params)))
}

pub(super) fn prompt(session: &str, blocks: Vec<ContentBlock>) -> ClientRequest {
    ClientRequest::PromptRequest(PromptRequest::new(session.to_owned(), blocks))
}

/// Cancels the agent's current work in a session.
pub(super) fn cancel(session: &str) -> ClientNotification {
    ClientNotification::CancelNotification(CancelNotification::new(session.to_owned()))
}
