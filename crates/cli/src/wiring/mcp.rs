//! The MCP servers of a directory, connected to the routes and to the bus.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc, time::Duration};

use ::agents::native::{
    commands,
    mcp::{Servers, Settings},
};
use engine::{
    bus::{Bus, Place},
    mint::Mint,
};
use futures::future::{BoxFuture, FutureExt};
use protocol::{
    EventBody, Extra,
    agent::Command,
    config::Config,
    mcp::{McpResource, McpStatus, McpTarget},
    trust::{Withheld, WithheldKind, WithheldReason},
};
use server::{
    mcp::{McpServers, NoServer},
    project::Projects,
};

use super::trust;

/// Tells clients that the tools of a server are others now.
#[derive(Clone)]
pub(super) struct Announcer {
    pub(super) bus: Arc<Bus>,
    pub(super) mint: Arc<Mint>,
}

impl Announcer {
    fn tell(&self, place: &Place, server: &str) {
        let about = Extra::from_iter([("server".to_owned(), server.into())]);
        self.bus.publish(Some(place), &self.mint.event(EventBody::McpToolsChanged(about)));
    }
}

impl fmt::Debug for Announcer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Announcer")
    }
}

/// The servers a configuration names. Nothing is connected to yet.
pub(super) async fn servers(
    announcer: &Announcer,
    directory: &str,
    config: &Config,
    hidden: Vec<String>,
) -> Servers {
    let project = Projects::default().find(directory).await.project;
    let place = Place { directory: directory.into(), project: project.into() };
    let announcer = announcer.clone();
    let timeout = config.experimental.as_ref().and_then(|experimental| experimental.mcp_timeout);
    Servers::new(
        &config.mcp,
        Settings {
            directory: Path::new(directory).to_owned(),
            hidden,
            timeout: timeout.map(|millis| Duration::from_millis(millis.get())),
            changed: Some(Arc::new(move |server: &str| announcer.tell(&place, server))),
        },
    )
}

/// The servers, as routes want them.
#[derive(Debug)]
pub(super) struct Shown {
    servers: Servers,
    /// Servers of a project that are not started, because they need trust.
    withheld: BTreeMap<String, McpStatus>,
}

impl Shown {
    pub(super) fn new(servers: Servers, settings: &super::settings::Settings) -> Self {
        let command = trust::command(&settings.site.directory);
        let status = |part: &Withheld| {
            let error = match part.reason {
                WithheldReason::Untrusted => format!(
                    "it is not used, because this directory is not trusted; if you trust it, run `{command}`"
                ),
                WithheldReason::Owner => format!(
                    "it is not used, because another user owns {} or every user may write to it",
                    part.file
                ),
            };
            Some((trust::mcp_name(part)?, McpStatus::Failed { error }))
        };
        let servers_only = settings.loaded.withheld.iter().filter(|part| part.kind == WithheldKind::Mcp);
        Self { servers, withheld: servers_only.filter_map(status).collect() }
    }
}

impl McpServers for Shown {
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
