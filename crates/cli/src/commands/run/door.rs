//! A way in for plugins: they talk to the server that runs them, so there is one while they run, and for nobody else.

use std::{future, io, net::Ipv4Addr};

use server::{security::Policy, serve::serve};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::{commands::serve::edge, environment, terminal, wiring::Engine};

/// An open port of this machine. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Door {
    _serving: AbortOnDropHandle<()>,
}

impl Door {
    /// Opens one if there are plugins in a directory. If it cannot be opened, that is said, and they do not run.
    pub(super) async fn open(engine: &Engine, directory: &str) -> Option<Self> {
        if !engine.instances.want_server(directory).await {
            return None;
        }
        let opened = Self::listen(engine).await;
        opened.map_err(|error| terminal::note(&format!("plugins are not run: {error}"))).ok()
    }

    async fn listen(engine: &Engine) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = format!("http://{}", listener.local_addr()?);
        let (router, _) = edge(engine, Policy::local().with_credentials(environment::credentials()));
        engine.admit_plugins(&address);
        tracing::info!(address, "listening for plugins");
        let serving = tokio::spawn(serve(listener, router, future::pending()));
        Ok(Self { _serving: AbortOnDropHandle::new(serving) })
    }
}
