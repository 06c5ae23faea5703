//! Terminals. `api::pty` offers the same in the shapes of `/api`.

mod shells;
pub(super) mod socket;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use axum::{Json, extract::State};
use engine::{
    bus::Place,
    ports::hooks::{Environment, HookPoint, ShellEnv},
};
use http::HeaderMap;
use protocol::{
    PtyId, Rest,
    pty::{Pty, PtyInput, PtyPatch, PtySize, PtyTicketConnectToken},
    wire_error::{BadRequestKind, TaggedError, WireError},
};
use workspace::{
    process,
    pty::{Size, Spec, Terminal},
};

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory, OptionalBody, Params},
    instance::Here,
    openapi::{Class, Route},
    terminals::{Order, TICKET},
};

/// Header of ticket calls. A page of another site cannot send it without a CORS preflight.
const TICKET_HEADER: &str = "x-opencode-ticket";
/// Maximum length of a title in bytes.
const MAX_TITLE: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    let gone = &[Fault::PtyGone];
    vec![
        Route::get(Class::Directory, "/pty/shells", "pty.shells", shells::list)
            .summary("List the shells of this machine"),
        Route::get(Class::Directory, "/pty", "pty.list", list).summary("List the terminals of a directory"),
        Route::post(Class::Directory, "/pty", "pty.create", create)
            .summary("Start a program in a new terminal")
            .faults(&[Fault::Overloaded, Fault::Closing]),
        Route::get(Class::Directory, "/pty/{ptyID}", "pty.get", get).summary("Get a terminal").faults(gone),
        Route::put(Class::Directory, "/pty/{ptyID}", "pty.update", update)
            .summary("Rename or resize a terminal")
            .faults(gone),
        Route::delete(Class::Directory, "/pty/{ptyID}", "pty.remove", remove)
            .summary("End a terminal's program and all processes it has started")
            .faults(gone),
        Route::post(Class::Directory, "/pty/{ptyID}/connect-token", "pty.connectToken", ticket)
            .summary("Get a ticket that opens a terminal's WebSocket once")
            .faults(&[Fault::PtyGone, Fault::PtyForbidden]),
        Route::get(Class::Directory, "/pty/{ptyID}/connect", "pty.connect", socket::connect)
            .summary("Connect to a terminal through a WebSocket")
            .faults(&[Fault::PtyGone, Fault::PtyForbidden, Fault::Overloaded]),
    ]
}

async fn list(State(app): State<App>, directory: Directory) -> Json<Vec<Pty>> {
    Json(app.terminals.list(&directory.path))
}

async fn create(
    State(app): State<App>,
    directory: Directory,
    Here(here): Here,
    OptionalBody(input): OptionalBody<PtyInput>,
) -> Result<Json<Pty>, Error> {
    open(&app, &directory, &here.hidden, input).await.map(Json)
}

async fn get(
    State(app): State<App>,
    Params(id): Params<PtyId>,
    directory: Directory,
) -> Result<Json<Pty>, Error> {
    Ok(Json(app.terminals.find(&directory.path, &id)?.info()))
}

async fn update(
    State(app): State<App>,
    Params(id): Params<PtyId>,
    directory: Directory,
    Body(patch): Body<PtyPatch>,
) -> Result<Json<Pty>, Error> {
    change(&app, &directory, &id, patch).map(Json)
}

async fn remove(
    State(app): State<App>,
    Params(id): Params<PtyId>,
    directory: Directory,
) -> Result<Json<bool>, Error> {
    app.terminals.remove(&app.sessions, &directory.path, &id).await?;
    Ok(Json(true))
}

async fn ticket(
    State(app): State<App>,
    Params(id): Params<PtyId>,
    directory: Directory,
    headers: HeaderMap,
) -> Result<Json<PtyTicketConnectToken>, Error> {
    issue(&app, &directory, id, &headers).map(Json)
}

pub(super) async fn open(
    app: &App,
    directory: &Directory,
    hidden: &[String],
    input: PtyInput,
) -> Result<Pty, Error> {
    let command = input.command.filter(|command| !command.is_empty());
    let command = command.unwrap_or_else(|| shells::usual(app.facts.shell.as_deref()));
    let args = input.args.unwrap_or_else(|| shells::usual_args(&command));
    let cwd = start_directory(app, &directory.path, input.cwd.as_deref()).await?;
    let place = app.projects.find(&directory.path).await;
    let place = app.sessions.place_in(place.directory, place.project);
    let shaped = shaped(app, &place, &cwd).await;
    let spec = Spec {
        program: command.clone().into(),
        args: args.iter().map(Into::into).collect(),
        directory: cwd.clone(),
        // The client's variables override those of hooks.
        environment: variables(shaped.into_iter().chain(input.env.into_iter().flatten()))?,
        hidden: hidden.iter().map(Into::into).collect(),
    };
    let order = Order { title: title(input.title)?, command, args, cwd: cwd.to_string_lossy().into_owned() };
    app.terminals.open(&app.sessions, place, order, || Terminal::start(&spec).map_err(refused))
}

/// Returns the environment variables that hooks add.
async fn shaped(app: &App, place: &Place, cwd: &Path) -> BTreeMap<String, String> {
    let hooks = app.instances.hooks(place).await;
    if !hooks.wants(HookPoint::ShellEnv) {
        return BTreeMap::new();
    }
    let input = ShellEnv { cwd: cwd.to_string_lossy().into_owned(), session_id: None, call_id: None };
    let mut shaped = hooks.change(&input, Environment::default()).await.env;
    // Invalid variables of a plugin are dropped; the client's call must not fail because of them.
    shaped.retain(|name, value| is_name(name) && !value.contains('\0'));
    shaped
}

pub(super) fn change(app: &App, directory: &Directory, id: &PtyId, patch: PtyPatch) -> Result<Pty, Error> {
    let terminal = app.terminals.find(&directory.path, id)?.terminal;
    let title = title(patch.title)?;
    if let Some(PtySize { rows, cols }) = patch.size {
        let size = Size { rows: rows.get(), columns: cols.get() };
        terminal.resize(size).map_err(|error| Error::broken(&error))?;
    }
    app.terminals.rename(&app.sessions, &directory.path, id, title)
}

pub(super) fn issue(
    app: &App,
    directory: &Directory,
    id: PtyId,
    headers: &HeaderMap,
) -> Result<PtyTicketConnectToken, Error> {
    if headers.get(TICKET_HEADER).is_none_or(|value| value != "1") {
        return Err(forbidden(format!("a ticket requires the header `{TICKET_HEADER}: 1`")));
    }
    app.terminals.find(&directory.path, &id)?;
    let ticket = app.terminals.tickets().issue(id);
    Ok(PtyTicketConnectToken { ticket, expires_in: TICKET.as_secs() })
}

fn forbidden(message: String) -> Error {
    let body = TaggedError::PtyForbidden { message, extra: Rest::NONE };
    Error::new(Fault::PtyForbidden, WireError::Tagged(body))
}

fn refused(error: process::Error) -> Error {
    match error {
        process::Error::Start { .. } => payload(format!("command: {error}")),
        other => Error::broken(&other),
    }
}

fn payload(message: impl AsRef<str>) -> Error {
    Error::bad_request(BadRequestKind::Payload, message)
}

fn title(given: Option<String>) -> Result<Option<String>, Error> {
    match given.filter(|title| !title.is_empty()) {
        Some(title) if title.len() > MAX_TITLE => {
            Err(payload(format!("title: must have at most {MAX_TITLE} bytes")))
        }
        title => Ok(title),
    }
}

async fn start_directory(app: &App, directory: &str, given: Option<&str>) -> Result<PathBuf, Error> {
    let path = Path::new(directory).join(given.unwrap_or_default());
    match tokio::fs::canonicalize(&path).await {
        Ok(real) if app.facts.closed.covers(&real) => {
            Err(payload(format!("cwd: {}", workspace::files::Error::Closed(real))))
        }
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => Err(payload(format!("cwd: {} is not a directory", path.display()))),
        Err(error) => Err(payload(format!("cwd: {} cannot be used: {error}", path.display()))),
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn variables(given: impl Iterator<Item = (String, String)>) -> Result<Vec<(OsString, OsString)>, Error> {
    given
        .map(|(name, value)| match name {
            name if !is_name(&name) => Err(payload(format!("env: {name:?} is not a valid variable name"))),
            name => Ok((name.into(), value.into())),
        })
        .collect()
}
