//! Turns that end, in real repositories.

use std::sync::Mutex;

use engine::memory::Memory;
use engine::ports::{Alone, Commit, Encoded, Fence, Fleet, Log, Logged, Observer};
use protocol::message::ModelRef;
use protocol::{Event, SessionId};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Exit, Spec};

use super::*;

struct NoObserver;

impl Observer for NoObserver {
    fn committed(&self, _: Vec<Logged>) {}
}

/// A worktree, a log, and the reports.
struct TestWorktree {
    directory: TempDir,
    memory: Arc<Memory>,
    told: Arc<Mutex<Vec<String>>>,
    heads: Mutex<std::collections::HashMap<String, u64>>,
}

impl TestWorktree {
    fn plain() -> Self {
        let memory = Arc::new(Memory::new(Arc::new(NoObserver)));
        Self { directory: TempDir::new().unwrap(), memory, told: Arc::default(), heads: Mutex::default() }
    }

    async fn new() -> Self {
        let place = Self::plain();
        for line in [
            "git init -q -b main && git config user.name Ada && git config user.email ada@example.com",
            "echo one > a.txt && echo one > b.txt && git add . && git commit -qm first",
        ] {
            place.shell(line).await;
        }
        place
    }

    fn top(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    async fn shell(&self, line: &str) -> String {
        let spec = Spec::shell(line, self.top(), Duration::from_secs(20));
        let done = process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
        assert_eq!(done.exit, Exit::Code(0), "{}", done.output.text());
        done.output.text()
    }

    fn plugin(&self) -> AutoCommit {
        let told = Arc::clone(&self.told);
        let report: Reporter = Arc::new(move |text: &str| told.lock().unwrap().push(text.to_owned()));
        AutoCommit { reads: self.memory.clone(), hidden: Vec::new(), report }
    }

    async fn append(&self, session: &str, events: Vec<Value>) {
        let encoded = |(number, mut event): (usize, Value)| {
            event["id"] = format!("evt_{session}{number}").into();
            let event: Event = serde_json::from_value(event).unwrap();
            Encoded { json: serde_json::to_vec(&event).unwrap().into(), event }
        };
        let events: Vec<Encoded> = events.into_iter().enumerate().map(encoded).collect();
        let count = events.len() as u64;
        let expected = self.heads.lock().unwrap().get(session).copied().unwrap_or(0);
        let commit = Commit {
            session: session.parse::<SessionId>().unwrap(),
            fence: Fence { workspace: Alone.workspace("/"), epoch: Alone::EPOCH },
            directory: "/".into(),
            project: "global".into(),
            expected,
            events,
            flush: false,
        };
        self.memory.append(commit).await.unwrap();
        self.heads.lock().unwrap().insert(session.to_owned(), expected + count);
    }

    async fn session(&self, id: &str) {
        let info = json!({
            "id": id, "slug": "calm-otter", "projectID": "global", "directory": self.top(),
            "title": "Tidy up", "version": "1", "time": { "created": 1, "updated": 1 },
        });
        let created = json!({ "type": "session.created", "properties": { "sessionID": id, "info": info } });
        self.append(id, vec![created]).await;
    }

    /// A prompt of a turn, and a step that has changed these files.
    async fn step(&self, session: &str, prompt: &str, text: &str, files: &[&str]) {
        let files: Vec<PathBuf> = files.iter().map(|file| self.top().join(file)).collect();
        let user = json!({
            "id": prompt, "sessionID": session, "role": "user", "time": { "created": 1 }, "agent": "build",
            "model": { "providerID": "demo", "modelID": "simple" },
        });
        let step = format!("{prompt}a");
        let assistant = json!({
            "id": step, "sessionID": session, "role": "assistant", "parentID": prompt, "mode": "build",
            "agent": "build", "providerID": "demo", "modelID": "simple", "path": { "cwd": "/", "root": "/" },
            "cost": 0, "time": { "created": 2 },
            "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
        });
        let part = |message: &str, body: Value| {
            let mut part =
                json!({ "id": format!("prt_{message}"), "sessionID": session, "messageID": message });
            part.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            let properties = json!({ "sessionID": session, "part": part, "time": 1 });
            json!({ "type": "message.part.updated", "properties": properties })
        };
        let message = |info: Value| {
            let properties = json!({ "sessionID": session, "info": info });
            json!({ "type": "message.updated", "properties": properties })
        };
        let queued = json!({ "sessionID": session, "messageID": prompt, "delivery": "steer" });
        let started = json!({ "sessionID": session, "messageID": prompt });
        let events = vec![
            message(user),
            part(prompt, json!({ "type": "text", "text": text })),
            json!({ "type": "prompt.queued", "properties": queued }),
            json!({ "type": "prompt.started", "properties": started }),
            message(assistant),
            part(&step, json!({ "type": "patch", "hash": "tree", "files": files })),
        ];
        self.append(session, events).await;
    }

    async fn end_as(&self, session: &str, prompt: &str, continued: u32, output: Next, parent: Option<&str>) {
        let ending = TurnEnding {
            session_id: session.parse().unwrap(),
            parent_id: parent.map(|parent| parent.parse().unwrap()),
            message_id: prompt.parse().unwrap(),
            agent: "build".into(),
            model: ModelRef::new("demo", "simple"),
            continued,
        };
        let given = output.clone();
        let hooks: &dyn Hooks = &self.plugin();
        assert_eq!(hooks.change(&ending, output).await, given, "it never lets a turn go on");
    }

    async fn end(&self, session: &str, prompt: &str) {
        self.end_as(session, prompt, 0, Next::default(), None).await;
    }

    async fn commits(&self) -> usize {
        self.shell("git rev-list HEAD").await.lines().count()
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_turn_is_committed_once_with_its_prompt_and_without_foreign_changes() {
    let place = TestWorktree::new().await;
    place.session("ses_1").await;
    place
        .shell("echo mine > staged.txt && git add staged.txt && echo mine >> b.txt && echo two > a.txt")
        .await;
    place.step("ses_1", "msg_1", "Say two\nin a.txt", &["a.txt"]).await;
    place.end("ses_1", "msg_1").await;
    let shown = place.shell("git show --name-only --format=%B HEAD").await;
    assert_eq!(
        shown,
        "Say two\n\n> Say two\n> in a.txt\n\nSession: Tidy up\n\nBaton-Turn: ses_1/msg_1\n\n\na.txt\n"
    );
    assert_eq!(place.shell("git status --porcelain").await, " M b.txt\nA  staged.txt\n");
    // A second end, or the same one after a restart: changes since then belong to another turn.
    place.shell("echo three > a.txt").await;
    place.end("ses_1", "msg_1").await;
    assert_eq!(place.commits().await, 2);
    assert_eq!(place.told(), [""; 0]);
}

#[tokio::test]
async fn all_prompts_of_a_turn_are_committed_with_it() {
    let place = TestWorktree::new().await;
    place.session("ses_1").await;
    place.shell("echo two > a.txt; echo two > b.txt").await;
    place.step("ses_1", "msg_1", "one", &["a.txt"]).await;
    place.step("ses_1", "msg_2", "two", &["b.txt"]).await;
    place.end("ses_1", "msg_2").await;
    assert_eq!(place.shell("git show --name-only --format=%s HEAD").await, "two\n\na.txt\nb.txt\n");
}

#[tokio::test]
async fn there_is_no_commit_without_a_reason_for_one() {
    let place = TestWorktree::new().await;
    place.session("ses_1").await;
    place.end("ses_1", "msg_9").await;
    place.step("ses_1", "msg_1", "look", &["a.txt"]).await;
    place.end("ses_1", "msg_1").await;
    assert_eq!(place.commits().await, 1, "nothing changed");
    place.shell("echo two > a.txt").await;
    place.end_as("ses_1", "msg_1", 0, Next { text: Some("go on".into()) }, None).await;
    assert_eq!(place.commits().await, 1, "it goes on");
    place.end_as("ses_1", "msg_1", 0, Next::default(), Some("ses_0")).await;
    assert_eq!(place.commits().await, 1, "it is a child's");
    place.end_as("ses_1", "msg_1", 2, Next::default(), None).await;
    assert_eq!(place.commits().await, 2);
    assert!(place.shell("git show --format=%B").await.contains("Baton-Turn: ses_1/msg_1/2\n"));
    assert_eq!(place.told(), [""; 0]);
}

#[tokio::test]
async fn a_directory_without_a_repository_is_not_changed() {
    let place = TestWorktree::plain();
    place.session("ses_1").await;
    place.shell("echo one > a.txt").await;
    place.step("ses_1", "msg_1", "x", &["a.txt"]).await;
    place.end("ses_1", "msg_1").await;
    assert_eq!(place.told(), [""; 0]);
    assert!(!place.top().join(".git").exists());
}

#[tokio::test]
async fn a_refusing_git_hook_is_reported() {
    let place = TestWorktree::new().await;
    place.session("ses_1").await;
    let hook = "printf '#!/bin/sh\\necho not today >&2\\nexit 1\\n' > .git/hooks/pre-commit";
    place
        .shell(&format!(
            "mkdir -p .git/hooks && {hook} && chmod +x .git/hooks/pre-commit && echo two > a.txt"
        ))
        .await;
    place.step("ses_1", "msg_1", "x", &["a.txt"]).await;
    place.end("ses_1", "msg_1").await;
    let expected = "auto-commit: the changes of this turn are not committed: git commit: not today";
    assert_eq!(place.told(), [expected]);
    assert_eq!(place.commits().await, 1);
}

#[tokio::test]
async fn two_sessions_in_one_worktree_have_a_commit_each() {
    let place = TestWorktree::new().await;
    for session in ["ses_1", "ses_2"] {
        place.session(session).await;
    }
    place.shell("echo two > a.txt; echo two > b.txt").await;
    place.step("ses_1", "msg_1", "one", &["a.txt"]).await;
    place.step("ses_2", "msg_2", "other", &["b.txt"]).await;
    tokio::join!(place.end("ses_1", "msg_1"), place.end("ses_2", "msg_2"));
    assert_eq!((place.commits().await, place.shell("git status --porcelain").await.as_str()), (3, ""));
}

#[test]
fn a_long_prompt_is_cut_and_cannot_forge_a_trailer() {
    let session = json!({
        "id": "ses_1", "slug": "s", "projectID": "global", "directory": "/", "title": "Title", "version": "1",
        "time": { "created": 1, "updated": 1 },
    });
    let session: Session = serde_json::from_value(session).unwrap();
    let prompt = format!("{}\n\nBaton-Turn: ses_1/msg_2", "x".repeat(100));
    let written = message(&session, Some(&prompt), "ses_1/msg_1");
    assert!(written.starts_with(&format!("{}…\n\n> xx", "x".repeat(71))), "{written}");
    assert!(written.contains("\n> Baton-Turn: ses_1/msg_2\n"), "{written}");
    assert!(written.ends_with("\n\nSession: Title\n\nBaton-Turn: ses_1/msg_1\n"), "{written}");
    assert!(message(&session, None, "k").starts_with("Title\n\nSession: Title"));
}
