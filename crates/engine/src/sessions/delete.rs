//! Deletes a session together with its descendants.

use protocol::{Millis, SessionId};

use super::Sessions;
use crate::{
    Error,
    session::{Command, Held},
};

impl Sessions {
    /// Deletes a session and its descendants, after stopping their turns.
    pub async fn delete(&self, id: &SessionId) -> Result<(), Error> {
        self.delete_family(id, None).await
    }

    /// Deletes a session and its descendants. Fails as busy, and deletes none, if one of them was updated at or after this
    /// time, is shared or is not idle.
    pub async fn delete_unused(&self, id: &SessionId, since: Millis) -> Result<(), Error> {
        self.delete_family(id, Some(since)).await
    }

    /// Deletes the family in one commit, so that no crash and no prompt to a child leaves a session without its parent.
    async fn delete_family(&self, id: &SessionId, unused_since: Option<Millis>) -> Result<(), Error> {
        self.get(id).await?;
        let (sessions, id) = (self.clone(), id.clone());
        // A task of its own finishes the deletion even if the caller gives up during the commit.
        let deletion = tokio::spawn(async move {
            let family = sessions.hold_family(id, unused_since).await?;
            sessions.erase(family).await
        });
        deletion.await.unwrap_or_else(|_| Err(self.dropped()))
    }

    /// Holds a session and its descendants; each parent before its children, because a held parent starts no others.
    async fn hold_family(&self, id: SessionId, unused_since: Option<Millis>) -> Result<Vec<Held>, Error> {
        let mut family = Vec::new();
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            if unused_since.is_none() {
                self.abort_unfinished(&id);
            }
            match self.ask(&id, |reply| Command::Delete(unused_since, reply)).await.flatten() {
                Ok(held) => family.push(held),
                // A client has deleted the child meanwhile, together with its own children.
                Err(Error::NotFound { .. }) if !family.is_empty() => continue,
                Err(error) => return Err(error),
            }
            waiting.extend(self.children(&id).await?.into_iter().map(|child| child.id));
        }
        Ok(family)
    }

    /// Deletes held sessions in one commit. Clients learn of children before their parents.
    async fn erase(&self, family: Vec<Held>) -> Result<(), Error> {
        let (commits, outcomes): (Vec<_>, Vec<_>) =
            family.into_iter().rev().map(|held| (held.commit, held.outcome)).unzip();
        let ids: Vec<_> = commits.iter().map(|commit| commit.session.clone()).collect();
        let erased = self.shared.append_all(commits).await.map(drop);
        for (id, outcome) in ids.iter().zip(outcomes) {
            if erased.is_ok() {
                self.shared.registry.remove(id);
                self.shared.runners.forget(id).await;
            }
            // An actor that was given up has left the session to a repair.
            let _ = outcome.send(erased.clone());
        }
        Ok(erased?)
    }
}
