//! Worktrees that clients make for a project, beside its own: places where work does not get in each other's way.
//! They are in the server's data directory, one directory for each project. Those that people made themselves are
//! listed, too, and otherwise left alone.

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
    openapi::Route,
    project::Place,
};

/// Branches of these worktrees begin with this.
const BRANCHES: &str = "baton/";
/// Letters of a name.
const MAX_NAME: usize = 64;
/// How often another name is tried when one is taken.
const MAX_TRIES: usize = 20;
/// Worktrees of a repository; beyond that, some have to be removed first.
const MAX_WORKTREES: usize = 100;
/// How long the commands that prepare a worktree may take, each.
const PREPARATION: Duration = Duration::from_mins(10);
/// What is shown of a command that failed, in bytes.
const MAX_SHOWN: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    let faults = &[Fault::Worktree];
    vec![
        Route::get("/experimental/worktree", "worktree.list", list)
            .summary("List the worktrees that were made for a project")
            .faults(faults),
        Route::post("/experimental/worktree", "worktree.create", create)
            .summary("Make a worktree on a new branch, and prepare it with the project's start command")
            .faults(faults),
        Route::delete("/experimental/worktree", "worktree.remove", remove)
            .summary("Remove a worktree with everything in it, and its branch")
            .faults(faults),
        Route::post("/experimental/worktree/reset", "worktree.reset", reset)
            .summary("Put a worktree back to the project's main branch")
            .faults(faults),
    ]
}

/// A worktree.
#[derive(Debug, Serialize, JsonSchema)]
struct Worktree {
    /// Its name.
    name: String,
    /// What is checked out in it.
    branch: String,
    /// Where it is.
    directory: String,
}

/// What to call a worktree, and how to prepare it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WorktreeCreateInput {
    /// What to call it; another name is found if this one is taken.
    name: Option<String>,
    /// A command to run in it after the project's own start command.
    start_command: Option<String>,
}

/// Which worktree.
#[derive(Debug, Deserialize, JsonSchema)]
struct WorktreeInput {
    /// Where it is.
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
        let message = format!("there are {} worktrees already; remove some first", known.len());
        return Err(refuse(Failure::Create, message));
    }
    let (home, wanted) = (home(&app, &place.project), name(input.name.as_deref()));
    let (name, path) = blocking(move || reserve(&home, &wanted)).await?;
    let branch = format!("{BRANCHES}{name}");
    if let Err(error) = repository.add_worktree(&path, &branch).await {
        // Empty, or git has put something there that is not ours to remove.
        let _ = tokio::fs::remove_dir(&path).await;
        return Err(failed(Failure::Create, &error));
    }
    let notes = app.sessions.notes().await?;
    let start = notes.get(&place.project).and_then(|note| note.commands.as_ref()?.start.clone());
    let commands = [start, input.start_command].into_iter().flatten().filter(|line| !line.trim().is_empty());
    let specs = commands.map(|line| Spec::shell(&line, &path, PREPARATION).hide(&here.hidden)).collect();
    let made = Worktree { name, branch, directory: text(&path) };
    let at = Where { directory: made.directory.as_str().into(), project: place.project.into() };
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

/// The usual branch or, where there is none, the one that is checked out in the main worktree.
async fn main_branch(repository: &Repository) -> Result<String, Error> {
    if let Some(branch) = repository.default_branch().await {
        return Ok(branch);
    }
    let trees = repository.worktrees().await.map_err(|error| failed(Failure::Reset, &error))?;
    let main = trees.into_iter().next().and_then(|main| main.branch);
    main.ok_or_else(|| refuse(Failure::Reset, "the project has no main branch"))
}

/// Nothing works in a directory any more whose files go away.
async fn quiet(app: &App, tree: &git::Worktree) -> Result<(), Error> {
    let directory = tree.path.to_string_lossy();
    for session in app.sessions.statuses(Some(&directory)).await?.into_keys() {
        app.sessions.abort(&session).await?;
    }
    for terminal in app.terminals.list(&directory) {
        app.terminals.remove(&app.sessions, &directory, &terminal.id).await?;
    }
    Ok(())
}

/// Runs what prepares a worktree, one after the other, and says how it went.
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

/// The end of what a command wrote: that is where the reason is.
fn shown(output: &str) -> &str {
    let output = output.trim();
    let from = output.ceil_char_boundary(output.len().saturating_sub(MAX_SHOWN));
    output.get(from..).unwrap_or(output)
}

async fn repository(app: &App, directory: &Directory) -> Result<(Place, Repository), Error> {
    let place = app.projects.find(&directory.path).await;
    match place.repository.clone() {
        Some(repository) => Ok((place, repository)),
        None => Err(refuse(Failure::NotGit, format!("{} is in no git repository", place.directory))),
    }
}

/// A worktree that was made here. Only those can be reset and removed: what is in them would be lost.
async fn find(
    app: &App,
    place: &Place,
    repository: &Repository,
    directory: &str,
    failure: Failure,
) -> Result<git::Worktree, Error> {
    let home = home(app, &place.project);
    let home = tokio::fs::canonicalize(&home).await.unwrap_or(home);
    // One that somebody has deleted by hand has no other name than the given one.
    let wanted = tokio::fs::canonicalize(directory).await.unwrap_or_else(|_| directory.into());
    let trees = repository.worktrees().await.map_err(|error| failed(failure, &error))?;
    let found = trees.into_iter().find(|tree| tree.path.starts_with(&home) && tree.path == wanted);
    found.ok_or_else(|| {
        let message =
            format!("{directory:?} is no worktree that was made here for this project; git itself may help");
        refuse(failure, message)
    })
}

/// Where the worktrees of a project are.
fn home(app: &App, project: &str) -> PathBuf {
    Path::new(&app.facts.worktrees).join(project)
}

/// Letters and digits of what was given; something random if that leaves nothing.
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

/// Makes the directory of a worktree: under the name, or the name with a number, that nobody has yet.
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
    let message = format!("every name like {wanted:?} is taken; remove a worktree or give another name");
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

/// What could not be done.
#[derive(Debug, Clone, Copy)]
enum Failure {
    NotGit,
    Name,
    Create,
    Remove,
    Reset,
}

impl Failure {
    /// As OpenCode calls it.
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
    fn names_are_plain() {
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
