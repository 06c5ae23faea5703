//! Every update arrives exactly once.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use testkit::platforms::service_state::{GivenFile, Tap};

use super::*;
use crate::{AdapterError, Button, Content, Sent};

fn text(update: &Update) -> &str {
    match &update.content {
        Content::Message { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn updates_are_stored_before_the_call_succeeds() {
    let mut harness = Harness::new().await;
    let id = harness.service.say(said(ADA, "Hello."));
    harness.acknowledged(1).await;
    let updates = harness.updates(ADA).await;
    let update = &updates[0];
    assert_eq!((update.id.as_str(), update.message.as_deref(), text(update)), (&*id, Some(&*id), "Hello."));
    assert_eq!((update.sender.id.as_str(), update.sender.name.as_str()), (ADA, "Ada"));
    assert!(update.is_direct && update.sent > 1_700_000_000_000, "{update:?}");
    assert_eq!(harness.news.recv().await, Some(update.place.clone()));
}

#[tokio::test]
async fn a_redelivered_update_is_recognised() {
    let harness = Harness::new().await;
    harness.service.say(said(ADA, "Hello."));
    harness.service.repeat();
    harness.acknowledged(2).await;
    assert_eq!(harness.updates(ADA).await.len(), 1);
}

#[tokio::test]
async fn a_refused_update_is_redelivered() {
    let harness = Harness::with(Options::default(), 2).await;
    harness.service.say(said(ADA, "one"));
    harness.service.say(said(ADA, "two"));
    harness.acknowledged(2).await;
    assert_eq!(harness.updates(ADA).await.iter().map(text).collect::<Vec<_>>(), ["one", "two"]);
}

#[tokio::test]
async fn one_call_may_contain_messages_of_several_users() {
    let harness = Harness::new().await;
    harness.service.say_together(vec![said(ADA, "one"), said(BOB, "two"), said(ADA, "three")]);
    harness.acknowledged(3).await;
    assert_eq!(harness.updates(ADA).await.iter().map(text).collect::<Vec<_>>(), ["one", "three"]);
    assert_eq!(harness.updates(BOB).await.iter().map(text).collect::<Vec<_>>(), ["two"]);
}

#[tokio::test]
async fn updates_in_the_wrong_order_are_not_lost() {
    let harness = Harness::new().await;
    harness.service.say_backwards(vec![said(ADA, "one"), said(ADA, "two")]);
    harness.acknowledged(2).await;
    assert_eq!(harness.updates(ADA).await.len(), 2);
}

#[tokio::test]
async fn groups_are_ignored_and_users_have_names() {
    let harness = Harness::new().await;
    harness.service.say(UserMessage { is_group: true, chat: "group".into(), ..said(ADA, "Hello, all.") });
    harness.service.say(said("DE.13491208655302741918", "Hello."));
    harness.acknowledged(2).await;
    assert!(harness.updates(ADA).await.is_empty());
    let place = harness.updates("DE.13491208655302741918").await.remove(0).place;
    harness.adapter.send(&place, &Post::text("Hello, you.")).await.unwrap();
    let state = harness.state();
    assert_eq!(state.messages[0].chat, "DE.13491208655302741918");
    assert_eq!(state.problems, Vec::<String>::new());
}

#[tokio::test]
async fn a_button_that_is_chosen_comes_back_with_its_token() {
    let harness = Harness::new().await;
    harness.service.say(said(ADA, "Do it."));
    harness.acknowledged(1).await;
    let place = updates::place(ADA);
    let choices =
        [vec!["Once", "Always", "No"], vec!["Red", "Green", "Blue", "A colour with a very long name"]];
    for (at, labels) in choices.iter().enumerate() {
        let button = |label: &&str| Button { label: (*label).into(), token: format!("token of {label}") };
        let post = Post { buttons: labels.iter().map(button).collect(), ..Post::text("Which?") };
        let Sent(message) = harness.adapter.send(&place, &post).await.unwrap();
        let label = harness.state().messages[at].buttons.last().unwrap().label.clone();
        harness.service.tap(Tap { message, label, from: ADA.into(), name: "Ada".into() });
        harness.acknowledged(2 + at).await;
        let token = format!("token of {}", labels.last().unwrap());
        let content = harness.updates(ADA).await.pop().unwrap().content;
        assert_eq!(content, Content::Tap { token, receipt: None });
    }
    assert_eq!(harness.state().problems, Vec::<String>::new());
}

#[tokio::test]
async fn a_file_is_fetched_when_it_is_needed() {
    let harness = Harness::new().await;
    let bytes = b"\x89PNG and so on".as_slice();
    let file = |name: &str, mime: &str| {
        Some(GivenFile { name: name.into(), mime: mime.into(), base64: STANDARD.encode(bytes) })
    };
    harness.service.say(UserMessage { file: file("", "image/png"), ..said(ADA, "Look.") });
    harness.service.say(UserMessage { file: file("", "audio/ogg; codecs=opus"), ..said(ADA, "") });
    harness.service.say(UserMessage { file: file("plan.pdf", "application/pdf"), ..said(ADA, "") });
    harness.acknowledged(3).await;
    let mut files = Vec::new();
    for update in harness.updates(ADA).await {
        let Content::Message { files: these, .. } = update.content else { panic!("it was said") };
        files.extend(these);
    }
    let names: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.mime.as_str())).collect();
    let expected = [("image.png", "image/png"), ("audio.ogg", "audio/ogg"), ("plan.pdf", "application/pdf")];
    assert_eq!(names, expected);
    assert_eq!(harness.adapter.download(&files[0], 100).await.unwrap(), bytes);
    let too_long = harness.adapter.download(&files[0], 3).await.unwrap_err();
    assert!(matches!(too_long, AdapterError::Refused(_)), "{too_long}");
    assert_eq!(harness.state().calls["media.download"], 1, "a file that is too long is not requested");
    assert_eq!(harness.state().problems, Vec::<String>::new());
    let unknown = Attachment { reference: "../1".into(), ..files[0].clone() };
    assert!(matches!(harness.adapter.download(&unknown, 100).await, Err(AdapterError::Refused(_))));
}
