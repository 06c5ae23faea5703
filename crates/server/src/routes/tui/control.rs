//! Remote control for a terminal UI that polls for calls instead of following the event stream.

use axum::{Json, extract::State};
use serde_json::Value;

use crate::{
    App, Error,
    error::Fault,
    extract::{Directory, OptionalBody},
    openapi::{Class, Route},
    remote::{Call, PATIENCE},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Directory, "/tui/control/next", "tui.control.next", next)
            .summary("Wait for the next remote-control call; the server queues calls after the first poll")
            .faults(&[Fault::TooSlow]),
        Route::post(Class::Directory, "/tui/control/response", "tui.control.response", response)
            .summary("Report the result of a call; ignored"),
    ]
}

async fn next(State(app): State<App>, directory: Directory) -> Result<Json<Call>, Error> {
    let next = app.remote.next(&directory.path);
    tokio::time::timeout(PATIENCE, next).await.map(Json).map_err(|_| {
        let message = format!("No call arrived within {} seconds. Poll again.", PATIENCE.as_secs());
        Error::plain(Fault::TooSlow, message)
    })
}

/// Does nothing: as in OpenCode, the caller has been answered already.
async fn response(_: Directory, OptionalBody(_): OptionalBody<Value>) -> Json<bool> {
    Json(true)
}
