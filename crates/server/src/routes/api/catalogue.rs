//! Lists of a directory's agents, models, providers, commands, skills, references and pending requests.

use std::{collections::BTreeMap, path::Path};

use axum::{Json, extract::State};
use protocol::{
    Rest,
    config::{LocalReference, Reference, Skill},
    request::QuestionRequest,
    v2,
    wire_error::{TaggedError, WireError},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::location::{Located, located};
use crate::{
    App, Error,
    error::Fault,
    extract::{Directory, Params},
    instance::Here,
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Node, "/api/health", "v2.health.get", health)
            .summary("Check that the server is running"),
        Route::get(Class::Directory, "/api/agent", "v2.agent.list", agents).summary("List the agents"),
        Route::get(Class::Directory, "/api/model", "v2.model.list", models)
            .summary("List the available models"),
        Route::get(Class::Directory, "/api/provider", "v2.provider.list", providers)
            .summary("List the available providers"),
        Route::get(Class::Directory, "/api/provider/{providerID}", "v2.provider.get", provider)
            .summary("Get a provider")
            .faults(&[Fault::NotFound]),
        Route::get(Class::Directory, "/api/command", "v2.command.list", commands)
            .summary("List the slash commands"),
        Route::get(Class::Directory, "/api/skill", "v2.skill.list", skills).summary("List the skills"),
        Route::get(Class::Directory, "/api/reference", "v2.reference.list", references)
            .summary("List the configured reference directories"),
        Route::get(Class::Record, "/api/permission/request", "v2.permission.request.list", permissions)
            .summary("List the pending permission requests"),
        Route::get(Class::Record, "/api/question/request", "v2.question.request.list", questions)
            .summary("List the pending questions"),
    ]
}

/// Health of the server.
#[derive(Debug, Serialize, JsonSchema)]
struct Healthy {
    /// Always true: a server that answers is healthy.
    healthy: bool,
}

async fn health() -> Json<Healthy> {
    Json(Healthy { healthy: true })
}

async fn agents(
    State(app): State<App>,
    directory: Directory,
    Here(instance): Here,
) -> Json<Located<Vec<v2::Agent>>> {
    located(&app, &directory, instance.agents.iter().cloned().map(v2::Agent::from).collect()).await
}

async fn models(
    State(app): State<App>,
    directory: Directory,
    Here(instance): Here,
) -> Json<Located<Vec<v2::ModelInfo>>> {
    let models = instance.providers.iter().flat_map(|provider| provider.models.values());
    located(&app, &directory, models.map(v2::ModelInfo::from).collect()).await
}

async fn providers(
    State(app): State<App>,
    directory: Directory,
    Here(instance): Here,
) -> Json<Located<Vec<v2::Provider>>> {
    located(&app, &directory, instance.providers.iter().map(v2::Provider::from).collect()).await
}

async fn provider(
    State(app): State<App>,
    directory: Directory,
    Here(instance): Here,
    Params(provider_id): Params<String>,
) -> Result<Json<Located<v2::Provider>>, Error> {
    let Some(provider) = instance.providers.iter().find(|provider| provider.id == provider_id) else {
        let message = format!("There is no available provider {provider_id:?} in this directory.");
        let body = TaggedError::ProviderNotFound { provider_id, message, extra: Rest::NONE };
        return Err(Error::new(Fault::NotFound, WireError::Tagged(body)));
    };
    Ok(located(&app, &directory, v2::Provider::from(provider)).await)
}

async fn commands(
    State(app): State<App>,
    directory: Directory,
    Here(instance): Here,
) -> Json<Located<Vec<v2::Command>>> {
    located(&app, &directory, instance.commands.iter().cloned().map(v2::Command::from).collect()).await
}

async fn skills(
    State(app): State<App>,
    directory: Directory,
    Here(instance): Here,
) -> Json<Located<Vec<Skill>>> {
    located(&app, &directory, instance.skills.clone()).await
}

/// A directory that agents may refer to by name.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct ReferenceInfo {
    name: String,
    /// Absolute path of the directory.
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// True if clients leave the reference out of their lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<bool>,
    /// The entry of the configuration.
    source: ReferenceSource,
}

/// A reference as the configuration writes it.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
enum ReferenceSource {
    /// A directory on this machine.
    Local(LocalReference),
}

/// The configuration's references, under both names of the key.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    references: BTreeMap<String, Reference>,
    reference: BTreeMap<String, Reference>,
}

async fn references(
    State(app): State<App>,
    directory: Directory,
    Here(instance): Here,
) -> Json<Located<Vec<ReferenceInfo>>> {
    let found = referred(&instance.config, &directory.path, &app.facts.home);
    located(&app, &directory, found).await
}

/// Returns the references to local directories. Repositories are left out: Baton does not fetch them, so they have
/// no directory.
fn referred(config: &Value, directory: &str, home: &str) -> Vec<ReferenceInfo> {
    let Named { references, reference } = Named::deserialize(config).unwrap_or_default();
    let info = |(name, reference)| {
        let source = match reference {
            Reference::Plain(path) if is_path(&path) => {
                LocalReference { path, description: None, hidden: None }
            }
            Reference::Local(local) => local,
            Reference::Plain(_) | Reference::Git(_) => return None,
        };
        let path = match source.path.strip_prefix("~/") {
            Some(inside) => Path::new(home).join(inside),
            None => Path::new(directory).join(&source.path),
        };
        let (path, description) = (path.to_string_lossy().into_owned(), source.description.clone());
        let (hidden, source) = (source.hidden, ReferenceSource::Local(source));
        Some(ReferenceInfo { name, path, description, hidden, source })
    };
    references.into_iter().chain(reference).filter_map(info).collect()
}

/// Returns true if a plain reference is a path. Any other text is a repository.
fn is_path(text: &str) -> bool {
    ["/", "./", "../", "~/"].iter().any(|start| text.starts_with(start))
}

async fn permissions(
    State(app): State<App>,
    directory: Directory,
) -> Result<Json<Located<Vec<v2::Permission>>>, Error> {
    let waiting = app.sessions.permissions(Some(&directory.workspace(&app.sessions))).await?;
    Ok(located(&app, &directory, waiting.into_iter().map(v2::Permission::from).collect()).await)
}

async fn questions(
    State(app): State<App>,
    directory: Directory,
) -> Result<Json<Located<Vec<QuestionRequest>>>, Error> {
    let waiting = app.sessions.questions(Some(&directory.workspace(&app.sessions))).await?;
    Ok(located(&app, &directory, waiting).await)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn directories_are_referred_to_and_repositories_are_not() {
        let config = json!({
            "references": {
                "std": "~/std", "own": { "path": "../own", "hidden": true }, "far": "ada/far",
                "git": { "repository": "https://git.test/lib" },
            },
            "reference": { "top": "/top" },
        });
        insta::assert_json_snapshot!(referred(&config, "/people/ada/thing", "/people/ada"));
        assert_eq!(referred(&json!({ "references": 5 }), "/people/ada/thing", "/people/ada"), []);
    }
}
