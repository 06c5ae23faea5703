//! The states of chat channels, read from the ledger of the gateway that shares the data directory. The gateway may be
//! part of this process or another one.

use std::{path::PathBuf, sync::Arc};

use channels::{gateway, ledger::Clock};
use futures::future::BoxFuture;
use protocol::channel::Channel;

#[derive(Debug)]
pub(crate) struct ChannelStates {
    /// The data directory.
    pub(super) data: PathBuf,
}

impl server::Channels for ChannelStates {
    fn states(&self) -> BoxFuture<'_, Result<Vec<Channel>, String>> {
        Box::pin(async { gateway::channels(&self.data, clock()).await.map_err(|error| error.to_string()) })
    }
}

/// The clock of a gateway.
pub(crate) fn clock() -> Clock {
    let clock = engine::ports::SystemClock;
    Arc::new(move || engine::ports::Clock::now(&clock))
}
