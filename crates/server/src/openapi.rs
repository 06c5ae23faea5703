//! The table of routes and the OpenAPI document generated from it.
//!
//! A [`Route`] is one entry: method, path, OpenCode's operation id, the handler and its errors. Parameters,
//! body and response follow from the handler's signature ([`Takes`], [`Gives`]), so the document cannot differ
//! from the server. The same entry registers the handler with axum; a route that is not in the table is not
//! served.

mod describe;
mod operation;
mod route;
mod schemas;

use axum::{Router, middleware};
use serde_json::{Map, Value, json};

pub use describe::{Described, Gives, Takes};
pub use operation::Operation;
pub use route::{Class, Method, Route};
pub use schemas::Schemas;

use crate::{App, fleet, routes};

/// The OpenAPI document of this server.
pub fn document() -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for route in routes::table() {
        let operation;
        (operation, schemas) = route.document(schemas);
        let path = paths.entry(route.path()).or_insert_with(|| json!({}));
        if let Value::Object(methods) = path {
            methods.insert(route.method().name().into(), operation);
        }
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Baton",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "An agent session server that speaks OpenCode's API.",
            "license": { "name": "MIT", "identifier": "MIT" },
        },
        "paths": paths,
    });
    let components = schemas.finish(&mut document);
    if let Value::Object(document) = &mut document {
        document.insert("components".into(), json!({ "schemas": components }));
    }
    document
}

/// Registers the routes with axum. Routes of a node of a fleet first look for the owner of the call's workspace.
pub(crate) fn register(table: Vec<Route>, app: &App) -> Router<App> {
    table.into_iter().fold(Router::new(), |router, route| {
        // OpenCode's document writes `*` for any remaining path.
        let path = route.path().replace("/*", "/{*tail}");
        let layer = app.fleet.as_ref().and_then(|fleet| fleet::RouteLayer::of(&route, fleet, app));
        let handler = route.into_handler();
        router.route(
            &path,
            match layer {
                Some(layer) => handler.route_layer(middleware::from_fn_with_state(layer, fleet::pass)),
                None => handler,
            },
        )
    })
}
