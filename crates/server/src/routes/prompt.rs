//! Submission of prompts. Both routes answer only after the prompt is durable; the blocking one waits for its turn.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use protocol::{MessageId, MessageWithParts, SessionId, message::ModelRef, prompt::PromptInput};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Params, Sent},
    fleet::Offered,
    openapi::{Class, Gives, Operation, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(Class::Session, "/session/{sessionID}/message", "session.prompt", prompt)
            .summary("Submit a prompt and wait for the answer")
            .faults(&[Fault::NotFound, Fault::Busy, Fault::Conflict])
            .stores(),
        Route::post(Class::Session, "/session/{sessionID}/prompt_async", "session.prompt_async", submit)
            .summary("Submit a prompt; events carry the answer")
            .faults(&[Fault::NotFound, Fault::Busy, Fault::Conflict])
            .stores(),
        Route::post(Class::Session, "/session/{sessionID}/summarize", "session.summarize", summarize)
            .summary("Summarise the conversation after the running turn")
            .faults(&[Fault::NotFound, Fault::Conflict])
            .stores(),
    ]
}

/// If the client disconnects, only this wait ends; the turn continues.
async fn prompt(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Sent(sender): Sent,
    Offered(offered): Offered<MessageId>,
    Body(input): Body<PromptInput>,
) -> Result<Json<MessageWithParts>, Error> {
    let message_id = input.message_id.or(offered);
    Ok(Json(app.sessions.prompt(&id, PromptInput { sender, message_id, ..input }).await?))
}

async fn submit(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Sent(sender): Sent,
    Offered(offered): Offered<MessageId>,
    Body(input): Body<PromptInput>,
) -> Result<Accepted, Error> {
    let message_id = input.message_id.or(offered);
    app.sessions.submit(&id, PromptInput { sender, message_id, ..input }).await?;
    Ok(Accepted)
}

/// Body of a request for a summary, with the model that writes it.
#[derive(Debug, Deserialize, JsonSchema)]
struct SummarizeInput {
    #[serde(rename = "providerID")]
    provider_id: String,
    #[serde(rename = "modelID")]
    model_id: String,
    /// True to continue the conversation after the summary.
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

/// Answer that the prompt is durable.
#[derive(Debug)]
struct Accepted;

impl IntoResponse for Accepted {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl Gives for Accepted {
    fn describe(operation: &mut Operation) {
        operation.gives_nothing("The prompt is stored and will be answered");
    }
}
