//! What OpenCode's session group has and Baton does not yet: a typed refusal instead of a silent 404, so that
//! a client can tell "not here" from "no such session".

use protocol::SessionId;

use crate::{
    Error,
    error::Fault,
    extract::Params,
    openapi::{Method, Route},
};

const ROUTES: [(Method, &str, &str, &str); 2] = [
    (Method::Post, "/session/{sessionID}/share", "session.share", "Publish a session"),
    (Method::Delete, "/session/{sessionID}/share", "session.unshare", "Take a published session back"),
];

pub(super) fn routes() -> Vec<Route> {
    let route = |(method, path, id, summary)| {
        let refuse = async move |_: Params<SessionId>| {
            Error::plain(Fault::NotBuilt, format!("{id} is not available in this version."))
        };
        Route::new(method, path, id, refuse).summary(summary).faults(&[Fault::NotBuilt])
    };
    ROUTES.into_iter().map(route).collect()
}
