//! Messages that a runner adds to a turn: continuations, summaries, changes, structured answers.

use engine::{ports::ChildSpec, ports::Page, session::Turn};
use protocol::{
    AgentEvent, EventBody, Extra, Message, MessageId, MessageWithParts, Part, PartBody, TurnEnd, UserMessage,
    agent_event::Speaker,
    message::{Finish, ModelRef},
    number::Number,
    part::{CompactionPart, TextPart},
    project::FileDiff,
    prompt::{PromptInput, SessionPatch},
};
use tokio::sync::oneshot;

use crate::harness::{Harness, finish, say, step};

fn request() -> AgentEvent {
    let part = CompactionPart { auto: true, overflow: Some(false), tail_start_id: None, extra: Extra::new() };
    AgentEvent::Continued(vec![PartBody::Compaction(part)])
}

fn go_on() -> AgentEvent {
    let text = TextPart { text: "go on".into(), synthetic: Some(true), ..TextPart::default() };
    AgentEvent::Continued(vec![PartBody::Text(text)])
}

async fn summarise(turn: &Turn) {
    let model = ModelRef::new("test", "small");
    let speaker = Some(Speaker { agent: "compaction".into(), model, summary: true, answers: None });
    turn.emit(AgentEvent::StepStarted { snapshot: None, speaker }).await;
    turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
    turn.emit(AgentEvent::TextDelta { key: "0".into(), delta: "in short".into() }).await;
    turn.emit(finish(Finish::Stop)).await;
}

/// A turn that is summarised half-way.
async fn long(turn: Turn) -> TurnEnd {
    step(&turn, "looking", Finish::ToolCalls).await;
    turn.emit(request()).await;
    summarise(&turn).await;
    turn.emit(go_on()).await;
    turn.emit(AgentEvent::Compacted).await;
    say(turn, "found it").await
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_a_summary_in_the_middle_has_its_events_in_order() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(long);
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("found it"), "the answer is what came after the summary");
    harness.drain();
    let story = harness.story(&session.id);
    let start = story.iter().position(|word| word == "prompt.started").unwrap();
    insta::assert_snapshot!(story[start..].join(" · "), @"prompt.started · assistant[-] · step-start · text · message.part.delta · text · step-finish · assistant[finish] · session.updated · assistant[finish,done] · user · compaction · assistant[-] · step-start · text · message.part.delta · text · step-finish · assistant[finish] · session.updated · assistant[finish,done] · user · text · session.compacted · assistant[-] · step-start · text · message.part.delta · message.part.delta · text · step-finish · assistant[finish] · session.updated · assistant[finish,done] · prompt.ended(completed) · IDLE(completed) · session.idle");
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    insta::assert_snapshot!(family(&messages), @r"
    user, prompt
    answer of 0 by build on model
    user, continues 0
    summary of 2 by compaction on small
    user, continues 0
    answer of 4 by build on model
    ");
}

/// The message that each answer and each continuation belongs to, by position.
fn family(messages: &[MessageWithParts]) -> String {
    let place = |id: &MessageId| messages.iter().position(|message| message.info.id() == id).unwrap();
    let line = |message: &MessageWithParts| match &message.info {
        Message::User(it) => {
            let of =
                it.continues().map_or("prompt".to_owned(), |asked| format!("continues {}", place(&asked)));
            format!("user, {of}")
        }
        Message::Assistant(it) => {
            let what = if it.summary == Some(true) { "summary" } else { "answer" };
            format!("{what} of {} by {} on {}", place(&it.parent_id), it.agent, it.model_id)
        }
    };
    messages.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn a_summary_after_the_answer_is_not_the_answer() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        step(&turn, "all done", Finish::Stop).await;
        turn.emit(request()).await;
        summarise(&turn).await;
        turn.emit(AgentEvent::Compacted).await;
        TurnEnd::Completed
    });
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("all done"));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_for_a_summary_is_answered_by_it() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        summarise(&turn).await;
        TurnEnd::Completed
    });
    let answer = harness.sessions.prompt(&session.id, PromptInput::compaction(false)).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("in short"));
}

#[tokio::test(start_paused = true)]
async fn a_child_reports_its_text_after_the_summary() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        let spec = ChildSpec { title: "t".into(), prompt: "p".into(), ..ChildSpec::default() };
        let end = turn.start_child(spec).await.unwrap().wait().await.unwrap();
        assert_eq!(turn.descendants().await.unwrap()[0].cost, Some(Number(1.5)));
        say(turn, &end.text).await
    });
    harness.script(|turn| async move {
        assert_eq!(turn.depth().await.unwrap(), 1);
        long(turn).await
    });
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("found it"));
}

#[tokio::test(start_paused = true)]
async fn an_abort_before_the_continuation_is_answered_answers_it() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        turn.emit(AgentEvent::step_started()).await;
        turn.emit(request()).await;
        std::future::pending().await
    });
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PartUpdated(it) if matches!(it.part.body, PartBody::Compaction(_)))).await;
    harness.sessions.abort(&session.id).await.unwrap();
    harness.drain();
    let story = harness.story(&session.id).join(" · ");
    insta::assert_snapshot!(&story[story.find("assistant").unwrap()..], @"assistant[-] · step-start · assistant[-,done] · user · compaction · assistant[-,done,error] · session.error · prompt.ended(aborted) · IDLE(aborted) · session.idle");
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    insta::assert_snapshot!(family(&messages), @r"
    user, prompt
    answer of 0 by build on model
    user, continues 0
    answer of 2 by build on model
    ");
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_a_summary_leaves_nothing_open() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        turn.emit(request()).await;
        turn.emit(AgentEvent::step_started()).await;
        turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
        std::future::pending().await
    });
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.is_open())).await;
    let harness = harness.crash().await;
    harness.sessions.recover().await.unwrap();
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    assert!(!messages.iter().flat_map(|message| &message.parts).any(Part::is_open));
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("again")).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("ok"));
}

#[tokio::test(start_paused = true)]
async fn changed_files_are_recorded_with_the_prompt_and_the_session() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let diff = |file: &str, additions, deletions| FileDiff {
        file: Some(file.to_owned()),
        patch: None,
        additions,
        deletions,
        status: Some("modified".into()),
        extra: Extra::new(),
    };
    harness.script(move |turn| async move {
        step(&turn, "changing", Finish::ToolCalls).await;
        let (one, two) = (diff("a", 2, 1), diff("b", 3, 0));
        turn.emit(AgentEvent::Diffed { prompt: vec![two.clone()], session: vec![one, two] }).await;
        say(turn, "changed").await
    });
    harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    harness.drain();
    let story = harness.story(&session.id).join(" · ");
    assert!(
        story.contains("assistant[finish,done] · user · session.updated · session.diff · assistant[-]"),
        "{story}"
    );
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    let Message::User(user) = &messages[0].info else { panic!("{messages:?}") };
    assert_eq!(user.summary.as_ref().unwrap().diffs[0].file.as_deref(), Some("b"));
    let summary = harness.sessions.get(&session.id).await.unwrap().summary.unwrap();
    assert_eq!((summary.additions, summary.deletions, summary.files), (5, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_structured_answer_is_kept_with_its_message() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        turn.emit(AgentEvent::step_started()).await;
        turn.emit(AgentEvent::Structured(serde_json::json!({ "n": 1 }))).await;
        turn.emit(finish(Finish::Stop)).await;
        TurnEnd::Completed
    });
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    let Message::Assistant(answer) = answer.info else { panic!("{answer:?}") };
    assert_eq!(answer.structured, Some(serde_json::json!({ "n": 1 })));
}

#[tokio::test(start_paused = true)]
async fn a_title_set_by_the_user_during_the_turn_stays() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    let (go, wait) = oneshot::channel::<()>();
    harness.script(|turn| async move {
        wait.await.unwrap();
        turn.emit(AgentEvent::Titled("the model's".into())).await;
        say(turn, "ok").await
    });
    let submitted = harness.submit(&session, "x").await;
    let patch = SessionPatch { title: Some("mine".into()), ..SessionPatch::default() };
    harness.sessions.update(&session.id, patch).await.unwrap();
    go.send(()).unwrap();
    submitted.end.unwrap().await.unwrap();
    assert_eq!(harness.sessions.get(&session.id).await.unwrap().title, "mine");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_joins_is_answered_by_the_agent_it_names() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    let (go, wait) = oneshot::channel::<()>();
    harness.script(|turn| async move {
        step(&turn, "one", Finish::ToolCalls).await;
        wait.await.unwrap();
        turn.join().await;
        say(turn, "two").await
    });
    harness.submit(&session, "x").await;
    let other = PromptInput {
        agent: Some("plan".into()),
        model: Some(ModelRef::new("test", "other")),
        ..PromptInput::text("and this")
    };
    let joined = harness.sessions.submit(&session.id, other).await.unwrap();
    go.send(()).unwrap();
    joined.end.unwrap().await.unwrap();
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    insta::assert_snapshot!(family(&messages), @r"
    user, prompt
    answer of 0 by build on model
    user, prompt
    answer of 2 by plan on other
    ");
}

#[tokio::test(start_paused = true)]
async fn a_fork_keeps_the_links_of_continuations() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(long);
    harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    let fork = harness.sessions.fork(&session.id, None).await.unwrap();
    let original = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    let copies = harness.sessions.messages(&fork.id, Page::default()).await.unwrap();
    assert_eq!(family(&original), family(&copies));
    let asked = |messages: &[MessageWithParts]| match &messages[2].info {
        Message::User(it) => it.extra.get(UserMessage::CONTINUES).cloned(),
        Message::Assistant(_) => None,
    };
    assert_ne!(asked(&original), asked(&copies));
}

#[tokio::test(start_paused = true)]
async fn a_runner_reads_only_the_history_that_it_needs() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    for number in 0..130 {
        harness.sessions.prompt(&session.id, PromptInput::text(number.to_string())).await.unwrap();
    }
    harness.script(|turn| async move {
        let all = turn.history().await.unwrap();
        assert_eq!(all.len(), 261);
        assert!(all.windows(2).all(|pair| pair[0].info.order() < pair[1].info.order()));
        for far in [1, 99, 100, 101, 260] {
            let mut left = far;
            let recent = turn.recent(|_| {
                left -= 1;
                left == 0
            });
            assert_eq!(recent.await.unwrap(), all[all.len() - far..], "{far}");
        }
        say(turn, "seen").await
    });
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("seen"));
}
