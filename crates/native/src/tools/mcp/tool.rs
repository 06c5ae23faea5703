//! A tool of an MCP server, in the form that models call.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use protocol::Extra;
use serde_json::Value;
use supervision::mcp::{self, CallOutput, Connection, ToolDescription};
use supervision::permission::{Pattern, PermissionCheck};

use crate::tools::{Call, Output, Tool, ToolFailure};

/// A tool of a connection server.
struct McpTool {
    id: String,
    about: ToolDescription,
    connection: Arc<Connection>,
}

/// Returns the tools of these servers. If two have the same name, the first one wins.
pub(super) fn all(servers: &[Arc<Connection>]) -> Vec<Box<dyn Tool>> {
    let mut taken = HashSet::new();
    let mut tools: Vec<Box<dyn Tool>> = Vec::new();
    for connection in servers {
        let server = connection.server.as_str();
        for about in connection.tools().iter() {
            let id = mcp::id(server, &about.name);
            if taken.insert(id.clone()) {
                tools.push(Box::new(McpTool {
                    id,
                    about: about.clone(),
                    connection: Arc::clone(connection),
                }));
            } else {
                tracing::debug!(
                    server,
                    tool = about.name,
                    id,
                    "two MCP tools have the same name; ignoring the second"
                );
            }
        }
    }
    tools
}

impl Tool for McpTool {
    fn name(&self) -> &str {
        &self.id
    }

    fn description(&self) -> String {
        self.about.description.clone()
    }

    fn schema(&self) -> Value {
        self.about.schema.clone()
    }

    fn is_concurrent(&self) -> bool {
        self.about.read_only
    }

    /// The server validates its input itself.
    fn check(&self, _: &Extra) -> Result<(), String> {
        Ok(())
    }

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, ToolFailure>> {
        async move {
            let check = PermissionCheck {
                permission: self.id.clone().into(),
                patterns: vec![Pattern::plain("*")],
                always: vec!["*".to_owned()],
                metadata: Extra::new(),
            };
            call.permissions.require(call.turn, check, Some(call.id)).await?;
            // A server's program runs in the session's directory, so every tool may change files there unless it is
            // read-only.
            let before = if self.about.read_only { None } else { call.changes.before_command().await };
            let result = tokio::select! {
                biased;
                () = call.turn.cancelled() => Err(ToolFailure::Cancelled),
                result = self.connection.call(&self.about.name, call.input) => result,
            };
            call.changes.after_command(before.as_ref()).await;
            let title = self.about.title.as_deref().unwrap_or(&self.about.name);
            let CallOutput { text, metadata, attachments } = result?;
            Ok(Output { title: title.to_owned(), text, metadata, attachments })
        }
        .boxed()
    }
}
