//! MCP servers: status, connections, additional servers and resources.

use std::{collections::BTreeMap, sync::Arc};

use axum::Json;
use protocol::mcp::{McpAdd, McpResource, McpStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    Error,
    error::Fault,
    extract::{Body, Params},
    instance::Here,
    mcp::McpServers,
    openapi::{Class, Method, Route},
};

/// Login routes of MCP servers, which Baton does not support yet.
const LOGIN: [(&str, &str, &str); 3] = [
    ("/mcp/{name}/auth", "mcp.auth.start", "Start a login at an MCP server"),
    ("/mcp/{name}/auth/callback", "mcp.auth.callback", "Complete a login at an MCP server"),
    (
        "/mcp/{name}/auth/authenticate",
        "mcp.auth.authenticate",
        "Log in at an MCP server and wait for completion",
    ),
];

pub(super) fn routes() -> Vec<Route> {
    let about_one = |route: Route| route.faults(&[Fault::ServerGone]);
    let mut routes = vec![
        Route::get(Class::Directory, "/mcp", "mcp.status", status)
            .summary("Get the status of the MCP servers by name"),
        about_one(Route::post(Class::Directory, "/mcp", "mcp.add", add))
            .summary("Add an MCP server until Baton stops"),
        about_one(Route::post(Class::Directory, "/mcp/{name}/connect", "mcp.connect", connect))
            .summary("Connect to an MCP server; returns true if the connection succeeded"),
        about_one(Route::post(Class::Directory, "/mcp/{name}/disconnect", "mcp.disconnect", disconnect))
            .summary("Disconnect from an MCP server"),
        about_one(Route::delete(Class::Directory, "/mcp/{name}/auth", "mcp.auth.remove", forget))
            .summary("Delete the login at an MCP server; no effect"),
        Route::get(Class::Directory, "/experimental/resource", "experimental.resource.list", resources)
            .summary("List the resources of MCP servers"),
    ];
    routes.extend(LOGIN.into_iter().map(|(path, id, summary)| {
        about_one(Route::new(Class::Node, Method::Post, path, id, refuse))
            .summary(summary)
            .faults(&[Fault::NotBuilt])
    }));
    routes
}

async fn status(Here(instance): Here) -> Json<BTreeMap<String, McpStatus>> {
    Json(match &instance.mcp {
        Some(servers) => servers.status().await,
        None => BTreeMap::new(),
    })
}

async fn add(
    Here(instance): Here,
    Body(input): Body<McpAdd>,
) -> Result<Json<BTreeMap<String, McpStatus>>, Error> {
    let servers = instance.mcp.as_ref().ok_or_else(|| Error::no_server(&input.name))?;
    servers.add(&input.name, input.config).await;
    Ok(Json(servers.status().await))
}

async fn connect(Here(instance): Here, Params(name): Params<String>) -> Result<Json<bool>, Error> {
    let servers = named(instance.mcp.as_ref(), &name)?;
    servers.connect(&name).await.map_err(|_| Error::no_server(&name))?;
    Ok(Json(servers.status().await.get(&name) == Some(&McpStatus::Connected)))
}

async fn disconnect(Here(instance): Here, Params(name): Params<String>) -> Result<Json<bool>, Error> {
    let servers = named(instance.mcp.as_ref(), &name)?;
    servers.disconnect(&name).await.map_err(|_| Error::no_server(&name))?;
    Ok(Json(true))
}

/// Answer to the deletion of a login.
#[derive(Debug, Serialize, JsonSchema)]
struct Forgotten {
    /// Always true.
    success: bool,
}

/// Always succeeds, because Baton stores no logins at MCP servers.
async fn forget(Here(instance): Here, Params(name): Params<String>) -> Result<Json<Forgotten>, Error> {
    named(instance.mcp.as_ref(), &name)?;
    Ok(Json(Forgotten { success: true }))
}

async fn refuse(Here(instance): Here, Params(name): Params<String>) -> Error {
    match named(instance.mcp.as_ref(), &name) {
        Ok(_) => Error::plain(
            Fault::NotBuilt,
            "Logging in at an MCP server is not available in this version: put a token into its `headers` in the \
             configuration.",
        ),
        Err(error) => error,
    }
}

async fn resources(Here(instance): Here) -> Json<BTreeMap<String, McpResource>> {
    let found = match &instance.mcp {
        Some(servers) => servers.resources().await,
        None => Vec::new(),
    };
    let named = |resource: McpResource| (format!("{}:{}", resource.client, resource.uri), resource);
    Json(found.into_iter().map(named).collect())
}

/// Returns the servers if one of them has this name.
fn named<'a>(servers: Option<&'a Arc<dyn McpServers>>, name: &str) -> Result<&'a Arc<dyn McpServers>, Error> {
    let servers = servers.ok_or_else(|| Error::no_server(name))?;
    if servers.has(name) { Ok(servers) } else { Err(Error::no_server(name)) }
}
