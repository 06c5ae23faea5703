//! For a terminal that asks for one call after the other, instead of following the events.

use axum::{Json, extract::State};
use serde_json::Value;

use crate::{
    App, Error,
    error::Fault,
    extract::{Directory, OptionalBody},
    openapi::Route,
    remote::{Call, PATIENCE},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/tui/control/next", "tui.control.next", next)
            .summary("Wait for the next call of these; the first time one asks, calls begin to be kept")
            .faults(&[Fault::TooSlow]),
        Route::post("/tui/control/response", "tui.control.response", response)
            .summary("Say what became of a call; nobody waits for it"),
    ]
}

async fn next(State(app): State<App>, directory: Directory) -> Result<Json<Call>, Error> {
    let next = app.remote.next(&directory.path);
    tokio::time::timeout(PATIENCE, next).await.map(Json).map_err(|_| {
        let message = format!("Nothing was called for {} seconds: ask again.", PATIENCE.as_secs());
        Error::plain(Fault::TooSlow, message)
    })
}

/// Whoever calls is answered at once, as in OpenCode, so there is nothing left to do.
async fn response(_: Directory, OptionalBody(_): OptionalBody<Value>) -> Json<bool> {
    Json(true)
}
