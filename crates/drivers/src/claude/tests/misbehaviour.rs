//! Programs that misbehave. Each case ends in one terminal state, with an error that names the cause, and leaves no
//! process behind.

use protocol::EndReason::{self, Aborted, Blocked, Budget, Completed, Error};
use protocol::{EventBody, PartBody};

use super::*;
use crate::external::harness::SimulatedUser;

/// A name, the script, the expected end of the turn, and a part of the expected error.
type Case = (&'static str, &'static str, EndReason, &'static str);

/// Runs one case. `options` shortens the timeout that the case expects to expire.
async fn play(case: Case, options: impl FnOnce(Options) -> Options, limits: Limits, user: SimulatedUser) {
    let (name, acts, end, says) = case;
    let fake = script(acts);
    let (mut harness, runner) = harness(options(claude(&fake, patient())), limits).await;
    let session = harness.session().await;
    assert_eq!(
        harness.turn(&session, "please", user).await,
        end,
        "{name}: {}",
        harness.error(&session).await
    );
    let error = harness.error(&session).await;
    assert!(error.contains(says), "{name}: {error:?} does not say {says:?}");
    assert_eq!(harness.check(&session.id), 1, "{name}");
    for part in harness.messages(&session).await.iter().flat_map(|message| &message.parts) {
        assert!(!part.is_open(), "{name}: {part:?}");
    }
    runner.close().await;
    fake.assert_gone();
}

async fn play_all(cases: &[Case]) {
    for case in cases {
        play(*case, |options| options, unhurried(), SimulatedUser::Agrees).await;
    }
}

#[tokio::test]
async fn programs_that_do_not_begin() {
    play_all(&[
        ("it exits at once", "exit 0", Error, "exited with code 0"),
        (
            "it exits with an error message",
            "echo no key >&2; exit 1",
            Error,
            "exited with code 1; it said: no key",
        ),
        ("it is killed", "kill -9 $$", Error, "was ended by signal 9"),
        ("it exits after the prompt", "prompted; exit 3", Error, "exited with code 3"),
        (
            "it exits in the middle of a line",
            "prompted; printf '{\"type\":'; exit 0",
            Error,
            "in the middle of a line",
        ),
        ("it talks nonsense and exits", "prompted; say nonsense; exit 2", Error, "exited with code 2"),
        ("it closes its output", "exec >&-; hang", Error, "closed its output and went on running"),
        (
            "it closes its output later",
            "begin; exec >&-; hang",
            Error,
            "closed its output and went on running",
        ),
        (
            "it writes a line without end",
            "begin; head -c 100000000 /dev/zero | tr '\\0' x; hang",
            Error,
            "a line of more than 100000 bytes",
        ),
        (
            "it writes a line that is too long",
            "begin; head -c 200000 /dev/zero | tr '\\0' x; echo; hang",
            Error,
            "a line of more than 100000 bytes",
        ),
    ])
    .await;
}

#[tokio::test]
async fn programs_that_hang() {
    type Hasten = fn(&mut Options);
    let cases: [(Case, Hasten); 9] = [
        (("at the start", "hang", Error, "did not begin to work on the prompt within 300ms"), |it| {
            it.timeouts.start = HASTY;
        }),
        (
            ("after the prompt", "prompted; hang", Error, "did not begin to work on the prompt within 300ms"),
            |it| {
                it.timeouts.start = HASTY;
            },
        ),
        (
            (
                "after nonsense",
                "prompted; say x; hang",
                Error,
                "did not begin to work on the prompt within 300ms",
            ),
            |it| {
                it.timeouts.start = HASTY;
            },
        ),
        (("after it began", "begin; hang", Error, "sent nothing for 300ms"), |it| {
            it.timeouts.silence = HASTY;
        }),
        (("in a text", "begin; open m1; words he; hang", Error, "sent nothing for 300ms"), |it| {
            it.timeouts.silence = HASTY;
        }),
        (("in a call", "begin; open m1; call m1 t1; hang", Error, "sent nothing for 300ms"), |it| {
            it.timeouts.silence = HASTY;
        }),
        (
            ("between steps", "begin; open m1; call m1 t1; called t1; hang", Error, "sent nothing for 300ms"),
            |it| it.timeouts.silence = HASTY,
        ),
        (("after its result", "begin; speak m1 hello; result; hang", Completed, ""), |it| {
            it.timeouts.settle = HASTY;
        }),
        (("without reading", "hang", Error, "did not read its input for 300ms"), |it| {
            it.bounds.write = HASTY;
        }),
    ];
    for (case, hasten) in cases {
        let fake = script(case.1);
        let mut options = claude(&fake, patient());
        hasten(&mut options);
        let (mut harness, runner) = harness(options, unhurried()).await;
        let session = harness.session().await;
        let prompt = if case.0 == "without reading" { "x".repeat(1_000_000) } else { "please".to_owned() };
        assert_eq!(harness.turn(&session, &prompt, SimulatedUser::Agrees).await, case.2, "{}", case.0);
        let error = harness.error(&session).await;
        assert!(error.contains(case.3), "{}: {error}", case.0);
        assert_eq!(harness.check(&session.id), 1, "{}", case.0);
        runner.close().await;
        fake.assert_gone();
    }
}

#[tokio::test]
async fn programs_that_write_invalid_lines_and_continue() {
    play_all(&[
        ("no UTF-8", "begin; printf '\\377\\376\\n'; speak m1 hello; finish; linger", Completed, ""),
        ("no JSON", "begin; say 'warning: {'; speak m1 hello; finish; linger", Completed, ""),
        ("JSON that is no object", "begin; say 7; say null; say '[1]'; say '\"x\"'; speak m1 hello; finish; linger", Completed, ""),
        ("JSON that is too deep", "begin; head -c 5000 /dev/zero | tr '\\0' '['; echo; speak m1 hello; finish; linger", Completed, ""),
        ("unknown kinds", "begin; say '{\"type\":\"new\"}'; say '{\"type\":\"system\",\"subtype\":\"new\"}'; event '{\"type\":\"new\"}'; speak m1 hello; finish; linger", Completed, ""),
        ("known kinds without their fields", "begin; say '{\"type\":\"assistant\"}'; say '{\"type\":\"user\",\"message\":7}'; event '{}'; speak m1 hello; finish; linger", Completed, ""),
        ("empty lines and other ends of lines", "begin; echo; echo; printf '{\"type\":\"new\"}\\r\\n'; speak m1 hello; finish; linger", Completed, ""),
        ("a flood of errors", "begin; head -c 10000000 /dev/zero >&2; speak m1 hello; finish; linger", Completed, ""),
        ("an unknown request", "begin; say '{\"type\":\"control_request\",\"request_id\":\"r\",\"request\":{\"subtype\":\"new\"}}'; hear '\"error\"'; speak m1 hello; finish; linger", Completed, ""),
    ])
    .await;
}

#[tokio::test]
async fn programs_that_lose_their_order() {
    play_all(&[
        ("two results", "begin; speak m1 hello; result; result; state idle; linger", Completed, ""),
        ("two idles", "begin; speak m1 hello; finish; state idle; linger", Completed, ""),
        ("an idle before anything", "state idle; turn; linger", Completed, ""),
        ("an idle and no result", "begin; speak m1 hello; state idle; linger", Completed, ""),
        ("a result and no states", "prompted; init; speak m1 hello; result; linger", Completed, ""),
        ("a result and nothing else", "prompted; say '{\"type\":\"result\"}'; linger", Completed, ""),
        ("a result before the call's", "begin; open m1; call m1 t1; result; called t1; state idle; linger", Completed, ""),
        ("a call without a result", "begin; open m1; call m1 t1; speak m2 hello; finish; linger", Completed, ""),
        ("a result without a call", "begin; called t9; speak m1 hello; finish; linger", Completed, ""),
        ("the same call's result twice", "begin; open m1; call m1 t1; called t1; called t1; speak m2 hello; finish; linger", Completed, ""),
        ("a message that begins again", "begin; open m1; words wrong; open m2; words hello; close; finish; linger", Completed, ""),
        ("words without a message", "begin; words lost; close; speak m1 hello; finish; linger", Completed, ""),
        ("words after the end", "turn; speak m9 late; linger", Completed, ""),
        ("an exit after the end", "turn; exit 7", Completed, ""),
        ("progress of a call that is over", "begin; open m1; call m1 t1; called t1; say '{\"type\":\"assistant\",\"parent_tool_use_id\":\"t1\",\"message\":{\"id\":\"x\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"Read\"}]}}'; speak m2 hello; finish; linger", Completed, ""),
    ])
    .await;
}

#[tokio::test]
async fn programs_that_fail() {
    play_all(&[
        ("in a text", "begin; open m1; words he; kill -9 $$", Error, "was ended by signal 9"),
        ("in a call", "begin; open m1; call m1 t1; echo out of memory >&2; exit 137", Error, "out of memory"),
        ("between steps", "begin; open m1; call m1 t1; called t1; exit 1", Error, "exited with code 1"),
        ("and say so", "begin; say '{\"type\":\"result\",\"is_error\":true,\"result\":\"no credit\"}'; state idle; linger", Error, "no credit"),
        ("and call it success", "begin; say '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":529,\"result\":\"API Error\"}'; state idle; linger", Error, "API Error (status 529)"),
        ("and do not say why", "begin; say '{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true}'; state idle; linger", Error, "error_during_execution"),
        ("for want of turns", "begin; say '{\"type\":\"result\",\"subtype\":\"error_max_turns\",\"is_error\":true,\"errors\":[\"10 turns\"]}'; state idle; linger", Budget, ""),
        ("with children that hold the pipes", "begin; sleep 600 & echo $! >>\"$PIDS\"; exit 4", Error, "exited with code 4"),
    ])
    .await;
}

#[tokio::test]
async fn permissions_that_go_wrong() {
    let asked = "begin; open m1; call m1 t1; may r1 t1; ";
    let cases: [(Case, SimulatedUser); 4] = [
        (
            (
                "it withdraws its request",
                "begin; open m1; call m1 t1; may r1 t1; say '{\"type\":\"control_cancel_request\",\"request_id\":\"r1\"}'; called t1; speak m2 hello; finish; linger",
                Completed,
                "",
            ),
            SimulatedUser::Silent,
        ),
        (
            (
                "it asks twice at once",
                "begin; open m1; call m1 t1; may r1 t1; may r2 t1; hear r1; hear r2; called t1; speak m2 hello; finish; linger",
                Completed,
                "",
            ),
            SimulatedUser::Agrees,
        ),
        (
            (
                "it goes on after a correction",
                "begin; open m1; call m1 t1; may r1 t1; hear 'do something else'; called t1; speak m2 hello; finish; linger",
                Completed,
                "",
            ),
            SimulatedUser::Corrects,
        ),
        (
            (
                "it stops when it is refused",
                "begin; open m1; call m1 t1; may r1 t1; hear deny; say '{\"type\":\"result\",\"is_error\":true,\"terminal_reason\":\"aborted_tools\"}'; state idle; linger",
                Blocked,
                "",
            ),
            SimulatedUser::Refuses,
        ),
    ];
    for (case, user) in cases {
        play(case, |options| options, unhurried(), user).await;
    }
    // The program ignores a refusal.
    let stubborn = |mut options: Options| {
        options.timeouts.settle = HASTY;
        options
    };
    let case =
        ("it ignores a refusal", "begin; open m1; call m1 t1; may r1 t1; hear deny; hang", Blocked, "");
    play(case, stubborn, unhurried(), SimulatedUser::Refuses).await;
    // The request times out, or the program exits while the request waits.
    for (acts, end, says) in [
        ("hear deny; state idle; linger", Blocked, ""),
        ("while [ ! -e \"$NOTES\" ]; do sleep 0.01; done; exit 5", Error, "exited with code 5"),
    ] {
        let fake = script(&format!("{asked}{acts}"));
        let limits = Limits { request: if end == Blocked { HASTY } else { PATIENT }, ..unhurried() };
        let (mut harness, runner) = harness(claude(&fake, patient()), limits).await;
        let session = harness.session().await;
        harness.submit(&session, "please").await;
        harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
        fake.note("it was asked");
        let idle = harness.until(|body| matches!(body, EventBody::SessionIdle(_))).await;
        assert_eq!(idle.session_id(), Some(&session.id));
        assert!(harness.error(&session).await.contains(says));
        assert_eq!(harness.check(&session.id), 1);
        runner.close().await;
        fake.assert_gone();
    }
}

#[tokio::test]
async fn programs_that_are_aborted() {
    let begun = "begin; open m1; words hello; ";
    // The rest of the script, and true if the process is kept for the next turn.
    for (acts, kept) in [
        (
            "hear interrupt; say '{\"type\":\"result\",\"is_error\":true,\"terminal_reason\":\"aborted_streaming\"}'; state idle; turn; linger",
            true,
        ),
        ("hang", false),
        ("trap '' TERM INT HUP; hang", false),
        ("setsid sleep 600 & echo $! >>\"$PIDS\"; sleep 600 & echo $! >>\"$PIDS\"; hang", false),
        ("hear interrupt; exit 1", false),
        ("hear interrupt; exec >&-; hang", false),
        ("hear interrupt; while :; do words more; sleep 0.01; done", false),
        (
            "say '{\"type\":\"system\",\"subtype\":\"task_started\",\"task_id\":\"b1\"}'; hear interrupt; result; state idle; linger",
            false,
        ),
    ] {
        let fake = script(&format!("{begun}{acts}"));
        let timeouts = Timeouts { interrupt: if kept { PATIENT } else { HASTY }, ..patient() };
        let (mut harness, runner) = harness(claude(&fake, timeouts), unhurried()).await;
        let session = harness.session().await;
        harness.submit(&session, "please").await;
        harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
        harness.sessions.abort(&session.id).await.unwrap();
        assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, Aborted, "{acts}");
        assert_eq!(harness.check(&session.id), 1, "{acts}");
        if kept {
            assert_eq!(harness.turn(&session, "again", SimulatedUser::Agrees).await, Completed, "{acts}");
            assert_eq!(fake.processes().len(), 1, "{acts}");
            runner.close().await;
        }
        fake.assert_gone();
    }
}

#[tokio::test]
async fn an_incomplete_attempt_is_withdrawn() {
    let fake = script("begin; open m1; words wrong; open m2; words hello; close; finish; linger");
    let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
    let session = harness.session().await;
    harness.turn(&session, "please", SimulatedUser::Agrees).await;
    let parts: Vec<_> =
        harness.messages(&session).await.into_iter().flat_map(|message| message.parts).collect();
    let texts: Vec<_> = parts
        .iter()
        .filter(|part| matches!(part.body, PartBody::Text(_)))
        .filter_map(|part| part.text())
        .collect();
    assert_eq!(texts, ["please", "hello"]);
    runner.close().await;
}

#[tokio::test]
async fn the_error_names_a_missing_program() {
    let fake = script("");
    let mut options = claude(&fake, patient());
    options.program.command = vec!["/nonexistent/claude".into()];
    let (mut harness, _runner) = harness(options, unhurried()).await;
    let session = harness.session().await;
    assert_eq!(harness.turn(&session, "please", SimulatedUser::Agrees).await, Error);
    let error = harness.error(&session).await;
    assert!(error.contains("cannot start `/nonexistent/claude`") && error.contains("PATH"), "{error}");
    assert_eq!(harness.check(&session.id), 1);
}
