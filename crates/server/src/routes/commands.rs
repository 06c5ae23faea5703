//! Commands that the user runs in a session: slash commands, `/init` and shell commands.

use axum::{Json, extract::State};
use protocol::{
    MessageId, MessageWithParts, Rest, SessionId,
    prompt::{CommandInput, Sender, ShellInput},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Params, Sent},
    openapi::{Class, Route},
};

/// The slash command that writes an AGENTS.md.
const INIT: &str = "init";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(Class::Session, "/session/{sessionID}/init", "session.init", init)
            .summary("Write an AGENTS.md for the project")
            .faults(&[Fault::NotFound, Fault::Conflict])
            .stores(),
        Route::post(Class::Session, "/session/{sessionID}/command", "session.command", command)
            .summary("Run a slash command and wait for the answer")
            .faults(&[Fault::NotFound, Fault::Conflict])
            .stores(),
        Route::post(Class::Session, "/session/{sessionID}/shell", "session.shell", shell)
            .summary("Run a shell command of the user and wait for its end; fails while the session is busy")
            .faults(&[Fault::NotFound, Fault::Busy])
            .stores(),
    ]
}

/// If the client disconnects, only this wait ends; the turn continues.
async fn command(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Sent(sender): Sent,
    Body(input): Body<CommandInput>,
) -> Result<Json<MessageWithParts>, Error> {
    Ok(Json(app.sessions.command(&id, CommandInput { sender, ..input }).await?))
}

async fn shell(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(input): Body<ShellInput>,
) -> Result<Json<MessageWithParts>, Error> {
    Ok(Json(app.sessions.shell(&id, input).await?))
}

/// Body that selects the model for `/init`.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names on the wire")]
struct InitInput {
    #[serde(rename = "messageID")]
    message_id: MessageId,
    #[serde(rename = "providerID")]
    provider_id: String,
    #[serde(rename = "modelID")]
    model_id: String,
}

async fn init(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(input): Body<InitInput>,
) -> Result<Json<bool>, Error> {
    let command = CommandInput {
        message_id: Some(input.message_id),
        agent: None,
        model: Some(format!("{}/{}", input.provider_id, input.model_id)),
        variant: None,
        command: INIT.to_owned(),
        arguments: String::new(),
        parts: None,
        sender: Sender::Client,
        extra: Rest::NONE,
    };
    app.sessions.command(&id, command).await?;
    Ok(Json(true))
}
