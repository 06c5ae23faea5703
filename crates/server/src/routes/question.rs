//! Pending questions.

use axum::{Json, extract::State};
use protocol::{
    QuestionId,
    request::{QuestionReplyInput, QuestionRequest, Request},
};

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, ClientName, Directory, Params, Query},
    openapi::{Class, Route},
};

use super::permission::Family;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Record, "/question", "question.list", list).summary("List the pending questions"),
        Route::post(Class::Session, "/question/{requestID}/reply", "question.reply", reply)
            .summary("Answer a question")
            .faults(&[Fault::QuestionGone])
            .stores(),
        Route::post(Class::Session, "/question/{requestID}/reject", "question.reject", reject)
            .summary("Dismiss a question")
            .faults(&[Fault::QuestionGone])
            .stores(),
    ]
}

async fn list(
    State(app): State<App>,
    directory: Directory,
    Query(family): Query<Family>,
) -> Result<Json<Vec<QuestionRequest>>, Error> {
    let mut waiting = app.sessions.questions(Some(&directory.workspace(&app.sessions))).await?;
    waiting.retain(|request| family.has(&Request::Question(request.clone())));
    Ok(Json(waiting))
}

async fn reply(
    State(app): State<App>,
    Params(id): Params<QuestionId>,
    ClientName(client): ClientName,
    Body(input): Body<QuestionReplyInput>,
) -> Result<Json<bool>, Error> {
    app.sessions.answers_of(client).question(&id, input.answers).await?;
    Ok(Json(true))
}

async fn reject(
    State(app): State<App>,
    Params(id): Params<QuestionId>,
    ClientName(client): ClientName,
) -> Result<Json<bool>, Error> {
    app.sessions.answers_of(client).dismiss(&id).await?;
    Ok(Json(true))
}
