//! Messages.

use std::collections::HashMap;

use axum::{Json, extract::State};
use engine::{
    Sessions,
    ports::{Cursor, Page as Span},
};
use protocol::{
    Message, MessageId, MessageWithParts, Millis, PartBody, SessionId,
    next::{Cursors, Data, NextMessage, Page, Reason},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Order, page_size, read_cursor, write_cursor};
use crate::{
    App, Error,
    error::Fault,
    extract::{Params, Query},
    openapi::Route,
};

/// Messages in a page, if the client does not say.
const PAGE: usize = 50;
/// Messages in a page at most.
const MAX_PAGE: usize = 200;

pub(super) fn routes() -> Vec<Route> {
    let missing = &[Fault::NotFound];
    vec![
        Route::get("/api/session/{sessionID}/message", "v2.session.messages", list)
            .summary("List the messages of a session, page by page")
            .faults(missing),
        Route::get("/api/session/{sessionID}/message/{messageID}", "v2.session.message", get)
            .summary("Get a message")
            .faults(missing),
        Route::get("/api/session/{sessionID}/context", "v2.session.context", context)
            .summary("List the messages from the newest summary on, oldest first")
            .faults(missing),
    ]
}

/// Which messages to list.
#[derive(Debug, Deserialize, JsonSchema)]
struct ListQuery {
    /// How many; 50 if nobody says.
    limit: Option<f64>,
    /// Newest first, unless asked otherwise.
    #[serde(default)]
    order: Order,
    /// Where the page begins, from the page before.
    cursor: Option<String>,
}

/// A place in the messages: everything before it in the order of the list was seen.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    time: Millis,
    id: MessageId,
}

impl Place {
    fn of(message: &MessageWithParts) -> Self {
        Self { time: message.info.created(), id: message.info.id().clone() }
    }
}

async fn list(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<NextMessage>>, Error> {
    let size = page_size(query.limit, PAGE, MAX_PAGE)?;
    let after = query.cursor.as_deref().map(read_cursor::<Place>).transpose()?;
    let mut messages = match query.order {
        Order::Desc => {
            let before = after.map(|place| Cursor { created: place.time, id: place.id });
            let mut page = app.sessions.messages(&id, Span { before, limit: Some(size + 1) }).await?;
            page.reverse();
            page
        }
        // The oldest can only be found by reading all.
        Order::Asc => {
            let mut all = app.sessions.messages(&id, Span::default()).await?;
            if let Some(place) = after {
                all.retain(|message| message.info.order() > (place.time, &place.id));
            }
            all
        }
    };
    let more = messages.len() > size;
    messages.truncate(size);
    let next = messages.last().filter(|_| more).map(|last| write_cursor(&Place::of(last)));
    Ok(Json(Page { data: shown(&messages), cursor: Cursors { previous: None, next } }))
}

async fn get(
    State(app): State<App>,
    Params((id, message)): Params<(SessionId, MessageId)>,
) -> Result<Json<Data<NextMessage>>, Error> {
    let found = app.sessions.message(&id, &message).await?;
    let data = NextMessage::of(&found, wanted_by(&app.sessions, &found).await);
    let data = data.ok_or_else(|| engine::Error::NotFound { kind: "Message", id: message.to_string() })?;
    Ok(Json(Data { data }))
}

/// Who wanted a summary. It is said by the request for it; for anything else nobody asks.
pub(super) async fn wanted_by(sessions: &Sessions, message: &MessageWithParts) -> Reason {
    let request = match &message.info {
        Message::Assistant(step) => sessions.message(&step.session_id, &step.parent_id).await.ok(),
        Message::User(_) => None,
    };
    request.as_ref().and_then(reason).unwrap_or(Reason::Auto)
}

async fn context(
    State(app): State<App>,
    Params(id): Params<SessionId>,
) -> Result<Json<Data<Vec<NextMessage>>>, Error> {
    let mut messages = Vec::new();
    let mut before = None;
    loop {
        let page = app.sessions.messages(&id, Span { before, limit: Some(MAX_PAGE) }).await?;
        let Some(oldest) = page.first().map(|message| Cursor::of(&message.info)) else { break };
        let summary = page.iter().rposition(is_summary);
        messages.splice(..0, page.into_iter().skip(summary.unwrap_or(0)));
        if summary.is_some() {
            break;
        }
        before = Some(oldest);
    }
    Ok(Json(Data { data: shown(&messages) }))
}

fn is_summary(message: &MessageWithParts) -> bool {
    matches!(&message.info, Message::Assistant(step)
        if step.summary == Some(true) && step.finish.is_some() && step.error.is_none())
}

/// Messages in this wire's form. Who wanted a summary is said by the request for it.
fn shown(messages: &[MessageWithParts]) -> Vec<NextMessage> {
    let wanted: HashMap<&MessageId, Reason> =
        messages.iter().filter_map(|message| Some((message.info.id(), reason(message)?))).collect();
    let one = |message: &MessageWithParts| {
        let request = match &message.info {
            Message::Assistant(step) => wanted.get(&step.parent_id),
            Message::User(_) => None,
        };
        NextMessage::of(message, request.copied().unwrap_or(Reason::Auto))
    };
    messages.iter().filter_map(one).collect()
}

fn reason(message: &MessageWithParts) -> Option<Reason> {
    message.parts.iter().find_map(|part| match &part.body {
        PartBody::Compaction(wanted) if wanted.auto => Some(Reason::Auto),
        PartBody::Compaction(_) => Some(Reason::Manual),
        _ => None,
    })
}
