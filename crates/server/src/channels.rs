//! The port through which the server learns the states of chat channels. It does not know who keeps them.

use std::fmt;

use futures::future::BoxFuture;
use protocol::channel::Channel;

/// Reads the states of the chat gateway's channels.
pub trait Channels: Send + Sync + fmt::Debug {
    /// The states, by name; empty if there is no gateway. The error is for the log.
    fn states(&self) -> BoxFuture<'_, Result<Vec<Channel>, String>>;
}

/// A server without a chat gateway.
#[derive(Debug)]
pub(crate) struct NoChannels;

impl Channels for NoChannels {
    fn states(&self) -> BoxFuture<'_, Result<Vec<Channel>, String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}
