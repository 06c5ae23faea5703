//! A connected server and the calls to it.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use net::chain;
use parking_lot::Mutex;
use protocol::config::Mcp;
use protocol::mcp::McpResource;
use protocol::{Extra, Rest};
use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, GetPromptRequestParams,
    ReadResourceRequestParams, ServerPeerInfo, Tool,
};
use rmcp::service::{Peer, RoleClient};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::Value;
use tokio::time::timeout;

use super::content::Template;
use super::error::without_secrets;
use super::{CallOutput, Content, Error, Prompt, content, listing};
use crate::{ToolFailure, limits};

/// A connection to a server that is initialised.
pub struct Connection {
    /// The name of the server.
    pub server: String,
    config: Arc<Mcp>,
    peer: Peer<RoleClient>,
    about: Option<Arc<ServerPeerInfo>>,
    limit: Duration,
    tools: Mutex<Arc<[ToolDescription]>>,
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDescription {
    /// The name that the server uses.
    pub name: String,
    /// The display name.
    pub title: Option<String>,
    pub description: String,
    pub schema: Value,
    /// True if the server declares the tool read-only.
    pub read_only: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(server: &str, config: &Arc<Mcp>, peer: Peer<RoleClient>, limit: Duration) -> Self {
        let about = peer.peer_info();
        let tools = Mutex::new(Arc::default());
        Self { server: server.to_owned(), config: Arc::clone(config), peer, about, limit, tools }
    }

    /// Reads the list of tools. Returns true if it has changed.
    pub(super) async fn refresh(&self) -> Result<bool, Error> {
        let listed = match &self.about {
            Some(about) if about.capabilities.tools.is_none() => Vec::new(),
            _ => self.ask(listing::tools(&self.peer)).await?,
        };
        let now: Arc<[ToolDescription]> = listed.into_iter().filter_map(|tool| self.describe(tool)).collect();
        let mut tools = self.tools.lock();
        let changed = *tools != now;
        *tools = now;
        Ok(changed)
    }

    fn describe(&self, tool: Tool) -> Option<ToolDescription> {
        let mut schema = Extra::clone(&tool.input_schema);
        // Some providers require both fields, and some servers leave them out.
        schema.entry("type").or_insert_with(|| "object".into());
        schema.entry("properties").or_insert_with(|| Extra::new().into());
        let size = serde_json::to_string(&schema).map_or(usize::MAX, |text| text.len());
        if size > limits::MCP_SCHEMA {
            tracing::warn!(server = self.server, tool = %tool.name, size, "leaving out an MCP tool because its schema is too large");
            return None;
        }
        let hints = tool.annotations.unwrap_or_default();
        Some(ToolDescription {
            name: tool.name.into_owned(),
            title: tool.title.or(hints.title),
            description: bounded(tool.description.as_deref().unwrap_or_default()),
            schema: Value::Object(schema),
            read_only: hints.read_only_hint == Some(true),
        })
    }

    pub fn tools(&self) -> Arc<[ToolDescription]> {
        Arc::clone(&self.tools.lock())
    }

    /// Returns the server's instructions for models.
    pub(super) fn instructions(&self) -> Option<String> {
        let text = self.about.as_ref()?.instructions.as_deref()?.trim();
        (!text.is_empty()).then(|| bounded(text))
    }

    pub fn has_resources(&self) -> bool {
        self.about.as_ref().is_some_and(|about| about.capabilities.resources.is_some())
    }

    fn has_prompts(&self) -> bool {
        self.about.as_ref().is_some_and(|about| about.capabilities.prompts.is_some())
    }

    /// Calls a tool. Dropping the future cancels the call on the server.
    pub async fn call(&self, tool: &str, input: &Extra) -> Result<CallOutput, ToolFailure> {
        let result = self.request(tool, input).await;
        content::output(result.map_err(|error| ToolFailure::Error(error.to_string()))?)
    }

    async fn request(&self, tool: &str, input: &Extra) -> Result<CallToolResult, Error> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(input.clone());
        match self.ask(self.peer.call_tool_once(params)).await? {
            CallToolResponse::Complete(result) => Ok(result),
            CallToolResponse::InputRequired(_) => {
                Err(self.failed("it requested input from the user, which Baton does not support"))
            }
            // Includes a task whose result would have to be polled.
            _ => Err(self.failed("its answer is of a kind that Baton does not support")),
        }
    }

    /// Lists the resources.
    pub(super) async fn resources(&self) -> Result<Vec<McpResource>, Error> {
        if !self.has_resources() {
            return Ok(Vec::new());
        }
        let listed = self.ask(listing::resources(&self.peer)).await?;
        let shown = listed.into_iter().map(|resource| McpResource {
            name: resource.name,
            uri: resource.uri,
            description: resource.description,
            mime_type: resource.mime_type,
            client: self.server.clone(),
            extra: Rest::NONE,
        });
        Ok(shown.collect())
    }

    /// Lists the resource templates.
    pub(super) async fn templates(&self) -> Result<Vec<Template>, Error> {
        if !self.has_resources() {
            return Ok(Vec::new());
        }
        let listed = self.ask(listing::templates(&self.peer)).await?;
        Ok(listed.into_iter().map(|template| content::template(&self.server, template)).collect())
    }

    pub(super) async fn read(&self, uri: &str) -> Result<Vec<Content>, Error> {
        let params = ReadResourceRequestParams::new(uri);
        let read = self.ask(self.peer.read_resource(params)).await?;
        Ok(read.contents.into_iter().map(content::resource).collect())
    }

    /// Lists the prompts.
    pub(super) async fn prompts(&self) -> Result<Vec<Prompt>, Error> {
        if !self.has_prompts() {
            return Ok(Vec::new());
        }
        let listed = self.ask(listing::prompts(&self.peer)).await?;
        Ok(listed.into_iter().map(|prompt| content::prompt(&self.server, prompt)).collect())
    }

    /// Gets the contents of a prompt.
    pub(super) async fn prompt(
        &self,
        prompt: &Prompt,
        arguments: &BTreeMap<String, String>,
    ) -> Result<Vec<Content>, Error> {
        let arguments = arguments.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        let params = GetPromptRequestParams::new(&prompt.prompt).with_arguments(arguments.collect());
        let said = self.ask(self.peer.get_prompt(params)).await?;
        Ok(said.messages.into_iter().map(|message| content::block(message.content)).collect())
    }

    async fn ask<T>(&self, asking: impl Future<Output = Result<T, ServiceError>>) -> Result<T, Error> {
        match timeout(self.limit, asking).await {
            Ok(answer) => answer.map_err(|error| self.failed(&service_error(&error))),
            Err(_) => Err(Error::Slow { server: self.server.clone(), limit: self.limit }),
        }
    }

    fn failed(&self, why: &str) -> Error {
        let why = without_secrets(&self.config, why.to_owned());
        Error::Failed { server: self.server.clone(), why }
    }
}

/// Returns the cause of an error without type names.
fn service_error(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.to_string(),
        ServiceError::TransportSend(error) => transport_error(error),
        ServiceError::TransportClosed => "it has ended".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the cause of a transport error. The error chain does not contain the HTTP client's cause by itself.
pub(super) fn transport_error(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => chain(error),
        _ => chain(error.error.as_ref()),
    }
}

fn bounded(text: &str) -> String {
    text.chars().take(limits::MCP_TEXT).collect()
}
