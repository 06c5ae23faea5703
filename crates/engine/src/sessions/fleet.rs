//! The sessions of a node: repairs those of the workspaces that the node claims, and keeps the node in its fleet.

use std::sync::Arc;

use tokio::{
    sync::Semaphore,
    time::{MissedTickBehavior, interval},
};

use super::Sessions;
use crate::{
    Error,
    member::{Adoption, Member},
    ports::Fleet,
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
            let mut beats = interval(member.beat_every());
            loop {
                beats.tick().await;
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
        while !member.is_lost() {
            beats.tick().await;
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
