//! Resources of servers as tools: listing them, listing their templates, and reading them.

use futures::future::{BoxFuture, FutureExt};
use protocol::Extra;
use serde::Deserialize;
use serde_json::{Value, json};
use supervision::mcp::{Content, Error, Servers};
use supervision::permission::{Pattern, PermissionCheck};

use crate::tools::{Call, Output, Tool, ToolFailure, object, parse};

/// The permission of all three tools, which only read.
const PERMISSION: &str = "read";

/// Returns the tools for resources.
pub(super) fn all(servers: &Servers) -> Vec<Box<dyn Tool>> {
    let each = [Operation::ListResources, Operation::ListTemplates, Operation::Read];
    each.map(|operation| Box::new(Resources { operation, servers: servers.clone() }) as Box<dyn Tool>).into()
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    ListResources,
    ListTemplates,
    Read,
}

struct Resources {
    operation: Operation,
    servers: Servers,
}

#[derive(Deserialize)]
struct List {
    server: Option<String>,
}

#[derive(Deserialize)]
struct Read {
    server: String,
    uri: String,
}

impl Tool for Resources {
    fn name(&self) -> &str {
        match self.operation {
            Operation::ListResources => "list_mcp_resources",
            Operation::ListTemplates => "list_mcp_resource_templates",
            Operation::Read => "read_mcp_resource",
        }
    }

    fn permission(&self) -> &str {
        PERMISSION
    }

    fn description(&self) -> String {
        match self.operation {
            Operation::ListResources => "Lists the resources of one MCP server, or of all.",
            Operation::ListTemplates => {
                "Lists the resource templates of one MCP server, or of all. Fill in the braces of a template to get the \
                 URI of a resource."
            }
            Operation::Read => "Reads a resource of an MCP server. Use only URIs from a list, or made from a template.",
        }
        .to_owned()
    }

    fn schema(&self) -> Value {
        let server = json!({ "type": "string", "description": "The name of the server" });
        match self.operation {
            Operation::ListResources | Operation::ListTemplates => json!({
                "type": "object", "properties": { "server": server }, "additionalProperties": false,
            }),
            Operation::Read => json!({
                "type": "object",
                "properties": { "server": server, "uri": { "type": "string", "description": "The URI of the resource" } },
                "required": ["server", "uri"],
                "additionalProperties": false,
            }),
        }
    }

    fn is_concurrent(&self) -> bool {
        true
    }

    fn check(&self, input: &Extra) -> Result<(), String> {
        match self.operation {
            Operation::ListResources | Operation::ListTemplates => parse::<List>(input).map(drop),
            Operation::Read => parse::<Read>(input).map(drop),
        }
    }

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, ToolFailure>> {
        async move {
            let (server, uri) = match self.operation {
                Operation::Read => {
                    let Read { server, uri } = parse(call.input).map_err(ToolFailure::Error)?;
                    (Some(server), uri)
                }
                _ => (parse::<List>(call.input).map_err(ToolFailure::Error)?.server, "*".to_owned()),
            };
            let pattern = format!("mcp:{}:{uri}", server.as_deref().unwrap_or("*"));
            let check = PermissionCheck {
                permission: PERMISSION.into(),
                patterns: vec![Pattern::plain(pattern.clone())],
                always: vec![pattern],
                metadata: call.input.clone(),
            };
            call.permissions.require(call.turn, check, Some(call.id)).await?;
            tokio::select! {
                biased;
                () = call.turn.cancelled() => Err(ToolFailure::Cancelled),
                output = self.perform(server.as_deref(), &uri) => {
                    output.map_err(|error| ToolFailure::Error(error.to_string()))
                }
            }
        }
        .boxed()
    }
}

impl Resources {
    async fn perform(&self, server: Option<&str>, uri: &str) -> Result<Output, Error> {
        match self.operation {
            Operation::ListResources => {
                let mut found = self.servers.resources().await;
                found.retain(|resource| server.is_none_or(|server| resource.client == server));
                Ok(list("resources", found.len(), &json!(found)))
            }
            Operation::ListTemplates => {
                let mut found = self.servers.templates().await;
                found.retain(|template| server.is_none_or(|server| template.client == server));
                Ok(list("resource templates", found.len(), &json!(found)))
            }
            Operation::Read => {
                let server = server.unwrap_or_default();
                Ok(show(uri, self.servers.read(server, uri).await?))
            }
        }
    }
}

fn list(what: &str, count: usize, found: &Value) -> Output {
    let text = serde_json::to_string_pretty(found).unwrap_or_default();
    Output::new(format!("{count} {what}"), text, object(json!({ "count": count })))
}

fn show(uri: &str, contents: Vec<Content>) -> Output {
    let mut output = Output::new(uri, String::new(), Extra::new());
    let mut words = Vec::new();
    for content in contents {
        match content {
            Content::Text(text) => words.push(text),
            Content::File(file) => output.attachments.push(file),
        }
    }
    if words.is_empty() && !output.attachments.is_empty() {
        words.push("Read successfully; the contents are attached.".to_owned());
    }
    output.text = words.join("\n\n");
    output
}
