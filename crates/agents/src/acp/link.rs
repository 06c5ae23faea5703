//! The connection to the program of an agent that speaks the Agent Client Protocol.

use std::time::Duration;

use agent_client_protocol_schema::v1::ClientRequest;
use futures::FutureExt;
use serde_json::Value;

use super::{outgoing, wire};
use crate::external::{Failure, Launch};
pub(super) use crate::jsonrpc::Link;
use crate::jsonrpc::{Error, Options};

impl Link {
    /// Starts a program.
    pub(super) fn start(launch: &Launch) -> Result<Self, Failure> {
        Self::open(launch, Options { methods: wire::METHODS, ..Options::default() })
    }

    /// Sends a request while no turn runs. Ignores every other message that arrives before the response.
    pub(super) async fn ask(&mut self, request: &ClientRequest, deadline: Duration) -> Result<Value, Error> {
        let peer = self.peer.clone();
        let asking = peer.request(request.method(), outgoing::value(request), deadline);
        tokio::pin!(asking);
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut asking => break answer,
                Some(_) = self.inbox.next() => {}
            }
        };
        // Messages that arrived before the response are in the inbox by now.
        while let Some(Some(_)) = self.inbox.next().now_or_never() {}
        answer
    }
}
