//! Reverts a part of the conversation together with its file changes.
//!
//! A revert *marks* the session and restores files; the messages stay, so that the revert can be undone. The next
//! prompt deletes them, in the commit that accepts it.
//!
//! The order of the steps lets the user go back after a crash at any point:
//!
//! - A revert saves the tree, stores the mark with it, and only then touches files. Whatever happens in between,
//!   the mark is there, and undoing the revert restores the saved tree. (Changing files first could leave a
//!   changed tree without a record of its earlier state.)
//! - Undoing a revert restores files first and then removes the mark. A crash leaves the mark, and repeating the
//!   call has the same result.

mod point;

use protocol::{
    EventBody, MessageId, MessageWithParts, PartId, Session,
    event::{MessageGone, PartGone},
    project::FileDiff,
    session::{Revert, Summary},
};

use super::{actor::Actor, back};
use crate::{
    Error,
    ports::{self, Origins},
    transcript::Emit,
};
use point::{MessageOutline, Point};

impl Actor {
    /// Reverts everything from a message or part on. A second revert moves the mark in either direction and keeps
    /// the tree that the first one saved.
    pub(super) async fn revert(
        &mut self,
        message: MessageId,
        part: Option<PartId>,
    ) -> Result<Session, Error> {
        if self.life.is_busy() {
            return Err(Error::Busy(self.session.id.clone()));
        }
        let glimpses = self.glimpses().await?;
        let point = Point::find(&glimpses, &message, part.as_ref())?;
        let mut stored = self.session.clone();
        let before = stored.revert.clone();
        let mut targets = point.origins_after(&glimpses);
        let old = before.as_ref().and_then(|mark| Point::marked(&glimpses, mark));
        if let (Some(old), Some(saved)) = (old, before.as_ref().and_then(|mark| mark.snapshot.as_deref())) {
            // If the mark moves to a later point, files that only the first revert had restored get their saved
            // state back.
            let files = old.origins_after(&glimpses);
            targets.fill(Origins::all(saved, files.files().cloned()));
        }
        let mut mark = point.mark.clone();
        mark.snapshot = match before.as_ref().and_then(|mark| mark.snapshot.clone()) {
            Some(saved) => Some(saved),
            None if targets.is_empty() => None,
            None => self.shared().undo.save(&self.session).await.map_err(Error::Undo)?,
        };
        self.session.revert = Some(mark.clone());
        if let Some(saved) = &mark.snapshot {
            self.store_mark(before.clone()).await?;
            stored = self.session.clone();
            self.take_back(saved, &targets, before).await?;
            let undone = Origins::all(saved, targets.files().cloned());
            let diffs = self.compare(&undone).await;
            let text: Vec<String> = diffs.into_iter().filter_map(|diff| diff.patch).collect();
            mark.diff = Some(text.join("\n"));
            self.session.revert = Some(mark);
        }
        self.tell(&point.origins_before(&glimpses), stored).await
    }

    /// Undoes a revert, if there is one.
    pub(super) async fn unrevert(&mut self) -> Result<Session, Error> {
        if self.life.is_busy() {
            return Err(Error::Busy(self.session.id.clone()));
        }
        let Some(mark) = self.session.revert.clone() else { return Ok(self.session.clone()) };
        let glimpses = self.glimpses().await?;
        if let (Some(saved), Some(point)) = (&mark.snapshot, Point::marked(&glimpses, &mark)) {
            let files = point.origins_after(&glimpses);
            let origins = Origins::all(saved, files.files().cloned());
            self.shared().undo.restore(&self.session, &origins).await.map_err(Error::Undo)?;
        }
        let stored = self.session.clone();
        self.session.revert = None;
        self.tell(&point::all_origins(&glimpses), stored).await
    }

    /// Makes a revert final, if there is one.
    pub(super) async fn settle_revert(&mut self) -> Result<(), Error> {
        if self.life.is_busy() {
            return Err(Error::Busy(self.session.id.clone()));
        }
        if self.session.revert.is_none() {
            return Ok(());
        }
        let before = self.session.clone();
        let forgotten = async {
            self.forget_reverted().await?;
            self.push_session();
            self.save(true).await
        };
        let forgotten = forgotten.await;
        if forgotten.is_err() {
            self.session = before;
        }
        forgotten
    }

    /// Deletes the messages that a revert has hidden. Queues the events, so that one commit stores them together
    /// with the prompt or change that follows.
    pub(super) async fn forget_reverted(&mut self) -> Result<(), Error> {
        let Some(mark) = self.session.revert.clone() else { return Ok(()) };
        let mut gone = Vec::new();
        let mut found = false;
        self.look_back(|message| {
            found = *message.info.id() == mark.message_id;
            gone.push((message.info.id().clone(), message.parts));
            !found
        })
        .await?;
        self.session.revert = None;
        if !found {
            // A client removed the marked message, so the extent of the revert is unknown.
            return Ok(());
        }
        for (message, parts) in gone.into_iter().rev() {
            let first = mark.part_id.as_ref().filter(|_| message == mark.message_id);
            let hidden = first.and_then(|first| parts.iter().position(|part| part.id == *first));
            match hidden {
                Some(from) => {
                    for part in parts.into_iter().skip(from) {
                        self.push_part_removed(message.clone(), part.id);
                    }
                }
                None => self.push_message_removed(message),
            }
        }
        Ok(())
    }

    /// Stores the mark before any file is touched.
    async fn store_mark(&mut self, before: Option<Revert>) -> Result<(), Error> {
        self.session.time.updated = self.shared().mint.now();
        self.push_session();
        let saved = self.save(true).await;
        if saved.is_err() {
            self.session.revert = before;
        }
        saved
    }

    /// Restores files. If that fails, it puts the restored files back and removes the mark. If that fails too, the
    /// mark stays, because it refers to the saved tree.
    async fn take_back(
        &mut self,
        saved: &str,
        targets: &Origins,
        before: Option<Revert>,
    ) -> Result<(), Error> {
        let undo = self.shared().undo.clone();
        let Err(error) = undo.restore(&self.session, targets).await else { return Ok(()) };
        // After an earlier revert, the files were not in the saved state, so a moved mark stays in place.
        let origins = Origins::all(saved, targets.files().cloned());
        if before.is_none() && undo.restore(&self.session, &origins).await.is_ok() {
            self.session.revert = None;
            self.push_session();
            self.save(true).await?;
        }
        Err(Error::Undo(error))
    }

    /// Stores and publishes the session with its remaining changes. If that fails, restores the `stored` session in
    /// memory.
    async fn tell(&mut self, origins: &Origins, stored: Session) -> Result<Session, Error> {
        let diffs = self.compare(origins).await;
        let shared = self.sessions.shared.clone();
        let mut emit = Emit::new(self.session.id.clone(), &shared.mint);
        self.session.summary = Some(summary(&diffs));
        emit.diff(diffs);
        emit.session(&mut self.session);
        self.unsaved.extend(emit.into_events());
        if let Err(error) = self.save(true).await {
            self.session = stored;
            return Err(error);
        }
        Ok(self.session.clone())
    }

    /// Returns an empty list if the comparison fails: the files are restored, and only their display is missing.
    async fn compare(&self, origins: &Origins) -> Vec<FileDiff> {
        if origins.is_empty() {
            return Vec::new();
        }
        self.shared().undo.compare(&self.session, origins).await.unwrap_or_else(|error| {
            tracing::warn!(session = %self.session.id, error, "failed to compare the session's files; showing no changes");
            Vec::new()
        })
    }

    /// All messages, oldest first, reduced to what a revert needs.
    async fn glimpses(&self) -> Result<Vec<MessageOutline>, Error> {
        let mut glimpses = Vec::new();
        self.look_back(|message| {
            glimpses.push(MessageOutline::of(&message));
            true
        })
        .await?;
        glimpses.reverse();
        Ok(glimpses)
    }

    /// Passes the messages to `see`, newest first, until it returns false.
    async fn look_back(&self, see: impl FnMut(MessageWithParts) -> bool) -> Result<(), ports::Error> {
        back::look_back(self.shared().reads.as_ref(), &self.session.id, see).await
    }

    pub(super) fn push_message_removed(&mut self, message_id: MessageId) {
        let session_id = self.session.id.clone();
        self.unsaved.push(EventBody::MessageRemoved(MessageGone::new(session_id, message_id)));
    }

    pub(super) fn push_part_removed(&mut self, message_id: MessageId, part_id: PartId) {
        let session_id = self.session.id.clone();
        self.unsaved.push(EventBody::PartRemoved(PartGone::new(session_id, message_id, part_id)));
    }
}

pub(super) fn summary(diffs: &[FileDiff]) -> Summary {
    Summary {
        additions: diffs.iter().map(|diff| diff.additions).sum(),
        deletions: diffs.iter().map(|diff| diff.deletions).sum(),
        files: u64::try_from(diffs.len()).unwrap_or(u64::MAX),
        ..Summary::default()
    }
}
