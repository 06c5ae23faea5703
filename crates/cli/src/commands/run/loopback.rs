//! A loopback listener for plugins, which call the server that runs them. It exists only while plugins run.

use std::{future, io, net::Ipv4Addr};

use server::{security::AccessPolicy, serve::serve, web::Page};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::{commands::serve::edge, environment, terminal, wiring::Engine};

/// A listener on a loopback port. Dropping it closes the port.
#[derive(Debug)]
pub(super) struct LoopbackServer {
    _serving: AbortOnDropHandle<()>,
}

impl LoopbackServer {
    /// Opens the listener if the directory has plugins. On failure it prints a note and plugins do not run.
    pub(super) async fn open(engine: &Engine, directory: &str) -> Option<Self> {
        if !engine.instances.want_server(directory).await {
            return None;
        }
        let opened = Self::listen(engine).await;
        opened
            .map_err(|error| {
                terminal::note(&format!("plugins are disabled: cannot open a port for them: {error}"));
            })
            .ok()
    }

    async fn listen(engine: &Engine) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = format!("http://{}", listener.local_addr()?);
        let (router, _) =
            edge(engine, AccessPolicy::local().with_credentials(environment::credentials()), Page::Off);
        engine.admit_plugins(&address);
        tracing::info!(address, "listening for plugins");
        let serving = tokio::spawn(serve(listener, router, future::pending()));
        Ok(Self { _serving: AbortOnDropHandle::new(serving) })
    }
}
