//! The fleet: the nodes that share a record, and the workspaces that they own.

use std::{collections::BTreeMap, fmt, time::Duration};

use futures::future::{self, FutureExt};
use protocol::{
    WorkspaceId,
    fleet::{FleetNode, FleetWorkspace},
    id::Id,
};
use ring::digest::{SHA256, digest};

use super::{Fence, StoreFuture};
use crate::fleet::{
    self, Ruling,
    record::{Member, Ownership, State},
};

/// Number of hexadecimal digits in the id of a workspace: 160 bits, so that no two directories share one.
const DIGITS: usize = 40;

/// Answers for the nodes that share a record.
///
/// A workspace is a directory in one place. Approvals, streams, lists, statuses and requests belong to a workspace and
/// not to a path, because the same path on another machine contains other files.
pub trait Fleet: fmt::Debug + Send + Sync {
    /// The workspace of a directory on this node.
    fn workspace(&self, directory: &str) -> WorkspaceId;

    /// Makes this node the owner of a workspace, unless it is already, and returns the fence of its commits. Fails with
    /// [`StoreFailure::Fenced`](super::StoreFailure::Fenced) if another node owns the workspace. A session has an actor
    /// only on the node that owns its workspace.
    fn claim<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Fence>;

    /// Claims the workspace of a directory on this node, in which a session is about to be created.
    fn claim_directory<'a>(&'a self, directory: &'a str) -> StoreFuture<'a, Fence> {
        async move { self.claim(&self.workspace(directory)).await }.boxed()
    }

    /// Returns false if this node has a workspace in custody: its files are on a node that is away, so this node ends
    /// turns in it and runs none.
    fn may_run(&self, _workspace: &WorkspaceId) -> bool {
        true
    }

    /// Finds the node that acts for a workspace.
    fn owner<'a>(&'a self, _workspace: &'a WorkspaceId) -> StoreFuture<'a, Owner> {
        future::ready(Ok(Owner::Here)).boxed()
    }

    /// Drops what this node remembers about the owner of a workspace: a call that went there has failed.
    fn forget_owner(&self, _workspace: &WorkspaceId) {}

    /// The workspaces of this directory on other nodes. A call for a directory that this node does not have goes to the
    /// only node that has it.
    fn elsewhere<'a>(&'a self, _directory: &'a str) -> StoreFuture<'a, Vec<WorkspaceId>> {
        future::ready(Ok(Vec::new())).boxed()
    }

    /// Counts of this node's workspaces, for metrics; `None` if this server has its record for itself.
    fn standing(&self) -> Option<Standing> {
        None
    }

    /// Returns the reason why a load balancer must send this node no calls; `None` if it may.
    fn unready(&self) -> Option<String> {
        None
    }

    /// Returns true if this node takes no new sessions and prompts, because it is about to stop.
    fn is_draining(&self) -> bool {
        false
    }

    /// The nodes by name; empty if this server has its record for itself.
    fn nodes(&self) -> StoreFuture<'_, Vec<FleetNode>> {
        future::ready(Ok(Vec::new())).boxed()
    }

    /// The workspaces of all nodes, by path; empty if this server has its record for itself.
    fn workspaces(&self) -> StoreFuture<'_, Vec<FleetWorkspace>> {
        future::ready(Ok(Vec::new())).boxed()
    }

    /// Asks a node to take no new work, or to take it again. Returns false if there is no such node.
    fn drain<'a>(&'a self, _node: &'a str, _wanted: bool) -> StoreFuture<'a, bool> {
        future::ready(Ok(false)).boxed()
    }
}

/// Counts of a node's workspaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Number of its own directories.
    pub owned: usize,
    /// Number of directories of nodes that are away.
    pub custodies: usize,
    /// Time since it has read the rows of the other nodes.
    pub silent: Duration,
}

/// The node that acts for a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// This node, or none yet: a call claims the workspace for this node. A workspace in custody counts as away.
    Here,
    /// Another node that is alive.
    Peer(Peer),
    /// The files are on a node that does not answer. Sessions can be read meanwhile, and nothing runs.
    Away { node: String },
}

/// Another node of the fleet, as a caller reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub node: String,
    /// The process of the node; a token of an older one is no longer valid.
    pub incarnation: u64,
    /// The base of its URLs, such as `http://10.0.0.5:4096`.
    pub address: String,
}

/// A change of ownership, with nodes by name.
pub type Transaction = fleet::Transaction<String, WorkspaceId>;

/// The rows that decide which node owns which workspace. [`crate::fleet::Record`] is the reference of its rules.
pub trait NodeRecord: fmt::Debug + Send + Sync {
    /// Carries out a transaction. After an error it may still have happened, or happen later.
    fn apply(&self, transaction: Transaction) -> StoreFuture<'_, Ruling>;

    /// Reads all nodes, and the workspaces that this node has to decide about, from one snapshot. `custodies` are those
    /// that it has in custody: their homes may have taken them back.
    fn look(&self, custodies: Vec<WorkspaceId>) -> StoreFuture<'_, Rows>;

    /// Reads the row of one workspace. A workspace that no session has used yet is a directory of this node; the row
    /// gets its path, if the caller knows it.
    fn row<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        directory: Option<&'a str>,
    ) -> StoreFuture<'a, Ownership<String>>;

    /// Reads which node has the files of a workspace; `None` if no session has used it yet.
    fn home<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Option<HomeNode>>;

    /// Reads the workspaces of a directory's path on other nodes.
    fn elsewhere<'a>(&'a self, directory: &'a str) -> StoreFuture<'a, Vec<WorkspaceId>>;

    /// Reads the nodes as users see them, by name.
    fn nodes(&self) -> StoreFuture<'_, Vec<FleetNode>>;

    /// Reads the workspaces of all nodes as users see them, by path.
    fn workspaces(&self) -> StoreFuture<'_, Vec<FleetWorkspace>>;

    /// Stores a user's wish that a node takes no new work. Returns false if there is no such node. The node finds the
    /// wish with its next look; its next process begins without it.
    fn drain<'a>(&'a self, node: &'a str, wanted: bool) -> StoreFuture<'a, bool>;
}

/// The node whose disk has the files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeNode {
    pub peer: Peer,
    pub state: State,
}

/// The rows that one look found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    pub members: BTreeMap<String, Member>,
    /// Each workspace with true if a session in it is not idle or has a waiting prompt.
    pub workspaces: BTreeMap<WorkspaceId, (Ownership<String>, bool)>,
    /// True if a user wants this node to take no new work.
    pub is_drain_wanted: bool,
}

/// The fleet of a record that one node has for itself. All answers are constant.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Alone {
    /// The name of the only node of a record.
    pub const NODE: &'static str = "single";

    /// The epoch of every workspace, because none ever changes its owner.
    pub const EPOCH: u64 = 0;
}

impl Fleet for Alone {
    fn workspace(&self, directory: &str) -> WorkspaceId {
        own_workspace(Self::NODE, directory)
    }

    fn claim<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Fence> {
        future::ready(Ok(Fence { workspace: workspace.clone(), epoch: Self::EPOCH })).boxed()
    }
}

/// The id of a directory on a node's own disk. It follows from both names, so it is known before anything is stored.
/// Stores derive the same id when they migrate rows that have only a directory.
pub fn own_workspace(node: &str, directory: &str) -> WorkspaceId {
    let digest = digest(&SHA256, format!("{node}\n{directory}").as_bytes());
    let digits = digest.as_ref().iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}"));
    WorkspaceId::from_text(format!("{}_{}", WorkspaceId::PREFIX, digits.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_a_directory_of_one_node() {
        let here = own_workspace("a", "/project");
        assert_eq!(here, own_workspace("a", "/project"));
        assert_ne!(here, own_workspace("b", "/project"), "the same path on another machine");
        assert_ne!(here, own_workspace("a", "/project/"));
        assert_eq!(here.as_str().parse::<WorkspaceId>().unwrap(), here);
    }

    /// The migration of the Postgres store derives the ids in SQL, so they must never change.
    #[test]
    fn ids_of_workspaces_are_stable() {
        let id = Alone.workspace("/project");
        assert_eq!(id.as_str(), "wrk_adcc4e705efdaac46a77ab7b9641f9f74785661f");
    }
}
