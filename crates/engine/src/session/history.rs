//! The messages of a session as its run sees them.

use std::sync::Arc;

use protocol::{
    MessageId, MessageWithParts, Part, PartBody,
    part::{PatchPart, TextPart},
};

use super::{
    actor::Actor,
    back::{Pages, look_back},
    history_cache::{Cached, Newest, Version},
    turn::{Call, Turn},
};
use crate::ports::{Cursor, Error};

/// The newest messages of a session at one moment, and the prompts among them that no run has taken up.
#[derive(Debug)]
pub(crate) struct Recalled {
    newest: Newest,
    waiting: Vec<MessageId>,
}

impl Actor {
    pub(super) fn version(&self) -> Version {
        Version { epoch: self.fence.epoch, head: self.head }
    }

    /// The session as it is stored.
    pub(super) fn recall(&self) -> Recalled {
        let newest = self.shared().histories.newest(&self.session.id, self.version());
        let waiting = self.life.queue().map(|(prompt, _)| prompt.clone()).collect();
        Recalled { newest, waiting }
    }
}

impl Recalled {
    /// The messages that a run may see, newest first.
    fn visible(&self) -> impl Iterator<Item = &Arc<MessageWithParts>> {
        let messages = self.newest.messages.iter().rev();
        messages.filter(|message| !self.waiting.contains(message.info.id()))
    }

    fn oldest(&self) -> Option<Cursor> {
        self.newest.messages.first().map(|message| Cursor::of(&message.info))
    }
}

impl Turn {
    /// All messages of this session that this run may see: prompts that still wait for their turn are left out.
    pub async fn history(&self) -> Result<Vec<Arc<MessageWithParts>>, Error> {
        self.recent(|_| false).await
    }

    /// The newest part of [`Turn::history`], oldest first. It begins with the first message for which `enough`
    /// returns true, asked from the newest message backwards.
    pub async fn recent(
        &self,
        mut enough: impl FnMut(&MessageWithParts) -> bool,
    ) -> Result<Vec<Arc<MessageWithParts>>, Error> {
        let recalled = self.call(Call::Recall).await;
        let mut found = Vec::new();
        let mut is_complete = recalled.as_ref().is_some_and(|recalled| recalled.newest.is_whole);
        for message in recalled.iter().flat_map(Recalled::visible) {
            found.push(Arc::clone(message));
            if enough(message) {
                is_complete = true;
                break;
            }
        }
        if !is_complete {
            self.read_older(recalled.as_ref(), &mut found, enough).await?;
        }
        found.reverse();
        Ok(found)
    }

    /// Adds older messages from the store, newest first, until `enough`.
    async fn read_older(
        &self,
        recalled: Option<&Recalled>,
        found: &mut Vec<Arc<MessageWithParts>>,
        mut enough: impl FnMut(&MessageWithParts) -> bool,
    ) -> Result<(), Error> {
        let mut pages =
            Pages::before(self.reads.as_ref(), &self.session.id, recalled.and_then(Recalled::oldest));
        let mut read = Vec::new();
        let is_whole = 'back: loop {
            let Some(page) = pages.next().await? else { break true };
            // Read after the messages, never before: a prompt that is accepted between the two reads would look
            // like one that this run has taken up, and its first step would be sent to the model twice.
            let waiting = self.waiting().await?;
            for record in &page {
                let message = Arc::new(record.read()?);
                read.push(Cached::new(Arc::clone(&message), record));
                if waiting.contains(message.info.id()) {
                    continue;
                }
                let is_last = enough(&message);
                found.push(message);
                if is_last {
                    break 'back false;
                }
            }
        };
        if let Some(recalled) = recalled {
            self.histories.extend(&self.session.id, &recalled.newest, read, is_whole);
        }
        Ok(())
    }

    /// Accepted prompts that no run has taken up.
    async fn waiting(&self) -> Result<Vec<MessageId>, Error> {
        let open = self.reads.prompts(&self.session.id).await?.into_iter();
        Ok(open.filter(|prompt| !prompt.started).map(|prompt| prompt.message).collect())
    }

    /// Passes every message of the session to `see`, newest first, without keeping more of them in memory.
    pub async fn each(&self, mut see: impl FnMut(&MessageWithParts)) -> Result<(), Error> {
        let recalled = self.call(Call::Recall).await;
        if let Some(Recalled { newest, .. }) = recalled.filter(|recalled| recalled.newest.is_whole) {
            newest.messages.iter().rev().for_each(|message| see(message));
            return Ok(());
        }
        look_back(self.reads.as_ref(), &self.session.id, |message| {
            see(&message);
            true
        })
        .await
    }

    /// The patches of this session's steps, oldest first.
    pub async fn patches(&self) -> Result<Vec<PatchPart>, Error> {
        let mut patches = Vec::new();
        self.each(|message| {
            patches.extend(message.parts.iter().rev().filter_map(|part| match &part.body {
                PartBody::Patch(patch) => Some(patch.clone()),
                _ => None,
            }));
        })
        .await?;
        patches.reverse();
        Ok(patches)
    }

    pub async fn message(&self, id: &MessageId) -> Result<Option<MessageWithParts>, Error> {
        let recalled = self.call(Call::Recall).await;
        let known = recalled.and_then(|recalled| {
            recalled.newest.messages.into_iter().rev().find(|message| message.info.id() == id)
        });
        let mut found = match known {
            Some(message) => Some(Arc::unwrap_or_clone(message)),
            None => self.reads.message(&self.session.id, id).await?,
        };
        if let (Some(message), Some(text)) =
            (&mut found, self.preface.as_ref().filter(|_| *id == self.prompt))
            && let Some(first) = message.parts.first()
        {
            let preface_part = TextPart { text: text.clone(), synthetic: Some(true), ..TextPart::default() };
            let part = Part { body: PartBody::Text(preface_part), ..first.clone() };
            message.parts.insert(0, part);
        }
        Ok(found)
    }
}
