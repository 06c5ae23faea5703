//! Attachments of a prompt: files that are read when it is submitted, and mentions of agents.

use std::fs;
use std::sync::Arc;

use llm::Purpose;
use protocol::prompt::PromptInput;
use protocol::request::{Action, Rule};
use protocol::{EventBody, MessageWithParts, PartBody, Session};
use serde_json::{Value, json};

use super::harness::{Harness, Responder};
use super::scripted_model::{Reply, ScriptedModel, short};
use crate::limits::ATTACHMENT;
use crate::{Options, built_in};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and so on";

/// A prompt with attachments, as it was stored and sent.
struct SentPrompt {
    harness: Harness,
    session: Session,
    message: MessageWithParts,
    /// The conversation that the model received.
    conversation: String,
}

impl SentPrompt {
    /// Returns the parts in a short form.
    fn parts(&self) -> Vec<String> {
        let directory = self.harness.home().directory;
        let part = |body: &PartBody| match body {
            PartBody::Text(text) if text.synthetic == Some(true) => format!("({})", text.text),
            PartBody::Text(text) => text.text.clone(),
            PartBody::File(file) => format!("{} {}", file.mime, file.url),
            PartBody::Agent(agent) => format!("@{}", agent.name),
            other => panic!("{other:?}"),
        };
        self.message.parts.iter().map(|it| part(&it.body).replace(&directory, "/project")).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let error = |body: &EventBody| match body {
            EventBody::SessionError(it) => Some(it.error.as_ref()?.message().to_owned()),
            _ => None,
        };
        self.harness.seen.iter().filter_map(|event| error(&event.body)).collect()
    }
}

fn prompt(parts: &Value) -> PromptInput {
    serde_json::from_value(json!({ "parts": parts, "model": { "providerID": "demo", "modelID": "m" } }))
        .unwrap()
}

/// Submits a prompt with these parts in a project with these files.
async fn send(files: &[(&str, &[u8])], parts: impl Fn(&str) -> Value) -> SentPrompt {
    let model = ScriptedModel::default();
    let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
    for (name, content) in files {
        let path = harness.project.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let session = harness.session().await;
    let parts = parts(&format!("file://{}", harness.home().directory));
    harness.sessions.submit(&session.id, prompt(&parts)).await.unwrap();
    harness.until_idle(&session, Responder::Reject).await;
    let message = harness.messages(&session).await.remove(0);
    let conversation = short(&model.requests(Purpose::Turn)[0].messages);
    SentPrompt { harness, session, message, conversation }
}

fn file(mime: &str, url: impl Into<String>) -> Value {
    json!({ "type": "file", "mime": mime, "url": url.into(), "filename": "it" })
}

#[tokio::test(start_paused = true)]
async fn a_text_file_is_attached_as_the_read_tool_shows_it() {
    let sent = send(&[("a.txt", b"one\ntwo\nthree\n")], |at| {
        json!([{ "type": "text", "text": "look" }, file("text/plain", format!("{at}/a.txt?start=2&end=2"))])
    })
    .await;
    let [words, notice, text, part] = sent.parts().try_into().unwrap();
    assert_eq!(words, "look");
    assert_eq!(notice, "(The user attached the file /project/a.txt:)");
    assert!(text.contains("<path>/project/a.txt</path>") && text.contains("\n2: two\n"), "{text}");
    assert!(!text.contains("one") && !text.contains("three"), "{text}");
    assert_eq!(part, "text/plain file:///project/a.txt?start=2&end=2");
    assert!(sent.warnings().is_empty());
    assert_eq!(
        sent.conversation.matches('|').count(),
        2,
        "the file itself is not conversation: {}",
        sent.conversation
    );
}

#[tokio::test(start_paused = true)]
async fn an_attachment_keeps_its_contents_at_the_time_of_the_prompt() {
    let mut sent =
        send(&[("a.txt", b"before\n")], |at| json!([file("text/plain", format!("{at}/a.txt"))])).await;
    fs::write(sent.harness.project.path().join("a.txt"), "after\n").unwrap();
    sent.harness.submit(&sent.session, "m", "again").await;
    sent.harness.until_idle(&sent.session, Responder::Reject).await;
    let first = sent.harness.messages(&sent.session).await.remove(0);
    assert_eq!(first, sent.message);
}

#[tokio::test(start_paused = true)]
async fn directories_pictures_and_data_are_attached() {
    let sent = send(&[("src/main.rs", b"fn main() {}"), ("a.png", PNG)], |at| {
        json!([
            file("application/x-directory", format!("{at}/src")),
            file("image/png", format!("{at}/a.png")),
            file("text/plain", "data:text/plain;base64,aGVsbG8="),
            file("application/pdf", "data:application/pdf;base64,AAAA"),
            file("image/png", "https://x.test/a.png"),
        ])
    })
    .await;
    let parts = sent.parts();
    assert!(parts[1].contains("main.rs") && parts[2].starts_with("application/x-directory file://"));
    assert_eq!(parts[3], "image/png data:image/png;base64,iVBORw0KGgogYW5kIHNvIG9u");
    assert_eq!(&parts[4..6], ["(The user attached it:)", "(hello)"]);
    assert_eq!(parts[7], "application/pdf data:application/pdf;base64,AAAA");
    assert_eq!(parts[8], "image/png https://x.test/a.png");
    assert!(
        sent.conversation
            .contains("<image/png> | The user attached it: | hello | <application/pdf> | <image/png>")
    );
    assert!(sent.warnings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failed_attachment_is_reported_and_the_prompt_runs() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(outside.path(), "a secret").unwrap();
    let outside = format!("file://{}", outside.path().canonicalize().unwrap().display());
    let sent = send(&[(".env", b"KEY=secret"), ("b.bin", b"\x7fELF\0\0")], |at| {
        json!([
            file("text/plain", format!("{at}/none.txt")),
            file("text/plain", format!("{at}/.env")),
            file("text/plain", format!("{at}/b.bin")),
            file("text/plain", format!("{at}/../../../../../../../../../../../dev/zero")),
            file("text/plain", outside.clone()),
            file("text/plain", "gopher://x"),
            file("text/plain", "data:text/plain;base64,!"),
            { "type": "file", "mime": "text/plain", "url": "x:y", "source": { "type": "resource" } },
        ])
    })
    .await;
    let parts = sent.parts();
    assert_eq!(parts.len(), 8, "{parts:?}");
    for (part, why) in parts.iter().zip([
        "File not found",
        "the rules require asking before it is read (read)",
        "binary",
        "it belongs to Baton's own data, to the keys of an agent, or to the kernel",
        "the rules require asking before it is read (external_directory)",
        "not with gopher:",
        "not valid base64",
        "MCP",
    ]) {
        assert!(part.contains("cannot attach ") && part.contains(why), "{part} / {why}");
        assert!(!part.contains("secret"), "{part}");
    }
    assert_eq!(sent.warnings().len(), 8);
    assert!(sent.conversation.contains("cannot attach"), "{}", sent.conversation);
}

#[tokio::test(start_paused = true)]
async fn a_file_of_a_gigabyte_costs_nothing() {
    let harness = Harness::new().await;
    let path = harness.project.path().join("huge");
    fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let session = harness.session().await;
    let url = format!("file://{}/huge", harness.home().directory);
    let mut input = prompt(&json!([file("text/plain", url)]));
    input.no_reply = Some(true);
    let stored = harness.sessions.submit(&session.id, input).await.unwrap().message;
    let PartBody::Text(text) = &stored.parts[0].body else { panic!("{stored:?}") };
    assert!(text.text.contains("too large"), "{}", text.text);
}

#[tokio::test(start_paused = true)]
async fn an_attachment_too_large_for_any_model_refuses_the_prompt() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    let picture = |size: usize| file("image/png", format!("data:image/png;base64,{}", "A".repeat(size)));
    let refused = async |parts: Value| {
        harness.sessions.submit(&session.id, prompt(&parts)).await.unwrap_err().to_string()
    };
    let error = refused(json!([picture(ATTACHMENT + 1)])).await;
    assert!(error.starts_with("it is too large to be attached: 5242881 bytes in base64"), "{error}");
    let error = refused(json!(vec![picture(ATTACHMENT); 5])).await;
    assert!(error.contains("are too large: more than"), "{error}");
    let path = harness.project.path().join("a.png");
    fs::write(&path, PNG).unwrap();
    fs::File::options().append(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    let error =
        refused(json!([file("image/png", format!("file://{}/a.png", harness.home().directory))])).await;
    assert!(error.starts_with("it is too large to be attached: "), "{error}");
    let error = refused(json!(vec![file("text/plain", "data:,x"); 101])).await;
    assert_eq!(error, "a prompt may have at most 100 files attached, this one has 101");
    assert!(harness.messages(&session).await.is_empty(), "nothing was stored");
}

#[tokio::test(start_paused = true)]
async fn a_mention_is_explained_and_allows_the_subagent() {
    let call = json!({ "description": "look", "prompt": "look around", "subagent_type": "explore" });
    let model =
        ScriptedModel::new([Reply::call("c1", "task", call), Reply::text("found"), Reply::text("done")]);
    let agents = built_in(&[Rule::new("task", "*", Action::Ask)]);
    let options = Options { agents, ..Options::default() };
    let mut harness = Harness::with_model(Arc::new(model.clone()), options).await;
    let session = harness.session().await;
    let parts = json!([{ "type": "text", "text": "ask @explore and @nobody" },
        { "type": "agent", "name": "explore" }, { "type": "agent", "name": "nobody" }]);
    harness.sessions.submit(&session.id, prompt(&parts)).await.unwrap();
    harness.until_idle(&session, Responder::Reject).await;
    let asked = harness.seen.iter().any(|event| matches!(event.body, EventBody::PermissionAsked(_)));
    assert!(!asked, "the mention was the permission");
    let message = harness.messages(&session).await.remove(0);
    let sent = SentPrompt { conversation: model.conversations().remove(0), harness, session, message };
    let [words, note, mention, other] = sent.parts().try_into().unwrap();
    assert_eq!(
        (words.as_str(), mention.as_str(), other.as_str()),
        ("ask @explore and @nobody", "@explore", "@nobody")
    );
    assert!(note.contains("subagent_type \"explore\""), "{note}");
    assert_eq!(sent.warnings(), ["@nobody is not a subagent, so it was not called"]);
    assert!(matches!(&sent.harness.tools(&sent.session).await[0], protocol::ToolState::Completed(_)));
}
