//! Output of every scenario, and the effect of the clock and the attempt.

use std::fmt::Write as _;
use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use tokio::time::Instant;

use super::{Demo, ParseError, Scenarios};
use crate::{
    AssistantContent, Error, Message, Model, ModelEvent, ModelRef, Purpose, Request, Tool, ToolResult,
    UserContent,
};

fn request(model: &str, prompt: &str) -> Request {
    let mut request = Request::new(ModelRef::new("demo", model));
    request.messages = vec![Message::User(vec![UserContent::Text(prompt.to_owned())])];
    request.tools = ["bash", "list", "question", "read", "task", "todowrite"]
        .map(|name| Tool { name: name.to_owned(), description: String::new(), schema: json!({}) })
        .to_vec();
    request
}

/// One call as text: a line per event, deltas as their text only. A minute of silence ends it.
async fn hear(demo: &Demo, request: Request) -> (String, Vec<ModelEvent>) {
    let mut heard = String::new();
    let mut events = Vec::new();
    let mut stream = match demo.stream(request).await {
        Ok(stream) => stream,
        Err(error) => return (format!("refused: {error:?}\n"), events),
    };
    loop {
        match tokio::time::timeout(Duration::from_mins(1), stream.next()).await {
            Err(_) => break heard.push_str("silence\n"),
            Ok(None) => break,
            Ok(Some(Err(error))) => writeln!(heard, "failed: {error:?}").unwrap(),
            Ok(Some(Ok(event))) => {
                match &event {
                    ModelEvent::TextDelta { text, .. } | ModelEvent::ReasoningDelta { text, .. } => {
                        writeln!(heard, "  {text:?}").unwrap();
                    }
                    other => writeln!(heard, "{}", serde_json::to_string(other).unwrap()).unwrap(),
                }
                events.push(event);
            }
        }
    }
    (heard, events)
}

/// A whole turn: answers tool calls with `answers`, retries failed calls, makes at most `calls` calls.
async fn turn(
    demo: &Demo,
    mut request: Request,
    calls: usize,
    answers: impl Fn(&str) -> ToolResult,
) -> String {
    let mut told = String::new();
    let mut failure = "none yet".to_owned();
    for _ in 0..calls {
        writeln!(told, "-- call, attempt {}", request.attempt).unwrap();
        let (heard, events) = hear(demo, request.clone()).await;
        if heard == failure {
            told.push_str("the same, for ever\n");
            break;
        }
        told.push_str(&heard);
        let Some(ModelEvent::Finish { .. }) = events.last() else {
            request.attempt += 1;
            failure = heard;
            continue;
        };
        request.attempt = 0;
        let mut said = Vec::new();
        let mut results = Vec::new();
        for event in events {
            if let ModelEvent::ToolCall { id, name, input } = event {
                results.push(ToolResult { id: id.clone(), ..answers(&name) });
                said.push(AssistantContent::ToolCall { id, name, input });
            }
        }
        let done = results.is_empty();
        request.messages.extend([Message::Assistant(said), Message::Tool(results)]);
        if done {
            break;
        }
    }
    told
}

fn fixture(name: &str) -> ToolResult {
    let output = match name {
        "list" => {
            "<path>/project</path>\n<type>directory</type>\n<entries>\nCargo.toml\nREADME.md\nsrc/\n\n(3 entries)\n</entries>"
        }
        "read" => {
            "<path>/project/README.md</path>\n<type>file</type>\n<content>\n1: # Fixture\n2: \n3: A small project.\n\n(End of file - total 3 lines)\n</content>"
        }
        "task" => {
            "<task id=\"ses_1\" state=\"completed\">\n<task_result>\nAll quiet.\n</task_result>\n</task>"
        }
        _ => "done",
    };
    ToolResult {
        id: String::new(),
        name: name.to_owned(),
        output: output.to_owned(),
        is_error: false,
        files: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn built_in_scenarios_match_their_snapshots() {
    let demo = Demo::built_in().unwrap();
    let names: Vec<String> = Scenarios::built_in().unwrap().iter().map(|(name, _)| name.to_owned()).collect();
    assert!(names.len() >= 30, "{names:?}");
    for name in names {
        // The suffix keeps the long scenarios short enough to read.
        let model = match name.as_str() {
            "long_stream" | "slow" => format!("{name}:3"),
            _ => name.clone(),
        };
        let told = turn(&demo, request(&model, "please"), 7, fixture).await;
        insta::assert_snapshot!(format!("scenario_{name}"), told);
    }
}

#[tokio::test(start_paused = true)]
async fn the_friendly_demo_varies_with_the_prompt() {
    let demo = Demo::built_in().unwrap();
    for (name, prompt) in [
        ("hello", "hello"),
        ("help", "help"),
        ("read", "read README.md"),
        ("run", "run cargo test"),
        ("ask", "ask me something"),
        ("think", "think hard"),
        ("plan", "plan my day"),
        ("subagent", "use a subagent"),
    ] {
        let mut asked = request("baton", prompt);
        asked.model.model.push_str("@0");
        // Joins the words of each text, because only the text matters here.
        let told = turn(&demo, asked, 7, fixture).await.replace("\"\n  \"", "");
        insta::assert_snapshot!(format!("baton_{name}"), told);
    }
}

#[tokio::test(start_paused = true)]
async fn the_friendly_demo_ends_even_when_every_tool_fails_or_is_missing() {
    let demo = Demo::built_in().unwrap();
    let failing = |name: &str| ToolResult { output: "no".to_owned(), is_error: true, ..fixture(name) };
    for prompt in ["hello", "read x", "run x", "ask me", "plan", "subagent"] {
        let told = turn(&demo, request("baton", prompt), 9, failing).await;
        assert!(told.contains(r#""reason":"stop""#), "{prompt}: {told}");
        let mut bare = request("baton", prompt);
        bare.tools.clear();
        let told = turn(&demo, bare, 1, failing).await;
        assert!(told.contains(r#""reason":"stop""#), "{prompt}: {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn long_stream_has_two_thousand_deltas_or_the_requested_number() {
    let demo = Demo::built_in().unwrap();
    for (model, wanted) in [("long_stream", 2000), ("long_stream:17", 17)] {
        let (_, events) = hear(&demo, request(model, "go")).await;
        let deltas = events.iter().filter(|event| matches!(event, ModelEvent::TextDelta { .. })).count();
        assert_eq!(deltas, wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_takes_the_stated_time() {
    let demo = Demo::built_in().unwrap();
    for (model, wanted) in [("slow", 4000), ("slow:10@50", 500)] {
        let start = Instant::now();
        hear(&demo, request(model, "go")).await;
        assert_eq!(start.elapsed(), Duration::from_millis(wanted), "{model}");
    }
}

#[tokio::test]
async fn the_same_request_gets_the_same_answer() {
    let demo = Demo::built_in().unwrap();
    let again = Demo::built_in().unwrap();
    let asked = request("parallel_tools", "go");
    assert_eq!(hear(&demo, asked.clone()).await, hear(&again, asked).await);
}

#[tokio::test]
async fn an_unknown_scenario_is_an_unknown_model() {
    let demo = Demo::built_in().unwrap();
    let error = demo.stream(request("no_such", "go")).await.err().unwrap();
    assert_eq!(error, Error::UnknownModel("demo/no_such".to_owned()));
    for (model, known) in [("baton", true), ("slow:3@5", true), ("no_such", false), ("slow:x", false)] {
        assert_eq!(demo.knows(model), known, "{model}");
    }
}

#[tokio::test]
async fn titles_and_summaries_work_even_in_failing_scenarios() {
    let demo = Demo::built_in().unwrap();
    for purpose in [Purpose::Title, Purpose::Compaction] {
        let asked = Request {
            purpose,
            ..request("error_401", "Explain the build of this project, please, in great detail")
        };
        let (heard, _) = hear(&demo, asked).await;
        insta::assert_snapshot!(format!("side_{purpose:?}"), heard.replace("\"\n  \"", ""));
    }
}

#[test]
fn broken_scenario_files_name_the_place() {
    let errors: Vec<String> = [
        "[]",
        r#"{"a": {"steps": [[]]}}"#,
        r#"{"a": {"about": "", "steps": []}}"#,
        r#"{"a": {"about": "", "steps": [[]], "note": 1}}"#,
        r#"{"a": {"about": "", "steps": [[], [{"do": "dance"}]]}}"#,
        r#"{"a": {"about": "", "steps": [[{"do": "wait", "ms": 5}, {"do": "text", "txt": "hi"}]]}}"#,
        r#"{"a": {"about": "", "steps": [[{"do": "stall", "time": 1}]]}}"#,
        r#"{"a": {"about": "", "steps": [[{"do": "finish", "reason": "bored"}]]}}"#,
        r#"{"a": {"about": "", "steps": [[{"do": "finish", "reason": "stop"}, {"do": "stall"}]]}}"#,
        r#"{"a": {"about": "", "steps": [[{"do": "wait", "ms": 5}, {"do": "http", "status": 500}]]}}"#,
        r#"{"a": {"about": "", "steps": [[{"do": "tool", "name": "read"}]]}}"#,
        r#"{"a": {"about": "", "steps": [[{"do": "text", "text": "hi", "words": 0}]]}}"#,
    ]
    .map(|json| Scenarios::parse(json).unwrap_err())
    .iter()
    .map(ParseError::to_string)
    .collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_files_scenario_replaces_the_built_in_one() {
    let mut scenarios = Scenarios::built_in().unwrap();
    scenarios.extend(Scenarios::parse(r#"{"simple": {"about": "mine", "steps": [[]]}}"#).unwrap());
    let demo = Demo::new(scenarios);
    assert_eq!(demo.models().next().unwrap().0, "baton");
    assert!(demo.models().any(|model| model == ("simple", "mine")));
}
