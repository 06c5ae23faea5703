//! Chat channels.

use axum::{Json, extract::State};
use protocol::channel::Channel;

use crate::{
    App, Error,
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Node, "/channel", "channel.list", list)
            .summary("List the chat channels and the states of their connections"),
    ]
}

/// The states do not depend on a directory: a gateway belongs to a data directory.
async fn list(State(app): State<App>) -> Result<Json<Vec<Channel>>, Error> {
    app.channels.states().await.map(Json).map_err(|reason| Error::broken(&reason))
}
