//! Prompts. Both routes answer only after the prompt is stored for good; the blocking one waits for its turn.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use protocol::{MessageWithParts, SessionId, message::ModelRef, prompt::PromptInput};
use schemars::JsonSchema;
use serde::Deserialize;

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
        Route::post("/session/{sessionID}/summarize", "session.summarize", summarize)
            .summary("Summarise the conversation, after what runs already")
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

/// Which model is to write the summary.
#[derive(Debug, Deserialize, JsonSchema)]
struct SummarizeInput {
    #[serde(rename = "providerID")]
    provider_id: String,
    #[serde(rename = "modelID")]
    model_id: String,
    /// Whether the conversation goes on by itself afterwards.
    #[serde(default)]
    auto: bool,
}

async fn summarize(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(input): Body<SummarizeInput>,
) -> Result<Json<bool>, Error> {
    let model = Some(ModelRef::new(input.provider_id, input.model_id));
    app.sessions.prompt(&id, PromptInput { model, ..PromptInput::compaction(input.auto) }).await?;
    Ok(Json(true))
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
