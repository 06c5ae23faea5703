//! The texts as users read them.

use std::time::Duration;

use client::streaming::{Ending, PromptResult};
use protocol::{
    EndReason, MessageError,
    continuation::StopReason,
    event::ContinuationStopped,
    request::{PermissionRequest, QuestionRequest},
};
use serde_json::{Value, json};

use super::*;

fn question_of(questions: &Value) -> QuestionRequest {
    serde_json::from_value(json!({ "id": "que_1", "sessionID": "ses_1", "questions": questions })).unwrap()
}

fn permission_of(metadata: &Value, patterns: &[&str]) -> PermissionRequest {
    serde_json::from_value(json!({
        "id": "per_1", "sessionID": "ses_1", "permission": "bash", "patterns": patterns, "metadata": metadata,
        "always": ["git *"],
    }))
    .unwrap()
}

#[test]
fn a_question_reads_like_this() {
    let request = question_of(&json!([
        {
            "question": "Which database?", "header": "Database", "multiple": true,
            "options": [
                { "label": "SQLite", "description": "one file" },
                { "label": "Postgres", "description": "" },
            ],
        },
        { "question": "What is it called?", "header": "", "options": [] },
    ]));
    insta::assert_snapshot!(question(&request, 0, Some("Set up storage"), true), @r"
    ❓ **Database** (1 of 2)
    Which database?
    asked by the subagent “Set up storage”

    1. SQLite – one file
    2. Postgres

    Choose, or write a number or your own answer. Several are possible: separate them with commas. /skip dismisses it.
    ");
    insta::assert_snapshot!(question(&request, 1, None, false), @r"
    ❓ (2 of 2)
    What is it called?

    Write your answer. /skip dismisses it.
    ");
}

#[test]
fn a_permission_shows_target_directory_and_subagent() {
    let request = permission_of(&json!({ "command": "git push\n--force" }), &["git push *"]);
    insta::assert_snapshot!(permission(&request, Some("/home/ada/project"), Some("Release"), true), @r"
    🔐 **The agent wants to run a command:**
    ```
    git push
    --force
    ```
    in `/home/ada/project`
    asked by the subagent “Release”
    “Always” would allow `git *` from now on.

    Choose, or write 1 (once), 2 (always) or 3 (deny). Other words deny it and tell the agent why.
    ");
    let request = permission_of(&json!({}), &["src/`odd`.rs"]);
    assert!(permission(&request, None, None, false).contains("\n`` src/`odd`.rs ``\n"));
    let long = permission_of(&json!({ "command": "x".repeat(5_000) }), &[]);
    assert!(permission(&long, None, None, false).chars().count() < 1_000);
}

#[test]
fn the_outcome_of_a_request_is_short() {
    let request = permission_of(&json!({ "command": "git push" }), &[]);
    let said = Decision::Answered { by: "Ada", answer: "allowed once" };
    assert_eq!(permission_outcome(&request, said), "🔐 bash `git push`: allowed once (Ada).");
    assert_eq!(
        permission_outcome(&request, Decision::Elsewhere),
        "🔐 bash `git push`: no longer needs an answer."
    );
    let request = question_of(&json!([{ "question": "Which?", "header": "", "options": [] }]));
    let said = Decision::Answered { by: "Ada", answer: "Blue" };
    assert_eq!(question_outcome(&request, 0, said), "❓ Which?\n✅ Blue (Ada)");
}

#[test]
fn every_ending_has_its_words() {
    let error = |error: Value| Ending::Failed(serde_json::from_value::<MessageError>(error).unwrap());
    let overflow = json!({ "name": "ContextOverflowError", "data": { "message": "too long" } });
    let key = json!({ "name": "ProviderAuthError", "data": { "providerID": "demo", "message": "No key." } });
    let unknown = json!({ "name": "UnknownError", "data": { "message": "" } });
    let endings = [
        Ending::Complete,
        Ending::Ended(EndReason::Aborted),
        Ending::Ended(EndReason::Blocked),
        Ending::Ended(EndReason::Budget),
        Ending::Ended(EndReason::Interrupted),
        Ending::Ended(EndReason::Error),
        error(overflow),
        error(key),
        error(unknown),
        Ending::TimedOut,
        Ending::Lost("reset".to_owned()),
    ];
    let timeout = Duration::from_mins(5);
    let ended = |text: &str, ending| PromptResult {
        text: text.to_owned(),
        steps: 1,
        ending,
        is_cut_off: false,
        left: None,
    };
    let lines = endings.map(|ending| outcome(&ended(" ", ending), timeout));
    insta::assert_snapshot!(lines.join("\n"), @r"
    (empty response)
    Stopped.
    Stopped, because a request was refused or skipped.
    Stopped, because the budget is used up.
    The server stopped before the answer was complete. Send the message again if you still need it.
    Something went wrong; the server gave no reason.
    The conversation no longer fits into the model. /new begins a new one.
    The provider demo does not accept the server's key. No key.
    Something went wrong; the server gave no reason.
    Stopped, because nothing happened for 5 min.
    I lost the connection to the server before the answer was complete. The agent may still work; /last shows the answer when it is there.
    ");
    let half = ended("Half.", Ending::Ended(EndReason::Aborted));
    assert_eq!(outcome(&half, timeout), "Half.\n\nStopped.");
    let unfinished = |rounds, limit, open| {
        let session = "ses_1".parse().unwrap();
        let stopped = ContinuationStopped::new(session, StopReason::Stagnant, rounds, limit, open);
        outcome(&PromptResult { left: Some(stopped), ..ended("Half.", Ending::Complete) }, timeout)
    };
    assert_eq!(
        unfinished(3, Some(10), Some(2)),
        "Half.\n\n📋 2 todos are still open. The agent stopped after round 3 of 10 because it made no progress."
    );
    assert_eq!(
        unfinished(0, None, None),
        "Half.\n\n📋 Some todos are still open. The agent stopped because it made no progress."
    );
    let cut_off = PromptResult { is_cut_off: true, ..ended("In the mid", Ending::Complete) };
    assert_eq!(
        outcome(&cut_off, timeout),
        "In the mid\n\n(The answer was cut off: the model's output limit was reached. Write “go on”.)"
    );
}

#[test]
fn times_sizes_and_excerpts_are_readable() {
    let times = [5, 65, 3_700, 200_000].map(|seconds| lasting(Duration::from_secs(seconds)));
    assert_eq!(times, ["5 s", "1 min", "1 h 1 min", "2 days"]);
    assert_eq!([12, 4_096, 20_000_000].map(size), ["12 bytes", "4 kB", "20.0 MB"]);
    assert_eq!(excerpt("a\n b   c", 10), "a b c");
    assert_eq!(excerpt("äöü äöü äöü", 8), "äöü äöü…");
}

#[test]
fn the_help_fits_into_a_message() {
    assert!(help().encode_utf16().count() < 1_024);
}

#[test]
fn a_misspelt_command_is_recognised() {
    assert_eq!(unknown_command("canel"), "There is no command /canel. Did you mean /cancel?");
    assert_eq!(unknown_command("dance"), "There is no command /dance. /help lists them.");
}

#[test]
fn a_retry_without_a_wait_is_now() {
    let text = retry(Duration::ZERO, 4, "the connection was lost.");
    assert_eq!(text, "🔁 The connection was lost. Trying again now (attempt 4)");
}
