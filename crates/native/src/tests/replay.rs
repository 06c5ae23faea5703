//! Replays recordings of OpenCode with the native loop: it publishes the same events in the same order, except for
//! the differences that are listed here with their reasons.
//!
//! The model does what the recording's model did: it follows the demo's scenario of the same name, or the script in
//! `scripts.json` where the demo's differs. `docs/replay.md` shows the result; `UPDATE=1` rewrites it.

mod order;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use llm::demo::Scenarios;
use protocol::message::ModelRef;
use protocol::prompt::{Delivery, PromptInput};
use protocol::{EventBody, PartBody, Session, ToolState};
use serde_json::Value;

use super::harness::{Harness, Responder};
use crate::Options;
use order::{changes, sessions};

/// Text that goes on until the turn is aborted.
const ENDLESS: &str = "slow:10000@20";

/// The reasons for differences. Each scenario names its reasons by their letters.
const REASONS: [(char, &str); 11] = [
    (
        'a',
        "A text ends before the call that follows it. OpenCode does the same with Anthropic's dialect; with \
         OpenAI's it ends the text late.",
    ),
    ('b', "A step begins when Baton calls the model; OpenCode's begins with the model's first event."),
    (
        'c',
        "A message is closed before idle, and idle comes once. OpenCode publishes idle twice, the first time \
         too early.",
    ),
    (
        'd',
        "Baton withdraws the output of a failed attempt before the next one; OpenCode keeps it and begins the \
         step again.",
    ),
    ('e', "Baton asks about the third identical call of a turn; OpenCode counts only within one step."),
    (
        'f',
        "Baton runs calls after the model has finished, and those that change something one after the other. \
         OpenCode runs them while the model is still writing.",
    ),
    (
        'g',
        "When a turn ends, Baton withdraws its open permission requests and marks its running commands as \
         failed. OpenCode leaves the request open and marks the command as completed.",
    ),
    ('h', "An abort of an idle session publishes nothing."),
    ('i', "Baton answers each queued prompt by itself; OpenCode answers two queued prompts in one step."),
    ('j', "Baton ends a session's turn before it deletes the session."),
    ('k', "A permission request or question comes after its call is shown as running."),
];

/// The scenarios, their numbers of turns, and the reasons for their differences.
const SCENARIOS: [(&str, usize, &str); 38] = [
    ("simple", 1, ""),
    ("reasoning", 1, ""),
    ("read_edit", 1, "a"),
    ("parallel_tools", 1, "af"),
    ("retry_429", 1, "b"),
    ("overloaded_529", 1, "b"),
    ("error_400", 1, "bc"),
    ("error_401", 1, "bc"),
    ("error_500_forever", 1, "bc"),
    ("length", 1, ""),
    ("content_filter", 1, ""),
    ("empty", 1, ""),
    ("todo", 1, "af"),
    ("subagent", 1, "a"),
    ("subagent_permission", 1, "a"),
    ("question", 1, "ak"),
    ("permission", 1, "a"),
    ("permission_two", 1, "af"),
    ("midstream_drop", 1, "d"),
    ("midstream_error", 1, "d"),
    ("bad_tool", 1, "a"),
    ("bad_args", 1, "a"),
    ("tool_error", 1, "a"),
    ("doom_loop", 1, "e"),
    ("doom_parallel", 1, "f"),
    ("context_overflow", 1, "a"),
    ("context_overflow_400", 1, "b"),
    ("blocking_message", 1, "a"),
    ("abort", 2, "ch"),
    ("abort_tool", 2, "acgh"),
    ("abort_permission", 1, "acg"),
    ("abort_queue", 1, "c"),
    ("perm_deny", 1, "a"),
    ("perm_always", 1, "a"),
    ("question_reject", 1, "ak"),
    ("queue", 1, "i"),
    ("multi_turn", 3, ""),
    ("delete_busy", 1, "cj"),
];

/// Scenarios in which a process runs. In the others the clock is paused, so that retries take no time.
const WITH_PROCESSES: [&str; 8] = [
    "parallel_tools",
    "permission",
    "permission_two",
    "subagent_permission",
    "perm_deny",
    "perm_always",
    "abort_tool",
    "abort_permission",
];

#[test]
fn turns_match_opencode_except_for_differences_with_reasons() {
    let mut page = head();
    for (name, turns, reasons) in SCENARIOS {
        let recorded = sessions(&recording(name));
        let replayed = sessions(&replay(name));
        let idles = replayed[0].iter().filter(|word| *word == "session.idle").count();
        assert_eq!(idles, turns, "{name} is idle once for each turn: {:?}", replayed[0]);
        assert_eq!(recorded.len(), replayed.len(), "{name} has as many children");
        let differences: Vec<String> =
            recorded.iter().zip(&replayed).map(|(old, new)| changes(old, new)).collect();
        let differences = differences.join(" ").trim().to_owned();
        assert_eq!(
            differences.is_empty(),
            reasons.is_empty(),
            "{name}: a difference needs a reason, and a reason a difference: {differences}"
        );
        writeln!(page, "| `{name}` | {differences} | {reasons} |").unwrap();
    }
    let used = |letter: char| SCENARIOS.iter().any(|(_, _, reasons)| reasons.contains(letter));
    assert!(REASONS.iter().all(|(letter, _)| used(*letter)), "a reason without a scenario");
    assert_page(&page);
}

fn head() -> String {
    let mut page = "\
# The order of events, compared with OpenCode's

Each scenario was recorded with OpenCode 1.18.33 (`crates/protocol/tests/fixtures/opencode`), and a test replays it with a
model that does the same. Both streams are reduced to the same words: the kind of an event, the type of a part and its
state, the finish reason. The table shows the differences, session by session: words that only OpenCode's order has with
`-`, words that only Baton's has with `+`. A word that moved has both. Baton publishes idle exactly once for each turn.

Left out on both sides: `session.updated`, `session.diff` and later updates of a prompt, whose timing varies; repeated
busy events; progress of running calls; the number of deltas of a text; `patch` parts; events that do not belong to a
session; and the events that only Baton has (`prompt.*`).

The test `turns_match_opencode_except_for_differences_with_reasons` of `native` compares this page; with `UPDATE=1` it
writes the page.

| letter | reason |
|---|---|
"
    .to_owned();
    for (letter, reason) in REASONS {
        writeln!(page, "| {letter} | {reason} |").unwrap();
    }
    page + "\n| scenario | differences | reasons |\n|---|---|---|\n"
}

fn assert_page(page: &str) {
    let path = repository().join("docs/replay.md");
    #[expect(clippy::disallowed_methods, reason = "a developer sets it to rewrite the page")]
    let update = std::env::var_os("UPDATE").is_some();
    if update {
        std::fs::write(&path, page).unwrap();
    }
    let shown = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(shown, page, "docs/replay.md is out of date: UPDATE=1");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the events that OpenCode published.
fn recording(name: &str) -> Vec<Value> {
    let path = repository().join(format!("crates/protocol/tests/fixtures/opencode/{name}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["k"] == "event").map(|mut line| line["d"].take()).collect()
}

/// Returns the events that Baton publishes.
fn replay(name: &str) -> Vec<Value> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(!WITH_PROCESSES.contains(&name));
    builder.build().unwrap().block_on(async {
        let mut scenarios = Scenarios::built_in().unwrap();
        scenarios.extend(Scenarios::parse(include_str!("replay/scripts.json")).unwrap());
        let mut harness = Harness::with_scenarios(scenarios, Options::default()).await;
        let session = harness.session().await;
        act(name, &mut harness, &session).await;
        harness.seen.iter().map(|event| serde_json::to_value(event).unwrap()).collect()
    })
}

async fn act(name: &str, harness: &mut Harness, session: &Session) {
    match name {
        "perm_deny" => prompt(harness, session, "permission", Responder::Reject).await,
        "perm_always" => prompt(harness, session, "permission", Responder::AllowAlways).await,
        "question_reject" => prompt(harness, session, "question", Responder::Reject).await,
        "blocking_message" => prompt(harness, session, "read_edit", Responder::AllowOnce).await,
        "multi_turn" => {
            for _ in 0..3 {
                prompt(harness, session, "simple", Responder::AllowOnce).await;
            }
        }
        "abort" => {
            abort(harness, session, ENDLESS, |body| matches!(body, EventBody::PartDelta(_))).await;
            harness.sessions.abort(&session.id).await.unwrap();
            prompt(harness, session, "simple", Responder::AllowOnce).await;
        }
        "abort_tool" => {
            abort(harness, session, "long_tool", runs).await;
            harness.sessions.abort(&session.id).await.unwrap();
            prompt(harness, session, "simple", Responder::AllowOnce).await;
        }
        "abort_permission" => {
            abort(harness, session, "permission", |body| matches!(body, EventBody::PermissionAsked(_))).await;
        }
        "abort_queue" => {
            harness.submit(session, ENDLESS, "one").await;
            harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
            queue(harness, session, "two").await;
            harness.sessions.abort(&session.id).await.unwrap();
            harness.until_idle(session, Responder::AllowOnce).await;
        }
        "queue" => {
            harness.submit(session, "slow:150@20", "one").await;
            harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
            queue(harness, session, "two").await;
            queue(harness, session, "three").await;
            harness.until_idle(session, Responder::AllowOnce).await;
        }
        "delete_busy" => {
            harness.submit(session, ENDLESS, "one").await;
            harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
            harness.sessions.delete(&session.id).await.unwrap();
            harness.until(|body| matches!(body, EventBody::SessionDeleted(_))).await;
        }
        _ => prompt(harness, session, name, Responder::AllowOnce).await,
    }
}

async fn prompt(harness: &mut Harness, session: &Session, model: &str, responder: Responder) {
    harness.submit(session, model, "please").await;
    harness.until_idle(session, responder).await;
}

async fn queue(harness: &Harness, session: &Session, text: &str) {
    let model = Some(ModelRef::new("demo", "simple"));
    let input = PromptInput { model, delivery: Some(Delivery::Queue), ..PromptInput::text(text) };
    harness.sessions.submit(&session.id, input).await.unwrap();
}

async fn abort(harness: &mut Harness, session: &Session, model: &str, moment: impl Fn(&EventBody) -> bool) {
    harness.submit(session, model, "please").await;
    harness.until(moment).await;
    harness.sessions.abort(&session.id).await.unwrap();
    harness.until_idle(session, Responder::AllowOnce).await;
}

fn runs(body: &EventBody) -> bool {
    let EventBody::PartUpdated(it) = body else { return false };
    matches!(&it.part.body, PartBody::Tool(tool) if matches!(tool.state, ToolState::Running(_)))
}
