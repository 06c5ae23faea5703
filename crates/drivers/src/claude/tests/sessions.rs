//! Claude Code over several turns, processes and servers.

use protocol::request::{Action, PermissionReply, Rule};
use protocol::{EndReason, EventBody, Session, SessionStatus};

use super::*;
use crate::external::IdleLimits;
use crate::external::harness::SimulatedUser;

/// Records its arguments and then answers any number of prompts.
const GREETER: &str = "echo \"$*\" >>\"$NOTES\"; while :; do turn; done";

#[tokio::test]
async fn one_process_serves_a_session_until_it_has_been_idle_for_long() {
    let fake = script(GREETER);
    let mut options = claude(&fake, patient());
    options.keeping = IdleLimits { idle: HASTY, ..IdleLimits::default() };
    let (mut harness, runner) = harness(options, unhurried()).await;
    let session = harness.session().await;
    for _ in 0..2 {
        assert_eq!(harness.turn(&session, "hi", SimulatedUser::Agrees).await, EndReason::Completed);
    }
    assert_eq!(fake.processes().len(), 1);
    let gone = async {
        while fake.processes().iter().any(|id| crate::external::harness::lives(&id.to_string())) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENT, gone).await.unwrap();
    assert_eq!(harness.turn(&session, "hi", SimulatedUser::Agrees).await, EndReason::Completed);
    let starts: Vec<bool> =
        fake.notes().lines().map(|args| args.contains("--resume conversation-1")).collect();
    assert_eq!(starts, [false, true]);
    assert_eq!(harness.check(&session.id), 3);
    runner.close().await;
    fake.assert_gone();
}

#[tokio::test]
async fn another_server_resumes_the_conversation() {
    let fake = script(GREETER);
    let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
    let session = harness.session().await;
    harness.turn(&session, "hi", SimulatedUser::Agrees).await;
    runner.close().await;
    fake.assert_gone();
    let options = claude(&fake, patient());
    let mut harness = harness.restart(|wake| super::runner(options, wake)).await;
    assert_eq!(harness.turn(&session, "hi again", SimulatedUser::Agrees).await, EndReason::Completed);
    assert!(fake.notes().lines().last().unwrap().contains("--resume conversation-1"));
}

/// Adds an entry to its todo list, and completes the entry when the conversation is resumed.
const PLANNER: &str = r#"
case "$*" in
*--resume*) name=TaskUpdate input='{"taskId":"1","status":"completed"}' ;;
*) name=TaskCreate input='{"subject":"one"}' ;;
esac
begin
say '{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"c1","name":"'$name'","input":'"$input"'}]}}'
say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c1","content":"Task #1"}]}}'
speak m2 hello; finish; linger"#;

#[tokio::test]
async fn a_resumed_conversation_keeps_its_todo_list() {
    let fake = script(PLANNER);
    let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
    let session = harness.session().await;
    for status in ["pending", "completed"] {
        assert_eq!(harness.turn(&session, "hi", SimulatedUser::Agrees).await, EndReason::Completed);
        let todos = harness.sessions.todos(&session.id).await.unwrap();
        let todos: Vec<_> = todos.iter().map(|it| (it.content.as_str(), it.status.as_str())).collect();
        assert_eq!(todos, [("one", status)]);
        runner.forget(&session.id).await;
    }
    runner.close().await;
}

#[tokio::test]
async fn a_lost_conversation_starts_again() {
    let refusals = [
        "echo 'No conversation found with session ID: conversation-1' >&2; exit 1",
        "prompted; say '{\"type\":\"result\",\"is_error\":true,\"errors\":[\"No conversation found\"]}'; linger",
    ];
    for refusal in refusals {
        let fake = script("turn; exit 0");
        let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
        let session = harness.session().await;
        harness.turn(&session, "hi", SimulatedUser::Agrees).await;
        fake.becomes(&format!("{WORDS}\ncase \"$*\" in *--resume*) {refusal} ;; esac\n{GREETER}"));
        assert_eq!(harness.turn(&session, "hi", SimulatedUser::Agrees).await, EndReason::Completed);
        let warned = harness.seen.iter().any(|event| matches!(&event.body, EventBody::SessionError(_)));
        assert!(warned);
        assert_eq!(harness.check(&session.id), 2);
        runner.close().await;
        fake.assert_gone();
    }
}

/// Echoes the prompt that was read last.
const ECHO: &str = r#"
taken() { say '{"type":"user","isReplay":true,"message":{"content":"x"},"uuid":"'"$(printf '%s' "$line" | sed 's/.*"uuid":"\([^"]*\)".*/\1/')"'"}'; }
"#;

#[tokio::test]
async fn a_prompt_during_a_turn_joins_it() {
    for (case, acts) in [
        ("taken up at once", "close; result; init; open m2; taken; words two; close; finish"),
        ("taken up with results", "close; call m1 t1; called t1; taken; speak m2 two; finish"),
        (
            "taken up after an idle",
            "close; finish; state running; init; open m2; taken; words two; close; finish",
        ),
        ("a command, which is not echoed", "close; finish; state running; init; speak m2 two; finish"),
    ] {
        let fake = script(&format!("{ECHO}\nbegin; open m1; words one; prompted; {acts}; linger"));
        let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
        let session = harness.session().await;
        harness.submit(&session, "first").await;
        harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
        harness.submit(&session, "second").await;
        let end = harness.until_idle(&session, SimulatedUser::Agrees).await;
        assert_eq!(end, EndReason::Completed, "{case}");
        assert_eq!(harness.check(&session.id), 1, "{case}");
        assert_eq!(texts(&harness, &session).await, ["first", "one", "second", "two"], "{case}");
        runner.close().await;
    }
}

async fn texts(harness: &Harness, session: &Session) -> Vec<String> {
    let messages = harness.messages(session).await;
    let parts = messages.iter().flat_map(|message| &message.parts);
    parts.filter_map(|part| part.text().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_prompt_that_is_never_taken_up_ends_with_the_turn() {
    let fake = script("begin; open m1; words one; prompted; close; finish; hang");
    let timeouts = Timeouts { settle: HASTY, ..patient() };
    let (mut harness, runner) = harness(claude(&fake, timeouts), unhurried()).await;
    let session = harness.session().await;
    harness.submit(&session, "first").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    harness.submit(&session, "second").await;
    assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed);
    assert_eq!(harness.check(&session.id), 1);
    runner.close().await;
    fake.assert_gone();
}

#[tokio::test]
async fn an_abort_withdraws_the_prompts_that_wait() {
    let refused =
        "say '{\"type\":\"control_response\",\"response\":{\"subtype\":\"error\",\"request_id\":\"x\"}}'";
    for (case, acts) in [
        ("it withdraws them", "hear '\"interrupt\"'; say '{\"type\":\"result\",\"is_error\":true,\"terminal_reason\":\"aborted_streaming\"}'; state idle; linger".to_owned()),
        ("it cannot, so it is ended", format!("hear '\"interrupt\"'; {refused}; hang")),
    ] {
        let fake = script(&format!(
            "begin; open m1; words one; prompted; words read; hear cancel_async_message; echo said >\"$NOTES\"; {acts}"
        ));
        let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
        let session = harness.session().await;
        harness.submit(&session, "first").await;
        harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
        harness.submit(&session, "second").await;
        harness.until(|body| matches!(body, EventBody::PartDelta(it) if it.delta == "read")).await;
        harness.sessions.abort(&session.id).await.unwrap();
        assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Aborted, "{case}");
        assert_eq!(harness.check(&session.id), 1, "{case}");
        assert_eq!(fake.notes().trim(), "said", "{case}");
        runner.close().await;
    }
}

#[tokio::test]
async fn a_program_that_failed_is_started_again_after_a_pause() {
    let fake = script("exit 1");
    let mut options = claude(&fake, patient());
    options.keeping.pause = HASTY;
    let (mut harness, runner) = harness(options, unhurried()).await;
    let session = harness.session().await;
    assert_eq!(harness.turn(&session, "hi", SimulatedUser::Agrees).await, EndReason::Error);
    fake.becomes(&format!("{WORDS}\n{GREETER}"));
    assert_eq!(harness.turn(&session, "hi", SimulatedUser::Agrees).await, EndReason::Completed);
    let waited = |event: &protocol::Event| matches!(&event.body, EventBody::SessionStatus(it) if matches!(it.status, SessionStatus::Retry { .. }));
    assert!(harness.seen.iter().any(waited));
    assert_eq!(harness.check(&session.id), 2);
    runner.close().await;
}

#[tokio::test]
async fn a_deleted_session_leaves_no_process() {
    let fake = script(GREETER);
    let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
    let session = harness.session().await;
    harness.turn(&session, "hi", SimulatedUser::Agrees).await;
    runner.forget(&session.id).await;
    fake.assert_gone();
}

#[tokio::test]
async fn output_between_turns_does_not_open_a_turn() {
    let chatter =
        "i=0; while [ $i -lt 300 ]; do say '{\"type\":\"new\"}'; i=$((i+1)); done; echo said >\"$NOTES\"";
    let fake = script(&format!("turn; {chatter}; turn; linger"));
    let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
    let session = harness.session().await;
    harness.turn(&session, "hi", SimulatedUser::Agrees).await;
    let said = async {
        while fake.notes().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENT, said).await.unwrap();
    assert_eq!(harness.turn(&session, "hi again", SimulatedUser::Agrees).await, EndReason::Completed);
    assert_eq!(harness.check(&session.id), 2);
    runner.close().await;
}

/// Asks for permission to run a command, and records the answer.
const ASKER: &str = "begin; open m1; call m1 t1; may r1 t1; hear control_response; printf '%s' \"$line\" >\"$NOTES\"; called t1; speak m2 bye; finish; linger";

fn asked(harness: &Harness) -> usize {
    harness.seen.iter().filter(|event| matches!(event.body, EventBody::PermissionAsked(_))).count()
}

#[tokio::test]
async fn rules_decide_before_the_user_is_asked() {
    for (rules, told, people) in [
        (vec![Rule::new("bash", "make *", Action::Allow)], "\"behavior\":\"allow\"", 0),
        (vec![Rule::new("*", "*", Action::Allow)], "\"behavior\":\"allow\"", 0),
        (
            vec![Rule::new("bash", "*", Action::Allow), Rule::new("bash", "make", Action::Deny)],
            "prevents you",
            0,
        ),
        (vec![Rule::new("*", "*", Action::Allow), Rule::new("bash", "make", Action::Ask)], "allow", 1),
        (vec![Rule::new("edit", "*", Action::Allow)], "allow", 1),
    ] {
        let fake = script(ASKER);
        let mut options = claude(&fake, patient());
        options.program.rules.clone_from(&rules);
        let (mut harness, runner) = harness(options, unhurried()).await;
        let session = harness.session().await;
        assert_eq!(
            harness.turn(&session, "please", SimulatedUser::Agrees).await,
            EndReason::Completed,
            "{rules:?}"
        );
        assert!(fake.notes().contains(told), "{rules:?}: {}", fake.notes());
        assert_eq!(asked(&harness), people, "{rules:?}");
        runner.close().await;
    }
}

#[tokio::test]
async fn permanent_approvals_are_not_asked_again() {
    let fake = script(ASKER);
    let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
    for people in [1, 1] {
        let session = harness.session().await;
        harness.submit(&session, "please").await;
        if asked(&harness) == 0 {
            let asked = harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
            let EventBody::PermissionAsked(asked) = asked else { unreachable!() };
            harness.sessions.reply_permission(&asked.id, PermissionReply::Always, None).await.unwrap();
        }
        assert_eq!(harness.until_idle(&session, SimulatedUser::Silent).await, EndReason::Completed);
        assert!(fake.notes().contains("\"behavior\":\"allow\""), "{}", fake.notes());
        assert_eq!(asked(&harness), people);
    }
    runner.close().await;
}
