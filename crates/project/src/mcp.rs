//! The MCP servers of a directory, for the routes of the server and the bus.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use native::commands;
use protocol::{
    agent::Command,
    config::Config,
    mcp::{McpResource, McpStatus, McpTarget},
    trust::{Withheld, WithheldKind, WithheldReason},
};
use server::{
    mcp::{McpServers, NoServer},
    project::Projects,
};
use supervision::mcp::{Servers, Settings};

use crate::{announcer::Announcer, diagnostics, settings, trust};

/// Creates the MCP servers that a configuration names, without connecting to them.
pub(crate) async fn servers(
    announcer: &Announcer,
    directory: &str,
    config: &Config,
    hidden: Vec<String>,
) -> Servers {
    let project = Projects::default().find(directory).await.project;
    let place = announcer.bus.place(directory, project);
    let (announcer, failures, spot) = (announcer.clone(), announcer.clone(), place.clone());
    let timeout = config.experimental.as_ref().and_then(|experimental| experimental.mcp_timeout);
    Servers::new(
        &config.mcp,
        Settings {
            directory: Path::new(directory).to_owned(),
            hidden,
            timeout: timeout.map(|millis| Duration::from_millis(millis.get())),
            changed: Some(Arc::new(move |server: &str| announcer.tools_changed(&place, server))),
            failed: Some(Arc::new(move |server: &str, why: &str| {
                failures.error(&spot, &diagnostics::server(server, why).message);
            })),
        },
    )
}

/// The MCP servers as the server's routes list them, with those that are withheld.
#[derive(Debug)]
pub(crate) struct ListedServers {
    servers: Servers,
    /// Servers of the project's configuration that are not started because the directory is not trusted.
    withheld: BTreeMap<String, McpStatus>,
}

impl ListedServers {
    pub(crate) fn new(servers: Servers, settings: &settings::Settings) -> Self {
        let command = trust::command(&settings.site.directory);
        let status = |part: &Withheld| {
            let error = match part.reason {
                WithheldReason::Untrusted => format!(
                    "not started, because this directory is not trusted; if you trust it, run `{command}`"
                ),
                WithheldReason::Owner => format!(
                    "not started, because another user owns {} or every user may write to it",
                    part.file
                ),
            };
            Some((trust::mcp_name(part)?, McpStatus::Failed { error }))
        };
        let servers_only = settings.loaded.withheld.iter().filter(|part| part.kind == WithheldKind::Mcp);
        Self { servers, withheld: servers_only.filter_map(status).collect() }
    }
}

impl McpServers for ListedServers {
    fn status(&self) -> BoxFuture<'_, BTreeMap<String, McpStatus>> {
        async {
            let mut status = self.withheld.clone();
            status.extend(self.servers.status().await);
            status
        }
        .boxed()
    }

    fn has(&self, name: &str) -> bool {
        self.servers.has(name)
    }

    fn connect<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), NoServer>> {
        async { self.servers.connect(name).await.map_err(|_| NoServer) }.boxed()
    }

    fn disconnect<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), NoServer>> {
        async { self.servers.disconnect(name).await.map_err(|_| NoServer) }.boxed()
    }

    fn add<'a>(&'a self, name: &'a str, config: McpTarget) -> BoxFuture<'a, ()> {
        self.servers.add(name, config).boxed()
    }

    fn resources(&self) -> BoxFuture<'_, Vec<McpResource>> {
        self.servers.resources().boxed()
    }

    fn commands(&self) -> BoxFuture<'_, Vec<Command>> {
        commands::served(&self.servers).boxed()
    }
}
