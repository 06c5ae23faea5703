//! The engine's port for reverting the file changes of sessions.

use engine::ports::{Origins, Undo, Undoing};
use futures::future::FutureExt;
use protocol::Session;
use protocol::project::FileDiff;
use tokio_util::sync::CancellationToken;

use super::Snapshots;

impl Undo for Snapshots {
    fn save<'a>(&'a self, session: &'a Session) -> Undoing<'a, Option<String>> {
        async move {
            let cancel = CancellationToken::new();
            let Some((worktree, repository)) = self.worktree(session).await else { return Ok(None) };
            let ready = worktree.prepare(&repository).await;
            let tree = if ready { worktree.track(&cancel).await } else { None };
            let tree =
                tree.ok_or("cannot take a snapshot of the worktree; see the server log for the cause")?;
            Ok(Some(tree.as_str().to_owned()))
        }
        .boxed()
    }

    fn restore<'a>(&'a self, session: &'a Session, origins: &'a Origins) -> Undoing<'a, ()> {
        async move {
            let cancel = CancellationToken::new();
            let worktree = self.open(session).await;
            let worktree = worktree.ok_or(
                "this worktree has no snapshots: it is not in a git repository, or taking them failed (see the \
                 server log)",
            )?;
            worktree.restore(origins, &cancel).await
        }
        .boxed()
    }

    fn compare<'a>(&'a self, session: &'a Session, origins: &'a Origins) -> Undoing<'a, Vec<FileDiff>> {
        async move {
            let cancel = CancellationToken::new();
            let Some(worktree) = self.open(session).await else { return Ok(Vec::new()) };
            let Some(now) = worktree.track(&cancel).await else { return Ok(Vec::new()) };
            Ok(worktree.compare(origins, &now, &cancel).await)
        }
        .boxed()
    }
}
