//! The nodes that have the files of other nodes' workspaces, as this node has read them a moment ago.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use protocol::WorkspaceId;

use crate::{
    fleet::record::State,
    ports::{Error, NodeRecord, Owner, Peer},
};

/// Time for which an answer is used again. A peer that is another process since refuses the call, and its caller asks
/// again later than this.
const FRESH: Duration = Duration::from_millis(300);

/// Maximum number of workspaces in the cache.
const KEPT: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Living peers, with the time of the read.
    peers: Mutex<BTreeMap<WorkspaceId, (Duration, Peer)>>,
}

impl Owners {
    /// Finds the node that acts for a workspace which this node does not hold. A directory of this node counts as held,
    /// because a call claims it.
    pub(super) async fn find(
        &self,
        workspace: &WorkspaceId,
        this: &str,
        record: &dyn NodeRecord,
        now: Duration,
    ) -> Result<Owner, Error> {
        let known = self.known(workspace);
        if let Some((read, peer)) = &known
            && now.saturating_sub(*read) < FRESH
        {
            return Ok(Owner::Peer(peer.clone()));
        }
        let home = match record.home(workspace).await {
            Ok(home) => home,
            // Calls that need no database, such as an abort, still reach their owner during an outage.
            Err(error) => return known.map(|(_, peer)| Owner::Peer(peer)).ok_or(error),
        };
        Ok(match home {
            None => Owner::Here,
            Some(home) if home.peer.node == this => Owner::Here,
            Some(home) if home.state == State::Dead => {
                self.forget(workspace);
                Owner::Away { node: home.peer.node }
            }
            Some(home) => {
                self.remember(workspace, now, home.peer.clone());
                Owner::Peer(home.peer)
            }
        })
    }

    fn known(&self, workspace: &WorkspaceId) -> Option<(Duration, Peer)> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).get(workspace).cloned()
    }

    fn remember(&self, workspace: &WorkspaceId, now: Duration, peer: Peer) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= KEPT && !peers.contains_key(workspace) {
            peers.clear();
        }
        peers.insert(workspace.clone(), (now, peer));
    }

    pub(super) fn forget(&self, workspace: &WorkspaceId) {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(workspace);
    }
}
