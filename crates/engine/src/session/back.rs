//! Looking back through a session's messages in bounded pieces.

use protocol::{MessageWithParts, SessionId};

use crate::{
    limits::{HISTORY_BYTES, HISTORY_PAGE},
    ports::{Cursor, Direction, Error, Reads, Stretch},
};

/// Goes through a session's messages, newest first, for as long as `see` wants more.
pub(crate) async fn look_back(
    reads: &dyn Reads,
    session: &SessionId,
    mut see: impl FnMut(MessageWithParts) -> bool,
) -> Result<(), Error> {
    let mut before: Option<Cursor> = None;
    loop {
        let stretch = Stretch {
            after: None,
            before: before.take(),
            direction: Direction::Backward,
            limit: HISTORY_PAGE,
            bytes: HISTORY_BYTES,
            bulk: false,
        };
        let page = reads.stretch(session, stretch).await?;
        let Some(oldest) = page.last() else { return Ok(()) };
        before = Some(oldest.place.clone());
        for record in &page {
            if !see(record.read()?) {
                return Ok(());
            }
        }
    }
}
