//! Fetching from a server on this machine, which needs a setting of its own.

use std::io::{Read, Write};
use std::net::TcpListener;

use protocol::request::{Action, Rule};
use protocol::{EndReason, EventBody, PartBody, ToolState};
use serde_json::json;

use super::harness::{Harness, Responder};
use super::tools::{calling, output};
use crate::{Options, ToolOptions, built_in};

/// The URL of a server that answers once, or never.
fn server(answers: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = socket.read(&mut request);
        if answers {
            let page = "<html><body><h1>Hello</h1></body></html>";
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
            let _ = write!(socket, "{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len());
        }
        // Until the client closes the connection.
        let _ = socket.read(&mut request);
    });
    format!("http://{address}/page")
}

async fn harness(url: &str, seconds: u32, private_addresses: bool, rules: &[Rule]) -> Harness {
    let calls = [("webfetch", json!({ "url": url, "timeout": seconds }))];
    let tools = ToolOptions { private_addresses, ..ToolOptions::default() };
    let options = Options { agents: built_in(rules), tools, ..Options::default() };
    Harness::with_scenarios(calling(&calls), options).await
}

#[tokio::test]
async fn a_page_is_fetched_and_shown() {
    let url = server(true);
    let mut harness = harness(&url, 60, true, &[]).await;
    let session = harness.turn("calls", Responder::Reject).await;
    let tools = harness.tools(&session).await;
    let ToolState::Completed(state) = &tools[0] else { panic!("{tools:?}") };
    assert_eq!(
        (state.output.as_str(), state.title.as_str()),
        ("# Hello", format!("{url} (text/html)").as_str())
    );
    assert_eq!(state.metadata["truncated"], false);
}

#[tokio::test]
async fn addresses_of_this_machine_are_refused() {
    let mut harness = harness("http://127.0.0.1:1/", 60, false, &[]).await;
    let session = harness.turn("calls", Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let tools = harness.tools(&session).await;
    assert!(output(&tools[0]).ends_with("and may not be reached"), "{}", output(&tools[0]));
}

#[tokio::test]
async fn a_rule_can_ask_about_addresses() {
    let ask = Rule::new("webfetch", "*", Action::Ask);
    let mut harness = harness("http://example.com/", 60, false, &[ask]).await;
    let session = harness.turn("calls", Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Blocked);
    let story = harness.story(&session.id);
    assert!(story.contains("permission.asked(webfetch [\"http://example.com/\"])"), "{story}");
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let mut harness = harness(&server(false), 2, true, &[]).await;
    let session = harness.turn("calls", Responder::Reject).await;
    let tools = harness.tools(&session).await;
    assert!(output(&tools[0]).ends_with("did not answer within 2 seconds"), "{}", output(&tools[0]));
}

#[tokio::test]
async fn stopping_does_not_wait_for_a_server() {
    let mut harness = harness(&server(false), 60, true, &[]).await;
    let session = harness.session().await;
    harness.submit(&session, "calls", "please").await;
    let runs = |body: &EventBody| {
        matches!(body, EventBody::PartUpdated(it) if matches!(&it.part.body, PartBody::Tool(tool)
            if matches!(tool.state, ToolState::Running(_))))
    };
    harness.until(runs).await;
    harness.abort(&session).await;
    let tools = harness.tools(&session).await;
    let ToolState::Error(state) = &tools[0] else { panic!("{tools:?}") };
    assert_eq!(state.error, "Tool execution aborted", "the request did not run into its timeout");
}
