//! Conversations that become too long.

use std::sync::Arc;
use std::time::Duration;

use engine::ports::Page;
use llm::{Error, Finish, Purpose};
use protocol::message::ModelRef;
use protocol::part::FilePart;
use protocol::prompt::{Delivery, PartInput, PartInputBody, PromptInput};
use protocol::{EndReason, EventBody, Extra, Message, PartBody, Session, SessionStatus, ToolState};
use serde_json::json;

use super::harness::{Harness, Responder};
use super::scripted_model::{Reply, ScriptedModel, short};
use crate::{CompactionOptions, Options};

fn options(compaction: CompactionOptions) -> Options {
    Options { compaction, ..Options::default() }
}

async fn harness(model: &ScriptedModel) -> Harness {
    Harness::with_model(Arc::new(model.clone()), options(CompactionOptions::default())).await
}

fn list(id: &str) -> Reply {
    Reply::call(id, "list", json!({}))
}

/// The events from the first step on.
fn story(harness: &Harness, session: &Session) -> String {
    let story = harness.story(&session.id);
    let start = story.find("asst").unwrap();
    story[start..].to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_full_context_is_summarised_and_the_work_continues() {
    let model = ScriptedModel::new([list("c1").using(24_000, 100), Reply::text("Done.").using(500, 10)]);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    insta::assert_snapshot!("full", story(&harness, &session));
    insta::assert_snapshot!(model.conversations()[1], @r"
    user: What did we do so far?
    model: A summary.
    user: Continue if you have next steps, or stop and ask for clarifi
    ");
    let messages = harness.messages(&session).await;
    let Message::Assistant(summary) = &messages[3].info else { panic!("{messages:?}") };
    assert_eq!(
        (summary.agent.as_str(), summary.mode.as_str(), summary.summary),
        ("compaction", "compaction", Some(true))
    );
    let PartBody::Compaction(request) = &messages[2].parts[0].body else { panic!("{messages:?}") };
    assert_eq!((request.auto, request.overflow), (true, Some(false)));
    let asked = &model.requests(Purpose::Compaction)[0];
    assert!(asked.tools.is_empty() && asked.system.starts_with("You keep the memory"));
}

#[tokio::test(start_paused = true)]
async fn a_full_context_after_the_last_word_costs_no_further_step() {
    let model = ScriptedModel::new([Reply::text("All done.").using(24_000, 100)]);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    insta::assert_snapshot!("full_final", story(&harness, &session));
    assert_eq!(model.conversations().len(), 1);
    harness.submit(&session, "small", "and now?").await;
    harness.seen.clear();
    harness.until_idle(&session, Responder::AllowOnce).await;
    insta::assert_snapshot!(model.conversations()[1], @r"
    user: What did we do so far?
    model: A summary.
    user: and now?
    ");
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_fails_after_the_last_word_does_not_spoil_it() {
    let refused = Reply::refused(Error::Other("no summaries today".into()));
    let model = ScriptedModel::new([Reply::text("All done.").using(24_000, 100)]).summaries([refused]);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    assert!(story(&harness, &session).contains("ERROR(UnknownError)"));
    harness.submit(&session, "small", "and now?").await;
    harness.seen.clear();
    harness.until_idle(&session, Responder::AllowOnce).await;
    insta::assert_snapshot!(model.conversations()[1], @r"
    user: What did we do so far?
    model: A summary.
    user: and now?
    user: Continue if you have next steps, or stop and ask for clarifi
    ");
}

#[tokio::test(start_paused = true)]
async fn a_refused_prompt_is_repeated_after_a_summary() {
    let model = ScriptedModel::new([Reply::text("Hello."), Reply::overflow(), Reply::text("Done.")]);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    harness.seen.clear();
    let picture = FilePart {
        mime: "image/png".into(),
        filename: Some("big.png".into()),
        url: "data:image/png;base64,AAAA".into(),
        source: None,
        extra: Extra::new(),
    };
    let mut input = PromptInput::text("look at this");
    input.model = Some(ModelRef::new("demo", "small"));
    input.parts.push(PartInput { id: None, body: PartInputBody::File(picture) });
    let answer = harness.sessions.prompt(&session.id, input).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("Done."));
    harness.until_idle(&session, Responder::AllowOnce).await;
    insta::assert_snapshot!("refused", story(&harness, &session));
    insta::assert_snapshot!(model.conversations()[2], @r"
    user: What did we do so far?
    model: A summary.
    user: look at this | [Attached image/png: big.png]
    ");
    let asked = &model.requests(Purpose::Compaction)[0];
    assert!(!short(&asked.messages).contains("look at this"), "it is not summarised as well");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_the_middle_of_the_work_repeats_nothing() {
    let model = ScriptedModel::new([list("c1"), Reply::overflow(), Reply::text("Done.")]);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    insta::assert_snapshot!(model.conversations()[2], @r"
    user: What did we do so far?
    model: A summary.
    user: Continue if you have next steps, or stop and ask for clarifi
    ");
}

#[tokio::test(start_paused = true)]
async fn a_first_prompt_that_is_too_long_is_summarised_itself() {
    let model = ScriptedModel::new([Reply::overflow(), Reply::text("Done.")]);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    insta::assert_snapshot!(model.conversations()[1], @r"
    user: What did we do so far?
    model: A summary.
    user: Continue if you have next steps, or stop and ask for clarifi
    ");
}

#[tokio::test(start_paused = true)]
async fn three_summaries_that_do_not_help_are_enough() {
    let steps = (0..9).map(|at| list(&format!("c{at}")).using(30_000, 10));
    let model = ScriptedModel::new(steps);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Error);
    assert_eq!(model.requests(Purpose::Compaction).len(), 3);
    let last = harness.messages(&session).await.pop().unwrap();
    let Message::Assistant(last) = last.info else { panic!("{last:?}") };
    insta::assert_snapshot!(last.error.unwrap().message(), @"The conversation does not fit into the model's context, and summarising it did not help. Start a new session, or choose a model with a larger context.");
}

#[tokio::test(start_paused = true)]
async fn refusals_without_end_are_ended_as_well() {
    let model = ScriptedModel::new((0..9).map(|_| Reply::overflow()));
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Error);
    assert_eq!(model.requests(Purpose::Compaction).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fits_resets_the_count() {
    let rounds =
        (0..4).flat_map(|at| [list(&format!("a{at}")).using(30_000, 1), list(&format!("b{at}")).using(5, 1)]);
    let model = ScriptedModel::new(rounds);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowAlways).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    assert_eq!(model.requests(Purpose::Compaction).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn without_automatic_compaction_the_turn_ends_with_the_error() {
    let off = CompactionOptions { auto: false, ..CompactionOptions::default() };
    let model = ScriptedModel::new([list("c1").using(90_000, 1), Reply::overflow()]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), options(off)).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Error);
    assert!(model.requests(Purpose::Compaction).is_empty());
    assert!(story(&harness, &session).contains("ERROR(ContextOverflowError)"));
}

#[tokio::test(start_paused = true)]
async fn a_user_can_ask_for_a_summary() {
    let model = ScriptedModel::default();
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    harness.seen.clear();
    let mut request = PromptInput::compaction(false);
    request.model = Some(ModelRef::new("demo", "small"));
    let answer = harness.sessions.prompt(&session.id, request).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("A summary."));
    harness.until_idle(&session, Responder::AllowOnce).await;
    insta::assert_snapshot!("asked", harness.story(&session.id));
    assert_eq!(model.conversations().len(), 1, "nothing but the summary was made");
    harness.submit(&session, "small", "next").await;
    harness.until_idle(&session, Responder::AllowOnce).await;
    insta::assert_snapshot!(model.conversations()[1], @r"
    user: What did we do so far?
    model: A summary.
    user: next
    ");
}

#[tokio::test(start_paused = true)]
async fn an_empty_conversation_has_no_summary() {
    let model = ScriptedModel::default();
    let mut harness = harness(&model).await;
    let session = harness.session().await;
    harness.sessions.submit(&session.id, PromptInput::compaction(false)).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    assert!(model.requests(Purpose::Compaction).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_summary_waits_for_the_running_answer() {
    let model = ScriptedModel::new([list("c1"), Reply::text("Done.")]);
    let mut harness = harness(&model).await;
    let session = harness.session().await;
    harness.submit(&session, "small", "go").await;
    harness.sessions.submit(&session.id, PromptInput::compaction(false)).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    let messages = harness.messages(&session).await;
    let last = messages.last().unwrap();
    assert!(matches!(&last.info, Message::Assistant(it) if it.summary == Some(true)), "{last:?}");
    assert!(short(&model.requests(Purpose::Compaction)[0].messages).contains("<conversation>"));
    assert_eq!(model.conversations().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_tail_is_kept_and_the_next_summary_includes_the_first() {
    let long = "x".repeat(40_000);
    let model = ScriptedModel::new([
        Reply::text(&long),
        list("c1").using(24_000, 1),
        list("c2").using(24_000, 1),
        Reply::text("Done."),
    ]);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    harness.submit(&session, "small", "the newer prompt").await;
    harness.until_idle(&session, Responder::AllowOnce).await;
    let conversations = model.conversations();
    insta::assert_snapshot!(conversations[2], @r"
    user: What did we do so far?
    model: A summary.
    user: the newer prompt
    model: list#c1
    tools: #c1
    user: Continue if you have next steps, or stop and ask for clarifi
    ");
    insta::assert_snapshot!(conversations[3], @r"
    user: What did we do so far?
    model: A summary.
    user: Continue if you have next steps, or stop and ask for clarifi
    ");
    let questions = model.requests(Purpose::Compaction);
    let question = |at: usize| format!("{:?}", questions[at].messages);
    assert!(question(0).contains("xxx") && !question(0).contains("the newer prompt"));
    assert!(question(1).contains("A summary.") && question(1).contains("<previous_summary>"));
    assert!(!question(1).contains("xxx"));
}

#[tokio::test(start_paused = true)]
async fn a_smaller_model_gets_a_summary_first() {
    let model = ScriptedModel::new([Reply::text("Hello.").using(90_000, 10)]);
    let mut harness = harness(&model).await;
    let session = harness.turn("unlisted", Responder::AllowOnce).await;
    assert!(model.requests(Purpose::Compaction).is_empty(), "the size of its context is unknown");
    harness.submit(&session, "small", "now you").await;
    harness.until_idle(&session, Responder::AllowOnce).await;
    insta::assert_snapshot!(model.conversations()[1], @r"
    user: What did we do so far?
    model: A summary.
    user: now you
    user: Continue if you have next steps, or stop and ask for clarifi
    ");
}

#[tokio::test(start_paused = true)]
async fn a_question_for_a_summary_that_is_too_long_becomes_shorter() {
    let model = ScriptedModel::new([Reply::text(&"x".repeat(60_000)), list("c1").using(24_000, 1)])
        .summaries([Reply::overflow(), Reply::overflow()]);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    harness.submit(&session, "small", "more").await;
    harness.until_idle(&session, Responder::AllowOnce).await;
    let lengths: Vec<usize> = model
        .requests(Purpose::Compaction)
        .iter()
        .map(|request| format!("{:?}", request.messages).len())
        .collect();
    assert_eq!(lengths.len(), 3);
    assert!(lengths[0] > 60_000 && lengths[1] < 40_000, "{lengths:?}");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_cannot_summarise_ends_the_turn() {
    for bad in [Reply::text("").using(1, 0), list("c9"), Reply::text("no").ending(Finish::ContentFilter)] {
        let model = ScriptedModel::new([list("c1").using(24_000, 1)]).summaries([bad]);
        let mut harness = harness(&model).await;
        let session = harness.turn("small", Responder::AllowOnce).await;
        assert_eq!(harness.end(&session), EndReason::Error);
        assert!(harness.tools(&session).await.iter().all(|tool| !matches!(tool, ToolState::Running(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn an_abort_in_a_summary_leaves_the_conversation_as_it_was() {
    let model = ScriptedModel::new([list("c1").using(24_000, 1)]).summaries([Reply::silence()]);
    let mut harness = harness(&model).await;
    let session = harness.session().await;
    harness.submit(&session, "small", "go").await;
    let summary = |body: &EventBody| matches!(body, EventBody::MessageUpdated(it) if matches!(&it.info, Message::Assistant(it) if it.summary == Some(true)));
    harness.until(summary).await;
    harness.sessions.abort(&session.id).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Aborted);
    harness.submit(&session, "small", "again").await;
    harness.until(|body| matches!(body, EventBody::SessionIdle(_))).await;
    let conversations = model.conversations();
    insta::assert_snapshot!(conversations.last().unwrap(), @r"
    user: What did we do so far?
    model: A summary.
    user: again
    user: Continue if you have next steps, or stop and ask for clarifi
    ");
}

#[tokio::test(start_paused = true)]
async fn old_output_is_dropped_from_view_if_that_is_wanted() {
    let prune = CompactionOptions { prune: true, ..CompactionOptions::default() };
    let model =
        ScriptedModel::new([Reply::call("c1", "read", json!({ "filePath": "big" })), Reply::text("Read.")]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), options(prune)).await;
    std::fs::write(harness.project.path().join("big"), "a line of text\n".repeat(1_900)).unwrap();
    let session = harness.turn("large", Responder::AllowOnce).await;
    // Seven thousand tokens are not enough for pruning, so the same output is made much longer. This model has no
    // limit.
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    let mut part =
        messages[1].parts.iter().find(|part| matches!(part.body, PartBody::Tool(_))).unwrap().clone();
    if let PartBody::Tool(tool) = &mut part.body
        && let ToolState::Completed(state) = &mut tool.state
    {
        state.output = "x".repeat(4 * 70_000);
    }
    harness.sessions.update_part(&session.id, part).await.unwrap();
    for prompt in ["two", "three", "four"] {
        harness.submit(&session, "large", prompt).await;
        harness.until(|body| matches!(body, EventBody::SessionStatus(it) if matches!(it.status, SessionStatus::Idle { .. }))).await;
    }
    let tools = harness.tools(&session).await;
    let ToolState::Completed(state) = &tools[0] else { panic!("{tools:?}") };
    assert!(state.time.compacted.is_some());
    let last = model.requests(Purpose::Turn).pop().unwrap();
    assert!(format!("{:?}", last.messages).contains("[Old tool result content cleared]"));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_waited_through_a_summary_directly_precedes_its_answer() {
    let long = "x".repeat(60_000);
    let model = ScriptedModel::new([
        Reply::text(&long),
        list("c1").after(Duration::from_secs(9)),
        list("c2").using(24_000, 1),
        Reply::text("First."),
        Reply::text("Second."),
        Reply::text("Third."),
    ]);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    harness.submit(&session, "small", "one").await;
    let later = PromptInput { delivery: Some(Delivery::Queue), ..PromptInput::text("two") };
    let later = PromptInput { model: Some(ModelRef::new("demo", "small")), ..later };
    harness.sessions.submit(&session.id, later).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    harness.submit(&session, "small", "three").await;
    harness.until_idle(&session, Responder::AllowOnce).await;
    let conversations = model.conversations();
    assert_eq!(model.requests(Purpose::Compaction).len(), 1);
    insta::assert_snapshot!(conversations.last().unwrap(), @r"
    user: What did we do so far?
    model: A summary.
    user: one
    model: list#c1
    tools: #c1
    model: list#c2
    tools: #c2
    user: Continue if you have next steps, or stop and ask for clarifi
    model: First.
    user: two
    model: Second.
    user: three
    ");
}

/// Submits a request for a summary and a prompt that both join a running turn, in this order or the other.
async fn joined_together(summary_first: bool) -> (ScriptedModel, Harness, Session) {
    let model = ScriptedModel::new([
        Reply::text("Hello."),
        list("c1").after(Duration::from_secs(9)),
        list("c2"),
        Reply::text("Both done."),
    ]);
    let mut harness = harness(&model).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    harness.submit(&session, "small", "one").await;
    let request = PromptInput {
        model: Some(ModelRef::new("demo", "small")),
        delivery: Some(Delivery::Steer),
        ..PromptInput::compaction(false)
    };
    if summary_first {
        harness.sessions.submit(&session.id, request).await.unwrap();
        harness.submit(&session, "small", "two").await;
    } else {
        harness.submit(&session, "small", "two").await;
        harness.sessions.submit(&session.id, request).await.unwrap();
    }
    harness.until_idle(&session, Responder::AllowOnce).await;
    (model, harness, session)
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_joins_with_a_prompt_answers_its_own_request() {
    for summary_first in [true, false] {
        let (model, harness, session) = joined_together(summary_first).await;
        let messages = harness.messages(&session).await;
        let request = messages.iter().find(|message| crate::history::compaction(message).is_some());
        let request = request.unwrap().info.id();
        let summary = messages.iter().find_map(|message| match &message.info {
            Message::Assistant(answer) if answer.summary == Some(true) => Some(answer),
            _ => None,
        });
        assert_eq!(summary.unwrap().parent_id, *request, "summary first: {summary_first}");
        let conversations = model.conversations();
        let [.., first, second] = &conversations[..] else { panic!("{conversations:?}") };
        for request in [first, second] {
            assert!(request.starts_with("user: What did we do so far?\nmodel: A summary."), "{request}");
        }
        assert!(first.ends_with("user: two"), "{first}");
        assert!(second.ends_with("user: two\nmodel: list#c2\ntools: #c2"), "{second}");
    }
}
