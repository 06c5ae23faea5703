//! Trust in a directory. Without it, parts of a project's configuration that run programs or send secrets have no
//! effect.

use axum::{Json, extract::State};
use protocol::trust::Trust;

use super::instance::announce;
use crate::{
    App, Error,
    error::Fault,
    extract::Directory,
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    let route = |route: Route| route.faults(&[Fault::Configuration]);
    vec![
        route(Route::get(Class::Directory, "/trust", "trust.get", show))
            .summary("Get the trust of a directory and the parts of its configuration that have no effect"),
        route(Route::post(Class::Directory, "/trust", "trust.grant", grant))
            .summary("Trust a directory and everything below it; running turns continue")
            .faults(&[Fault::Full]),
        route(Route::delete(Class::Directory, "/trust", "trust.revoke", revoke))
            .summary("Revoke the trust of a directory; running turns continue")
            .faults(&[Fault::Full]),
    ]
}

async fn show(State(app): State<App>, directory: Directory) -> Result<Json<Trust>, Error> {
    Ok(Json(app.instances.trust(&directory.path).await?))
}

async fn grant(State(app): State<App>, directory: Directory) -> Result<Json<Trust>, Error> {
    set(&app, directory, true).await
}

async fn revoke(State(app): State<App>, directory: Directory) -> Result<Json<Trust>, Error> {
    set(&app, directory, false).await
}

/// Changes the trust and publishes the event after which clients reload the directory, because its configuration
/// may have changed.
async fn set(app: &App, directory: Directory, trusted: bool) -> Result<Json<Trust>, Error> {
    app.instances.set_trust(&directory.path, trusted).await?;
    let trust = app.instances.trust(&directory.path).await?;
    announce(app, directory).await;
    Ok(Json(trust))
}
