//! Servers that misbehave in ways that only OpenCode's interface allows; `roster::tests::misbehaviour` has the others. Each
//! turn ends exactly once, with an error that names the cause.

use std::sync::Arc;

use client::check::{Checker, End};
use futures::future::join_all;
use protocol::{EndReason, EventBody, Message, PartBody, ToolState};
use serde_json::json;

use super::fake::{Act, Fake, SESSION};
use super::script::*;
use crate::external::harness::{Harness, SimulatedUser};

/// The script of a server and the expected outcome.
struct Case {
    name: &'static str,
    script: Vec<Act>,
    end: EndReason,
    /// A part of the expected error.
    error: &'static str,
    /// The expected text of the last answer.
    words: &'static str,
    /// The user aborts the turn once it is busy.
    abort: bool,
}

fn case(name: &'static str, end: EndReason, script: Vec<Vec<Act>>) -> Case {
    Case { name, script: script.into_iter().flatten().collect(), end, error: "", words: "", abort: false }
}

impl Case {
    fn error(mut self, error: &'static str) -> Self {
        self.error = error;
        self
    }

    fn words(mut self, words: &'static str) -> Self {
        self.words = words;
        self
    }

    fn aborted(mut self) -> Self {
        self.abort = true;
        self
    }

    /// Returns true if the turn ends with the timeout of a call. Other cases have long timeouts, which no load of the
    /// machine exceeds.
    fn runs_into_a_timeout(&self) -> bool {
        self.error.ends_with("within 2s")
    }
}

fn cases() -> Vec<Case> {
    use EndReason::{Aborted, Blocked, Completed, Error};
    let messages = |parts: serde_json::Value, more: serde_json::Value| {
        Act::Messages(json!([{ "info": info("$A", more), "parts": parts }]))
    };
    let done = || json!({ "finish": "stop", "time": { "created": 1, "completed": 2 } });
    vec![
        // Correct behaviour.
        case("an answer", Completed, vec![start(), answer("$A", "Hello"), idle()]).words("Hello"),
        case("two steps", Completed, vec![start(), vec![opened("$A"), tool("$A", "pending"), tool("$A", "running"), tool("$A", "completed"), closed("$A", "tool-calls"), busy()], answer("$B", "Done"), idle()]).words("Done"),
        // Idle that is not the end.
        case("an idle of the turn before", Completed, vec![vec![Act::Prompted], idle(), vec![user()], vec![busy()], answer("$A", "Hello"), idle()]).words("Hello"),
        case("idle between a prompt and its busy", Completed, vec![vec![Act::Statuses(json!({ SESSION: { "type": "busy" } })), Act::Prompted, user()], idle(), vec![busy()], answer("$A", "Hello"), idle()]).words("Hello"),
        case("idle before the message is closed", Completed, vec![start(), vec![opened("$A"), text("$A", "prt_1", "", true), delta("$A", "prt_1", "Hello")], idle(), vec![closed("$A", "stop")]]).words("Hello"),
        case("idle and never a closed message", Completed, vec![start(), vec![opened("$A"), text("$A", "prt_1", "Hello", false)], idle()]).words("Hello"),
        case("only the old idle event", Completed, vec![start(), answer("$A", "Hello"), vec![event("session.idle", json!({}))]]).words("Hello"),
        case("only the new idle event", Completed, vec![start(), answer("$A", "Hello"), vec![status("idle")]]).words("Hello"),
        case("idle is never said", Completed, vec![start(), answer("$A", "Hello")]).words("Hello"),
        case("idle of another session", Completed, vec![start(), vec![event("session.idle", json!({ "sessionID": "ses_other" }))], answer("$A", "Hello"), idle()]).words("Hello"),
        case("busy without end", Completed, vec![start(), vec![busy(); 50], answer("$A", "Hello"), vec![busy(); 50], idle()]).words("Hello"),
        case("events after the end", Completed, vec![start(), answer("$A", "Hello"), idle(), answer("$B", "More"), idle()]).words("Hello"),
        case("no busy at all", Completed, vec![vec![Act::Prompted, user()], answer("$A", "Hello"), idle()]).words("Hello"),
        // Failures.
        case("an error with two idles", Error, vec![start(), vec![opened("$A"), error("APIError")], idle(), vec![failed("$A", "APIError")], idle()]).error("it went wrong"),
        case("an error and nothing else", Error, vec![vec![Act::Prompted, error("UnknownError"), error("UnknownError")]]).error("it went wrong"),
        case("an error before any message", Error, vec![start(), vec![error("UnknownError")], idle()]).error("it went wrong"),
        case("a message that failed", Error, vec![start(), vec![opened("$A"), failed("$A", "ProviderAuthError")], idle()]).error(""),
        case("an error that was overcome", Completed, vec![start(), vec![opened("$A"), error("ContextOverflowError"), closed("$A", "unknown"), busy()], answer("$B", "Hello"), idle()]).words("Hello"),
        case("an unknown error", Error, vec![start(), vec![opened("$A"), error("NewError")], idle()]),
        case("a content filter", Completed, vec![start(), vec![opened("$A"), event("message.updated", json!({ "info": info("$A", json!({ "finish": "content-filter", "error": { "name": "ContentFilterError", "data": { "message": "withheld" } }, "time": { "created": 1, "completed": 2 } })) }))], idle()]),
        case("aborted by another client", Error, vec![start(), vec![opened("$A"), error("MessageAbortedError")], idle(), vec![failed("$A", "MessageAbortedError")], idle()]).error("aborted the turn at the OpenCode server"),
        case("the session is deleted there", Error, vec![start(), vec![opened("$A"), event("session.deleted", json!({ "info": { "id": SESSION, "slug": "s", "projectID": "g", "directory": "/", "title": "t", "version": "1", "time": { "created": 1, "updated": 1 } } }))]]).error("deleted"),
        case("the prompt is refused", Error, vec![vec![Act::Answer("prompt_async", 400, "{\"name\":\"BadRequest\",\"data\":{\"message\":\"no such model\"}}")]]).error("did not accept the prompt"),
        case("the prompt is answered with a page", Error, vec![vec![Act::Answer("prompt_async", 500, "<html>")]]).error("did not accept the prompt"),
        case("the session is no session", Error, vec![vec![Act::Answer("POST /session", 200, "[1]")]]).error("cannot create a session"),
        case("there is no event stream", Error, vec![vec![Act::Answer("GET /event", 404, "{}")]]).error("cannot open the event stream"),
        case("the event stream is a page", Error, vec![vec![Act::Answer("GET /event", 200, "<html>")]]).error("cannot open the event stream"),
        case("every call is unauthorized", Error, vec![vec![Act::Answer("", 401, "{\"name\":\"Unauthorized\",\"data\":{}}")]]).error("401"),
        case("the event stream never opens", Error, vec![vec![Act::Hang("GET /event")]]).error("event stream of OpenCode did not open within 2s"),
        case("the session is never begun", Error, vec![vec![Act::Hang("POST /session")]]).error("did not open the session within 2s"),
        case("the prompt is never answered", Error, vec![vec![Act::Hang("prompt_async")]]).error("did not accept the prompt within 2s"),
        case("the prompt is never taken up", Error, vec![vec![Act::Prompted, Act::Cut]]).error("did not begin to work on the prompt"),
        // Streams.
        case("unknown events", Completed, vec![start(), vec![event("thing.happened", json!({ "much": [1, 2] })), event("message.part.updated", json!({ "part": 7 }))], answer("$A", "Hello"), idle()]).words("Hello"),
        case("the connection breaks after the end", Completed, vec![start(), vec![opened("$A"), messages(json!([text_part("$A", "prt_1", "Hello", false)]), done()), Act::Cut]]).words("Hello"),
        case("the connection breaks in the middle of a line", Completed, vec![start(), vec![opened("$A"), Act::Raw(b"data: {\"type\":\"message.part.upd".to_vec()), messages(json!([text_part("$A", "prt_1", "Hello", false)]), done()), Act::Cut]]).words("Hello"),
        case("the connection breaks in a text", Completed, vec![start(), vec![opened("$A"), text("$A", "prt_1", "", true), delta("$A", "prt_1", "He"), messages(json!([text_part("$A", "prt_1", "", true)]), json!({})), Act::Statuses(json!({ SESSION: { "type": "busy" } })), Act::Cut, Act::Called("GET /session/status", 1), Act::Called("GET /event", 2)], vec![text("$A", "prt_1", "Hello", false), closed("$A", "stop")], idle()]).words("Hello"),
        case("the connection breaks again and again", Completed, vec![start(), vec![Act::Statuses(json!({ SESSION: { "type": "busy" } })), Act::Cut, Act::Called("GET /session/status", 1), Act::Cut, Act::Called("GET /session/status", 2), Act::Cut, Act::Called("GET /session/status", 3)], answer("$A", "Hello"), idle()]).words("Hello"),
        case("the state cannot be read after a break", Completed, vec![start(), vec![Act::Statuses(json!({ SESSION: { "type": "busy" } })), Act::Answer("/message null", 500, "{}"), Act::Cut, Act::Called("/message", 1), Act::Called("GET /session/status", 1)], answer("$A", "Hello"), idle()]).words("Hello"),
        // Parts.
        case("a text twice", Completed, vec![start(), vec![opened("$A"), text("$A", "prt_1", "", true), delta("$A", "prt_1", "Hello"), text("$A", "prt_1", "Hello", false), text("$A", "prt_1", "Hello", false), closed("$A", "stop"), closed("$A", "stop")], idle()]).words("Hello"),
        case("a text without deltas", Completed, vec![start(), vec![opened("$A"), text("$A", "prt_1", "Hello", false), closed("$A", "stop")], idle()]).words("Hello"),
        case("deltas without a text", Completed, vec![start(), vec![opened("$A"), delta("$A", "prt_1", "Hello"), text("$A", "prt_1", "Hello", false), closed("$A", "stop")], idle()]).words("Hello"),
        case("a text shorter than its deltas", Completed, vec![start(), vec![opened("$A"), text("$A", "prt_1", "", true), delta("$A", "prt_1", "Hello"), text("$A", "prt_1", "Hé", false), closed("$A", "stop")], idle()]).words("Hello"),
        case("parts of an unknown message", Completed, vec![start(), vec![text("$E", "prt_9", "Lost", false)], answer("$A", "Hello"), idle()]).words("Hello"),
        case("a message of an older turn", Completed, vec![start(), vec![opened("msg_0"), failed("msg_0", "APIError")], answer("$A", "Hello"), idle()]).words("Hello"),
        case("a tool result before its call", Completed, vec![start(), vec![opened("$A"), tool("$A", "completed"), tool("$A", "running"), tool("$A", "pending"), closed("$A", "tool-calls")], answer("$B", "Hello"), idle()]).words("Hello"),
        case("a tool that is never closed", Completed, vec![start(), vec![opened("$A"), tool("$A", "running"), closed("$A", "stop")], idle()]),
        case("a message that is never closed", Completed, vec![start(), vec![opened("$A"), tool("$A", "running"), busy()], answer("$B", "Hello"), idle()]).words("Hello"),
        // Retries.
        case("a retry takes back what was said", Completed, vec![start(), vec![opened("$A"), text("$A", "prt_0", "", true), delta("$A", "prt_0", "Bad"), retry(1), busy()], answer("$A", "Hello"), idle()]).words("Hello"),
        case("retries and an error", Error, vec![start(), vec![opened("$A"), retry(1), busy(), retry(2), busy(), error("APIError")], idle(), vec![failed("$A", "APIError")], idle()]).error("it went wrong"),
        case("idle in a retry", Completed, vec![start(), vec![opened("$A"), retry(1), closed("$A", "unknown")], idle()]),
        // Requests.
        case("a permission", Completed, vec![start(), vec![opened("$A"), tool("$A", "running"), permission("per_1"), Act::Called("/permission/per_1/reply {\"reply\":\"once\"}", 1), tool("$A", "completed"), closed("$A", "tool-calls")], answer("$B", "Hello"), idle()]).words("Hello"),
        case("a permission asked twice", Completed, vec![start(), vec![opened("$A"), permission("per_1"), permission("per_1"), Act::Called("/permission/per_1/reply", 1), closed("$A", "tool-calls")], answer("$B", "Hello"), idle()]).words("Hello"),
        case("a permission whose answer is not accepted", Completed, vec![start(), vec![Act::Answer("/reply", 500, "{}"), Act::Statuses(json!({ SESSION: { "type": "busy" } })), opened("$A"), permission("per_1"), Act::Called("/reply", 1), Act::Called("GET /session/status", 1), closed("$A", "stop")], idle()]),
        case("a permission that is gone", Completed, vec![start(), vec![Act::Answer("/reply", 404, "{}"), opened("$A"), permission("per_1"), Act::Called("/reply", 1), closed("$A", "stop")], idle()]),
        case("a question", Completed, vec![start(), vec![opened("$A"), question("que_1"), Act::Called("/question/que_1/reply {\"answers\":[[\"that\"]]}", 1), closed("$A", "tool-calls")], answer("$B", "Hello"), idle()]).words("Hello"),
        case("an end with a permission open", Completed, vec![start(), vec![Act::Hang("/reply"), opened("$A"), permission("per_1"), Act::Called("/reply", 1), closed("$A", "stop")], idle()]),
        case("an abort while an answer is on its way", Aborted, vec![vec![Act::Hang("/reply")], start(), vec![opened("$A"), permission("per_1")]]).aborted(),
        // Aborts.
        case("an abort", Aborted, vec![start(), vec![opened("$A"), Act::Called("/abort", 1), error("MessageAbortedError")], idle(), vec![failed("$A", "MessageAbortedError")], idle()]).aborted(),
        case("an abort that is never answered", Aborted, vec![vec![Act::Hang("/abort")], start(), vec![opened("$A")]]).aborted(),
        case("an abort that is refused", Aborted, vec![vec![Act::Answer("/abort", 500, "{}")], start(), vec![opened("$A")]]).aborted(),
        case("an abort while the session is begun", Aborted, vec![vec![Act::Hang("POST /session")]]).aborted(),
        case("an abort while the event stream opens", Aborted, vec![vec![Act::Hang("GET /event")]]).aborted(),
        case("an abort while the prompt is sent", Aborted, vec![vec![Act::Hang("prompt_async")]]).aborted(),
        case("a refused permission ends it", Blocked, vec![start(), vec![opened("$A"), tool("$A", "running"), permission("per_refuse"), Act::Called("/permission/per_refuse/reply {\"reply\":\"reject\"}", 1), tool("$A", "error"), closed("$A", "tool-calls")], idle()]),
    ]
}

#[tokio::test]
async fn every_turn_ends_once_with_its_cause() {
    let cases = cases();
    assert!(cases.len() >= 40, "{}", cases.len());
    join_all(cases.into_iter().map(play)).await;
}

async fn play(case: Case) {
    let name = case.name;
    let fake = Fake::new().await;
    let runner = Arc::new(if case.runs_into_a_timeout() { fake.hasty_runner() } else { fake.runner() });
    let mut harness = Harness::around(runner).await;
    let refuses = case
        .script
        .iter()
        .any(|act| matches!(act, Act::Say(event) if event.to_string().contains("per_refuse")));
    let user = if refuses { SimulatedUser::Refuses } else { SimulatedUser::Agrees };
    let session = harness.session().await;
    // Apply the part of the script before the first prompt before the runner makes any call.
    let first = case.script.iter().position(|act| matches!(act, Act::Prompted)).unwrap_or(case.script.len());
    let (setup, script) = case.script.split_at(first);
    fake.play(setup.to_vec()).await;
    harness.submit(&session, "please").await;
    let abort = async {
        if case.abort {
            harness.until(|body| matches!(body, EventBody::SessionStatus(_))).await;
            if script.is_empty() {
                // Abort while the call that hangs is open.
                fake.called("", setup.len().min(1)).await;
            } else {
                harness.until(|body| matches!(body, EventBody::MessageUpdated(it) if matches!(it.info, Message::Assistant(_)))).await;
            }
            harness.sessions.abort(&session.id).await.unwrap();
        }
        harness.until_idle(&session, user).await
    };
    let playing = fake.play(script.to_vec());
    let end = tokio::select! {
        end = abort => end,
        () = async { playing.await; std::future::pending().await } => unreachable!(),
    };
    assert_eq!(end, case.end, "{name}: {:?}", harness.seen.last());
    judge(&harness, &case, &session).await;
}

async fn judge(harness: &Harness, case: &Case, session: &protocol::Session) {
    let name = case.name;
    let mut checker = Checker::new();
    for event in &harness.seen {
        checker.observe(None, event);
    }
    let report = checker.finish(End::Complete);
    assert!(report.violations().next().is_none(), "{name}: {report:?}");
    let (mut words, mut errors) = (String::new(), String::new());
    for message in harness.messages(session).await {
        if let Message::Assistant(step) = &message.info {
            assert!(step.time.completed.is_some(), "{name}: a message is open");
            errors += &serde_json::to_string(&step.error).unwrap();
        }
        for part in message.parts {
            assert!(!part.is_open(), "{name}: {part:?} is open");
            match &part.body {
                PartBody::Text(text) if text.time.is_some() => words += &text.text,
                PartBody::Tool(tool) => {
                    assert!(matches!(tool.state, ToolState::Completed(_) | ToolState::Error(_)), "{name}");
                }
                _ => {}
            }
        }
    }
    errors += &harness
        .seen
        .iter()
        .filter(|event| matches!(event.body, EventBody::SessionError(_)))
        .map(|event| serde_json::to_string(event).unwrap())
        .collect::<String>();
    assert_eq!(words, case.words, "{name}");
    assert!(errors.contains(case.error), "{name}: {errors}");
}
