//! Reads a long session page by page, so that the memory needed does not depend on its length.
//!
//! Each page is a query of its own that begins after the last message of the page before. If the session changes
//! meanwhile, every message that existed at the beginning and is not removed is read once, in order; a message that
//! is added meanwhile is read if its place comes after the current page.

use protocol::{MessageId, Part, SessionId};

use super::Sessions;
use crate::{
    Error,
    ports::{Cursor, Direction, Record, Stretch},
};

/// Maximum number of messages per page.
const PAGE_MESSAGES: usize = 200;

/// Maximum number of stored bytes per page; a single larger message still fits.
const PAGE_BYTES: usize = 256 * 1024;

/// A session's messages, read page by page, oldest first.
#[derive(Debug)]
pub struct Pages {
    sessions: Sessions,
    session: SessionId,
    after: Option<Cursor>,
    before: Option<Cursor>,
    page_bytes: usize,
    started: bool,
    done: bool,
}

impl Pages {
    /// Sets the size of a page in stored bytes.
    #[must_use]
    pub fn sized(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// Returns true once the last page was read.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The next page; empty only at the end. Open parts contain their text up to this moment.
    pub async fn next(&mut self) -> Result<Vec<Record>, Error> {
        if self.done {
            return Ok(Vec::new());
        }
        let stretch = Stretch {
            after: self.after.clone(),
            before: self.before.clone(),
            direction: Direction::Forward,
            limit: PAGE_MESSAGES,
            bytes: self.page_bytes,
            // The first page is often the whole listing, and its client should not wait for long listings.
            bulk: self.started,
        };
        let mut page = self.sessions.shared.reads.stretch(&self.session, stretch).await?;
        let bytes = page.iter().fold(0_usize, |sum, record| sum.saturating_add(record.bytes()));
        self.done = page.len() < PAGE_MESSAGES && bytes < self.page_bytes;
        if self.done && self.started {
            // A session that was deleted meanwhile has no messages either; report that instead of an end.
            self.sessions.get(&self.session).await?;
        }
        self.started = true;
        if let Some(last) = page.last() {
            self.after = Some(last.place.clone());
        }
        for record in &mut page {
            self.sessions.fill_record(record);
        }
        Ok(page)
    }
}

impl Sessions {
    /// The messages of a session between two places, both exclusive, page by page.
    pub async fn pages(
        &self,
        id: &SessionId,
        after: Option<Cursor>,
        before: Option<Cursor>,
    ) -> Result<Pages, Error> {
        self.get(id).await?;
        Ok(Pages {
            sessions: self.clone(),
            session: id.clone(),
            after,
            before,
            page_bytes: PAGE_BYTES,
            started: false,
            done: false,
        })
    }

    pub async fn stretch(&self, id: &SessionId, stretch: Stretch) -> Result<Vec<Record>, Error> {
        self.get(id).await?;
        let mut found = self.shared.reads.stretch(id, stretch).await?;
        for record in &mut found {
            self.fill_record(record);
        }
        Ok(found)
    }

    /// The place of the `count`th message before a place, or before the end; `None` if there are fewer.
    pub async fn nth_before(
        &self,
        id: &SessionId,
        before: Option<Cursor>,
        count: usize,
    ) -> Result<Option<Cursor>, Error> {
        Ok(self.shared.reads.nth_before(id, before, count).await?)
    }

    /// The place of the `count`th message after a place; `None` if there are fewer.
    pub async fn nth_after(
        &self,
        id: &SessionId,
        after: Cursor,
        count: usize,
    ) -> Result<Option<Cursor>, Error> {
        Ok(self.shared.reads.nth_after(id, after, count).await?)
    }

    /// The place of the newest completed summary of a session.
    pub async fn newest_summary(&self, id: &SessionId) -> Result<Option<Cursor>, Error> {
        self.get(id).await?;
        Ok(self.shared.reads.newest_summary(id).await?)
    }

    /// The place of a message; `None` if there is no such message.
    pub async fn place(&self, id: &SessionId, message: &MessageId) -> Result<Option<Cursor>, Error> {
        let found = self.shared.reads.message(id, message).await?;
        Ok(found.map(|message| Cursor::of(&message.info)))
    }

    fn fill_record(&self, record: &mut Record) {
        for part in record.parts.iter_mut().filter(|part| part.open) {
            let Ok(mut value) = serde_json::from_str::<Part>(&part.json) else { continue };
            let Some(text) = self.shared.bus.open_text(&value.id) else { continue };
            value.set_text(text);
            if let Ok(json) = serde_json::to_string(&value) {
                part.json = json;
            }
        }
    }
}
