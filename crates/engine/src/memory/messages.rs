//! Listings of messages.

use protocol::{Message, MessageWithParts, SessionId};
use serde::Serialize;

use super::tables::Tables;
use crate::ports::{Cursor, Direction, Error, Page, PartRecord, Record, StoreFailure, Stretch};

impl Tables {
    pub(super) fn messages(&self, session: &SessionId, page: &Page) -> Vec<MessageWithParts> {
        let Some(row) = self.sessions.get(session) else { return Vec::new() };
        let mut found = row.select(|message| {
            page.before.as_ref().is_none_or(|Cursor { created, id }| message.order() < (*created, id))
        });
        let surplus = found.len().saturating_sub(page.limit.unwrap_or(usize::MAX));
        found.drain(..surplus);
        found
    }

    pub(super) fn stretch(&self, session: &SessionId, stretch: &Stretch) -> Result<Vec<Record>, Error> {
        let Some(row) = self.sessions.get(session) else { return Ok(Vec::new()) };
        let mut wanted = row.select(|message| {
            let place = |cursor: &Cursor| message.order().cmp(&(cursor.created, &cursor.id));
            stretch.after.as_ref().is_none_or(|after| place(after).is_gt())
                && stretch.before.as_ref().is_none_or(|before| place(before).is_lt())
        });
        if stretch.direction == Direction::Backward {
            wanted.reverse();
        }
        let (mut found, mut bytes) = (Vec::new(), 0);
        for message in wanted.iter().take(stretch.limit) {
            let message = record(message)?;
            bytes += message.bytes();
            found.push(message);
            if bytes >= stretch.bytes {
                break;
            }
        }
        Ok(found)
    }

    pub(super) fn nth_before(
        &self,
        session: &SessionId,
        before: Option<&Cursor>,
        count: usize,
    ) -> Option<Cursor> {
        let row = self.sessions.get(session)?;
        let found = row
            .select(|message| before.is_none_or(|Cursor { created, id }| message.order() < (*created, id)));
        found.iter().rev().nth(count.checked_sub(1)?).map(|message| Cursor::of(&message.info))
    }

    pub(super) fn nth_after(&self, session: &SessionId, after: &Cursor, count: usize) -> Option<Cursor> {
        let row = self.sessions.get(session)?;
        let found = row.select(|message| message.order() > (after.created, &after.id));
        found.get(count.checked_sub(1)?).map(|message| Cursor::of(&message.info))
    }

    pub(super) fn newest_summary(&self, session: &SessionId) -> Option<Cursor> {
        let row = self.sessions.get(session)?;
        let found = row.select(|message| match message {
            Message::Assistant(answer) => answer.is_summary(),
            Message::User(_) => false,
        });
        found.last().map(|message| Cursor::of(&message.info))
    }
}

fn record(message: &MessageWithParts) -> Result<Record, Error> {
    let parts = message.parts.iter().map(|part| Ok(PartRecord { open: part.is_open(), json: encode(part)? }));
    Ok(Record {
        place: Cursor::of(&message.info),
        info: encode(&message.info)?,
        parts: parts.collect::<Result<_, Error>>()?,
    })
}

fn encode(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(StoreFailure::Corrupt, format!("failed to encode a value: {error}")))
}
