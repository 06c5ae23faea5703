//! From a user's message to the answer.

use std::time::Duration;

use serde_json::json;

use super::harness::{Harness, Setup, place, thread};
use crate::{Accepted, Attachment, Content, Place, Unusable, Update, words};

#[tokio::test]
async fn an_answer_contains_only_the_text_of_the_agent() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("What is two and two?").await;
    assert_eq!(prompt.text(), "What is two and two?");
    harness.server.busy(&prompt.session);
    harness.server.step(
        &prompt,
        &[
            json!({ "type": "reasoning", "text": "They want arithmetic.", "time": { "start": 1 } }),
            json!({ "type": "text", "text": "Four." }),
            json!({ "type": "text", "text": "for the model", "synthetic": true }),
        ],
    );
    harness.server.idle(&prompt.session);
    harness.heard("Four.").await;
    harness.rest().await;
    assert_eq!(harness.texts(), ["Four."]);
}

#[tokio::test]
async fn a_place_keeps_its_session_and_others_have_their_own() {
    let mut harness = Harness::new().await;
    let first = harness.prompt("one").await;
    harness.server.answer(&first, "first");
    harness.heard("first").await;
    let second = harness.prompt("two").await;
    assert_eq!(second.session, first.session);
    harness.say_in(&thread("t"), "three").await;
    let third = harness.server.prompt(2).await;
    assert_ne!(third.session, first.session);
    harness.server.answer(&third, "in the thread");
    harness.chat.until(&thread("t"), "in the thread").await;
    assert_eq!(harness.chat.count(&place(), "in the thread"), 0);
    harness.server.answer(&second, "second");
    harness.heard("second").await;
}

#[tokio::test]
async fn a_message_longer_than_any_service_allows_is_not_run() {
    let mut harness = Harness::new().await;
    harness.say_in(&place(), &"x".repeat(1_000_000)).await;
    harness.heard("too long").await;
    harness.rest().await;
    assert_eq!(harness.server.prompts().len(), 0);
}

#[tokio::test]
async fn the_same_update_twice_is_one_prompt_and_one_answer() {
    let mut harness = Harness::new().await;
    let update = harness.update(Content::Message { text: "once".into(), files: Vec::new() });
    assert_eq!(harness.bring(update.clone()).await, Accepted::New);
    assert_eq!(harness.bring(update.clone()).await, Accepted::Known);
    let prompt = harness.server.prompt(0).await;
    harness.server.answer(&prompt, "done");
    harness.heard("done").await;
    assert_eq!(harness.bring(update).await, Accepted::Known);
    harness.rest().await;
    assert_eq!((harness.server.prompts().len(), harness.texts().len()), (1, 1));
}

#[tokio::test]
async fn an_empty_answer_is_reported() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("hush").await;
    harness.server.answer(&prompt, "");
    harness.heard("(empty response)").await;
}

#[tokio::test]
async fn an_error_is_reported_in_plain_words() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("hi").await;
    let error = json!({ "name": "APIError", "data": { "message": "Quota exceeded", "isRetryable": false } });
    harness.server.fail_turn(&prompt, &error);
    harness.heard("Something went wrong: Quota exceeded").await;
}

#[tokio::test]
async fn a_long_answer_is_split_and_a_very_long_one_is_a_file() {
    fn short(features: &mut crate::Features) {
        features.text.length = 100;
    }
    let mut harness = Harness::with(Setup { features: short, ..Setup::default() }).await;
    let prompt = harness.prompt("some").await;
    harness.server.answer(&prompt, &"word ".repeat(40));
    harness.rest().await;
    let lines = harness.chat.lines(&place());
    assert!((2..=4).contains(&lines.len()), "{lines:?}");
    let prompt = harness.prompt("more").await;
    harness.server.answer(&prompt, &"word ".repeat(400));
    let whole = harness.heard("The whole answer is in this file.").await;
    let file = whole.file.unwrap();
    assert_eq!((file.name.as_str(), file.text.len()), ("answer.md", 1_999));
    assert_eq!(harness.chat.lines(&place()).len(), lines.len() + 2);
}

#[tokio::test]
async fn in_a_group_only_addressed_messages_count_except_in_a_thread_with_a_session() {
    let mut harness = Harness::new().await;
    let said = |text: &str| Content::Message { text: text.to_owned(), files: Vec::new() };
    let aside = Update { is_direct: false, is_addressed: false, ..harness.update(said("lunch?")) };
    harness.bring(Update { place: thread("t"), ..aside.clone() }).await;
    harness.rest().await;
    assert!(harness.server.prompts().is_empty());
    let named = Update { is_direct: false, place: thread("t"), ..harness.update(said("work")) };
    harness.bring(named.clone()).await;
    let prompt = harness.server.prompt(0).await;
    harness.server.answer(&prompt, "worked");
    let answer = harness.chat.until(&thread("t"), "worked").await;
    assert_eq!(answer.reply_to, named.message);
    let after = Update { is_direct: false, is_addressed: false, ..harness.update(said("and more")) };
    harness.bring(Update { place: thread("t"), ..after }).await;
    assert_eq!(harness.server.prompt(1).await.text(), "and more");
    let elsewhere = Update { is_direct: false, is_addressed: false, ..harness.update(said("lunch!")) };
    harness.bring(elsewhere).await;
    harness.say("direct").await;
    assert_eq!(harness.server.prompt(2).await.text(), "direct", "a message that is not addressed is not run");
}

#[tokio::test]
async fn a_deleted_session_is_replaced_with_a_notice() {
    let mut harness = Harness::new().await;
    let first = harness.prompt("one").await;
    harness.server.answer(&first, "first");
    harness.rest().await;
    harness.server.forget_session(&first.session);
    let second = harness.prompt("two").await;
    assert_ne!(second.session, first.session);
    harness.heard("this is a new one").await;
    harness.server.answer(&second, "second");
    harness.heard("second").await;
}

#[tokio::test]
async fn a_message_that_waited_too_long_is_not_run() {
    let mut harness = Harness::new().await;
    let update = harness.update(Content::Message { text: "deploy now".into(), files: Vec::new() });
    harness.bring(Update { sent: harness.now() - 2 * 60 * 60 * 1_000, ..update }).await;
    harness.heard("2 h 0 min ago, so I did not run it: “deploy now”").await;
    harness.rest().await;
    assert!(harness.server.prompts().is_empty());
}

#[tokio::test]
async fn files_are_inline_or_saved_and_named() {
    let mut harness = Harness::new().await;
    harness.chat.put("f1", b"fn main() {}");
    harness.chat.put("f2", b"OggS");
    let file = |reference: &str, name: &str, mime: &str, size: Option<u64>| Attachment {
        reference: reference.into(),
        name: name.into(),
        mime: mime.into(),
        size,
    };
    let files = vec![
        file("f1", "main.rs", "text/x-rust", None),
        file("f2", "voice.ogg", "audio/ogg", Some(4)),
        file("f3", "film.mp4", "video/mp4", Some(50_000_000)),
        file("f4", "gone.txt", "text/plain", None),
    ];
    harness.send("look", files).await;
    let prompt = harness.server.prompt(0).await;
    assert_eq!(prompt.body["parts"][1]["url"], "data:text/plain;base64,Zm4gbWFpbigpIHt9");
    assert_eq!(prompt.body["parts"].as_array().unwrap().len(), 2);
    let pending: Vec<_> = std::fs::read_dir(harness.files()).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(std::fs::read(&pending[0]).unwrap(), b"OggS");
    assert!(prompt.text().contains(&pending[0].display().to_string()), "{}", prompt.text());
    harness.heard("I could not fetch “film.mp4”: it is larger than 20.0 MB.").await;
    harness.heard("I could not fetch “gone.txt”").await;
    harness.server.answer(&prompt, "seen");
    harness.heard("seen").await;
}

#[tokio::test]
async fn a_crash_after_the_answer_was_complete_still_delivers_it_once() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("hi").await;
    harness.router.stop().await;
    harness.server.answer(&prompt, "Here I am.");
    let harness = harness.crash().await;
    harness.heard("Here I am.").await;
    harness.rest().await;
    let harness = harness.crash().await;
    harness.rest().await;
    assert_eq!(harness.texts(), ["Here I am."]);
    assert_eq!(harness.server.prompts().len(), 1, "a prompt that the server has is not sent again");
}

#[tokio::test]
async fn an_answer_is_resumed_after_a_crash() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("hi").await;
    harness.server.busy(&prompt.session);
    let harness = harness.crash().await;
    harness.server.step(&prompt, &[json!({ "type": "text", "text": "After all." })]);
    harness.server.idle(&prompt.session);
    harness.heard("After all.").await;
    assert_eq!(harness.server.prompts().len(), 1);
}

#[tokio::test]
async fn a_crash_before_the_prompt_was_made_runs_it_once() {
    let mut harness = Harness::new().await;
    harness.router.stop().await;
    harness.say("hi").await;
    let harness = harness.crash().await;
    let prompt = harness.server.prompt(0).await;
    harness.server.answer(&prompt, "Hello.");
    harness.heard("Hello.").await;
    harness.rest().await;
    assert_eq!(harness.server.prompts().len(), 1);
}

#[tokio::test]
async fn a_moved_chat_keeps_its_session_queue_and_requests() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("begin").await;
    harness.server.busy(&prompt.session);
    let question = serde_json::json!([{ "question": "Which colour?", "header": "", "options": [] }]);
    harness.server.ask_question("que_1", &prompt.session, &question);
    harness.heard("Which colour?").await;
    harness.said().await;
    harness.say("/status").await;
    harness.heard("Waiting for an answer").await;
    let new = Place { chat: "8".into(), ..place() };
    harness.moved(&place(), &new).await;
    // Open requests are shown again in the new chat, and updates with the old id are redirected.
    harness.chat.until(&new, "Which colour?").await;
    harness.say("green").await;
    let call = harness.server.called("POST /question/que_1/reply").await;
    assert!(call.contains("green"), "{call}");
    harness.chat.until(&new, "✅ green").await;
    harness.say("and then?").await;
    harness.chat.until(&new, "Queued").await;
    harness.server.answer(&prompt, "finished");
    harness.chat.until(&new, "finished").await;
    let next = harness.server.prompt(1).await;
    assert_eq!((next.text(), &next.session), ("and then?", &prompt.session));
    harness.server.answer(&next, "nothing");
    harness.chat.until(&new, "nothing").await;
    assert_eq!(harness.chat.count(&new, "finished") + harness.chat.count(&place(), "finished"), 1);
    assert_eq!(harness.server.prompts().len(), 2, "nothing is run twice");
}

#[tokio::test]
async fn the_message_that_the_user_replies_to_reaches_the_model() {
    let mut harness = Harness::new().await;
    let content = Content::Message { text: "what about this?".into(), files: Vec::new() };
    let quoted = Some("The second line\nis wrong.".into());
    let update = Update { quoted, ..harness.update(content) };
    harness.bring(update).await;
    let prompt = harness.server.prompt(0).await;
    assert_eq!(prompt.text(), "In reply to:\n> The second line\n> is wrong.\n\nwhat about this?");
}

#[tokio::test]
async fn an_album_is_one_prompt_even_after_a_crash() {
    let mut harness = Harness::new().await;
    for (text, name) in [("compare these", "a.png"), ("", "b.png"), ("", "c.png")] {
        harness.chat.put(name, b"picture");
        let file =
            Attachment { reference: name.into(), name: name.into(), mime: "image/png".into(), size: None };
        let content = Content::Message { text: text.into(), files: vec![file] };
        let update = Update { album: Some("album".into()), ..harness.update(content) };
        harness.bring(update).await;
    }
    // The clock starts the album after the last of its messages.
    harness.pass(Duration::from_secs(1)).await;
    let prompt = harness.server.prompt(0).await;
    assert_eq!(prompt.text(), "compare these");
    assert_eq!(prompt.body["parts"].as_array().unwrap().len(), 4, "{}", prompt.body);
    let harness = harness.crash().await;
    harness.server.answer(&prompt, "all the same");
    harness.heard("all the same").await;
    harness.rest().await;
    assert_eq!((harness.server.prompts().len(), harness.texts()), (1, vec!["all the same".to_owned()]));
}

#[tokio::test]
async fn a_reply_without_its_text_is_quoted_from_the_ledger() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("first").await;
    harness.server.answer(&prompt, "An old answer.");
    harness.heard("An old answer.").await;
    harness.rest().await;
    // The chat numbers the posts from 0, and the updates from 1.
    for (id, quoted) in
        [("1", "In reply to:\n> first\n\n"), ("0", "In reply to:\n> An old answer.\n\n"), ("?", "")]
    {
        let number = harness.server.prompts().len();
        let content = Content::Message { text: "what about this?".into(), files: Vec::new() };
        let update = Update { replies_to: Some(id.to_owned()), ..harness.update(content) };
        harness.bring(update).await;
        let prompt = harness.server.prompt(number).await;
        assert_eq!(prompt.text(), format!("{quoted}what about this?"));
        harness.server.answer(&prompt, "Done.");
        harness.rest().await;
    }
}

#[tokio::test]
async fn an_edit_and_a_sticker_get_a_reply_and_run_nothing() {
    let mut harness = Harness::new().await;
    for why in [Unusable::Edit, Unusable::Kind] {
        let update = harness.update(Content::Unusable { why });
        let message = update.message.clone();
        harness.bring(update).await;
        let post = harness.heard(words::unusable(why)).await;
        assert_eq!(post.reply_to, message);
    }
    harness.rest().await;
    assert!(harness.server.prompts().is_empty());
}
