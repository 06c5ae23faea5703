//! The range of messages that a listing asks for.

use engine::ports::Cursor;
use protocol::{SessionId, wire_error::BadRequestKind};

use super::{ListQuery, read_cursor};
use crate::{App, Error};

/// Maximum number of messages per page.
const MAX_PAGE: usize = 10_000;

/// A range of messages between two places, both exclusive.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) after: Option<Cursor>,
    pub(super) before: Option<Cursor>,
    /// `None` for all messages.
    pub(super) limit: Option<usize>,
    /// True if messages before the range can be read with `before`.
    pub(super) has_older: bool,
    /// The last message of the range, if newer ones follow it.
    pub(super) newer: Option<Cursor>,
}

impl Window {
    pub(super) async fn of(app: &App, id: &SessionId, query: &ListQuery) -> Result<Self, Error> {
        let refuse = |message| Err(Error::bad_request(BadRequestKind::Query, message));
        let ListQuery { before, after, around, .. } = query;
        let ranges = [before.is_some(), after.is_some(), around.is_some()];
        let limit = match query.limit.filter(|limit| *limit > 0) {
            Some(limit) => limit.min(MAX_PAGE),
            None if ranges.contains(&true) => {
                return refuse("before, after and around: each requires `limit`");
            }
            None => return Ok(Self::default()),
        };
        if ranges.iter().filter(|is_given| **is_given).count() > 1 {
            return refuse("before, after and around: only one of them can be given");
        }
        let window = if let Some(around) = around {
            let missing = || engine::Error::NotFound { kind: "Message", id: around.to_string() };
            app.sessions.get(id).await?;
            let place = app.sessions.place(id, around).await?.ok_or_else(missing)?;
            Self::around(app, id, place, limit).await?
        } else if let Some(after) = after {
            Self::after(app, id, read_cursor(after)?, limit).await?
        } else {
            let before = before.as_deref().map(read_cursor).transpose()?;
            // The page starts after the first message that does not fit.
            let after = app.sessions.nth_before(id, before.clone(), limit + 1).await?;
            Self { has_older: after.is_some(), after, before, ..Self::default() }
        };
        Ok(Self { limit: Some(limit), ..window })
    }

    async fn after(app: &App, id: &SessionId, after: Cursor, limit: usize) -> Result<Self, Error> {
        let before = app.sessions.nth_after(id, after.clone(), limit + 1).await?;
        let newer = match before {
            Some(_) => app.sessions.nth_after(id, after.clone(), limit).await?,
            None => None,
        };
        Ok(Self { after: Some(after), before, newer, ..Self::default() })
    }

    async fn around(app: &App, id: &SessionId, place: Cursor, limit: usize) -> Result<Self, Error> {
        let older = limit / 2;
        let newer = limit - older - 1;
        let after = app.sessions.nth_before(id, Some(place.clone()), older + 1).await?;
        let before = app.sessions.nth_after(id, place.clone(), newer + 1).await?;
        let last = match before {
            Some(_) if newer == 0 => Some(place),
            Some(_) => app.sessions.nth_after(id, place, newer).await?,
            None => None,
        };
        Ok(Self { has_older: after.is_some(), after, before, newer: last, ..Self::default() })
    }
}
