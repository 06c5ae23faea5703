//! Prompts. Both routes answer only after the prompt is stored for good; the blocking one waits for its turn.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use protocol::{MessageWithParts, SessionId, prompt::PromptInput};

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Params},
    openapi::{Gives, Operation, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/session/{sessionID}/message", "session.prompt", prompt)
            .summary("Submit a prompt and wait for the answer")
            .faults(&[Fault::NotFound])
            .stores(),
        Route::post("/session/{sessionID}/prompt_async", "session.prompt_async", submit)
            .summary("Submit a prompt; the answer comes by events")
            .faults(&[Fault::NotFound])
            .stores(),
    ]
}

/// If the client goes away meanwhile, only this wait ends: the turn belongs to the session.
async fn prompt(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(input): Body<PromptInput>,
) -> Result<Json<MessageWithParts>, Error> {
    Ok(Json(app.sessions.prompt(&id, input).await?))
}

async fn submit(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(input): Body<PromptInput>,
) -> Result<Accepted, Error> {
    app.sessions.submit(&id, input).await?;
    Ok(Accepted)
}

/// The prompt is stored.
#[derive(Debug)]
struct Accepted;

impl IntoResponse for Accepted {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl Gives for Accepted {
    fn describe(operation: &mut Operation) {
        operation.gives_nothing("The prompt is stored and will be worked on");
    }
}
