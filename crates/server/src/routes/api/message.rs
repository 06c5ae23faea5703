//! Messages in the shapes of `/api`.

use std::collections::HashMap;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use engine::{
    Sessions,
    ports::{Cursor, Direction, Record, Stretch},
};
use protocol::{
    Message, MessageId, MessageWithParts, Millis, PartBody, SessionId,
    v2::{self, Cursors, Data, Page, Reason},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Order, page_size, read_cursor, write_cursor};
use crate::{
    App, Error,
    array::{Array, Elements},
    error::Fault,
    extract::{Params, Query},
    openapi::{Class, Gives, Operation, Route},
};

/// Default number of messages per page.
const PAGE: usize = 50;
/// Maximum number of messages per page.
const MAX_PAGE: usize = 200;
/// Maximum number of stored bytes per page. A single larger message still gets a page of its own.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

pub(super) fn routes() -> Vec<Route> {
    let missing = &[Fault::NotFound];
    vec![
        Route::get(Class::Record, "/api/session/{sessionID}/message", "v2.session.messages", list)
            .summary("List the messages of a session, page by page")
            .faults(missing),
        Route::get(Class::Record, "/api/session/{sessionID}/message/{messageID}", "v2.session.message", get)
            .summary("Get a message")
            .faults(missing),
        Route::get(Class::Record, "/api/session/{sessionID}/context", "v2.session.context", context)
            .summary("List the messages since the newest summary, oldest first")
            .faults(missing),
    ]
}

/// Query of a message list.
#[derive(Debug, Deserialize, JsonSchema)]
struct ListQuery {
    /// Maximum number of messages, up to 200. Default: 50.
    limit: Option<f64>,
    /// Sort order. Default: newest first.
    #[serde(default)]
    order: Order,
    /// Cursor from the previous page.
    cursor: Option<String>,
}

/// A position in the message list: the client has seen everything before it in list order.
#[derive(Debug, Serialize, Deserialize)]
struct MessagePosition {
    time: Millis,
    id: MessageId,
}

impl MessagePosition {
    fn of(message: &MessageWithParts) -> Self {
        Self { time: message.info.created(), id: message.info.id().clone() }
    }
}

async fn list(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<v2::Message>>, Error> {
    let size = page_size(query.limit, PAGE, MAX_PAGE)?;
    let place = query.cursor.as_deref().map(read_cursor::<MessagePosition>).transpose()?;
    let place = place.map(|place| Cursor { created: place.time, id: place.id });
    let (direction, after, before) = match query.order {
        Order::Asc => (Direction::Forward, place, None),
        Order::Desc => (Direction::Backward, None, place),
    };
    // One extra record tells whether there is another page.
    let stretch = Stretch { after, before, direction, limit: size + 1, bytes: PAGE_BYTES, bulk: false };
    let records = app.sessions.stretch(&id, stretch).await?;
    let cut = records.iter().map(Record::bytes).sum::<usize>() >= PAGE_BYTES;
    let more = records.len() > size || cut;
    let read = records.iter().take(size).map(Record::read);
    let messages = read.collect::<Result<Vec<_>, _>>().map_err(engine::Error::from)?;
    let next = messages.last().filter(|_| more).map(|last| write_cursor(&MessagePosition::of(last)));
    // With the newest first, a summary comes before the request for it.
    let mut wanted: HashMap<MessageId, Reason> =
        messages.iter().filter_map(|it| Some((it.info.id().clone(), reason(it)?))).collect();
    let data = messages.iter().filter_map(|message| shown(message, &mut wanted)).collect();
    Ok(Json(Page { data, cursor: Cursors { previous: None, next } }))
}

async fn get(
    State(app): State<App>,
    Params((id, message)): Params<(SessionId, MessageId)>,
) -> Result<Json<Data<v2::Message>>, Error> {
    let found = app.sessions.message(&id, &message).await?;
    let data = v2::Message::of(&found, wanted_by(&app.sessions, &found).await);
    let data = data.ok_or_else(|| engine::Error::NotFound { kind: "Message", id: message.to_string() })?;
    Ok(Json(Data { data }))
}

/// Returns the trigger of a summary. The user message that requests the summary holds it; the result is not used
/// for other messages.
pub(super) async fn wanted_by(sessions: &Sessions, message: &MessageWithParts) -> Reason {
    let request = match &message.info {
        Message::Assistant(step) => sessions.message(&step.session_id, &step.parent_id).await.ok(),
        Message::User(_) => None,
    };
    request.as_ref().and_then(reason).unwrap_or(Reason::Auto)
}

/// The messages that a model would receive, as a stream. Without a summary, these are all messages of the session.
struct Context(Array);

async fn context(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Context, Error> {
    let summary = app.sessions.newest_summary(&id).await?;
    let after = match summary {
        // `pages` starts after a position, but the context includes the summary itself.
        Some(summary) => app.sessions.nth_before(&id, Some(summary), 1).await?,
        None => None,
    };
    let pages = app.sessions.pages(&id, after, None).await?;
    let mut wanted = HashMap::new();
    let write = move |page: &[Record], elements: &mut Elements| {
        for record in page {
            let message = record.read().map_err(engine::Error::from)?;
            if let Some(message) = shown(&message, &mut wanted) {
                elements.push(&message)?;
            }
        }
        Ok(())
    };
    Ok(Context(Array::begin(pages, (r#"{"data":["#, "]}"), write).await?))
}

impl IntoResponse for Context {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl Gives for Context {
    fn describe(operation: &mut Operation) {
        operation.gives::<Data<Vec<v2::Message>>>(&[]);
    }
}

/// Translates a message. `wanted` keeps the trigger of each requested summary until the summary follows.
fn shown(message: &MessageWithParts, wanted: &mut HashMap<MessageId, Reason>) -> Option<v2::Message> {
    if let Some(reason) = reason(message) {
        wanted.insert(message.info.id().clone(), reason);
    }
    let request = match &message.info {
        Message::Assistant(step) => wanted.get(&step.parent_id),
        Message::User(_) => None,
    };
    v2::Message::of(message, request.copied().unwrap_or(Reason::Auto))
}

fn reason(message: &MessageWithParts) -> Option<Reason> {
    message.parts.iter().find_map(|part| match &part.body {
        PartBody::Compaction(wanted) if wanted.auto => Some(Reason::Auto),
        PartBody::Compaction(_) => Some(Reason::Manual),
        _ => None,
    })
}
