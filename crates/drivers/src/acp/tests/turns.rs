//! Turns of a well-behaved agent: permissions, questions, files, commands, models and resumption.

use std::time::Duration;

use protocol::message::ModelRef;
use protocol::prompt::PromptInput;
use protocol::request::{Action, Rule};
use protocol::{EndReason, EventBody, ToolState};
use serde_json::{Value, json};

use super::harness::{Harness, SimulatedUser, lives, options};
use super::scripts::script;
use crate::roster::External as _;

/// A shell function that sends a permission request and reads the answer.
const MAY: &str = r#"may() { ask "$1" session/request_permission "{\"sessionId\":\"s1\",\"toolCall\":{\"toolCallId\":\"$1\",\"kind\":\"execute\",\"title\":\"Run\",\"rawInput\":{\"command\":\"$2\"}},\"options\":[{\"optionId\":\"for-ever\",\"kind\":\"allow_always\"},{\"optionId\":\"now\",\"kind\":\"allow_once\"},{\"optionId\":\"never\",\"kind\":\"reject_once\"}]}"; hear; }"#;

async fn harness(text: &str) -> Harness {
    Harness::new(options(&script(&format!("{MAY}\n{text}")))).await
}

async fn finish(harness: Harness) {
    harness.check_all();
    harness.driver.close().await;
    harness.assert_nothing_is_left();
}

fn asked(harness: &Harness) -> Vec<(String, Vec<String>)> {
    let asked = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::PermissionAsked(it) => Some((it.permission.clone(), it.patterns.clone())),
        _ => None,
    });
    asked.collect()
}

fn option(answer: &Value) -> &Value {
    &answer["result"]["outcome"]["optionId"]
}

#[tokio::test]
async fn a_permission_is_answered_by_the_name_of_the_option() {
    let mut harness = harness("begin; may a 'make test'; tooled a completed; say ran; finish; stay").await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(asked(&harness), [("bash".to_owned(), vec!["make test".to_owned()])]);
    assert_eq!(option(&harness.answered("a")), "now");
    assert_eq!(harness.ends(&session), [EndReason::Completed]);
    let tools = harness.tools(&session).await;
    assert!(matches!(&tools[..], [(tool, ToolState::Completed(_))] if tool == "bash"), "{tools:?}");
    finish(harness).await;
}

#[tokio::test]
async fn a_permanent_approval_is_stored_by_baton() {
    let mut harness = harness("begin; may a 'make test one'; may b 'make test two'; finish; stay").await;
    let session = harness.first_turn(SimulatedUser::AlwaysAgrees).await;
    // The agent gets no permanent approval, because its own "always" might allow more.
    assert_eq!(
        (option(&harness.answered("a")), option(&harness.answered("b"))),
        (&json!("now"), &json!("now"))
    );
    assert_eq!(asked(&harness).len(), 1, "{:?}", asked(&harness));
    assert_eq!(harness.ends(&session), [EndReason::Completed]);
    finish(harness).await;
}

#[tokio::test]
async fn a_refusal_blocks_the_turn_if_the_agent_gives_up() {
    let mut harness = harness("begin; may a 'make test'; tooled a failed; finish; stay").await;
    let session = harness.first_turn(SimulatedUser::Refuses).await;
    assert_eq!(option(&harness.answered("a")), "never");
    assert_eq!(harness.ends(&session), [EndReason::Blocked]);
    finish(harness).await;
}

#[tokio::test]
async fn rules_decide_without_asking_the_user() {
    let text = format!("{MAY}\nbegin; may a 'ls -l'; may b 'rm -r x'; say ok; finish; stay");
    let mut options = options(&script(&text));
    // The built-in rules allow `ls` only in a sandbox, and Baton cannot sandbox a command that the agent runs itself.
    options.agent.program.rules.push(Rule::new("bash", "ls *", Action::Allow));
    options.agent.program.rules.push(Rule::new("bash", "rm *", Action::Deny));
    let mut harness = Harness::new(options).await;
    let session = harness.first_turn(SimulatedUser::Silent).await;
    assert_eq!(asked(&harness), []);
    assert_eq!(
        (option(&harness.answered("a")), option(&harness.answered("b"))),
        (&json!("now"), &json!("never"))
    );
    assert_eq!(harness.ends(&session), [EndReason::Completed]);
    finish(harness).await;
}

#[tokio::test]
async fn a_call_of_an_unknown_kind_is_asked_about() {
    let text = r#"begin; ask a session/request_permission '{"sessionId":"s1","toolCall":{"toolCallId":"a","kind":"switch_mode","title":"Ready to code?","name":"exit_plan"},"options":[{"optionId":"go","kind":"allow_once"}]}'; hear; finish; stay"#;
    let mut harness = harness(text).await;
    harness.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(asked(&harness), [("exit_plan".to_owned(), vec!["*".to_owned()])]);
    assert_eq!(option(&harness.answered("a")), "go");
    finish(harness).await;
}

#[tokio::test]
async fn files_are_read_and_written_for_the_agent() {
    let text = r#"begin
        ask a fs/read_text_file "{\"sessionId\":\"s1\",\"path\":\"$PWD/README.md\",\"line\":2,\"limit\":1}"; hear
        ask b fs/write_text_file "{\"sessionId\":\"s1\",\"path\":\"$PWD/new/file.txt\",\"content\":\"made\\n\"}"; hear
        ask c fs/read_text_file "{\"sessionId\":\"s1\",\"path\":\"$PWD/missing\"}"; hear
        finish; stay"#;
    let mut harness = harness(text).await;
    harness.first_turn(SimulatedUser::Silent).await;
    assert_eq!(harness.answered("a")["result"], json!({ "content": "middle\n" }));
    assert_eq!(harness.answered("b")["result"], json!({}));
    assert!(harness.answered("c")["error"]["message"].as_str().unwrap().contains("there is no file"));
    assert_eq!(std::fs::read_to_string(harness.project.path().join("new/file.txt")).unwrap(), "made\n");
    assert!(
        harness.seen.iter().any(
            |event| matches!(&event.body, EventBody::FileEdited(it) if it.file.ends_with("new/file.txt"))
        )
    );
    finish(harness).await;
}

#[tokio::test]
async fn files_outside_of_the_project_are_asked_about() {
    let text = r#"begin; ask a fs/write_text_file '{"sessionId":"s1","path":"/nonexistent/x","content":""}'; hear
        ask b fs/read_text_file "{\"sessionId\":\"s1\",\"path\":\"$PWD/.env\"}"; hear; finish; stay"#;
    let mut harness = harness(text).await;
    harness.first_turn(SimulatedUser::Refuses).await;
    let asked: Vec<String> = asked(&harness).into_iter().map(|(permission, _)| permission).collect();
    assert_eq!(asked, ["external_directory", "read"]);
    assert!(harness.answered("a")["error"]["message"].as_str().unwrap().contains("rejected"));
    assert!(harness.answered("b")["error"]["message"].as_str().unwrap().contains("rejected"));
    finish(harness).await;
}

#[tokio::test]
async fn a_permitted_call_is_not_asked_about_again_when_baton_executes_it() {
    let text = r#"begin; may a 'make it'
        ask b terminal/create '{"sessionId":"s1","command":"make it"}'; hear
        ask c terminal/wait_for_exit '{"sessionId":"s1","terminalId":"terminal-1"}'; hear; finish; stay"#;
    let mut harness = harness(text).await;
    harness.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(asked(&harness).len(), 1, "{:?}", asked(&harness));
    assert!(harness.answered("c")["result"]["exitCode"].is_number());
    finish(harness).await;
}

#[tokio::test]
async fn commands_are_run_for_the_agent_and_shown_with_their_tool() {
    let text = r#"begin; tool t1 execute in_progress
        ask a terminal/create '{"sessionId":"s1","command":"bash","args":["-c","sleep 600 & echo $! >> .pids; echo made; exit 3"]}'; hear
        update '{"sessionUpdate":"tool_call_update","toolCallId":"t1","content":[{"type":"terminal","terminalId":"terminal-1"}]}'
        ask b terminal/wait_for_exit '{"sessionId":"s1","terminalId":"terminal-1"}'; hear
        ask c terminal/output '{"sessionId":"s1","terminalId":"terminal-1"}'; hear
        ask d terminal/release '{"sessionId":"s1","terminalId":"terminal-1"}'; hear
        kill $(tail -1 .pids); tooled t1 completed; finish; stay"#;
    let mut harness = harness(text).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(harness.answered("b")["result"], json!({ "exitCode": 3 }));
    assert_eq!(harness.answered("c")["result"]["output"], "made\n");
    let tools = harness.tools(&session).await;
    let [(_, ToolState::Completed(done))] = tools.as_slice() else { panic!("{tools:?}") };
    assert_eq!(done.output, "made\n");
    finish(harness).await;
}

#[tokio::test]
async fn commands_end_with_the_turn_that_is_stopped() {
    let text = r#"begin; ask a terminal/create '{"sessionId":"s1","command":"sleep 600"}'; hear
        ask b terminal/create '{"sessionId":"s1","command":"echo $$ >> .pids; sleep 600"}'; hear
        while [ $(wc -l < .pids) -lt 2 ]; do sleep 0.05; done; say hi; hear; finish; stay"#;
    let mut options = options(&script(text));
    options.agent.program.rules.push(Rule::new("bash", "*", Action::Allow));
    let mut harness = Harness::new(options).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    let ids = std::fs::read_to_string(harness.project.path().join(".pids")).unwrap();
    let command = ids.lines().last().unwrap().to_owned();
    assert!(lives(&command));
    harness.sessions.abort(&session.id).await.unwrap();
    harness.until_idle(&session, SimulatedUser::Silent).await;
    assert!(!lives(&command));
    assert_eq!(harness.ends(&session), [EndReason::Aborted]);
    finish(harness).await;
}

#[tokio::test]
async fn a_form_is_a_question() {
    let text = r#"begin; ask a elicitation/create '{"mode":"form","sessionId":"s1","message":"Which colour?","requestedSchema":{"type":"object","properties":{"q":{"type":"string","title":"Colour","oneOf":[{"const":"Red","title":"Red"},{"const":"Blue","title":"Blue"}]}}}}'; hear; finish; stay"#;
    let mut agreed = harness(text).await;
    agreed.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(agreed.answered("a")["result"], json!({ "action": "accept", "content": { "q": "Blue" } }));
    finish(agreed).await;
    let mut refused = harness(text).await;
    let session = refused.first_turn(SimulatedUser::Refuses).await;
    assert_eq!(refused.answered("a")["result"], json!({ "action": "decline" }));
    assert_eq!(refused.ends(&session), [EndReason::Blocked]);
    finish(refused).await;
}

#[tokio::test]
async fn turns_share_a_program() {
    let mut harness = harness("begin; say one; finish 3; hear; say two; finish 4; stay").await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    harness.submit(&session, "again").await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed, EndReason::Completed]);
    let methods: Vec<String> = harness
        .heard()
        .iter()
        .map(|message| message["method"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(methods, ["initialize", "session/new", "session/prompt", "session/prompt"]);
    assert_eq!(harness.heard()[3]["params"]["prompt"], json!([{ "type": "text", "text": "again" }]));
    finish(harness).await;
}

#[tokio::test]
async fn a_conversation_resumes_after_a_server_crash() {
    let text = r#"
        if [ -e .again ]; then
          hear; answer 1 '{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}'
          hear; say 'what was said before'; update '{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"x"}}'; answer 2 null
          hear; say back; finish; stay
        fi
        touch .again; begin; say hi; finish; stay"#;
    let options = options(&script(text));
    let mut harness = Harness::new(options.clone()).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    let mut harness = harness.restart(options).await;
    harness.submit(&session, "again").await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    let load = &harness.heard()[4];
    assert_eq!((&load["method"], &load["params"]["sessionId"]), (&json!("session/load"), &json!("s1")));
    // Messages that the agent repeats while it loads the conversation are not shown again.
    let said = harness.said(&session).await;
    assert!(said.contains("back") && !said.contains("what was said before"), "{said}");
    assert_eq!(harness.ends(&session), [EndReason::Completed]);
    harness.driver.close().await;
    harness.assert_nothing_is_left();
}

#[tokio::test]
async fn a_lost_conversation_starts_again_with_a_notice() {
    let text = r#"
        if [ -e .again ]; then greet; hear; refuse 2 -32602 'unknown session'; hear; answer 3 '{"sessionId":"s2"}'; hear; answer 4 '{"stopReason":"end_turn"}'; stay; fi
        touch .again; begin; finish; exit 0"#;
    let mut harness = harness(text).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    harness.driver.forget(&session.id).await;
    harness.submit(&session, "again").await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed, EndReason::Completed]);
    assert!(
        harness.errors()[0].contains("begins a new one without memory of this session"),
        "{:?}",
        harness.errors()
    );
    finish(harness).await;
}

#[tokio::test]
async fn an_idle_program_is_stopped_and_starts_again() {
    let text = "if [ -e .again ]; then greet; hear; answer 2 '{}'; hear; finish; stay; fi; touch .again; begin; finish; stay";
    let mut options = options(&script(text));
    options.agent.keeping.idle = Duration::from_millis(50);
    let mut harness = Harness::new(options).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    let first = std::fs::read_to_string(harness.project.path().join(".pids")).unwrap();
    while lives(first.trim()) {
        tokio::task::yield_now().await;
    }
    harness.submit(&session, "again").await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed, EndReason::Completed]);
    assert_eq!(harness.heard()[4]["method"], "session/resume");
    finish(harness).await;
}

#[tokio::test]
async fn an_agent_that_begins_by_itself_gets_a_turn() {
    let text = r#"begin; say one; finish; ready
        update '{"sessionUpdate":"session_info_update","_meta":{"codex":{"threadStatus":{"type":"active"}}}}'
        say two; tool t1 read in_progress; tooled t1 completed; say three
        update '{"sessionUpdate":"session_info_update","_meta":{"codex":{"threadStatus":{"type":"idle"}}}}'; stay"#;
    let mut harness = harness(text).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    harness.go();
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed, EndReason::Completed]);
    assert!(harness.said(&session).await.ends_with("two|three"), "{}", harness.said(&session).await);
    finish(harness).await;
}

#[tokio::test]
async fn a_prompt_ends_a_turn_that_the_agent_started() {
    let mut harness =
        harness("begin; say one; finish; ready; say two; hear; say three; finish 4; stay").await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    harness.go();
    harness.until(|body| matches!(body, EventBody::PartDelta(delta) if delta.delta == "two")).await;
    harness.submit(&session, "again").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(delta) if delta.delta == "three")).await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    finish(harness).await;
}

#[tokio::test]
async fn a_model_is_chosen_if_the_agent_has_it() {
    let text = r#"greet; hear; answer 2 '{"sessionId":"s1","configOptions":[{"id":"model","type":"select","currentValue":"small","options":[{"value":"small"},{"value":"large"}]}]}'
        hear; answer 3 '{"configOptions":[]}'; hear; finish 4; hear; finish 5; stay"#;
    let mut harness = harness(text).await;
    let session = harness.session().await;
    let prompt = |model: &str| {
        let mut prompt = PromptInput::text("please");
        prompt.model = Some(ModelRef::new("acp:fake", model));
        prompt
    };
    for model in ["large", "large", "huge"] {
        harness.sessions.submit(&session.id, prompt(model)).await.unwrap();
        harness.until_idle(&session, SimulatedUser::Agrees).await;
    }
    assert_eq!(
        harness.heard()[2]["params"],
        json!({ "sessionId": "s1", "configId": "model", "value": "large" })
    );
    assert_eq!(harness.ends(&session), [EndReason::Completed, EndReason::Completed, EndReason::Error]);
    assert!(
        harness.errors()[0].contains("does not offer the model \"huge\"")
            && harness.errors()[0].contains("small, large")
    );
    finish(harness).await;
}

#[tokio::test]
async fn an_agent_receives_the_abilities_of_the_client() {
    let mut harness = harness("begin; finish; stay").await;
    harness.first_turn(SimulatedUser::Agrees).await;
    let heard = harness.heard();
    let able = &heard[0]["params"]["clientCapabilities"];
    assert_eq!(able["fs"], json!({ "readTextFile": true, "writeTextFile": true }));
    assert_eq!((&able["terminal"], &able["elicitation"]), (&json!(true), &json!({ "form": {} })));
    assert_eq!(heard[1]["params"], json!({ "cwd": harness.directory(), "mcpServers": [] }));
    finish(harness).await;
}

#[tokio::test]
async fn a_command_of_the_agent_is_dead_when_an_abort_has_ended_the_turn() {
    let text = r#"begin; tool t1 execute in_progress; setsid sleep 600 & echo $! >> .pids; say hi
        hear; answer 3 '{"stopReason":"cancelled"}'; stay"#;
    let mut harness = harness(text).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    harness.sessions.abort(&session.id).await.unwrap();
    harness.until_idle(&session, SimulatedUser::Silent).await;
    assert_eq!(harness.ends(&session), [EndReason::Aborted]);
    harness.assert_nothing_is_left();
}

#[tokio::test]
async fn texts_around_a_failed_call_do_not_run_together() {
    for failure in [
        r#""toolCallId":"t1","status":"failed","_meta":{"toolName":"read_file"}"#,
        r#""toolCallId":"t1","status":"failed""#,
    ] {
        let update = format!(r#"update '{{"sessionUpdate":"tool_call_update",{failure}}}'"#);
        let mut harness = harness(&format!("begin; say one\n{update}\nsay two; finish; stay")).await;
        let session = harness.first_turn(SimulatedUser::Agrees).await;
        assert_eq!(harness.said(&session).await, "one|two", "{failure}");
        assert_eq!(harness.tools(&session).await.len(), usize::from(failure.contains("toolName")));
        finish(harness).await;
    }
}

#[tokio::test]
async fn tokens_that_an_agent_reports_with_its_chunks_count() {
    let used = |usage: &str| {
        format!(
            r#"update '{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":""}},"_meta":{{"usage":{usage}}}}}'"#
        )
    };
    let first = used(r#"{"promptTokens":100,"completionTokens":7,"totalTokens":107,"cachedTokens":40}"#);
    let second = used(r#"{"inputTokens":200,"outputTokens":8,"totalTokens":208}"#);
    let text = format!("begin; say one\n{first}\ntool t1 read completed\nsay two\n{second}\nfinish; stay");
    let mut harness = harness(&text).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    let tokens = harness.sessions.get(&session.id).await.unwrap().tokens.unwrap();
    assert_eq!((tokens.input, tokens.output, tokens.cache.read), (60 + 200, 7 + 8, 40));
    finish(harness).await;
}

#[tokio::test]
async fn a_failed_call_that_was_not_announced_is_shown() {
    let text = r#"begin; say one
        update '{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"failed","_meta":{"toolName":"read_file"},"content":[{"type":"content","content":{"type":"text","text":"the path is relative"}}]}'
        say two; finish; stay"#;
    let mut harness = harness(text).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    let tools = harness.tools(&session).await;
    let [(tool, ToolState::Error(failed))] = tools.as_slice() else { panic!("{tools:?}") };
    assert!(tool == "read_file" && failed.error.contains("the path is relative"), "{tools:?}");
    assert_eq!(harness.said(&session).await, "one|two");
    finish(harness).await;
}
