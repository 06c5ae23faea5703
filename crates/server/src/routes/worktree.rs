//! Worktrees that clients create for a project, so that sessions can work in parallel. They are in the server's
//! data directory, one directory for each project. The list includes worktrees that the user created with git; the
//! other routes refuse them.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use axum::{Json, extract::State};
use engine::{
    bus::Place as Where,
    ports::{Random, SystemRandom},
};
use protocol::{
    EventBody, Extra,
    wire_error::{NamedError, WireError},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use workspace::{
    git::{self, Repository},
    process::{self, Exit, Spec},
};

use crate::{
    App, Error,
    blocking::blocking,
    error::Fault,
    extract::{Body, Directory, OptionalBody},
    instance::Here,
    openapi::{Class, Route},
    project::ResolvedDirectory,
};

/// Prefix of the branches of these worktrees.
const BRANCHES: &str = "baton/";
/// Maximum length of a name in characters.
const MAX_NAME: usize = 64;
/// Number of names to try before giving up.
const MAX_TRIES: usize = 20;
/// Maximum number of worktrees of a repository.
const MAX_WORKTREES: usize = 100;
/// Timeout of each command that prepares a worktree.
const PREPARATION: Duration = Duration::from_mins(10);
/// Maximum length of a failed command's output in an event, in bytes.
const MAX_SHOWN: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    let faults = &[Fault::Worktree];
    vec![
        Route::get(Class::Directory, "/experimental/worktree", "worktree.list", list)
            .summary("List the worktrees of a project")
            .faults(faults),
        Route::post(Class::Directory, "/experimental/worktree", "worktree.create", create)
            .summary("Create a worktree on a new branch and prepare it with the project's start command")
            .faults(faults),
        Route::delete(Class::Directory, "/experimental/worktree", "worktree.remove", remove)
            .summary("Delete a worktree, its files and its branch")
            .faults(faults),
        Route::post(Class::Directory, "/experimental/worktree/reset", "worktree.reset", reset)
            .summary("Reset a worktree to the project's main branch")
            .faults(faults),
    ]
}

/// A worktree of a project.
#[derive(Debug, Serialize, JsonSchema)]
struct Worktree {
    name: String,
    /// The checked-out branch.
    branch: String,
    /// Absolute path of the worktree.
    directory: String,
}

/// Body of the creation of a worktree.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WorktreeCreateInput {
    /// Preferred name. If it is taken, the server appends a number. Default: a random name.
    name: Option<String>,
    /// Command to run after the project's start command.
    start_command: Option<String>,
}

/// Body that names a worktree.
#[derive(Debug, Deserialize, JsonSchema)]
struct WorktreeInput {
    /// Absolute path of the worktree.
    directory: String,
}

async fn list(State(app): State<App>, directory: Directory) -> Result<Json<Vec<String>>, Error> {
    let (_, repository) = repository(&app, &directory).await?;
    let found = blocking(move || Ok::<_, Error>(git::worktrees_of(&repository.common))).await?;
    Ok(Json(found.iter().map(|path| text(path)).collect()))
}

async fn create(
    State(app): State<App>,
    directory: Directory,
    Here(here): Here,
    OptionalBody(input): OptionalBody<WorktreeCreateInput>,
) -> Result<Json<Worktree>, Error> {
    let (place, repository) = repository(&app, &directory).await?;
    let known = repository.worktrees().await.map_err(|error| failed(Failure::Create, &error))?;
    if known.len() > MAX_WORKTREES {
        let message = format!("the repository already has {} worktrees; remove some first", known.len());
        return Err(refuse(Failure::Create, message));
    }
    let (home, wanted) = (home(&app, &place.project), name(input.name.as_deref()));
    let (name, path) = blocking(move || reserve(&home, &wanted)).await?;
    let branch = format!("{BRANCHES}{name}");
    if let Err(error) = repository.add_worktree(&path, &branch).await {
        // Removes the directory only if it is empty: git may have put files there.
        let _ = tokio::fs::remove_dir(&path).await;
        return Err(failed(Failure::Create, &error));
    }
    let notes = app.sessions.notes().await?;
    let start = notes.get(&place.project).and_then(|note| note.commands.as_ref()?.start.clone());
    let commands = [start, input.start_command].into_iter().flatten().filter(|line| !line.trim().is_empty());
    let specs = commands.map(|line| Spec::shell(&line, &path, PREPARATION).hide(&here.hidden)).collect();
    let made = Worktree { name, branch, directory: text(&path) };
    let at = app.sessions.place_in(made.directory.as_str(), place.project);
    let ready = json!({ "name": made.name, "branch": made.branch });
    tokio::spawn(prepare(app, at, specs, ready));
    Ok(Json(made))
}

async fn remove(
    State(app): State<App>,
    directory: Directory,
    Body(input): Body<WorktreeInput>,
) -> Result<Json<bool>, Error> {
    let (place, repository) = repository(&app, &directory).await?;
    let tree = find(&app, &place, &repository, &input.directory, Failure::Remove).await?;
    quiet(&app, &tree).await?;
    repository.remove_worktree(&tree.path).await.map_err(|error| failed(Failure::Remove, &error))?;
    let gone = text(&tree.path);
    app.projects.forget(&gone);
    app.instances.forget(Some(&gone));
    if let Some(branch) = tree.branch.filter(|branch| branch.starts_with(BRANCHES)) {
        repository.remove_branch(&branch).await.map_err(|error| failed(Failure::Remove, &error))?;
    }
    Ok(Json(true))
}

async fn reset(
    State(app): State<App>,
    directory: Directory,
    Body(input): Body<WorktreeInput>,
) -> Result<Json<bool>, Error> {
    let (place, repository) = repository(&app, &directory).await?;
    let tree = find(&app, &place, &repository, &input.directory, Failure::Reset).await?;
    let branch = main_branch(&repository).await?;
    quiet(&app, &tree).await?;
    repository.reset_worktree(&tree.path, &branch).await.map_err(|error| failed(Failure::Reset, &error))?;
    Ok(Json(true))
}

/// Returns the default branch, or the branch of the main worktree if there is none.
async fn main_branch(repository: &Repository) -> Result<String, Error> {
    if let Some(branch) = repository.default_branch().await {
        return Ok(branch);
    }
    let trees = repository.worktrees().await.map_err(|error| failed(Failure::Reset, &error))?;
    let main = trees.into_iter().next().and_then(|main| main.branch);
    main.ok_or_else(|| refuse(Failure::Reset, "the project has no main branch"))
}

/// Aborts the sessions and ends the terminals of a worktree before its files disappear.
async fn quiet(app: &App, tree: &git::Worktree) -> Result<(), Error> {
    let directory = tree.path.to_string_lossy();
    for session in app.sessions.statuses(Some(&app.sessions.workspace(&directory))).await?.into_keys() {
        app.sessions.abort(&session).await?;
    }
    for terminal in app.terminals.list(&directory) {
        app.terminals.remove(&app.sessions, &directory, &terminal.id).await?;
    }
    Ok(())
}

/// Runs the commands that prepare a worktree, one after the other, and publishes the result.
async fn prepare(app: App, at: Where, specs: Vec<Spec>, ready: Value) {
    for spec in specs {
        let done = process::run(spec, &CancellationToken::new(), |_| {}).await;
        let problem = match done {
            Ok(done) if done.exit == Exit::Code(0) => continue,
            Ok(done) => format!("a start command failed: {}", shown(&done.output.text())),
            Err(error) => error.to_string(),
        };
        return app
            .sessions
            .publish(Some(&at), EventBody::WorktreeFailed(fields(json!({ "message": problem }))));
    }
    app.sessions.publish(Some(&at), EventBody::WorktreeReady(fields(ready)));
}

/// Returns the end of a command's output, which usually contains the error.
fn shown(output: &str) -> &str {
    let output = output.trim();
    let from = output.ceil_char_boundary(output.len().saturating_sub(MAX_SHOWN));
    output.get(from..).unwrap_or(output)
}

async fn repository(app: &App, directory: &Directory) -> Result<(ResolvedDirectory, Repository), Error> {
    let place = app.projects.find(&directory.path).await;
    match place.repository.clone() {
        Some(repository) => Ok((place, repository)),
        None => Err(refuse(Failure::NotGit, format!("{} is not in a git repository", place.directory))),
    }
}

/// Returns a worktree that this server created. Others cannot be reset or removed, because their files would be
/// lost.
async fn find(
    app: &App,
    place: &ResolvedDirectory,
    repository: &Repository,
    directory: &str,
    failure: Failure,
) -> Result<git::Worktree, Error> {
    let home = home(app, &place.project);
    let home = tokio::fs::canonicalize(&home).await.unwrap_or(home);
    // A worktree that was deleted by hand cannot be canonicalised; compare the path as given.
    let wanted = tokio::fs::canonicalize(directory).await.unwrap_or_else(|_| directory.into());
    let trees = repository.worktrees().await.map_err(|error| failed(failure, &error))?;
    let found = trees.into_iter().find(|tree| tree.path.starts_with(&home) && tree.path == wanted);
    found.ok_or_else(|| {
        let message = format!(
            "{directory:?} is not a worktree that this server created for this project; use git to change it"
        );
        refuse(failure, message)
    })
}

/// Returns the directory of a project's worktrees.
fn home(app: &App, project: &str) -> PathBuf {
    Path::new(&app.facts.worktrees).join(project)
}

/// Reduces a name to letters, digits and dashes. Returns a random name if nothing is left.
fn name(given: Option<&str>) -> String {
    let letters = given.unwrap_or_default().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let letters: String = letters.take(MAX_NAME).collect::<String>().to_ascii_lowercase();
    let words: Vec<&str> = letters.split('-').filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        let mut bytes = [0; 4];
        SystemRandom.fill(&mut bytes);
        return format!("tree-{:08x}", u32::from_be_bytes(bytes));
    }
    words.join("-")
}

/// Creates the directory of a worktree: under the name, or the name with the first free number.
fn reserve(home: &Path, wanted: &str) -> Result<(String, PathBuf), Error> {
    let unusable = |error: io::Error| refuse(Failure::Create, format!("{}: {error}", home.display()));
    std::fs::create_dir_all(home).map_err(unusable)?;
    let home = home.canonicalize().map_err(unusable)?;
    let numbered = (2..=MAX_TRIES).map(|number| format!("{wanted}-{number}"));
    for name in std::iter::once(wanted.to_owned()).chain(numbered) {
        let path = home.join(&name);
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok((name, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unusable(error)),
        }
    }
    let message = format!(
        "all names from {wanted:?} to \"{wanted}-{MAX_TRIES}\" are taken; remove a worktree or give another name"
    );
    Err(refuse(Failure::Name, message))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn fields(value: Value) -> Extra {
    match value {
        Value::Object(fields) => fields,
        _ => Extra::new(),
    }
}

/// An operation that failed.
#[derive(Debug, Clone, Copy)]
enum Failure {
    NotGit,
    Name,
    Create,
    Remove,
    Reset,
}

impl Failure {
    /// Returns OpenCode's name of the error.
    fn name(self) -> &'static str {
        match self {
            Self::NotGit => "WorktreeNotGitError",
            Self::Name => "WorktreeNameGenerationFailedError",
            Self::Create => "WorktreeCreateFailedError",
            Self::Remove => "WorktreeRemoveFailedError",
            Self::Reset => "WorktreeResetFailedError",
        }
    }
}

fn failed(failure: Failure, error: &git::Error) -> Error {
    refuse(failure, error.to_string())
}

fn refuse(failure: Failure, message: impl Into<String>) -> Error {
    let (name, data) = (failure.name().into(), json!({ "message": message.into() }));
    Error::new(Fault::Worktree, WireError::Named(NamedError::Other { name, data }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_reduced_to_letters_digits_and_dashes() {
        assert_eq!(name(Some("Fix the ../../Bug!")), "fix-the-bug");
        for nothing in [None, Some(""), Some("../.."), Some("äöü")] {
            assert!(name(nothing).starts_with("tree-"), "{nothing:?}");
        }
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let home = tempfile::tempdir().unwrap();
        for expected in ["a", "a-2", "a-3"] {
            let (name, path) = reserve(home.path(), "a").unwrap();
            assert_eq!((name.as_str(), path.is_dir()), (expected, true));
        }
        for number in 4..=MAX_TRIES {
            assert_eq!(reserve(home.path(), "a").unwrap().0, format!("a-{number}"));
        }
        let refused = reserve(home.path(), "a").unwrap_err().to_string();
        assert!(refused.contains("give another name"), "{refused}");
    }
}
