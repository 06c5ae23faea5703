//! The sessions of a node: repairs those of the workspaces that the node claims, and keeps the node in its fleet.

use std::sync::Arc;

use tokio::{
    sync::Semaphore,
    time::{MissedTickBehavior, interval, sleep},
};

use protocol::{SessionId, WorkspaceId, id::Id, request::Request};

use super::Sessions;
use crate::{
    Error,
    member::{Adoption, Member},
    ports::{Fleet, Owner},
};

/// Maximum number of rounds at once. The transactions of a round have deadlines, so more would wait only for a database
/// that does not answer at all.
const ROUNDS_AT_ONCE: usize = 32;

impl Sessions {
    /// Starts as a node of a fleet, before the first client is served: takes over the statuses of all sessions and repairs
    /// those of this node's own directories. `first` is the position after which the log publishes to the bus.
    pub async fn recover_node(&self, member: &Member, first: u64) -> Result<(), Error> {
        let shared = &self.shared;
        shared.bus.seed(first);
        let (statuses, requests) =
            tokio::try_join!(shared.reads.statuses(None), shared.reads.requests(None))?;
        self.remember(statuses, &requests).await?;
        // Repairs may take longer than a lease.
        let beats = async {
            loop {
                sleep(member.beat_every()).await;
                member.begin_later(member.round().await);
            }
        };
        tokio::select! {
            () = self.tend(member) => {}
            () = beats => {}
        }
        shared.bus.open();
        Ok(())
    }

    /// Finds the node that acts for a workspace. A call that commands one of its sessions belongs there.
    pub async fn owner_of(&self, workspace: &WorkspaceId) -> Result<Owner, Error> {
        Ok(self.shared.bus.fleet().owner(workspace).await?)
    }

    /// Makes the next [`Sessions::owner_of`] look at the record.
    pub fn forget_owner(&self, workspace: &WorkspaceId) {
        self.shared.bus.fleet().forget_owner(workspace);
    }

    /// The workspaces of a directory on other nodes.
    pub async fn elsewhere(&self, directory: &str) -> Result<Vec<WorkspaceId>, Error> {
        Ok(self.shared.bus.fleet().elsewhere(directory).await?)
    }

    /// The session that waits for the answer to a permission or a question; `None` if none does.
    pub async fn asker(&self, request: &str) -> Result<Option<SessionId>, Error> {
        let requests = self.shared.reads.requests(None).await?;
        Ok(requests.iter().find(|open| open.id() == request).map(Request::session_id).cloned())
    }

    /// A fresh id for a message or a session that this node does not store itself.
    pub fn fresh<I: Id>(&self) -> I {
        self.shared.mint.id()
    }

    /// Takes part in a fleet for one round: sends a beat, looks at the other nodes, and repairs the sessions of workspaces
    /// that this node has claimed. `member` must be the fleet of this engine's bus.
    pub async fn tend(&self, member: &Member) {
        for adoption in member.round().await {
            self.carry_out(member, adoption).await;
        }
    }

    /// Keeps this node in its fleet until the other nodes declare it dead. After that it publishes nothing and accepts no
    /// commands. Rounds overlap, and repairs run beside them, because a beat must wait for neither.
    pub async fn keep(&self, member: &Arc<Member>) {
        let places = Arc::new(Semaphore::new(ROUNDS_AT_ONCE));
        let mut beats = interval(member.beat_every());
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = member.lost() => return,
                _ = beats.tick() => {}
            }
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let (sessions, member) = (self.clone(), Arc::clone(member));
            tokio::spawn(async move {
                let adoptions = member.round().await;
                drop(place);
                for adoption in adoptions {
                    sessions.carry_out(&member, adoption).await;
                }
            });
        }
    }

    /// Stops without a word: other nodes have ended the turns of this one.
    pub fn abandon(&self) {
        self.shared.bus.silence();
        self.shared.registry.close();
    }

    /// The fleet of this node.
    pub fn fleet(&self) -> &Arc<dyn Fleet> {
        self.shared.bus.fleet()
    }

    async fn carry_out(&self, member: &Member, adoption: Adoption) {
        match self.adopt(&adoption.workspace).await {
            Ok(_) => member.adopted(adoption),
            Err(error) => {
                tracing::warn!(workspace = %adoption.workspace, %error, "failed to adopt a workspace; will retry");
                member.not_adopted(&adoption);
            }
        }
    }
}
