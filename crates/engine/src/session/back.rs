//! Reads a session's messages backwards, in bounded pages.

use protocol::{MessageWithParts, SessionId};

use crate::{
    limits::{HISTORY_BYTES, HISTORY_PAGE},
    ports::{Cursor, Direction, Error, Reads, Record, Stretch},
};

/// Passes a session's messages to `see`, newest first, until it returns false.
pub(crate) async fn look_back(
    reads: &dyn Reads,
    session: &SessionId,
    mut see: impl FnMut(MessageWithParts) -> bool,
) -> Result<(), Error> {
    let mut pages = Pages::new(reads, session);
    while let Some(page) = pages.next().await? {
        for record in &page {
            if !see(record.read()?) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A session's messages in bounded pages, the newest message first.
pub(crate) struct Pages<'a> {
    reads: &'a dyn Reads,
    session: &'a SessionId,
    before: Option<Cursor>,
    /// True once the oldest message was read.
    is_done: bool,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(reads: &'a dyn Reads, session: &'a SessionId) -> Self {
        Self::before(reads, session, None)
    }

    /// The messages before a place.
    pub(crate) fn before(reads: &'a dyn Reads, session: &'a SessionId, before: Option<Cursor>) -> Self {
        Self { reads, session, before, is_done: false }
    }

    /// The next page; `None` if there are no more messages.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Record>>, Error> {
        if self.is_done {
            return Ok(None);
        }
        let stretch = Stretch {
            after: None,
            before: self.before.take(),
            direction: Direction::Backward,
            limit: HISTORY_PAGE,
            bytes: HISTORY_BYTES,
            bulk: false,
        };
        let page = self.reads.stretch(self.session, stretch).await?;
        let Some(oldest) = page.last() else { return Ok(None) };
        self.before = Some(oldest.place.clone());
        // Only the end of the session keeps a page below both limits.
        let bytes: usize = page.iter().map(Record::bytes).sum();
        self.is_done = page.len() < HISTORY_PAGE && bytes < HISTORY_BYTES;
        Ok(Some(page))
    }
}
