//! Requests to bodies.

use serde_json::{Map, json};

use super::*;
use crate::{CallHeaders, Choice, Sampling, ToolFile, ToolResult};

const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";
const PDF: &str = "data:application/pdf;base64,JVBERi0=";

fn file(mime: &str, name: &str, url: &str) -> UserContent {
    UserContent::File { mime: mime.into(), name: Some(name.into()), url: url.into() }
}

fn text(text: &str) -> UserContent {
    UserContent::Text(text.into())
}

fn said(text: &str) -> AssistantContent {
    AssistantContent::Text(text.into())
}

fn options(value: Value) -> Map<String, Value> {
    let Value::Object(options) = value else { panic!("options are an object") };
    options
}

/// A conversation with every kind of content.
fn everything() -> Request {
    let mut request = request();
    request.messages = vec![
        Message::User(vec![
            text("Look at these:"),
            file("image/png", "a.png", PNG),
            file("image/jpeg", "b.jpg", "https://x.test/b.jpg"),
            file("application/pdf", "c.pdf", PDF),
            text(""),
        ]),
        Message::Assistant(vec![
            said("I will."),
            AssistantContent::Reasoning { text: "unsigned".into(), metadata: None },
            AssistantContent::ToolCall {
                id: "call:1".into(),
                name: "read".into(),
                input: json!({ "filePath": "a" }),
            },
            AssistantContent::ToolCall {
                id: "call:2".into(),
                name: "list".into(),
                input: json!("not { JSON"),
            },
        ]),
        Message::Tool(vec![
            ToolResult {
                id: "call:1".into(),
                name: "read".into(),
                output: "a picture".into(),
                is_error: false,
                files: vec![ToolFile {
                    mime: "image/png".into(),
                    name: Some("r.png".into()),
                    url: PNG.into(),
                }],
            },
            ToolResult {
                id: "call:2".into(),
                name: "list".into(),
                output: "no such directory".into(),
                is_error: true,
                files: Vec::new(),
            },
        ]),
        Message::Assistant(vec![]),
        Message::User(vec![text("Go on."), text("Please.")]),
        Message::Assistant(vec![said("Half an answer \n")]),
    ];
    request.sampling = Sampling { temperature: Some(0.5), top_p: Some(0.9), top_k: None };
    request.headers = CallHeaders::from_iter([("x-session-id", "ses_1")]);
    request
}

#[test]
fn a_whole_conversation_is_encoded_in_every_dialect() {
    for (dialect, model) in [
        (Dialect::Anthropic, "claude-sonnet-4-5"),
        (Dialect::Responses, "gpt-4.1"),
        (Dialect::Chat, "llama-4"),
        (Dialect::Gemini, "gemini-2.5-pro"),
    ] {
        let mut target = target(model);
        target.headers = CallHeaders::from_iter([("x-model", "yes"), ("x-session-id", "overridden")]);
        let call = dialect.encode(&everything(), &target);
        let headers: Vec<String> =
            call.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        insta::assert_json_snapshot!(
            format!("told_{}", format!("{dialect:?}").to_lowercase()),
            json!({ "path": call.path, "headers": headers, "body": call.body })
        );
    }
}

#[test]
fn mistral_gets_short_ids_and_an_assistant_message() {
    let mut target = target("mistral-large");
    target.quirks.mistral = true;
    target.quirks.strict = true;
    let body = Dialect::Chat.encode(&everything(), &target).body;
    insta::assert_json_snapshot!("told_mistral", body["messages"]);
    assert_eq!(body.get("stream_options"), None);
}

#[test]
fn a_router_gets_cache_marks_for_claude() {
    let mut target = target("anthropic/claude-sonnet-4.5");
    target.quirks.router = true;
    let messages = Dialect::Chat.encode(&everything(), &target).body["messages"].clone();
    let marked: Vec<bool> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message.to_string().contains("ephemeral"))
        .collect();
    assert_eq!(marked, [true, false, false, false, false, false, true, true], "{messages:#}");
}

#[test]
fn claude_gets_four_cache_marks_and_none_on_thinking() {
    let mut request = everything();
    let metadata = Some(json!({ "anthropic": { "signature": "s" } }));
    request.messages.push(Message::User(vec![text("And?")]));
    request.messages.push(Message::Assistant(vec![
        said("Well."),
        AssistantContent::Reasoning { text: "hm".into(), metadata },
    ]));
    let body = Dialect::Anthropic.encode(&request, &target("claude-x")).body;
    assert_eq!(body.to_string().matches("ephemeral").count(), 4);
    let last = body["messages"].as_array().unwrap().last().unwrap();
    assert!(last["content"][0].get("cache_control").is_some(), "{last}");
    assert!(last["content"][1].get("cache_control").is_none(), "{last}");
}

#[test]
fn unsupported_files_are_not_sent() {
    let mut target = target("small");
    target.abilities.temperature = false;
    target.abilities.input.image = false;
    target.abilities.input.pdf = false;
    for dialect in ALL {
        let body = dialect.encode(&everything(), &target).body.to_string();
        assert!(!body.contains("iVBOR") && !body.contains("JVBER") && !body.contains("b.jpg\\\"}"), "{body}");
        assert!(body.contains("does not support image input"), "{body}");
        assert!(!body.to_lowercase().contains("temperature") && !body.contains("0.9"), "{body}");
    }
}

#[test]
fn a_tool_call_can_be_required() {
    let mut request = request();
    request.choice = Choice::Required;
    let body = |dialect: Dialect| dialect.encode(&request, &target("m")).body;
    assert_eq!(body(Dialect::Anthropic)["tool_choice"], json!({ "type": "any" }));
    assert_eq!(body(Dialect::Responses)["tool_choice"], "required");
    assert_eq!(body(Dialect::Chat)["tool_choice"], "required");
    assert_eq!(body(Dialect::Gemini)["toolConfig"]["functionCallingConfig"]["mode"], "ANY");
}

#[test]
fn claude_does_not_think_before_a_required_call() {
    let mut target = target("claude-x");
    target.options = options(json!({ "thinking": { "type": "enabled", "budgetTokens": 1000 } }));
    let mut request = request();
    assert!(Dialect::Anthropic.encode(&request, &target).body.get("thinking").is_some());
    request.choice = Choice::Required;
    assert!(Dialect::Anthropic.encode(&request, &target).body.get("thinking").is_none());
}

#[test]
fn without_tools_the_body_omits_tool_fields() {
    let mut request = request();
    request.tools.clear();
    request.choice = Choice::Required;
    for dialect in ALL {
        let body = dialect.encode(&request, &target("m")).body.to_string();
        assert!(!body.contains("tool"), "{body}");
    }
}

#[test]
fn opencodes_settings_are_moved_and_others_pass_through() {
    let given = json!({
        "reasoningEffort": "high", "reasoningSummary": "auto", "textVerbosity": "low", "promptCacheKey": "ses_1",
        "include": ["reasoning.encrypted_content"], "store": true, "custom": { "a": 1 },
    });
    let mut target = target("m");
    target.options = options(given);
    let mut request = request();
    request.options = options(json!({ "custom": { "b": 2 }, "store": false }));

    let body = Dialect::Responses.encode(&request, &target).body;
    assert_eq!(body["reasoning"], json!({ "effort": "high", "summary": "auto" }));
    assert_eq!(body["text"], json!({ "verbosity": "low" }));
    assert_eq!(body["prompt_cache_key"], "ses_1");
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body["custom"], json!({ "a": 1, "b": 2 }));
    assert_eq!(body["store"], false);

    let body = Dialect::Chat.encode(&request, &target).body;
    assert_eq!((&body["reasoning_effort"], &body["verbosity"]), (&json!("high"), &json!("low")));
    assert_eq!(body["custom"], json!({ "a": 1, "b": 2 }));

    target.options = options(json!({
        "thinkingConfig": { "includeThoughts": true }, "thinkingLevel": "high", "safetySettings": [],
        "generationConfig": { "seed": 1 },
    }));
    let body = Dialect::Gemini.encode(&request, &target).body;
    assert_eq!(
        body["generationConfig"],
        json!({ "maxOutputTokens": 32_000, "seed": 1,
            "thinkingConfig": { "includeThoughts": true, "thinkingLevel": "high" } })
    );
    assert_eq!(body["safetySettings"], json!([]));

    target.options = options(json!({
        "thinking": { "type": "adaptive", "display": "summarized" }, "effort": "high", "speed": "fast",
        "metadata": { "userId": "u" }, "anthropicBeta": ["fast-mode-2026-02-01"], "toolStreaming": true,
        "disableParallelToolUse": true,
    }));
    request.sampling.temperature = Some(0.1);
    target.headers = CallHeaders::from_iter([("Anthropic-Beta", "mine")]);
    let call = Dialect::Anthropic.encode(&request, &target);
    assert_eq!(call.body["thinking"], json!({ "type": "adaptive", "display": "summarized" }));
    assert_eq!(call.body["output_config"], json!({ "effort": "high" }));
    assert_eq!(call.body["metadata"], json!({ "user_id": "u" }));
    assert_eq!(call.body["speed"], "fast");
    assert_eq!(call.body["tool_choice"]["disable_parallel_tool_use"], true);
    assert_eq!(call.body.get("temperature"), None, "thinking has its own");
    assert_eq!(call.headers.get("anthropic-beta"), Some("mine,fast-mode-2026-02-01"));
}

#[test]
fn the_output_limit_is_the_smaller_one_and_a_budget_comes_on_top() {
    let mut request = request();
    let mut target = target("m");
    let limit = |request: &Request, target: &Target| {
        Dialect::Anthropic.encode(request, target).body["max_tokens"].clone()
    };
    assert_eq!(limit(&request, &target), 32_000);
    target.output_limit = Some(8_000);
    assert_eq!(limit(&request, &target), 8_000);
    request.limits.output_tokens = None;
    target.output_limit = Some(0);
    assert_eq!(limit(&request, &target), 32_000, "unknown");
    assert_eq!(Dialect::Chat.encode(&request, &target).body.get("max_tokens"), None);

    request.limits.output_tokens = Some(32_000);
    target.options = options(json!({ "thinking": { "type": "enabled", "budgetTokens": 16_000 } }));
    target.output_limit = Some(64_000);
    assert_eq!(limit(&request, &target), 48_000);
    target.output_limit = Some(40_000);
    assert_eq!(limit(&request, &target), 40_000);
    target.output_limit = Some(8_000);
    assert_eq!(limit(&request, &target), 16_001, "the limit must exceed the budget");
}

#[test]
fn the_new_name_of_the_limit_is_used_where_it_is_known() {
    let mut target = target("gpt-5");
    target.quirks.max_completion_tokens = true;
    let body = Dialect::Chat.encode(&request(), &target).body;
    assert_eq!((body.get("max_tokens"), &body["max_completion_tokens"]), (None, &json!(32_000)));
}

#[test]
fn gemma_gets_the_system_prompt_as_a_message() {
    let body = Dialect::Gemini.encode(&request(), &target("gemma-4-31b-it")).body;
    assert_eq!(body.get("systemInstruction"), None);
    assert_eq!(body["contents"][0]["parts"].as_array().unwrap().len(), 2);
}
