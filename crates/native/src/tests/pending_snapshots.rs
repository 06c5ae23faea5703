//! Turns whose first snapshot takes as long as the test wants.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use llm::Finish;
use protocol::{EventBody, PartBody, Session, ToolState};
use serde_json::json;

use super::harness::Responder;
use super::scripted_model::Reply;
use super::snapshots::{Repository, run, write};

/// A snapshot that hangs: git wants to read rules from a pipe without a writer.
struct Barrier {
    pipe: PathBuf,
    /// Never received; its end releases the thread that stops the clock.
    _clock: mpsc::Sender<()>,
}

impl Barrier {
    async fn new(project: &Path) -> Self {
        fs::create_dir(project.join("held")).unwrap();
        run("mkfifo", &project.join("held"), ".gitignore").await;
        Self { pipe: project.join("held/.gitignore"), _clock: stop_the_clock() }
    }

    /// Lets git continue. Moves the pipe away first, so that it blocks no later process.
    fn release(&self, project: &Path) {
        let elsewhere = project.join(".git/released");
        fs::rename(&self.pipe, &elsewhere).unwrap();
        drop(fs::File::options().read(true).write(true).open(elsewhere).unwrap());
    }
}

/// Stops the clock, so that no deadline passes however busy the machine is. A paused clock advances by itself when
/// nothing else is left to do, except while a blocking task runs.
fn stop_the_clock() -> mpsc::Sender<()> {
    let (stop, stopped) = mpsc::channel();
    tokio::time::pause();
    tokio::task::spawn_blocking(move || stopped.recv().is_ok());
    stop
}

fn is_delta(body: &EventBody) -> bool {
    matches!(body, EventBody::PartDelta(_))
}

fn is_tool(body: &EventBody, fits: impl Fn(&ToolState) -> bool) -> bool {
    let EventBody::PartUpdated(updated) = body else { return false };
    if let PartBody::Tool(tool) = &updated.part.body { fits(&tool.state) } else { false }
}

fn is_running(body: &EventBody) -> bool {
    is_tool(body, |state| matches!(state, ToolState::Running(_)))
}

fn is_completed(body: &EventBody) -> bool {
    is_tool(body, |state| matches!(state, ToolState::Completed(_)))
}

fn has_snapshot(body: &EventBody) -> bool {
    let EventBody::PartUpdated(updated) = body else { return false };
    matches!(&updated.part.body, PartBody::StepStart(start) if start.snapshot.is_some())
}

fn write_aloud() -> Reply {
    let input = json!({ "filePath": "made.txt", "content": "made" });
    Reply::text("I shall write").and_call("1", "write", input).ending(Finish::ToolCalls)
}

/// Lets every other task run as far as it gets.
async fn let_others_work(repository: &Repository, session: &Session) {
    for _ in 0..200 {
        repository.harness.sessions.get(&session.id).await.unwrap();
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_pending_snapshot_holds_back_the_first_write_and_not_the_first_delta() {
    let mut repository = Repository::new([write_aloud(), Reply::text("done")]).await;
    let project = repository.harness.project.path().to_owned();
    let barrier = Barrier::new(&project).await;
    let session = repository.harness.session().await;
    repository.ask(&session, "please").await;
    repository.harness.until(is_delta).await;
    repository.harness.until(is_running).await;
    let_others_work(&repository, &session).await;
    assert_eq!(repository.read("made.txt"), None, "the tool waits");
    assert!(!repository.harness.seen.iter().any(|event| has_snapshot(&event.body)));

    barrier.release(&project);
    repository.harness.until_idle(&session, Responder::AllowOnce).await;
    let position = |fits: fn(&EventBody) -> bool| {
        repository.harness.seen.iter().position(|event| fits(&event.body)).unwrap()
    };
    assert!(position(is_delta) < position(has_snapshot));
    assert_eq!(repository.patches(&session).await, [["made.txt"]]);
    for message in &repository.harness.messages(&session).await[1..] {
        let starts = message.parts.iter().filter(|part| matches!(&part.body, PartBody::StepStart(_)));
        let starts: Vec<_> = starts.collect();
        assert_eq!(starts.len(), 1, "the part is changed, not repeated");
        assert!(matches!(&starts[0].body, PartBody::StepStart(start) if start.snapshot.is_some()));
    }
    let prompt = repository.harness.messages(&session).await[0].info.id().clone();
    repository.harness.sessions.revert(&session.id, prompt, None).await.unwrap();
    assert_eq!(repository.read("made.txt"), None);
}

#[tokio::test]
async fn a_tool_that_only_reads_does_not_wait_for_the_snapshot() {
    let read = Reply::call("1", "read", json!({ "filePath": "README.md" }));
    let mut repository = Repository::new([read, Reply::text("done")]).await;
    let project = repository.harness.project.path().to_owned();
    let barrier = Barrier::new(&project).await;
    let session = repository.harness.session().await;
    repository.ask(&session, "please").await;
    repository.harness.until(is_completed).await;
    assert!(!repository.harness.seen.iter().any(|event| has_snapshot(&event.body)));
    barrier.release(&project);
    repository.harness.until_idle(&session, Responder::AllowOnce).await;
    assert!(repository.harness.seen.iter().any(|event| has_snapshot(&event.body)));
}

#[tokio::test]
async fn an_abort_does_not_wait_for_a_pending_snapshot_and_prevents_the_write() {
    let mut repository = Repository::new([write_aloud(), write("2", "later.txt", "later")]).await;
    let project = repository.harness.project.path().to_owned();
    let _barrier = Barrier::new(&project).await;
    let session = repository.harness.session().await;
    repository.ask(&session, "please").await;
    repository.harness.until(is_running).await;
    let_others_work(&repository, &session).await;
    repository.harness.sessions.abort(&session.id).await.unwrap();
    repository.harness.until_idle(&session, Responder::AllowOnce).await;
    assert_eq!((repository.read("made.txt"), repository.read("later.txt")), (None, None));
    assert!(repository.patches(&session).await.is_empty());
}
