//! Agents that misbehave. Each turn ends exactly once and before its deadline, with an error that names the cause, and
//! no process is left running.

use std::time::Duration;

use engine::limits::Limits;
use protocol::{EndReason, EventBody, PartBody, ToolState};

use super::harness::{Harness, SimulatedUser, options};
use super::scripts::script;
use crate::roster::External as _;

/// An agent that misbehaves.
struct Case {
    name: &'static str,
    script: &'static str,
    /// The moment at which the user aborts the turn.
    stop: Stop,
    user: SimulatedUser,
    /// The expected ends of the turns.
    ends: &'static [EndReason],
    /// A part of the expected error text.
    says: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Never,
    /// After the first text delta.
    Speaking,
    /// After the first permission request.
    Asking,
    /// After the step has started.
    Starting,
}

const DONE: &[EndReason] = &[EndReason::Completed];
const FAILED: &[EndReason] = &[EndReason::Error];
const STOPPED: &[EndReason] = &[EndReason::Aborted];

const fn case(
    name: &'static str,
    script: &'static str,
    ends: &'static [EndReason],
    says: &'static str,
) -> Case {
    Case { name, script, stop: Stop::Never, user: SimulatedUser::Agrees, ends, says }
}

const fn stopped(name: &'static str, stop: Stop, script: &'static str) -> Case {
    Case { name, script, stop, user: SimulatedUser::Silent, ends: STOPPED, says: "" }
}

const CASES: &[Case] = &[
    // The agent misbehaves before it has opened a session.
    case("exits at once", "exit 0", FAILED, "exited with code 0"),
    case(
        "exits with its reason on stderr",
        "echo no luck today >&2; exit 3",
        FAILED,
        "exited with code 3; it said: no luck today",
    ),
    case("is killed at once", "kill -9 $$", FAILED, "was ended by signal 9"),
    case("never greets", "hang", FAILED, "initialize was not answered within"),
    case("greets with a refusal", "hear; refuse 1 -32603 'not today'; stay", FAILED, "not today"),
    case(
        "speaks a later version",
        r#"hear; answer 1 '{"protocolVersion":2}'; stay"#,
        FAILED,
        "speaks version 2",
    ),
    case(
        "greets with nonsense",
        r#"hear; answer 1 '"hello"'; stay"#,
        FAILED,
        "gave an invalid answer to initialize",
    ),
    case(
        "writes a banner first",
        "echo Welcome to the fake agent; echo; begin; say hi; finish; stay",
        DONE,
        "",
    ),
    case("writes no text first", r"printf '\377\376\n'; begin; say hi; finish; stay", DONE, ""),
    case("exits after its greeting", "greet; exit 4", FAILED, "exited with code 4"),
    case("never opens a session", "greet; hang", FAILED, "session/new was not answered within"),
    case(
        "refuses a session",
        "greet; hear; refuse 2 -32602 'no such directory'; stay",
        FAILED,
        "no such directory",
    ),
    case(
        "wants a login",
        "greet; hear; refuse 2 -32000 'Authentication required'; stay",
        FAILED,
        "needs a login",
    ),
    case("does not name its session", "greet; hear; answer 2 '{}'; stay", FAILED, "without a session id"),
    case(
        "asks for something before there is a session",
        r#"greet; ask a fs/read_text_file '{"path":"README.md"}'; hear; hear; answer 2 '{"sessionId":"s1"}'; hear; finish; stay"#,
        DONE,
        "",
    ),
    // The agent misbehaves while it answers.
    case("exits without a word", "begin; exit 0", FAILED, "exited with code 0"),
    case(
        "exits in the middle of a line",
        r#"begin; printf '{"jsonrpc":"2.0","met'; exit 0"#,
        FAILED,
        "in the middle of a line",
    ),
    case(
        "exits with an error",
        "begin; say hi; echo out of memory >&2; exit 1",
        FAILED,
        "exited with code 1; it said: out of memory",
    ),
    case("is killed while it speaks", "begin; say hi; kill -9 $$", FAILED, "was ended by signal 9"),
    case(
        "is killed with a tool open",
        "begin; tool t1 execute in_progress; kill -9 $$",
        FAILED,
        "was ended by signal 9",
    ),
    case("answers twice", "begin; say hi; finish; finish; stay", DONE, ""),
    case("answers before its tool is over", "begin; tool t1 execute in_progress; finish; stay", DONE, ""),
    case(
        "ends a tool after its answer",
        "begin; tool t1 execute in_progress; finish; tooled t1 completed; stay",
        DONE,
        "",
    ),
    case(
        "ends a tool twice",
        "begin; tool t1 execute in_progress; tooled t1 completed; tooled t1 failed; finish; stay",
        DONE,
        "",
    ),
    case("ends a tool that it never began", "begin; tooled t9 completed; say hi; finish; stay", DONE, ""),
    case("never answers", "begin; hang", FAILED, "sent nothing for"),
    case("hangs while it speaks", "begin; say hi; hang", FAILED, "sent nothing for"),
    case(
        "hangs while it thinks",
        r#"begin; update '{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}'; hang"#,
        FAILED,
        "sent nothing for",
    ),
    case("hangs in a tool", "begin; tool t1 execute in_progress; hang", FAILED, "sent nothing for"),
    case(
        "writes a line of 100 MB",
        "begin; head -c 100000000 /dev/zero | tr '\\0' a; finish; stay",
        FAILED,
        "wrote a line of more than",
    ),
    case("writes what is no text", r"begin; printf '\377\n'; say hi; finish; stay", DONE, ""),
    case("writes what is no JSON", "begin; echo '{oops'; say hi; finish; stay", DONE, ""),
    case(
        "writes JSON that is no message",
        "begin; echo 5; echo '[]'; echo '{}'; echo null; say hi; finish; stay",
        DONE,
        "",
    ),
    case("writes empty lines", "begin; echo; echo; say hi; finish; stay", DONE, ""),
    case(
        "sends unknown updates and notifications",
        r#"begin; update '{"sessionUpdate":"confetti"}'; update '{}'; echo '{"jsonrpc":"2.0","method":"_x/y"}'; say hi; finish; stay"#,
        DONE,
        "",
    ),
    case(
        "calls an unknown method",
        r#"begin; ask a dance/now '{}'; hear; case "$heard" in *-32601*) say refused;; esac; finish; stay"#,
        DONE,
        "",
    ),
    case(
        "asks with nonsense",
        "begin; ask a session/request_permission '5'; hear; ask b fs/write_text_file '{}'; hear; say hi; finish; stay",
        DONE,
        "",
    ),
    case(
        "asks twice with one id",
        r#"begin; ask a fs/read_text_file '{"path":"README.md"}'; ask a fs/read_text_file '{"path":"README.md"}'; hear; finish; stay"#,
        DONE,
        "",
    ),
    case(
        "asks and does not wait",
        r#"begin; ask a fs/read_text_file '{"path":"README.md"}'; finish; stay"#,
        DONE,
        "",
    ),
    case(
        "offers no way to answer",
        r#"begin; ask a session/request_permission '{"sessionId":"s1","toolCall":{"toolCallId":"t1","kind":"execute","title":"make"},"options":[]}'; hear; case "$heard" in *cancelled*) finish;; esac; stay"#,
        DONE,
        "",
    ),
    case(
        "sends updates of another session",
        r#"begin; printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s2","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"not mine"}}}}\n'; finish; stay"#,
        DONE,
        "",
    ),
    case(
        "answers requests that were not sent",
        r#"begin; answer 99 '{}'; answer '"x"' '{}'; say hi; finish; stay"#,
        DONE,
        "",
    ),
    case(
        "refuses to answer",
        "begin; refuse 3 -32603 'the model is on fire'; stay",
        FAILED,
        "the model is on fire",
    ),
    case(
        "gives an unknown reason",
        r#"begin; answer 3 '{"stopReason":"bored"}'; stay"#,
        FAILED,
        "for an unknown reason",
    ),
    case("gives no reason", "begin; answer 3 '{}'; stay", FAILED, "gave an invalid answer to a prompt"),
    case(
        "says it was stopped",
        r#"begin; answer 3 '{"stopReason":"cancelled"}'; stay"#,
        FAILED,
        "was not cancelled",
    ),
    case("floods its errors", "begin; head -c 5000000 /dev/zero >&2; say hi; finish; stay", DONE, ""),
    case("floods its output", "begin; for i in $(seq 3000); do say x; done; finish; stay", DONE, ""),
    case("says nothing at all", "begin; finish; stay", DONE, ""),
    case(
        "leaves a process that holds its pipes",
        "begin; say hi; sleep 600 & echo $! >> .pids; exit 0",
        FAILED,
        "exited with code 0",
    ),
    case(
        "closes its output and lives on",
        "begin; say hi; exec 1>&-; hang",
        FAILED,
        "closed its output and went on running",
    ),
    case(
        "closes both and lives on",
        "begin; exec 0<&- 1>&-; hang",
        FAILED,
        "closed its output and went on running",
    ),
    case(
        "speaks after the end",
        r#"begin; say one; finish; ready; say two; update '{"sessionUpdate":"state_update","state":"idle"}'; stay"#,
        &[EndReason::Completed, EndReason::Completed],
        "",
    ),
    // The user does not answer.
    Case {
        name: "asks a user who does not answer",
        script: r#"begin; ask a session/request_permission '{"sessionId":"s1","toolCall":{"toolCallId":"t1","kind":"execute","title":"make"},"options":[{"optionId":"no","kind":"reject_once"}]}'; hear; tooled t1 failed; finish; stay"#,
        stop: Stop::Never,
        user: SimulatedUser::Silent,
        ends: &[EndReason::Blocked],
        says: "",
    },
    // The user aborts the turn.
    stopped(
        "stops when it is told",
        Stop::Speaking,
        r#"begin; say hi; hear; answer 3 '{"stopReason":"cancelled"}'; stay"#,
    ),
    stopped("stops and says it is done", Stop::Speaking, "begin; say hi; hear; finish; stay"),
    stopped("stops with an error", Stop::Speaking, "begin; say hi; hear; refuse 3 -32603 aborted; stay"),
    stopped(
        "speaks on after it was stopped",
        Stop::Speaking,
        "begin; say hi; hear; finish; say more; say more; stay",
    ),
    stopped("ignores the cancellation", Stop::Speaking, "begin; say hi; hang"),
    stopped("ignores SIGTERM", Stop::Speaking, "trap '' TERM; begin; say hi; hang"),
    stopped(
        "has a child that ignores SIGTERM",
        Stop::Speaking,
        "begin; (trap '' TERM; setsid sleep 600 & echo $! >> .pids; wait) & say hi; wait",
    ),
    stopped("exits when it is told", Stop::Speaking, "begin; say hi; hear; exit 1"),
    stopped("is stopped in a tool", Stop::Speaking, "begin; tool t1 execute in_progress; say hi; hang"),
    stopped("is stopped before it greets", Stop::Starting, "hang"),
    stopped("is stopped before it has a session", Stop::Starting, "greet; hang"),
    stopped(
        "is stopped while it asks",
        Stop::Asking,
        r#"begin; ask a session/request_permission '{"sessionId":"s1","toolCall":{"toolCallId":"t1","kind":"execute","title":"make"},"options":[{"optionId":"no","kind":"reject_once"}]}'; hear; hear; answer 3 '{"stopReason":"cancelled"}'; stay"#,
    ),
];

async fn run(case: &Case) -> Harness {
    let mut options = options(&script(case.script));
    let hangs = case.script.contains("hang");
    if hangs {
        options.agent.timeouts.start = Duration::from_secs(1);
        options.agent.timeouts.silence = Duration::from_secs(2);
    }
    let limits = Limits { request: Duration::from_millis(500), ..Limits::default() };
    let mut harness = Harness::bounded(options, limits).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    if case.stop != Stop::Never {
        harness.until(|body| reached(case.stop, body)).await;
        harness.sessions.abort(&session.id).await.unwrap();
    }
    for _ in case.ends {
        harness.until_idle(&session, case.user).await;
        harness.go();
    }
    assert_eq!(harness.ends(&session), case.ends, "{}: {:?}", case.name, harness.errors());
    let told = harness.errors().join("\n");
    assert!(told.contains(case.says), "{}: {told}", case.name);
    for (tool, state) in harness.tools(&session).await {
        assert!(
            matches!(state, ToolState::Completed(_) | ToolState::Error(_)),
            "{}: {tool} is open",
            case.name
        );
    }
    harness
}

fn reached(stop: Stop, body: &EventBody) -> bool {
    match stop {
        Stop::Never => true,
        Stop::Speaking => matches!(body, EventBody::PartDelta(_)),
        Stop::Asking => matches!(body, EventBody::PermissionAsked(_)),
        Stop::Starting => {
            matches!(body, EventBody::PartUpdated(it) if matches!(it.part.body, PartBody::StepStart(_)))
        }
    }
}

/// Runs the cases, several at once because they mostly wait.
async fn run_all(cases: &[Case]) {
    for cases in cases.chunks(6) {
        for harness in futures::future::join_all(cases.iter().map(run)).await {
            harness.check_all();
            harness.driver.close().await;
            harness.assert_nothing_is_left();
        }
    }
}

#[test]
fn there_are_enough_cases() {
    assert!(CASES.len() >= 60, "{}", CASES.len());
}

#[tokio::test]
async fn an_agent_that_misbehaves_before_its_session_ends_its_turn_once() {
    run_all(&CASES[..15]).await;
}

#[tokio::test]
async fn an_agent_that_misbehaves_while_it_answers_ends_its_turn_once() {
    run_all(&CASES[15..34]).await;
}

#[tokio::test]
async fn an_agent_that_sends_invalid_messages_ends_its_turn_once() {
    run_all(&CASES[34..54]).await;
}

#[tokio::test]
async fn an_agent_that_is_stopped_ends_its_turn_once() {
    run_all(&CASES[54..]).await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let mut harness = Harness::new(options(&["/nonexistent/agent".to_owned()])).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), FAILED);
    assert!(harness.errors()[0].contains("cannot start `/nonexistent/agent`"), "{:?}", harness.errors());
    harness.check_all();
}

#[tokio::test]
async fn an_agent_that_failed_is_started_again_and_remembers() {
    let text = r#"
        if [ -e .again ]; then hear; answer 1 '{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}'
          hear; echo "$heard" > .resumed; answer 2 '{}'; hear; say back; finish; stay
        fi
        touch .again; begin; say hi; exit 1"#;
    let mut harness = Harness::new(options(&script(text))).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    harness.submit(&session, "again").await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Error, EndReason::Completed]);
    let asked = std::fs::read_to_string(harness.project.path().join(".resumed")).unwrap();
    assert!(asked.contains("session/resume") && asked.contains("\"s1\""), "{asked}");
    harness.check_all();
    harness.driver.close().await;
    harness.assert_nothing_is_left();
}
