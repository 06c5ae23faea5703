//! Metadata round trips: the response of one step, encoded in the next request, contains every signature
//! unchanged.

use super::*;
use crate::ToolResult;

/// Body of the request after the recorded response.
fn returned(name: &str, target: &Target) -> Value {
    let (dialect, stream) = recording(name);
    let said = told(&hear(dialect, [stream.as_bytes()]));
    let results: Vec<ToolResult> = said
        .iter()
        .filter_map(|content| match content {
            AssistantContent::ToolCall { id, name, .. } => Some(ToolResult {
                id: id.clone(),
                name: name.clone(),
                output: format!("what {name} found"),
                is_error: name == "list",
                files: Vec::new(),
            }),
            _ => None,
        })
        .collect();
    let mut request = request();
    request.messages.push(Message::Assistant(said));
    if !results.is_empty() {
        request.messages.push(Message::Tool(results));
    }
    dialect.encode(&request, target).body
}

#[track_caller]
fn holds(body: &Value, signatures: &[&str]) {
    let body = body.to_string();
    for signature in signatures {
        assert!(body.contains(&format!("\"{signature}\"")), "{signature} is not in {body}");
    }
}

#[test]
fn claude_gets_its_thinking_back() {
    let body = returned("anthropic", &target("claude-sonnet-4-5"));
    holds(&body, &["EqoBCkgIARABGAIi/+sig==", "EmwKAhgBEgy3va3p"]);
    insta::assert_json_snapshot!("returned_anthropic", body["messages"]);
}

#[test]
fn gpt_gets_its_reasoning_back() {
    let body = returned("responses", &target("gpt-5"));
    holds(&body, &["gAAAA-last_/+=="]);
    insta::assert_json_snapshot!("returned_responses", body["input"]);
}

#[test]
fn a_compatible_server_gets_its_reasoning_back_in_the_same_field() {
    let body = returned("chat", &target("deepseek-v4"));
    holds(&body, &["Erst überlegen 🙂, then act."]);
    insta::assert_json_snapshot!("returned_chat", body["messages"]);
    let mut other = target("deepseek-v4");
    other.quirks.reasoning_field = Some("reasoning".to_owned());
    assert_eq!(returned("chat", &other)["messages"][2]["reasoning"], "Erst überlegen 🙂, then act.");
}

#[test]
fn a_router_gets_its_details_back() {
    let mut target = target("google/gemini-3-pro");
    target.quirks.router = true;
    let body = returned("router", &target);
    holds(&body, &["CiMB+enc/==", "sig-1", "Überlegt."]);
    insta::assert_json_snapshot!("returned_router", body["messages"]);
}

#[test]
fn gemini_gets_its_signatures_back() {
    let body = returned("gemini", &target("gemini-3-pro-preview"));
    holds(&body, &["EpEgCo4gAb4+9vvW/call=="]);
    insta::assert_json_snapshot!("returned_gemini", body["contents"]);
    let body = returned("gemini_text", &target("gemini-3-flash"));
    holds(&body, &["thought+sig==", "text/sig=="]);
    insta::assert_json_snapshot!("returned_gemini_text", body["contents"]);
}

#[test]
fn another_providers_signatures_are_not_sent() {
    for (_, from, stream) in RECORDINGS {
        let said = told(&hear(from, [stream.as_bytes()]));
        for to in ALL.into_iter().filter(|to| *to != from) {
            let mut request = request();
            request.messages.push(Message::Assistant(said.clone()));
            let body = to.encode(&request, &target("model")).body.to_string();
            for word in ["sig", "gAAAA", "EmwKAhg", "EpEgCo", "CiMB"] {
                assert!(!body.contains(word), "{from:?} to {to:?}: {word} in {body}");
            }
        }
    }
}

#[test]
fn a_gemini_3_call_without_a_signature_uses_the_documented_replacement() {
    let mut request = request();
    let call =
        |id: &str| AssistantContent::ToolCall { id: id.into(), name: "read".into(), input: Value::Null };
    request.messages.push(Message::Assistant(vec![call("a"), call("b")]));
    let parts =
        |model: &str| Dialect::Gemini.encode(&request, &target(model)).body["contents"][1]["parts"].clone();
    assert_eq!(parts("gemini-3-pro")[0]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(parts("gemini-2.5-pro")[0]["thoughtSignature"], Value::Null);
}
