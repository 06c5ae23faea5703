//! A tool of an MCP server, in the form that models call.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use protocol::Extra;
use serde_json::Value;

use super::client::{Connected, Offered};
use super::{content, names};
use crate::native::permission::{Pattern, Wish};
use crate::native::tools::{Call, Failure, Output, Tool};

/// A tool of a connected server.
struct Brought {
    id: String,
    about: Offered,
    connected: Arc<Connected>,
}

/// Returns the tools of these servers. If two have the same name, the first one wins.
pub(super) fn all(servers: &[Arc<Connected>]) -> Vec<Box<dyn Tool>> {
    let mut taken = HashSet::new();
    let mut tools: Vec<Box<dyn Tool>> = Vec::new();
    for connected in servers {
        let server = connected.server.as_str();
        for about in connected.tools().iter() {
            let id = names::id(server, &about.name);
            if taken.insert(id.clone()) {
                tools.push(Box::new(Brought { id, about: about.clone(), connected: Arc::clone(connected) }));
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

impl Tool for Brought {
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
        self.about.only_looks
    }

    /// The server validates its input itself.
    fn check(&self, _: &Extra) -> Result<(), String> {
        Ok(())
    }

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, Failure>> {
        async move {
            let wish = Wish {
                permission: self.id.clone().into(),
                patterns: vec![Pattern::plain("*")],
                always: vec!["*".to_owned()],
                metadata: Extra::new(),
            };
            call.permissions.get(call.turn, wish, Some(call.id)).await?;
            // A server's program runs in the session's directory, so every tool may change files there unless it is
            // read-only.
            let around = if self.about.only_looks { None } else { call.changes.around().await };
            let result = tokio::select! {
                biased;
                () = call.turn.cancelled() => Err(Failure::Cancelled),
                result = self.connected.call(&self.about.name, call.input) => Ok(result),
            };
            call.changes.settle(around).await;
            let title = self.about.title.as_deref().unwrap_or(&self.about.name);
            content::output(title, result?.map_err(|error| Failure::Error(error.to_string()))?)
        }
        .boxed()
    }
}
