//! File changes of turns: their authors, and their revert.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::limits::Limits;
use protocol::message::ModelRef;
use protocol::part::PatchPart;
use protocol::prompt::PromptInput;
use protocol::request::{Action, PermissionReply, Rule};
use protocol::{EventBody, Message, PartBody, Session, ToolState};
use serde_json::json;
use supervision::Snapshots;
use supervision::mcp::Servers;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Exit, Spec};

use super::harness::{Harness, Responder};
use super::scripted_model::{Reply, ScriptedModel};
use crate::{Options, built_in};

/// Snapshots with timeouts that no load of the machine exceeds.
fn patient(data: &TempDir) -> Arc<Snapshots> {
    let snapshots = Snapshots::new(data.path().join("snapshot")).with_timeout(Duration::from_hours(1));
    Arc::new(snapshots)
}

/// A harness whose project is a repository.
pub(super) struct Repository {
    pub(super) harness: Harness,
    data: TempDir,
}

impl Repository {
    pub(super) async fn new(steps: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_all(steps, Servers::default(), Limits::default()).await
    }

    async fn with_limits(steps: impl IntoIterator<Item = Reply>, limits: Limits) -> Self {
        Self::with_all(steps, Servers::default(), limits).await
    }

    /// Creates a repository with MCP servers.
    pub(super) async fn with_servers(steps: impl IntoIterator<Item = Reply>, mcp: Servers) -> Self {
        Self::with_all(steps, mcp, Limits::default()).await
    }

    async fn with_all(steps: impl IntoIterator<Item = Reply>, mcp: Servers, limits: Limits) -> Self {
        Self::ruled(steps, mcp, limits, &[Rule::new("*", "*", Action::Allow)]).await
    }

    /// Creates a repository with these permission rules.
    async fn ruled(
        steps: impl IntoIterator<Item = Reply>,
        mcp: Servers,
        limits: Limits,
        rules: &[Rule],
    ) -> Self {
        let data = TempDir::new().unwrap();
        let snapshots = Some(patient(&data));
        let agents = built_in(rules);
        let options = Options { agents, snapshots, mcp, ..Options::default() };
        let harness =
            Harness::with_all(Arc::new(ScriptedModel::new(steps)), options, Vec::new(), limits).await;
        git(harness.project.path(), "init -q").await;
        git(harness.project.path(), "add .").await;
        git(harness.project.path(), "-c user.name=Test -c user.email=test@example.com commit -q -m first")
            .await;
        Self { harness, data }
    }

    pub(super) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.harness.project.path().join(name)).ok()
    }

    /// Returns the files of a session's patches, by step.
    pub(super) async fn patches(&self, session: &Session) -> Vec<Vec<String>> {
        let top = self.harness.project.path().canonicalize().unwrap();
        let short =
            |file: &String| Path::new(file).strip_prefix(&top).unwrap().to_string_lossy().into_owned();
        let found = patches(&self.harness, session).await;
        found.iter().map(|patch| patch.files.iter().map(short).collect()).collect()
    }

    pub(super) async fn ask(&self, session: &Session, text: &str) {
        let input = PromptInput { model: Some(ModelRef::new("demo", "any")), ..PromptInput::text(text) };
        self.harness.sessions.submit(&session.id, input).await.unwrap();
    }

    pub(super) async fn turn(&mut self, session: &Session, text: &str) {
        self.ask(session, text).await;
        self.harness.until_idle(session, Responder::AllowOnce).await;
    }
}

async fn git(directory: &Path, command: &str) {
    run("git", directory, command).await;
}

pub(super) async fn run(program: &str, directory: &Path, command: &str) {
    let spec = Spec::new(program, directory, Duration::from_hours(1)).args(command.split(' '));
    let done = process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    assert_eq!(done.exit, Exit::Code(0), "{}", done.output.text());
}

async fn patches(harness: &Harness, session: &Session) -> Vec<PatchPart> {
    let parts = harness.messages(session).await.into_iter().flat_map(|message| message.parts);
    parts.filter_map(|part| if let PartBody::Patch(patch) = part.body { Some(patch) } else { None }).collect()
}

pub(super) fn write(id: &str, file: &str, content: &str) -> Reply {
    Reply::call(id, "write", json!({ "filePath": file, "content": content }))
}

fn bash(id: &str, command: &str) -> Reply {
    Reply::call(id, "bash", json!({ "command": command }))
}

/// Returns true once a command has printed `up`, which happens after the snapshot before it.
fn is_up(body: &EventBody) -> bool {
    match body {
        EventBody::PartUpdated(it) => match &it.part.body {
            PartBody::Tool(tool) => matches!(&tool.state, ToolState::Running(running)
                if running.metadata.as_ref().is_some_and(|shown| shown["output"] == "up\n")),
            _ => false,
        },
        _ => false,
    }
}

#[tokio::test]
async fn a_turn_reports_its_changes_and_can_be_reverted() {
    let edit = json!({ "filePath": "README.md", "oldString": "small", "newString": "tiny" });
    let steps = [
        Reply::call("1", "edit", edit),
        bash("2", "echo new > new.txt; echo ignored > .git/noise; cat README.md"),
        bash("3", "cat README.md"),
        Reply::text("done"),
    ];
    let mut repository = Repository::new(steps).await;
    let session = repository.harness.session().await;
    repository.turn(&session, "please").await;
    assert_eq!(repository.patches(&session).await, [["README.md"], ["new.txt"]]);

    let messages = repository.harness.messages(&session).await;
    let Message::User(prompt) = &messages[0].info else { panic!("{messages:?}") };
    let diffs = &prompt.summary.as_ref().unwrap().diffs;
    let names: Vec<_> = diffs.iter().map(|diff| (diff.file.as_deref(), diff.status.as_deref())).collect();
    assert_eq!(names, [(Some("README.md"), Some("modified")), (Some("new.txt"), Some("added"))]);
    assert!(
        diffs[0].patch.as_deref().unwrap().contains("-A small project.\n+A tiny project.\n"),
        "{diffs:?}"
    );
    let stored = repository.harness.sessions.get(&session.id).await.unwrap();
    let summary = stored.summary.unwrap();
    assert_eq!((summary.additions, summary.deletions, summary.files), (2, 1, 2));
    for message in &messages[1..] {
        let marked = |part: &PartBody| match part {
            PartBody::StepStart(start) => start.snapshot.is_some(),
            PartBody::StepFinish(finish) => finish.snapshot.is_some(),
            _ => true,
        };
        assert!(message.parts.iter().all(|part| marked(&part.body)), "{message:?}");
    }

    let sessions = repository.harness.sessions.clone();
    let first = messages[0].info.id().clone();
    let reverted = sessions.revert(&session.id, first, None).await.unwrap().revert.unwrap();
    assert_eq!(repository.read("new.txt"), None);
    assert!(repository.read("README.md").unwrap().contains("A small project."));
    assert!(reverted.diff.unwrap().contains("-A tiny project.\n+A small project.\n"));
    let back = sessions.unrevert(&session.id).await.unwrap();
    assert_eq!((back.revert, repository.read("new.txt").as_deref()), (None, Some("new\n")));
    assert!(repository.read("README.md").unwrap().contains("A tiny project."));
}

#[tokio::test]
async fn two_sessions_in_one_worktree_do_not_claim_each_others_changes() {
    let steps = [
        bash("1", "echo up; until [ -e .git/go ]; do sleep 0.02; done; echo own > slow.txt"),
        write("2", "quick.txt", "quick"),
        bash("3", "echo third > third.txt"),
        Reply::text("done with it"),
        Reply::text("done at last"),
        Reply::text("only talk"),
    ];
    let mut repository = Repository::new(steps).await;
    let (slow, quick) = (repository.harness.session().await, repository.harness.session().await);
    repository.ask(&slow, "run it").await;
    repository.harness.until(is_up).await;
    repository.turn(&quick, "write it").await;
    // A user changes a file, too, while no command of the second session runs.
    std::fs::write(repository.harness.project.path().join("README.md"), "A user was here.\n").unwrap();
    std::fs::write(repository.harness.project.path().join(".git/go"), "").unwrap();
    repository.harness.until_idle(&slow, Responder::AllowOnce).await;
    assert_eq!(repository.patches(&quick).await, [["quick.txt"], ["third.txt"]]);
    assert_eq!(
        repository.patches(&slow).await,
        [["README.md", "slow.txt"]],
        "a change that no session claims while a command runs counts as the command's"
    );

    let talk = repository.harness.session().await;
    repository.turn(&talk, "say something").await;
    assert!(repository.patches(&talk).await.is_empty());

    let prompt = repository.harness.messages(&quick).await[0].info.id().clone();
    repository.harness.sessions.revert(&quick.id, prompt, None).await.unwrap();
    assert_eq!((repository.read("quick.txt"), repository.read("third.txt")), (None, None));
    assert_eq!(repository.read("slow.txt").as_deref(), Some("own\n"), "what the other one did stays");
}

#[tokio::test]
async fn changes_of_an_aborted_step_can_be_reverted() {
    let command = json!({ "command": "echo new > new.txt; echo up; sleep 600" });
    let steps = [write("1", "a.txt", "a").and_call("2", "bash", command)];
    // Long enough for the snapshot after the abort, however busy the machine is.
    let limits = Limits { runner_grace: Duration::from_mins(10), ..Limits::default() };
    let mut repository = Repository::with_limits(steps, limits).await;
    let session = repository.harness.session().await;
    repository.ask(&session, "please").await;
    repository.harness.until(is_up).await;
    repository.harness.sessions.abort(&session.id).await.unwrap();
    assert_eq!(repository.patches(&session).await, [["a.txt", "new.txt"]]);
    let stored = repository.harness.sessions.get(&session.id).await.unwrap();
    assert_eq!(stored.summary.unwrap().files, 2);
    let prompt = repository.harness.messages(&session).await[0].info.id().clone();
    repository.harness.sessions.revert(&session.id, prompt, None).await.unwrap();
    assert_eq!((repository.read("a.txt"), repository.read("new.txt")), (None, None));
}

#[tokio::test]
async fn a_call_that_waited_when_the_server_stopped_reports_its_changes() {
    let steps = [write("1", "a.txt", "a"), Reply::text("done")];
    let rules = [Rule::new("edit", "*", Action::Ask)];
    let mut repository = Repository::ruled(steps, Servers::default(), Limits::default(), &rules).await;
    let session = repository.harness.session().await;
    repository.ask(&session, "please").await;
    repository.harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    repository.harness = repository.harness.restart().await;
    let waiting = repository.harness.sessions.permissions(None).await.unwrap();
    repository.harness.sessions.reply_permission(&waiting[0].id, PermissionReply::Once, None).await.unwrap();
    // The first idle is that of the turn that was interrupted.
    for _ in 0..2 {
        repository.harness.until_idle(&session, Responder::AllowOnce).await;
    }
    assert_eq!(repository.read("a.txt").as_deref(), Some("a"));
    assert_eq!(repository.patches(&session).await, [["a.txt"]]);
}

#[tokio::test]
async fn a_subagents_change_is_also_its_parents() {
    let steps = [
        Reply::call(
            "1",
            "task",
            json!({ "description": "Write", "prompt": "write it", "subagent_type": "general" }),
        ),
        write("2", "child.txt", "child"),
        Reply::text("the child is done"),
        Reply::text("so am I"),
    ];
    let mut repository = Repository::new(steps).await;
    let session = repository.harness.session().await;
    repository.turn(&session, "delegate").await;
    assert_eq!(repository.patches(&session).await, [["child.txt"]]);
    let prompt = repository.harness.messages(&session).await[0].info.id().clone();
    repository.harness.sessions.revert(&session.id, prompt, None).await.unwrap();
    assert_eq!(repository.read("child.txt"), None);
}

#[tokio::test]
async fn without_a_repository_a_turn_runs_without_snapshots() {
    let data = TempDir::new().unwrap();
    let snapshots = Some(patient(&data));
    let model = ScriptedModel::new([write("1", "a.txt", "a"), Reply::text("done")]);
    let mut harness = Harness::with_model(Arc::new(model), Options { snapshots, ..Options::default() }).await;
    let session = harness.turn("any", Responder::AllowOnce).await;
    assert!(patches(&harness, &session).await.is_empty());
    assert!(harness.project.path().join("a.txt").exists());
    assert!(!data.path().join("snapshot").exists(), "nothing is made where nothing is kept");
    let prompt = harness.messages(&session).await[0].info.id().clone();
    let reverted = harness.sessions.revert(&session.id, prompt, None).await.unwrap();
    assert_eq!(reverted.revert.unwrap().snapshot, None);
}

#[tokio::test]
async fn a_broken_shadow_is_no_reason_to_stop() {
    let mut repository = Repository::new([write("1", "a.txt", "a"), Reply::text("done")]).await;
    std::fs::write(repository.data.path().join("snapshot"), "in the way").unwrap();
    let session = repository.harness.session().await;
    repository.turn(&session, "please").await;
    assert_eq!(repository.read("a.txt").as_deref(), Some("a"));
    assert!(repository.patches(&session).await.is_empty());
}
