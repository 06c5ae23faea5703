//! Terminals, in answers that name their directory.

use axum::{Json, extract::State};
use http::HeaderMap;
use protocol::{
    PtyId,
    pty::{Pty, PtyInput, PtyPatch, PtyTicketConnectToken},
};

use super::{
    super::pty::{change, issue, open, socket},
    Done,
    location::{Located, located},
};
use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory, OptionalBody, Params},
    instance::Here,
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    let gone = &[Fault::PtyGone];
    vec![
        Route::get(Class::Directory, "/api/pty", "v2.pty.list", list)
            .summary("List the terminals of a directory"),
        Route::post(Class::Directory, "/api/pty", "v2.pty.create", create)
            .summary("Start a program in a new terminal")
            .faults(&[Fault::Overloaded, Fault::Closing]),
        Route::get(Class::Directory, "/api/pty/{ptyID}", "v2.pty.get", get)
            .summary("Get a terminal")
            .faults(gone),
        Route::put(Class::Directory, "/api/pty/{ptyID}", "v2.pty.update", update)
            .summary("Rename or resize a terminal")
            .faults(gone),
        Route::delete(Class::Directory, "/api/pty/{ptyID}", "v2.pty.remove", remove)
            .summary("End a terminal's program and all processes it has started")
            .faults(gone),
        Route::post(Class::Directory, "/api/pty/{ptyID}/connect-token", "v2.pty.connectToken", ticket)
            .summary("Get a ticket that opens a terminal's WebSocket once")
            .faults(&[Fault::PtyGone, Fault::PtyForbidden]),
        Route::get(Class::Directory, "/api/pty/{ptyID}/connect", "v2.pty.connect", socket::connect)
            .summary("Connect to a terminal through a WebSocket")
            .faults(&[Fault::PtyGone, Fault::PtyForbidden, Fault::Overloaded]),
    ]
}

async fn list(State(app): State<App>, directory: Directory) -> Json<Located<Vec<Pty>>> {
    let terminals = app.terminals.list(&directory.path);
    located(&app, &directory, terminals).await
}

async fn create(
    State(app): State<App>,
    directory: Directory,
    Here(here): Here,
    OptionalBody(input): OptionalBody<PtyInput>,
) -> Result<Json<Located<Pty>>, Error> {
    let terminal = open(&app, &directory, &here.hidden, input).await?;
    Ok(located(&app, &directory, terminal).await)
}

async fn get(
    State(app): State<App>,
    Params(id): Params<PtyId>,
    directory: Directory,
) -> Result<Json<Located<Pty>>, Error> {
    let terminal = app.terminals.find(&directory.path, &id)?.info();
    Ok(located(&app, &directory, terminal).await)
}

async fn update(
    State(app): State<App>,
    Params(id): Params<PtyId>,
    directory: Directory,
    Body(patch): Body<PtyPatch>,
) -> Result<Json<Located<Pty>>, Error> {
    let terminal = change(&app, &directory, &id, patch)?;
    Ok(located(&app, &directory, terminal).await)
}

async fn remove(
    State(app): State<App>,
    Params(id): Params<PtyId>,
    directory: Directory,
) -> Result<Done, Error> {
    app.terminals.remove(&app.sessions, &directory.path, &id).await?;
    Ok(Done)
}

async fn ticket(
    State(app): State<App>,
    Params(id): Params<PtyId>,
    directory: Directory,
    headers: HeaderMap,
) -> Result<Json<Located<PtyTicketConnectToken>>, Error> {
    let ticket = issue(&app, &directory, id, &headers)?;
    Ok(located(&app, &directory, ticket).await)
}
