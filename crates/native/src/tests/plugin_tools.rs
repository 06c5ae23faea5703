//! Whole turns with tools that a plugin provides.

use std::sync::Arc;

use engine::ports::{ToolCall, ToolCaller, ToolInfo, ToolOutput, ToolPermission, Tools};
use futures::future::{BoxFuture, FutureExt};
use llm::Purpose;
use protocol::{
    EndReason, Extra, ToolState,
    request::{Action, Rule},
};
use serde_json::json;

use crate::tests::harness::{Harness, Responder};
use crate::tests::scripted_model::{Reply, ScriptedModel};
use crate::{Options, ToolOptions, built_in};

/// Returns its arguments, after asking for a permission if they say so.
#[derive(Debug)]
struct Echo;

impl Tools for Echo {
    fn list(&self) -> Vec<ToolInfo> {
        let tool = |id: &str| ToolInfo {
            id: id.to_owned(),
            description: format!("the plugin's {id}"),
            parameters: json!({ "type": "object" }),
        };
        vec![tool("echo"), tool("glob"), tool("no name"), tool("invalid")]
    }

    fn call<'a>(
        &'a self,
        call: ToolCall,
        caller: &'a dyn ToolCaller,
    ) -> BoxFuture<'a, Result<ToolOutput, String>> {
        async move {
            caller.progress(Some("half".to_owned()), Extra::new()).await;
            if call.args.contains_key("ask") {
                let (permission, all) = ("echo_aloud".to_owned(), vec!["*".to_owned()]);
                let needed =
                    ToolPermission { permission, patterns: all.clone(), always: all, ..Default::default() };
                caller.permission(needed).await?;
            }
            let text = format!("{} by {} in {}", json!(call.args), call.agent, call.call);
            Ok(ToolOutput { text, ..ToolOutput::default() })
        }
        .boxed()
    }
}

async fn harness(model: &ScriptedModel) -> Harness {
    let tools = ToolOptions { plugins: Some(Arc::new(Echo)), ..ToolOptions::default() };
    let agents = built_in(&[Rule::new("echo_aloud", "*", Action::Ask)]);
    Harness::with_model(Arc::new(model.clone()), Options { agents, tools, ..Options::default() }).await
}

#[tokio::test]
async fn a_plugins_tool_is_offered_and_takes_the_place_of_ours() {
    let model = ScriptedModel::new([Reply::call("c1", "echo", json!({ "a": 1 })), Reply::text("done")]);
    let mut harness = harness(&model).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let offered = &model.requests(Purpose::Turn)[0].tools;
    let about = |name: &str| offered.iter().filter(|tool| tool.name == name).collect::<Vec<_>>();
    assert_eq!(
        about("glob")[..].iter().map(|tool| tool.description.as_str()).collect::<Vec<_>>(),
        ["the plugin's glob"]
    );
    assert!(about("no name").is_empty() && about("invalid").is_empty());
    let tools = harness.tools(&session).await;
    let [ToolState::Completed(state)] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!((state.title.as_str(), state.output.as_str()), ("echo", r#"{"a":1} by build in c1"#));
}

#[tokio::test]
async fn a_plugins_tool_asks_like_ours_and_a_refusal_ends_the_turn() {
    for (responder, expected) in
        [(Responder::AllowOnce, EndReason::Completed), (Responder::Reject, EndReason::Blocked)]
    {
        let model =
            ScriptedModel::new([Reply::call("c1", "echo", json!({ "ask": true })), Reply::text("done")]);
        let mut harness = harness(&model).await;
        let session = harness.turn("simple", responder).await;
        assert_eq!(harness.end(&session), expected);
    }
}
