//! Programs that misbehave. Each turn ends exactly once, with an error that names the cause,
//! and no process is left running.

use std::time::Duration;

use engine::limits::Limits;
use protocol::{EndReason, EventBody};

use super::harness::{Harness, SimulatedUser, options};
use super::scripts::script;
use crate::external::Timeouts;
use crate::roster::External;

/// Timeouts of programs that do not hang: a slow machine must not look like a silent program.
const PATIENT: Duration = Duration::from_mins(1);

/// Runs a turn with a script. Returns the end of the turn and its error.
async fn misbehave(text: &str, user: SimulatedUser, limits: Limits) -> (EndReason, String) {
    let mut options = options(&script(text));
    if !text.contains("hang") {
        let (start, answer, silence) = (PATIENT, PATIENT, PATIENT);
        options.timeouts = Timeouts { start, answer, silence, ..options.timeouts };
    }
    let mut harness = Harness::bounded(options, limits).await;
    let session = harness.first_turn(user).await;
    judge(harness, &session).await
}

/// Checks that hold for every case.
async fn judge(harness: Harness, session: &protocol::Session) -> (EndReason, String) {
    let ends = harness.ends(session);
    assert_eq!(ends.len(), 1, "{ends:?}");
    harness.check_all();
    harness.assert_all_is_closed(session).await;
    harness.driver.close().await;
    harness.assert_nothing_is_left();
    (ends[0], harness.errors())
}

/// Defines one test for each script, with the expected end of the turn and parts of the expected error.
macro_rules! programs {
    ($($name:ident: $script:expr => $end:ident $(, $word:expr)*;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let (end, said) = misbehave($script, SimulatedUser::Agrees, Limits::default()).await;
            assert_eq!(end, EndReason::$end, "{said}");
            let words: &[&str] = &[$($word),*];
            assert!(words.iter().all(|word| said.contains(word)), "{said:?} does not say {words:?}");
            assert_eq!(said.is_empty(), words.is_empty(), "{said}");
        }
    )*};
}

programs! {
    exits_at_once: "exit 0" => Error, "`/bin/bash` exited with code 0";
    exits_with_an_error_message: "echo no licence >&2; exit 3" => Error, "exited with code 3", "no licence";
    is_killed_at_once: "kill -9 $$" => Error, "was ended by signal 9";
    hangs_before_the_greeting: "hang" => Error, "initialize was not answered within 2s";
    refuses_the_greeting: "hear; refuse 1 'too old'; stay" => Error, "initialize was refused: too old";
    exits_after_the_greeting: "greet; exit 1" => Error, "exited with code 1";
    hangs_at_the_thread: "greet; hear; hang" => Error, "thread/start was not answered within 2s";
    refuses_the_thread: "greet; hear; refuse 2 'not logged in'; stay" => Error, "thread/start was refused: not logged in";
    begins_no_thread: "greet; hear; answer 2 '{}'; stay" => Error, "its answer contains no thread";
    hangs_at_the_turn: "greet; open; hear; hang" => Error, "turn/start was not answered within 2s";
    refuses_the_turn: "greet; open; hear; refuse 3 'no model'; stay" => Error, "turn/start was refused: no model";
    exits_at_the_turn: "greet; open; hear; echo gone >&2; exit 4" => Error, "exited with code 4", "gone";
    does_not_name_the_turn: "greet; open; hear; answer 3 '{}'; tell turn/started '\"turn\":{\"id\":\"u\"}'; said m Hi; ends; stay" => Completed;

    exits_in_the_turn: "begin; exit 0" => Error, "exited with code 0";
    exits_in_the_middle_of_a_line: "begin; printf '{\"method\":\"item'; exit 0" => Error, "in the middle of a line", "item";
    exits_in_the_middle_of_a_word: "begin; word m Hel; exit 7" => Error, "exited with code 7";
    exits_in_the_middle_of_a_tool: "begin; runs c; exit 1" => Error, "exited with code 1";
    is_killed_in_the_middle_of_a_tool: "begin; runs c; kill -9 $$" => Error, "signal 9";
    hangs_in_the_turn: "begin; hang" => Error, "sent nothing for 2s";
    hangs_in_a_tool: "begin; runs c; hang" => Error, "sent nothing for 2s";
    hangs_after_a_word: "begin; word m Hel; hang" => Error, "sent nothing for 2s";
    hangs_in_a_retry: "begin; tell error '\"error\":{\"message\":\"Reconnecting... 1/5\"},\"willRetry\":true'; hang" => Error, "sent nothing for 2s";
    is_idle_without_an_end: "begin; said m Hi; status idle; hang" => Error, "says that it is idle", "did not end the turn";
    fails_without_an_end: "begin; status systemError; hang" => Error, "says that it has failed";
    gives_up_without_an_end: "begin; tell error '\"error\":{\"message\":\"out of credit\"},\"willRetry\":false'; hang" => Error, "Codex: out of credit";
    closes_the_thread: "begin; tell thread/closed; hang" => Error, "closed the thread";

    ends_twice: "begin; said m Hi; ends; ends; stay" => Completed;
    ends_another_turn_first: "begin; tell turn/completed '\"turn\":{\"id\":\"x\",\"status\":\"failed\"}'; said m Hi; ends; stay" => Completed;
    ends_before_its_tool: "begin; runs c; ends; ran c; stay" => Completed;
    ends_a_tool_that_never_began: "begin; ran c; ends; stay" => Completed;
    ends_a_tool_twice: "begin; runs c; ran c; ran c; ends; stay" => Completed;
    begins_a_tool_twice: "begin; runs c; runs c; ran c; ends; stay" => Completed;
    goes_on_after_the_end: "begin; said m Hi; ends; word m late; runs c; status active; stay" => Completed;
    fails_without_a_reason: "begin; ends failed; stay" => Error, "without a reason";
    fails_with_a_reason: "begin; word m Hel; ends failed '{\"message\":\"mock 400\"}'; stay" => Error, "Codex: mock 400";
    ends_without_saying_how: "begin; ends sideways; stay" => Error, "without saying how";
    ends_in_progress: "begin; ends inProgress; stay" => Error, "without saying how";
    interrupts_itself: "begin; runs c; ends interrupted; stay" => Error, "interrupted the turn without being asked";

    sends_unknown_notifications: "begin; tell future/event; tell item/started '\"item\":{\"type\":\"hologram\",\"id\":\"h\"}'; said m Hi; ends; stay" => Completed;
    calls_unknown_methods: "begin; ask 9 future/request '\"a\":1'; hear; case $heard in *-32601*) said m Hi; ends;; esac; stay" => Completed;
    sends_an_invalid_request: "begin; ask 9 item/commandExecution/requestApproval '\"itemId\":5'; hear; case $heard in *-32602*) ends;; esac; stay" => Completed;
    writes_invalid_json: "begin; echo garbage; echo '{]'; echo '[1]'; echo '{}'; said m Hi; ends; stay" => Completed;
    writes_invalid_utf8: "begin; printf '\\377\\376\\n'; said m Hi; ends; stay" => Completed;
    sends_fields_of_the_wrong_type: "begin; tell turn/completed '\"turn\":5'; tell item/started '\"item\":{\"type\":\"fileChange\",\"changes\":7}'; said m Hi; ends; stay" => Completed;
    answers_requests_that_were_not_sent: "begin; answer 99 '{}'; answer 3 '{\"turn\":{\"id\":\"z\"}}'; refuse 1 late; said m Hi; ends; stay" => Completed;
    writes_empty_lines: "begin; printf '\\n\\r\\n\\n'; said m Hi; ends; stay" => Completed;
    writes_many_invalid_lines: "begin; yes nonsense | head -n 5000; stay" => Error, "lines that cannot be read";
    writes_a_line_of_100_megabytes: "begin; head -c 100000000 /dev/zero | tr '\\0' a; stay" => Error, "a line of more than 1048576 bytes";
    nests_json_too_deeply: "begin; printf '%0.s[' $(seq 5000); echo; said m Hi; ends; stay" => Completed;
    floods_its_errors: "begin; head -c 5000000 /dev/zero >&2; said m Hi; ends; stay" => Completed;

    closes_its_output: "begin; exec 1>&-; hang" => Error, "closed its output";
    closes_its_input: "begin; exec 0<&-; hang" => Error, "sent nothing for 2s";
    leaves_a_grandchild_with_its_pipes: "sleep 600 & echo $! >> .processes; begin; exit 0" => Error, "exited with code 0";
    leaves_a_grandchild_of_its_own: "setsid sleep 600 & echo $! >> .processes; begin; said m Hi; ends; stay" => Completed;
    ignores_the_signal: "trap '' TERM; begin; hang" => Error, "sent nothing for 2s";
    exits_while_it_asks: "begin; runs c; ask 9 item/commandExecution/requestApproval '\"itemId\":\"c\",\"command\":\"make\"'; exit 1" => Error, "exited with code 1";
    asks_twice_at_once: "begin; runs c; ask 9 item/commandExecution/requestApproval '\"itemId\":\"c\",\"command\":\"make\"'; ask 9 item/commandExecution/requestApproval '\"itemId\":\"c\",\"command\":\"make\"'; hear; ran c; ends; stay" => Completed;
    spends_without_end: "begin; used 10; used 10; used 5; said m Hi; used 20; ends; stay" => Completed;
}

#[tokio::test]
async fn an_unanswered_request_stops_the_turn() {
    let text = "begin; runs c; ask 9 item/commandExecution/requestApproval '\"itemId\":\"c\",\"command\":\"make\"'; \
                hear; case $heard in *cancel*) ends interrupted;; esac; stay";
    let limits = Limits { request: Duration::from_millis(100), ..Limits::default() };
    assert_eq!(misbehave(text, SimulatedUser::Silent, limits).await, (EndReason::Blocked, String::new()));
}

#[tokio::test]
async fn a_withdrawn_request_does_not_delay_the_turn() {
    let text = "begin; runs c; ask 9 item/commandExecution/requestApproval '\"itemId\":\"c\",\"command\":\"make\"'; \
                tell serverRequest/resolved '\"requestId\":9'; ran c; said m Hi; ends; stay";
    let ended = misbehave(text, SimulatedUser::Silent, Limits::default()).await;
    assert_eq!(ended, (EndReason::Completed, String::new()));
}

#[tokio::test]
async fn the_error_names_a_missing_program() {
    let mut options = options("");
    options.program.command = vec!["/nonexistent/codex".into()];
    let mut harness = Harness::new(options).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Error]);
    assert!(harness.errors().contains("is it installed and on the PATH?"), "{}", harness.errors());
    harness.check_all();
}

/// Aborts a turn after the text `go`, or at once.
async fn stop(text: &str, at_once: bool) -> (EndReason, String) {
    let mut harness = Harness::new(options(&script(text))).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    if !at_once {
        harness.until(|body| matches!(body, EventBody::PartDelta(it) if it.delta == "go")).await;
    }
    harness.sessions.abort(&session.id).await.unwrap();
    harness.until_idle(&session, SimulatedUser::Silent).await;
    // The script may have been ended before it recorded its process.
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(harness.project.path().join(".processes"))
        .map(|mut file| std::io::Write::write_all(&mut file, b"999999999\n").unwrap())
        .unwrap();
    judge(harness, &session).await
}

macro_rules! stops {
    ($($name:ident: $script:expr, $at_once:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let (end, said) = stop($script, $at_once).await;
            assert_eq!((end, said.as_str()), (EndReason::Aborted, "Aborted"));
        }
    )*};
}

stops! {
    stopped_before_the_greeting: "hang", true;
    stopped_at_the_thread: "greet; hear; hang", true;
    stopped_at_the_turn: "greet; open; hear; hang", true;
    stopped_in_a_text: "begin; word m go; hear; answer 4 '{}'; ends interrupted; stay", false;
    stopped_in_a_tool: "begin; runs c; word m go; hear; answer 4 '{}'; status idle; ends interrupted; stay", false;
    stopped_and_ignores_the_interruption: "begin; word m go; hang", false;
    stopped_and_answers_without_an_end: "begin; word m go; hear; answer 4 '{}'; hang", false;
    stopped_and_refuses: "begin; word m go; hear; refuse 4 'not now'; hang", false;
    stopped_and_ignores_the_signal: "trap '' TERM; begin; runs c; word m go; hang", false;
    stopped_and_exits: "begin; word m go; hear; exit 9", false;
    stopped_and_continues_to_write: "begin; word m go; hear; answer 4 '{}'; while :; do word m more; done", false;
    stopped_while_it_asks: "begin; runs c; ask 9 item/commandExecution/requestApproval '\"itemId\":\"c\",\"command\":\"make\"'; word m go; stay", false;
    stopped_with_a_grandchild: "begin; setsid sleep 600 & echo $! >> .processes; word m go; hang", false;
}
