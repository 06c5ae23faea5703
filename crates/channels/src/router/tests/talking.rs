//! From a user's message to the answer.

use std::time::Duration;

use serde_json::json;

use super::world::{Setup, World, place, thread};
use crate::{Accepted, Attachment, Content, Place, Unusable, Update, words};

#[tokio::test]
async fn an_answer_is_what_the_agent_said_and_nothing_else() {
    let mut world = World::new().await;
    let prompt = world.prompt("What is two and two?").await;
    assert_eq!(prompt.text(), "What is two and two?");
    world.server.busy(&prompt.session);
    world.server.step(
        &prompt,
        &[
            json!({ "type": "reasoning", "text": "They want arithmetic.", "time": { "start": 1 } }),
            json!({ "type": "text", "text": "Four." }),
            json!({ "type": "text", "text": "for the model", "synthetic": true }),
        ],
    );
    world.server.idle(&prompt.session);
    world.heard("Four.").await;
    world.rest().await;
    assert_eq!(world.texts(), ["Four."]);
}

#[tokio::test]
async fn a_place_keeps_its_session_and_others_have_their_own() {
    let mut world = World::new().await;
    let first = world.prompt("one").await;
    world.server.answer(&first, "first");
    world.heard("first").await;
    let second = world.prompt("two").await;
    assert_eq!(second.session, first.session);
    world.say_in(&thread("t"), "three").await;
    let third = world.server.prompt(2).await;
    assert_ne!(third.session, first.session);
    world.server.answer(&third, "in the thread");
    world.chat.until(&thread("t"), "in the thread").await;
    assert_eq!(world.chat.count(&place(), "in the thread"), 0);
    world.server.answer(&second, "second");
    world.heard("second").await;
}

#[tokio::test]
async fn a_message_longer_than_any_service_allows_is_not_run() {
    let mut world = World::new().await;
    world.say_in(&place(), &"x".repeat(1_000_000)).await;
    world.heard("too long").await;
    world.rest().await;
    assert_eq!(world.server.prompts().len(), 0);
}

#[tokio::test]
async fn the_same_update_twice_is_one_prompt_and_one_answer() {
    let mut world = World::new().await;
    let update = world.update(Content::Message { text: "once".into(), files: Vec::new() });
    assert_eq!(world.bring(update.clone()).await, Accepted::New);
    assert_eq!(world.bring(update.clone()).await, Accepted::Known);
    let prompt = world.server.prompt(0).await;
    world.server.answer(&prompt, "done");
    world.heard("done").await;
    assert_eq!(world.bring(update).await, Accepted::Known);
    world.rest().await;
    assert_eq!((world.server.prompts().len(), world.texts().len()), (1, 1));
}

#[tokio::test]
async fn an_empty_answer_is_reported() {
    let mut world = World::new().await;
    let prompt = world.prompt("hush").await;
    world.server.answer(&prompt, "");
    world.heard("(empty response)").await;
}

#[tokio::test]
async fn an_error_is_reported_in_plain_words() {
    let mut world = World::new().await;
    let prompt = world.prompt("hi").await;
    let error = json!({ "name": "APIError", "data": { "message": "Quota exceeded", "isRetryable": false } });
    world.server.fail_turn(&prompt, &error);
    world.heard("Something went wrong: Quota exceeded").await;
}

#[tokio::test]
async fn a_long_answer_is_split_and_a_very_long_one_is_a_file() {
    fn short(abilities: &mut crate::Abilities) {
        abilities.text.length = 100;
    }
    let mut world = World::with(Setup { abilities: short, ..Setup::default() }).await;
    let prompt = world.prompt("some").await;
    world.server.answer(&prompt, &"word ".repeat(40));
    world.rest().await;
    let lines = world.chat.lines(&place());
    assert!((2..=4).contains(&lines.len()), "{lines:?}");
    let prompt = world.prompt("more").await;
    world.server.answer(&prompt, &"word ".repeat(400));
    let whole = world.heard("The whole answer is in this file.").await;
    let file = whole.file.unwrap();
    assert_eq!((file.name.as_str(), file.text.len()), ("answer.md", 1_999));
    assert_eq!(world.chat.lines(&place()).len(), lines.len() + 2);
}

#[tokio::test]
async fn in_a_group_only_addressed_messages_count_except_in_a_thread_with_a_session() {
    let mut world = World::new().await;
    let said = |text: &str| Content::Message { text: text.to_owned(), files: Vec::new() };
    let aside = Update { is_direct: false, is_addressed: false, ..world.update(said("lunch?")) };
    world.bring(Update { place: thread("t"), ..aside.clone() }).await;
    world.rest().await;
    assert!(world.server.prompts().is_empty());
    let named = Update { is_direct: false, place: thread("t"), ..world.update(said("work")) };
    world.bring(named.clone()).await;
    let prompt = world.server.prompt(0).await;
    world.server.answer(&prompt, "worked");
    let answer = world.chat.until(&thread("t"), "worked").await;
    assert_eq!(answer.reply_to, named.message);
    let after = Update { is_direct: false, is_addressed: false, ..world.update(said("and more")) };
    world.bring(Update { place: thread("t"), ..after }).await;
    assert_eq!(world.server.prompt(1).await.text(), "and more");
    let elsewhere = Update { is_direct: false, is_addressed: false, ..world.update(said("lunch!")) };
    world.bring(elsewhere).await;
    world.say("direct").await;
    assert_eq!(world.server.prompt(2).await.text(), "direct", "a message that is not addressed is not run");
}

#[tokio::test]
async fn a_deleted_session_is_replaced_and_the_user_is_told() {
    let mut world = World::new().await;
    let first = world.prompt("one").await;
    world.server.answer(&first, "first");
    world.rest().await;
    world.server.forget_session(&first.session);
    let second = world.prompt("two").await;
    assert_ne!(second.session, first.session);
    world.heard("this is a new one").await;
    world.server.answer(&second, "second");
    world.heard("second").await;
}

#[tokio::test]
async fn a_message_that_waited_too_long_is_not_run() {
    let mut world = World::new().await;
    let update = world.update(Content::Message { text: "deploy now".into(), files: Vec::new() });
    world.bring(Update { sent: world.now() - 2 * 60 * 60 * 1_000, ..update }).await;
    world.heard("2 h 0 min ago, so I did not run it: “deploy now”").await;
    world.rest().await;
    assert!(world.server.prompts().is_empty());
}

#[tokio::test]
async fn files_are_inline_or_saved_and_named() {
    let mut world = World::new().await;
    world.chat.put("f1", b"fn main() {}");
    world.chat.put("f2", b"OggS");
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
    world.send("look", files).await;
    let prompt = world.server.prompt(0).await;
    assert_eq!(prompt.body["parts"][1]["url"], "data:text/plain;base64,Zm4gbWFpbigpIHt9");
    assert_eq!(prompt.body["parts"].as_array().unwrap().len(), 2);
    let pending: Vec<_> = std::fs::read_dir(world.files()).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(std::fs::read(&pending[0]).unwrap(), b"OggS");
    assert!(prompt.text().contains(&pending[0].display().to_string()), "{}", prompt.text());
    world.heard("I could not fetch “film.mp4”: it is larger than 20.0 MB.").await;
    world.heard("I could not fetch “gone.txt”").await;
    world.server.answer(&prompt, "seen");
    world.heard("seen").await;
}

#[tokio::test]
async fn a_crash_after_the_answer_was_complete_still_delivers_it_once() {
    let mut world = World::new().await;
    let prompt = world.prompt("hi").await;
    world.router.stop().await;
    world.server.answer(&prompt, "Here I am.");
    let world = world.crash().await;
    world.heard("Here I am.").await;
    world.rest().await;
    let world = world.crash().await;
    world.rest().await;
    assert_eq!(world.texts(), ["Here I am."]);
    assert_eq!(world.server.prompts().len(), 1, "a prompt that the server has is not sent again");
}

#[tokio::test]
async fn an_answer_is_resumed_after_a_crash() {
    let mut world = World::new().await;
    let prompt = world.prompt("hi").await;
    world.server.busy(&prompt.session);
    let world = world.crash().await;
    world.server.step(&prompt, &[json!({ "type": "text", "text": "After all." })]);
    world.server.idle(&prompt.session);
    world.heard("After all.").await;
    assert_eq!(world.server.prompts().len(), 1);
}

#[tokio::test]
async fn a_crash_before_the_prompt_was_made_runs_it_once() {
    let mut world = World::new().await;
    world.router.stop().await;
    world.say("hi").await;
    let world = world.crash().await;
    let prompt = world.server.prompt(0).await;
    world.server.answer(&prompt, "Hello.");
    world.heard("Hello.").await;
    world.rest().await;
    assert_eq!(world.server.prompts().len(), 1);
}

#[tokio::test]
async fn a_moved_chat_keeps_its_session_queue_and_requests() {
    let mut world = World::new().await;
    let prompt = world.prompt("begin").await;
    world.server.busy(&prompt.session);
    let question = serde_json::json!([{ "question": "Which colour?", "header": "", "options": [] }]);
    world.server.ask_question("que_1", &prompt.session, &question);
    world.heard("Which colour?").await;
    world.said().await;
    world.say("/status").await;
    world.heard("Waiting for an answer").await;
    let new = Place { chat: "8".into(), ..place() };
    world.moved(&place(), &new).await;
    // Open requests are shown again in the new chat, and updates with the old id are redirected.
    world.chat.until(&new, "Which colour?").await;
    world.say("green").await;
    let call = world.server.called("POST /question/que_1/reply").await;
    assert!(call.contains("green"), "{call}");
    world.chat.until(&new, "✅ green").await;
    world.say("and then?").await;
    world.chat.until(&new, "Queued").await;
    world.server.answer(&prompt, "finished");
    world.chat.until(&new, "finished").await;
    let next = world.server.prompt(1).await;
    assert_eq!((next.text(), &next.session), ("and then?", &prompt.session));
    world.server.answer(&next, "nothing");
    world.chat.until(&new, "nothing").await;
    assert_eq!(world.chat.count(&new, "finished") + world.chat.count(&place(), "finished"), 1);
    assert_eq!(world.server.prompts().len(), 2, "nothing is run twice");
}

#[tokio::test]
async fn the_message_that_the_user_replies_to_reaches_the_model() {
    let mut world = World::new().await;
    let content = Content::Message { text: "what about this?".into(), files: Vec::new() };
    let quoted = Some("The second line\nis wrong.".into());
    let update = Update { quoted, ..world.update(content) };
    world.bring(update).await;
    let prompt = world.server.prompt(0).await;
    assert_eq!(prompt.text(), "In reply to:\n> The second line\n> is wrong.\n\nwhat about this?");
}

#[tokio::test]
async fn an_album_is_one_prompt_even_after_a_crash() {
    let mut world = World::new().await;
    for (text, name) in [("compare these", "a.png"), ("", "b.png"), ("", "c.png")] {
        world.chat.put(name, b"picture");
        let file =
            Attachment { reference: name.into(), name: name.into(), mime: "image/png".into(), size: None };
        let content = Content::Message { text: text.into(), files: vec![file] };
        let update = Update { album: Some("album".into()), ..world.update(content) };
        world.bring(update).await;
    }
    // The clock starts the album after the last of its messages.
    world.pass(Duration::from_secs(1)).await;
    let prompt = world.server.prompt(0).await;
    assert_eq!(prompt.text(), "compare these");
    assert_eq!(prompt.body["parts"].as_array().unwrap().len(), 4, "{}", prompt.body);
    let world = world.crash().await;
    world.server.answer(&prompt, "all the same");
    world.heard("all the same").await;
    world.rest().await;
    assert_eq!((world.server.prompts().len(), world.texts()), (1, vec!["all the same".to_owned()]));
}

#[tokio::test]
async fn a_reply_without_its_text_is_quoted_from_the_ledger() {
    let mut world = World::new().await;
    let prompt = world.prompt("first").await;
    world.server.answer(&prompt, "An old answer.");
    world.heard("An old answer.").await;
    world.rest().await;
    // The chat numbers the posts from 0, and the updates from 1.
    for (id, quoted) in
        [("1", "In reply to:\n> first\n\n"), ("0", "In reply to:\n> An old answer.\n\n"), ("?", "")]
    {
        let number = world.server.prompts().len();
        let content = Content::Message { text: "what about this?".into(), files: Vec::new() };
        let update = Update { replies_to: Some(id.to_owned()), ..world.update(content) };
        world.bring(update).await;
        let prompt = world.server.prompt(number).await;
        assert_eq!(prompt.text(), format!("{quoted}what about this?"));
        world.server.answer(&prompt, "Done.");
        world.rest().await;
    }
}

#[tokio::test]
async fn an_edit_and_a_sticker_get_a_reply_and_run_nothing() {
    let mut world = World::new().await;
    for why in [Unusable::Edit, Unusable::Kind] {
        let update = world.update(Content::Unusable { why });
        let message = update.message.clone();
        world.bring(update).await;
        let post = world.heard(words::unusable(why)).await;
        assert_eq!(post.reply_to, message);
    }
    world.rest().await;
    assert!(world.server.prompts().is_empty());
}
