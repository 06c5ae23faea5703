//! Pending permissions and questions of a session.

use axum::{Json, extract::State};
use protocol::{
    PermissionId, QuestionId, SessionId,
    request::{PermissionReplyInput, QuestionReplyInput, QuestionRequest},
    v2::{self, Data},
};

use super::Done;
use crate::{
    App, Error,
    error::Fault,
    extract::{Body, ClientName, Params},
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    let missing = &[Fault::NotFound];
    vec![
        Route::get(
            Class::Record,
            "/api/session/{sessionID}/permission",
            "v2.session.permission.list",
            permissions,
        )
        .summary("List the permissions that a session waits for")
        .faults(missing),
        Route::get(
            Class::Record,
            "/api/session/{sessionID}/permission/{requestID}",
            "v2.session.permission.get",
            permission,
        )
        .summary("Get a permission that a session waits for")
        .faults(&[Fault::NotFound, Fault::PermissionGone]),
        Route::post(
            Class::Session,
            "/api/session/{sessionID}/permission/{requestID}/reply",
            "v2.session.permission.reply",
            reply,
        )
        .summary("Answer a permission")
        .faults(&[Fault::NotFound, Fault::PermissionGone])
        .stores(),
        Route::get(Class::Record, "/api/session/{sessionID}/question", "v2.session.question.list", questions)
            .summary("List the questions that a session waits for")
            .faults(missing),
        Route::post(
            Class::Session,
            "/api/session/{sessionID}/question/{requestID}/reply",
            "v2.session.question.reply",
            answer,
        )
        .summary("Answer a question")
        .faults(&[Fault::NotFound, Fault::QuestionGone])
        .stores(),
        Route::post(
            Class::Session,
            "/api/session/{sessionID}/question/{requestID}/reject",
            "v2.session.question.reject",
            dismiss,
        )
        .summary("Dismiss a question")
        .faults(&[Fault::NotFound, Fault::QuestionGone])
        .stores(),
    ]
}

async fn permissions(
    State(app): State<App>,
    Params(id): Params<SessionId>,
) -> Result<Json<Data<Vec<v2::Permission>>>, Error> {
    Ok(Json(Data { data: asked_by(&app, &id).await? }))
}

async fn asked_by(app: &App, session: &SessionId) -> Result<Vec<v2::Permission>, Error> {
    app.sessions.get(session).await?;
    let waiting = app.sessions.permissions(None).await?.into_iter();
    Ok(waiting.filter(|request| request.session_id == *session).map(v2::Permission::from).collect())
}

async fn permission(
    State(app): State<App>,
    Params((session, id)): Params<(SessionId, PermissionId)>,
) -> Result<Json<Data<v2::Permission>>, Error> {
    let found = asked_by(&app, &session).await?.into_iter().find(|request| request.id == id);
    found.map(|data| Json(Data { data })).ok_or_else(|| Error::permission_gone(&id))
}

async fn reply(
    State(app): State<App>,
    Params((session, id)): Params<(SessionId, PermissionId)>,
    ClientName(client): ClientName,
    Body(input): Body<PermissionReplyInput>,
) -> Result<Done, Error> {
    if !asked_by(&app, &session).await?.iter().any(|request| request.id == id) {
        return Err(Error::permission_gone(&id));
    }
    app.sessions.answers_of(client).permission(&id, input.reply, input.message).await?;
    Ok(Done)
}

async fn questions(
    State(app): State<App>,
    Params(id): Params<SessionId>,
) -> Result<Json<Data<Vec<QuestionRequest>>>, Error> {
    Ok(Json(Data { data: posed_by(&app, &id).await? }))
}

async fn posed_by(app: &App, session: &SessionId) -> Result<Vec<QuestionRequest>, Error> {
    app.sessions.get(session).await?;
    let waiting = app.sessions.questions(None).await?.into_iter();
    Ok(waiting.filter(|request| request.session_id == *session).collect())
}

async fn check_posed(app: &App, session: &SessionId, id: &QuestionId) -> Result<(), Error> {
    let waits = posed_by(app, session).await?.iter().any(|request| request.id == *id);
    waits.then_some(()).ok_or_else(|| {
        engine::Error::NoRequest { kind: engine::RequestKind::Question, id: id.to_string() }.into()
    })
}

async fn answer(
    State(app): State<App>,
    Params((session, id)): Params<(SessionId, QuestionId)>,
    ClientName(client): ClientName,
    Body(input): Body<QuestionReplyInput>,
) -> Result<Done, Error> {
    check_posed(&app, &session, &id).await?;
    app.sessions.answers_of(client).question(&id, input.answers).await?;
    Ok(Done)
}

async fn dismiss(
    State(app): State<App>,
    Params((session, id)): Params<(SessionId, QuestionId)>,
    ClientName(client): ClientName,
) -> Result<Done, Error> {
    check_posed(&app, &session, &id).await?;
    app.sessions.answers_of(client).dismiss(&id).await?;
    Ok(Done)
}
