//! Replays recordings of OpenCode through the fake server: each turn publishes one idle and closes every part. The
//! published events are compared with snapshots.
//!
//! The recordings are the same as in `protocol`. The replay renames messages to fit the ids of the prompts that Baton
//! sends, because the order of ids determines the turn of a message.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::limits::Limits;
use futures::future::join_all;
use protocol::EndReason::{self, Aborted, Blocked, Completed, Error};
use protocol::{EventBody, Session, SessionId, SessionStatus};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::fake::{Fake, SESSION};
use crate::external::harness::{Harness, LONG, SimulatedUser};

/// The recordings with the ends of their turns.
const RECORDINGS: [(&str, &[EndReason]); 57] = [
    ("abort", &[Aborted, Completed]),
    ("abort_permission", &[Aborted]),
    ("abort_queue", &[Aborted]),
    ("abort_tool", &[Aborted, Completed]),
    ("bad_args", &[Completed]),
    ("bad_tool", &[Completed]),
    ("blocking_message", &[Completed]),
    ("content_filter", &[Error]),
    ("content_filter.anthropic", &[Error]),
    ("context_overflow", &[Completed]),
    ("context_overflow_400", &[Completed]),
    ("delete_busy", &[Error]),
    ("doom_loop", &[Completed]),
    ("doom_parallel", &[Completed]),
    ("empty", &[Completed]),
    ("error_400", &[Error]),
    ("error_400.anthropic", &[Error]),
    ("error_401", &[Error]),
    ("error_500_forever", &[Error]),
    ("global", &[Completed]),
    ("kill_KILL_permission", &[Error, Completed]),
    ("kill_KILL_text", &[Error, Completed]),
    ("kill_KILL_tool", &[Error, Completed]),
    ("kill_TERM_text", &[Error, Completed]),
    ("length", &[Completed]),
    ("length.anthropic", &[Completed]),
    ("long_stream", &[Completed]),
    ("long_stream.anthropic", &[Completed]),
    ("midstream_drop", &[Completed]),
    ("midstream_drop.anthropic", &[Completed]),
    ("midstream_error", &[Completed]),
    ("misc_http", &[Completed, Error, Error]),
    ("multi_turn", &[Completed, Completed, Completed]),
    ("overloaded_529", &[Completed]),
    ("overloaded_529.anthropic", &[Completed]),
    ("parallel_tools", &[Completed]),
    ("perm_always", &[Completed]),
    ("perm_deny", &[Blocked]),
    ("permission", &[Completed]),
    ("permission_two", &[Completed]),
    ("question", &[Completed]),
    ("question_reject", &[Blocked]),
    ("queue", &[Completed]),
    ("read_edit", &[Completed]),
    ("read_edit.anthropic", &[Completed]),
    ("reasoning", &[Completed]),
    ("reasoning.anthropic", &[Completed]),
    ("reconnect", &[Completed]),
    ("retry_429", &[Completed]),
    ("retry_429.anthropic", &[Completed]),
    ("simple", &[Completed]),
    ("simple.anthropic", &[Completed]),
    ("subagent", &[Completed]),
    ("subagent_permission", &[Completed]),
    ("summarize", &[Completed]),
    ("todo", &[Completed]),
    ("tool_error", &[Completed]),
];

/// Recordings that contain no complete turn: a stream without a turn, a shell command of the user, and a turn whose
/// beginning was not recorded.
const LEFT_OUT: [&str; 4] = ["README", "idle_30s", "perm_reconnect", "shell"];

/// The points at which recordings continue with work that no prompt begins.
const ENDS_AT: [(&str, &str); 2] = [("misc_http", "noReply"), ("summarize", "/summarize")];

/// The number of recordings to play at once, because they mostly wait.
const AT_ONCE: usize = 8;

/// An action of the simulated user.
#[derive(Debug)]
enum UserAction {
    /// Submits a prompt: between turns, or in a running turn after these events.
    Prompt { running: Option<Heard> },
    /// Aborts the turn after these events.
    Abort(Heard),
}

/// The number of events of a turn so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Heard {
    deltas: usize,
    /// The ids of running tool calls.
    calls: BTreeSet<String>,
    permissions: usize,
}

impl Heard {
    /// Counts an event of OpenCode.
    fn count(&mut self, event: &Value) {
        let properties = &event["properties"];
        match event["type"].as_str().unwrap_or_default() {
            "message.part.delta" => self.deltas += 1,
            "permission.asked" => self.permissions += 1,
            "message.part.updated" if properties["part"]["state"]["status"] == "running" => {
                self.calls.insert(properties["part"]["callID"].as_str().unwrap().to_owned());
            }
            _ => {}
        }
    }

    /// The same of what Baton publishes.
    fn published(harness: &Harness, session: &SessionId) -> Self {
        let mut heard = Self::default();
        for event in harness.seen.iter().filter(|event| event.body.session_id() == Some(session)) {
            heard.count(&serde_json::to_value(event).unwrap());
        }
        heard
    }
}

#[test]
fn every_recording_is_played() {
    let files = std::fs::read_dir(folder()).unwrap();
    let there: BTreeSet<String> = files
        .map(|file| file.unwrap().path().with_extension("").file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    let played = RECORDINGS.iter().map(|(name, _)| *name).chain(LEFT_OUT).map(str::to_owned).collect();
    assert_eq!(there, played);
}

#[tokio::test]
async fn recordings_publish_one_idle_for_each_turn() {
    for recordings in RECORDINGS.chunks(AT_ONCE) {
        let plays = recordings.iter().map(|(name, ends)| async move {
            let played = timeout(LONG / 2, replay(name)).await;
            (name, ends, played.unwrap_or_else(|_| panic!("{name} does not end")))
        });
        for (name, ends, (harness, session)) in join_all(plays).await {
            let told = harness.story(&session.id);
            assert_eq!(harness.check(&session.id), ends.len(), "{name}:\n{told}");
            assert_eq!(how_turns_ended(&harness, &session.id), *ends, "{name}:\n{told}");
            assert_all_is_closed(name, &harness).await;
            insta::assert_snapshot!(*name, story(&harness, &session));
        }
    }
}

async fn replay(name: &str) -> (Harness, Session) {
    let fake = Arc::new(Fake::new().await);
    let mut harness = Harness::bounded(Limits::default(), |_| fake.runner()).await;
    let session = harness.session().await;
    let user = match name {
        "perm_deny" | "question_reject" => SimulatedUser::Refuses,
        "abort_permission" | "kill_KILL_permission" => SimulatedUser::Silent,
        _ => SimulatedUser::Agrees,
    };
    let (cue, mut cues) = mpsc::channel(8);
    let playing = tokio::spawn(play(Arc::clone(&fake), recording(name), cue));
    let (mut is_busy, mut is_over) = (false, false);
    while is_busy || !is_over {
        tokio::select! {
            biased;
            body = harness.next() => {
                harness.answer(&body, user).await;
                is_busy &= !matches!(body, EventBody::SessionIdle(it) if it.session_id == session.id);
            }
            cue = cues.recv(), if !is_over => match cue {
                Some(UserAction::Prompt { running }) => {
                    match running {
                        Some(heard) => until_heard(&mut harness, &session.id, &heard).await,
                        None if is_busy => drop(harness.until_idle(&session, user).await),
                        None => {}
                    }
                    harness.submit(&session, "please").await;
                    is_busy = true;
                }
                Some(UserAction::Abort(heard)) => {
                    until_heard(&mut harness, &session.id, &heard).await;
                    harness.sessions.abort(&session.id).await.unwrap();
                }
                None => is_over = true,
            },
        }
    }
    playing.await.unwrap();
    (harness, session)
}

async fn until_heard(harness: &mut Harness, session: &SessionId, heard: &Heard) {
    while Heard::published(harness, session) != *heard {
        harness.next().await;
    }
}

fn how_turns_ended(harness: &Harness, session: &SessionId) -> Vec<EndReason> {
    let ends = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::SessionStatus(it) if it.session_id == *session => match it.status {
            SessionStatus::Idle { reason, .. } => reason,
            _ => None,
        },
        _ => None,
    });
    ends.collect()
}

async fn assert_all_is_closed(name: &str, harness: &Harness) {
    for session in created(harness) {
        for message in harness.messages(&session).await {
            let open: Vec<_> = message.parts.iter().filter(|part| part.is_open()).collect();
            assert!(open.is_empty(), "{name}: {open:?}");
            for part in message.parts.iter().map(|part| serde_json::to_value(part).unwrap()) {
                let Some(child) = part.pointer("/state/metadata/sessionId") else { continue };
                let exists = created(harness).iter().any(|created| child == created.id.as_str());
                assert!(exists, "{name}: a call names a session that nobody has: {child}");
            }
        }
    }
}

fn created(harness: &Harness) -> Vec<Session> {
    let sessions = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::SessionCreated(it) => Some(it.info.clone()),
        _ => None,
    });
    sessions.collect()
}

/// The published events, session by session. Paths of the recorder's scratch files are left out.
fn story(harness: &Harness, session: &Session) -> String {
    let mut story = harness.story(&session.id);
    for child in created(harness).iter().filter(|created| created.id != session.id) {
        write!(story, "\n== child {:?}\n{}", child.title, harness.story(&child.id)).unwrap();
    }
    let scratch = Path::new("/").join("tmp");
    story.replace(scratch.to_str().unwrap(), "/scratch")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/tests/fixtures/opencode")
}

/// The lines of a recording. If it has several event streams, only one of them.
fn recording(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join(format!("{name}.jsonl"))).unwrap();
    let end = ENDS_AT.iter().find(|(ended, _)| *ended == name).map(|(_, end)| *end);
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ends = |line: &Value| {
        end.is_some_and(|end| {
            line["text"] == end || line["p"].as_str().is_some_and(|path| path.ends_with(end))
        })
    };
    lines.filter(|line| line["label"] != "B-stays").take_while(|line| !ends(line)).collect()
}

/// Plays a recording: sends its events in order and waits for the runner's calls.
async fn play(fake: Arc<Fake>, lines: Vec<Value>, cue: mpsc::Sender<UserAction>) {
    let mut names = Names::default();
    let (mut prompts, mut aborts) = (0, 0);
    for (at, line) in lines.iter().enumerate() {
        let path = line["p"].as_str().unwrap_or_default();
        match line["k"].as_str().unwrap() {
            "res" if path == "/session" && names.session.is_none() => names.session(&line["body"]),
            "req" if names.is_known(path) && is_prompt(&lines[at..]) => {
                let running = names.is_busy.then(|| names.said.clone());
                cue.send(UserAction::Prompt { running }).await.unwrap();
                prompts += 1;
                names.prompts.push(fake.prompted(prompts).await);
            }
            "req" if path.ends_with("/abort") && names.is_busy => {
                cue.send(UserAction::Abort(names.said.clone())).await.unwrap();
                aborts += 1;
                fake.called("/abort", aborts).await;
            }
            "event" => {
                let event = &line["d"];
                say(&fake, &mut names, event);
                if let Some(request) = answered(event, &lines[at..]) {
                    fake.called(&format!("/{request}/re"), 1).await;
                }
            }
            "note"
                if line["sse_end"].is_string()
                    && lines[at..].iter().any(|line| line["sse_open"].is_string()) =>
            {
                let rest = &lines[at..];
                let read = |end: &str| {
                    let mut answers = rest.iter().filter(|line| line["k"] == "res");
                    answers.find(|line| line["p"].as_str().is_some_and(|path| path.ends_with(end)))
                };
                // Serve the recorded messages only after a restart: otherwise they are from the end of the recording.
                let was_restarted = rest.iter().any(|line| line["text"] == "restarted");
                let messages = read("/message").filter(|_| was_restarted).map(|line| &line["body"]);
                names.is_busy &= !was_restarted;
                fake.set_busy(names.is_busy);
                let messages = names.changed(messages.unwrap_or(&json!([])));
                fake.cut(serde_json::from_str(&messages).unwrap()).await;
            }
            _ => {}
        }
    }
}

/// Returns true if the next line is a prompt that OpenCode accepted.
fn is_prompt(lines: &[Value]) -> bool {
    let (call, path) = (&lines[0], lines[0]["p"].as_str().unwrap());
    let is_taken = || {
        let mut answers = lines.iter().filter(|line| line["k"] == "res" && line["p"] == path);
        answers.next().is_none_or(|answer| answer["status"].as_u64() < Some(300))
    };
    let asks = path.ends_with("/prompt_async") || (path.ends_with("/message") && call["m"] == "POST");
    asks && is_taken()
}

fn say(fake: &Fake, names: &mut Names, event: &Value) {
    // The fake server sends the events about connections itself.
    if event["type"].as_str().is_some_and(|kind| kind.starts_with("server.")) {
        return;
    }
    names.note(event);
    fake.set_busy(names.is_busy);
    fake.say(&names.changed(event));
}

/// The id of the request in an event, if the recording answers it before the turn ends.
fn answered<'a>(event: &'a Value, rest: &[Value]) -> Option<&'a str> {
    if !matches!(event["type"].as_str(), Some("permission.asked" | "question.asked")) {
        return None;
    }
    let (request, session) = (&event["properties"]["id"], &event["properties"]["sessionID"]);
    let in_turn = rest
        .iter()
        .map(|line| &line["d"])
        .take_while(|event| event["type"] != "session.idle" || event["properties"]["sessionID"] != *session);
    let is_answered = in_turn.map(|event| &event["properties"]["requestID"]).any(|it| it == request);
    is_answered.then(|| request.as_str()).flatten()
}

/// The mapping from recorded ids to current ones.
#[derive(Default)]
struct Names {
    session: Option<String>,
    prompts: Vec<String>,
    /// The number of prompts that OpenCode has published.
    heard: usize,
    messages: HashMap<String, String>,
    is_busy: bool,
    said: Heard,
}

impl Names {
    fn session(&mut self, body: &Value) {
        self.session = body["id"].as_str().map(str::to_owned);
    }

    /// Returns true if a call is about the recorded session.
    fn is_known(&self, path: &str) -> bool {
        self.session.as_ref().is_some_and(|session| path.contains(session.as_str()))
    }

    fn note(&mut self, event: &Value) {
        let (kind, properties) = (&event["type"], &event["properties"]);
        let is_own = properties["sessionID"].as_str() == self.session.as_deref();
        if is_own && kind == "session.status" {
            self.is_busy = properties["status"]["type"] != "idle";
        }
        if is_own {
            self.said.count(event);
        }
        let info = &properties["info"];
        let id = info["id"].as_str().unwrap_or_default();
        if kind != "message.updated" || self.messages.contains_key(id) {
            return;
        }
        let is_prompt = is_own && info["role"] == "user" && self.heard < self.prompts.len();
        let now = if is_prompt {
            self.heard += 1;
            self.prompts[self.heard - 1].clone()
        } else {
            format!("{}n{:03}", self.prompts.last().unwrap(), self.messages.len())
        };
        self.messages.insert(id.to_owned(), now);
    }

    fn changed(&self, event: &Value) -> String {
        let mut text = event.to_string();
        if let Some(session) = &self.session {
            text = text.replace(session.as_str(), SESSION);
        }
        for (then, now) in &self.messages {
            text = text.replace(then.as_str(), now);
        }
        text
    }
}
