//! Compares the shapes with OpenCode's JSON.

use protocol::{Extra, MessageId, PartId, PermissionId, SessionId, message::ModelRef, request::Action};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::*;

const SESSION: &str = "ses_0123456789abABCDEFGHIJKLMN";
const MESSAGE: &str = "msg_0123456789abABCDEFGHIJKLMN";
const PART: &str = "prt_0123456789abABCDEFGHIJKLMN";

fn session() -> SessionId {
    SESSION.parse().unwrap()
}

fn message() -> MessageId {
    MESSAGE.parse().unwrap()
}

fn part() -> PartId {
    PART.parse().unwrap()
}

/// The shape as one line of JSON.
fn wire(shape: &impl Serialize) -> String {
    serde_json::to_string(shape).unwrap()
}

/// Reads a shape and writes it again: no field of OpenCode's may be lost.
fn round<T: Serialize + DeserializeOwned>(wire: Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(wire).unwrap()).unwrap()
}

fn model() -> Value {
    let kinds = json!({ "text": true, "audio": false, "image": false, "video": false, "pdf": false });
    json!({
        "id": "large", "providerID": "acme", "name": "Large",
        "api": { "id": "large-1", "url": "https://acme.test", "npm": "@ai-sdk/openai-compatible" },
        "capabilities": {
            "temperature": true, "reasoning": false, "attachment": false, "toolcall": true,
            "input": kinds, "output": kinds, "interleaved": false,
        },
        "cost": { "input": 3, "output": 15, "cache": { "read": 0, "write": 0 } },
        "limit": { "context": 200_000, "output": 64_000 },
        "status": "active", "options": {}, "headers": {}, "release_date": "",
    })
}

fn provider() -> Value {
    json!({ "id": "acme", "name": "Acme", "source": "env", "env": ["ACME_API_KEY"], "options": {}, "models": {} })
}

fn prompt() -> Value {
    json!({
        "id": MESSAGE, "sessionID": SESSION, "role": "user", "time": { "created": 1 }, "agent": "build",
        "model": { "providerID": "acme", "modelID": "large" },
    })
}

fn context() -> Value {
    json!({
        "sessionID": SESSION, "agent": "build", "model": model(),
        "provider": { "source": "env", "info": provider(), "options": { "timeout": 5 } }, "message": prompt(),
    })
}

#[test]
fn every_hook_has_the_name_that_plugins_use() {
    let names: Vec<&str> = HookPoint::ALL.iter().map(|point| point.name()).collect();
    insta::assert_debug_snapshot!(names, @r#"
    [
        "chat.message",
        "chat.params",
        "chat.headers",
        "permission.ask",
        "command.execute.before",
        "tool.execute.before",
        "tool.execute.after",
        "tool.definition",
        "shell.env",
        "experimental.chat.messages.transform",
        "experimental.chat.system.transform",
        "experimental.provider.small_model",
        "experimental.session.compacting",
        "experimental.compaction.autocontinue",
        "experimental.text.complete",
        "turn.end",
    ]
    "#);
    for point in HookPoint::ALL {
        assert_eq!(HookPoint::named(point.name()), Some(*point));
    }
    assert_eq!(HookPoint::named("event"), None);
}

#[test]
fn shapes_survive_the_way_to_a_plugin_and_back() {
    let part =
        json!({ "id": PART, "sessionID": SESSION, "messageID": MESSAGE, "type": "text", "text": "hi" });
    let named = json!({
        "sessionID": SESSION, "agent": "build", "model": { "providerID": "acme", "modelID": "large" },
        "messageID": MESSAGE, "variant": "high",
    });
    assert_eq!(round::<ChatMessage>(named.clone()), named);
    assert_eq!(round::<ChatMessage>(json!({ "sessionID": SESSION })), json!({ "sessionID": SESSION }));
    let prompted = json!({ "message": prompt(), "parts": [part] });
    assert_eq!(round::<Prompted>(prompted.clone()), prompted);
    assert_eq!(round::<ChatContext>(context()), context());
    let mut overflow = context();
    overflow["overflow"] = true.into();
    assert_eq!(round::<Autocontinue>(overflow.clone()), overflow);
    let params =
        json!({ "temperature": 0.5, "topP": 1, "topK": 40, "maxOutputTokens": 32000, "options": { "a": 1 } });
    assert_eq!(round::<Params>(params.clone()), params);
    let messages = json!({ "messages": [{ "info": prompt(), "parts": [part] }] });
    assert_eq!(round::<Messages>(messages.clone()), messages);
    let system = json!({ "sessionID": SESSION, "model": model() });
    assert_eq!(round::<SystemTransform>(system.clone()), system);
    assert_eq!(round::<SmallModel>(json!({ "provider": provider() })), json!({ "provider": provider() }));
    assert_eq!(round::<SmallModelChoice>(json!({ "model": model() })), json!({ "model": model() }));
    let command = json!({ "parts": [{ "type": "text", "text": "hi" }] });
    assert_eq!(round::<CommandParts>(command.clone()), command);
}

#[test]
fn small_shapes_are_opencodes() {
    let call = || ("bash".to_owned(), session(), "call_1".to_owned());
    let (tool, session_id, call_id) = call();
    let before = ToolBefore { tool, session_id, call_id };
    let (tool, session_id, call_id) = call();
    let after = ToolAfter { tool, session_id, call_id, args: json!({ "command": "ls" }) };
    let shell = ShellEnv { cwd: "/project".into(), session_id: Some(session()), call_id: None };
    let ending = TurnEnding {
        session_id: session(),
        parent_id: None,
        message_id: message(),
        agent: "build".into(),
        model: ModelRef::new("acme", "large"),
        continued: 2,
    };
    let text = TextComplete { session_id: session(), message_id: message(), part_id: part() };
    let all = [
        wire(&before),
        wire(&after),
        wire(&ToolArgs { args: json!({ "command": "ls" }) }),
        wire(&ToolOutcome { title: "ls".into(), output: "a".into(), metadata: Extra::new() }),
        wire(&ToolDefinition { tool_id: "bash".into() }),
        wire(&Definition { description: "d".into(), parameters: json!({}), json_schema: json!({}) }),
        wire(&shell),
        wire(&Environment { env: [("A".to_owned(), "1".to_owned())].into() }),
        wire(&CommandBefore { command: "init".into(), session_id: session(), arguments: "x".into() }),
        wire(&PermissionStatus { status: Action::Ask }),
        wire(&MessagesTransform {}),
        wire(&System { system: vec!["be kind".into()] }),
        wire(&Compacting { session_id: session() }),
        wire(&CompactionPrompt { context: vec!["c".into()], prompt: Some("p".into()) }),
        wire(&AutocontinueChoice { enabled: true }),
        wire(&Headers { headers: [("x-a".to_owned(), "1".to_owned())].into() }),
        wire(&text),
        wire(&Text { text: "t".into() }),
        wire(&ending),
        wire(&Next { text: Some("go on".into()) }),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn a_permission_is_shown_to_plugins_in_its_old_shape() {
    let request = protocol::request::PermissionRequest {
        id: "per_0123456789abABCDEFGHIJKLMN".parse::<PermissionId>().unwrap(),
        session_id: session(),
        root_id: None,
        deadline: None,
        permission: "bash".into(),
        patterns: vec!["ls *".into(), "pwd".into()],
        metadata: Extra::from_iter([("command".to_owned(), "ls -l && pwd".into())]),
        always: vec!["ls *".into()],
        tool: Some(protocol::request::ToolRef::new(message(), "call_1")),
        extra: Extra::new(),
    };
    insta::assert_snapshot!(wire(&PermissionAsk::new(&request, 7)));
}

#[test]
fn keys_of_a_provider_are_not_shown() {
    let mut leaky = context();
    leaky["provider"]["options"]["apiKey"] = "sk-1".into();
    leaky["provider"]["info"]["key"] = "sk-2".into();
    assert_eq!(round::<ChatContext>(leaky), context());
}

#[test]
fn a_prompt_cannot_become_an_answer() {
    let mut turned = json!({ "message": prompt(), "parts": [] });
    turned["message"]["role"] = "assistant".into();
    assert!(serde_json::from_value::<Prompted>(turned).is_err());
}

#[test]
fn without_plugins_hooks_change_nothing() {
    assert!(HookPoint::ALL.iter().all(|point| !NoHooks.wants(*point)));
    let text = Text { text: "as it was".into() };
    let input = TextComplete { session_id: session(), message_id: message(), part_id: part() };
    assert_eq!(NoHooks::shared().change(&input, text.clone()).now_or_never().unwrap(), text);
}
