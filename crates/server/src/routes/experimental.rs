//! What OpenCode calls experimental: the list of tools, and what its clients ask for at start and Baton has none of,
//! accounts, workspaces on other machines, and their synchronisation.

use axum::{Json, extract::State};
use protocol::Extra;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    App, Error,
    error::Fault,
    extract::{Directory, Query},
    instance::ToolInfo,
    openapi::Route,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/experimental/capabilities", "experimental.capabilities.get", capabilities)
            .summary("Get what this server can do beyond the usual"),
        Route::get("/experimental/console", "experimental.console.get", console)
            .summary("Get the account of OpenCode's console; there is none"),
        Route::get("/experimental/console/orgs", "experimental.console.listOrgs", organisations)
            .summary("List the organisations of the account; there are none"),
        Route::get("/experimental/tool", "tool.list", tools)
            .summary("List the tools that suit a model")
            .faults(&[Fault::Configuration]),
        Route::get("/experimental/tool/ids", "tool.ids", tool_ids)
            .summary("List the names of all tools")
            .faults(&[Fault::Configuration]),
        Route::get("/experimental/workspace", "experimental.workspace.list", workspaces)
            .summary("List the workspaces; there are none"),
        Route::get("/experimental/workspace/adapter", "experimental.workspace.adapter.list", adapters)
            .summary("List the kinds of workspaces; there are none"),
        Route::get("/experimental/workspace/status", "experimental.workspace.status", statuses)
            .summary("List the connections to workspaces; there are none"),
        Route::post("/sync/start", "sync.start", synchronise)
            .summary("Start to follow workspaces; there are none"),
    ]
}

/// What this server can do beyond the usual.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    /// Whether a subagent can go on in the background.
    background_subagents: bool,
}

async fn capabilities(_: Directory) -> Json<Capabilities> {
    Json(Capabilities { background_subagents: false })
}

/// The account of OpenCode's console.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Console {
    /// Providers that the account pays for.
    console_managed_providers: Vec<String>,
    /// How many organisations one could change to.
    switchable_org_count: u32,
}

async fn console(_: Directory) -> Json<Console> {
    Json(Console::default())
}

/// For which model.
#[derive(Debug, Deserialize, JsonSchema)]
struct ToolQuery {
    /// Its provider; it makes no difference.
    #[serde(rename = "provider")]
    _provider: String,
    /// Its id.
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
    /// None.
    orgs: Vec<Extra>,
}

async fn organisations(_: Directory) -> Json<Organisations> {
    Json(Organisations::default())
}

/// A workspace on another machine.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Workspace {
    /// Its id.
    id: String,
    /// Its kind.
    r#type: String,
    /// Shown name.
    name: String,
    /// Whose it is.
    #[serde(rename = "projectID")]
    project_id: String,
    /// When it was used last.
    time_used: i64,
}

async fn workspaces(_: Directory) -> Json<Vec<Workspace>> {
    Json(Vec::new())
}

/// A kind of workspace.
#[derive(Debug, Serialize, JsonSchema)]
struct Adapter {
    /// What it is called in calls.
    r#type: String,
    /// Shown name.
    name: String,
    /// What it is for.
    description: String,
}

async fn adapters(_: Directory) -> Json<Vec<Adapter>> {
    Json(Vec::new())
}

/// The connection to a workspace.
#[derive(Debug, Serialize, JsonSchema)]
struct Connection {
    /// The workspace.
    #[serde(rename = "workspaceID")]
    workspace_id: String,
    /// How it is.
    status: String,
}

async fn statuses(_: Directory) -> Json<Vec<Connection>> {
    Json(Vec::new())
}

async fn synchronise(_: Directory) -> Json<bool> {
    Json(true)
}
