//! OpenCode's experimental routes: the list of tools, and empty answers for features that Baton lacks but
//! OpenCode's clients ask for at start (accounts, remote workspaces and their synchronisation).

use axum::{Json, extract::State};
use protocol::Extra;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    App, Error,
    error::Fault,
    extract::{Directory, Query},
    instance::ToolInfo,
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Node, "/experimental/capabilities", "experimental.capabilities.get", capabilities)
            .summary("Get the optional features of this server"),
        Route::get(Class::Node, "/experimental/console", "experimental.console.get", console)
            .summary("Get the OpenCode console account; always empty"),
        Route::get(Class::Node, "/experimental/console/orgs", "experimental.console.listOrgs", organisations)
            .summary("List the organisations of the account; always empty"),
        Route::get(Class::Directory, "/experimental/tool", "tool.list", tools)
            .summary("List the tools for a model")
            .faults(&[Fault::Configuration]),
        Route::get(Class::Directory, "/experimental/tool/ids", "tool.ids", tool_ids)
            .summary("List the names of all tools")
            .faults(&[Fault::Configuration]),
        Route::get(Class::Node, "/experimental/workspace", "experimental.workspace.list", workspaces)
            .summary("List the workspaces; always empty"),
        Route::get(
            Class::Node,
            "/experimental/workspace/adapter",
            "experimental.workspace.adapter.list",
            adapters,
        )
        .summary("List the kinds of workspaces; always empty"),
        Route::get(Class::Node, "/experimental/workspace/status", "experimental.workspace.status", statuses)
            .summary("List the connections to workspaces; always empty"),
        Route::post(Class::Node, "/sync/start", "sync.start", synchronise)
            .summary("Start to synchronise workspaces; no effect"),
    ]
}

/// Optional features of this server.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    /// True if a subagent can continue in the background.
    background_subagents: bool,
}

async fn capabilities(_: Directory) -> Json<Capabilities> {
    Json(Capabilities { background_subagents: false })
}

/// The OpenCode console account.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Console {
    /// Providers that the account pays for.
    console_managed_providers: Vec<String>,
    /// Number of organisations that the user could switch to.
    switchable_org_count: u32,
}

async fn console(_: Directory) -> Json<Console> {
    Json(Console::default())
}

/// Query of a tool list.
#[derive(Debug, Deserialize, JsonSchema)]
struct ToolQuery {
    /// Provider id. It has no effect.
    #[serde(rename = "provider")]
    _provider: String,
    /// Model id.
    model: String,
}

async fn tools(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<ToolQuery>,
) -> Result<Json<Vec<ToolInfo>>, Error> {
    Ok(Json(app.instances.tools(&directory.path, Some(&query.model)).await?))
}

async fn tool_ids(State(app): State<App>, directory: Directory) -> Result<Json<Vec<String>>, Error> {
    let tools = app.instances.tools(&directory.path, None).await?;
    Ok(Json(tools.into_iter().map(|tool| tool.id).collect()))
}

/// Organisations of the account.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct Organisations {
    /// Always empty.
    orgs: Vec<Extra>,
}

async fn organisations(_: Directory) -> Json<Organisations> {
    Json(Organisations::default())
}

/// A workspace on another machine.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Workspace {
    id: String,
    r#type: String,
    /// Name that clients display.
    name: String,
    #[serde(rename = "projectID")]
    project_id: String,
    /// Time of the last use.
    time_used: i64,
}

async fn workspaces(_: Directory) -> Json<Vec<Workspace>> {
    Json(Vec::new())
}

/// A kind of workspace.
#[derive(Debug, Serialize, JsonSchema)]
struct Adapter {
    /// Identifier in calls.
    r#type: String,
    /// Name that clients display.
    name: String,
    description: String,
}

async fn adapters(_: Directory) -> Json<Vec<Adapter>> {
    Json(Vec::new())
}

/// The connection to a workspace.
#[derive(Debug, Serialize, JsonSchema)]
struct Connection {
    #[serde(rename = "workspaceID")]
    workspace_id: String,
    status: String,
}

async fn statuses(_: Directory) -> Json<Vec<Connection>> {
    Json(Vec::new())
}

async fn synchronise(_: Directory) -> Json<bool> {
    Json(true)
}
