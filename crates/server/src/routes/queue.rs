//! Waiting prompts: list, change, withdraw.

use axum::{Json, extract::State};
use protocol::{
    MessageId, SessionId,
    queue::{QueuePatch, QueuedPrompt},
};

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Params},
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    const PROMPT: &str = "/session/{sessionID}/queue/{messageID}";
    vec![
        Route::get(Class::Record, "/session/{sessionID}/queue", "session.queue", list)
            .summary("List the waiting prompts in the order in which turns take them up")
            .faults(&[Fault::NotFound]),
        Route::patch(Class::Session, PROMPT, "session.queue.update", update)
            .summary("Change the content, delivery or position of a waiting prompt")
            .faults(&[Fault::NotFound, Fault::Conflict])
            .stores(),
        Route::delete(Class::Session, PROMPT, "session.queue.withdraw", withdraw)
            .summary("End a waiting prompt without running it, and return its content")
            .faults(&[Fault::NotFound, Fault::Conflict])
            .stores(),
    ]
}

async fn list(
    State(app): State<App>,
    Params(id): Params<SessionId>,
) -> Result<Json<Vec<QueuedPrompt>>, Error> {
    Ok(Json(app.sessions.queue(&id).await?))
}

async fn update(
    State(app): State<App>,
    Params((id, prompt)): Params<(SessionId, MessageId)>,
    Body(patch): Body<QueuePatch>,
) -> Result<Json<QueuedPrompt>, Error> {
    Ok(Json(app.sessions.requeue(&id, prompt, patch).await?))
}

async fn withdraw(
    State(app): State<App>,
    Params((id, prompt)): Params<(SessionId, MessageId)>,
) -> Result<Json<QueuedPrompt>, Error> {
    Ok(Json(app.sessions.withdraw(&id, prompt).await?))
}
