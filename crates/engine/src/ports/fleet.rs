//! The fleet: the nodes that share a record, and the workspaces that they own.

use std::fmt;

use futures::future::{self, FutureExt};
use protocol::{WorkspaceId, id::Id};
use ring::digest::{SHA256, digest};

use super::{Fence, StoreFuture};

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
