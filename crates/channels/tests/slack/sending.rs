//! Sending posts, files and statuses to a fake Slack.

use std::time::Duration;

use channels::{Adapter as _, AdapterError, Button, Document, Post};
use serde_json::json;
use testkit::platforms::{
    service_state::{Planned, Platform as _, ServiceFault as Wrong},
    slack::Options,
};

use crate::room::{Room, place};

async fn room() -> Room {
    let room = Room::new(Options::default()).await;
    room.fake.invite("D1");
    room
}

fn buttons(count: usize) -> Vec<Button> {
    (0..count).map(|at| Button { label: format!("Choice {at}"), token: format!("token-{at}") }).collect()
}

#[tokio::test]
async fn a_post_is_sent_edited_and_deleted() {
    let room = room().await;
    let chat = place("D1", None);
    let post =
        Post { buttons: buttons(25), ..Post::text("**May** I? `a < b` & [this](https://example.com)") };
    let sent = room.slack.send(&chat, &post).await.unwrap();
    let shown = room.fake.service_state().state().messages.remove(0);
    assert_eq!(shown.text, "*May* I? `a &lt; b` &amp; <https://example.com|this>");
    assert_eq!((shown.buttons.len(), shown.buttons[24].token.as_str()), (25, "token-24"));
    room.slack.edit(&chat, &sent, &Post::text("Allowed.")).await.unwrap();
    let shown = room.fake.service_state().state().messages.remove(0);
    assert_eq!((shown.text.as_str(), shown.buttons.len(), shown.before.len()), ("Allowed.", 0, 1));
    room.slack.remove(&chat, &sent).await.unwrap();
    assert!(room.fake.service_state().state().messages[0].is_removed);
    // Deleting a message again is not a fault.
    room.slack.remove(&chat, &sent).await.unwrap();
    room.is_fine();
}

#[tokio::test]
async fn a_long_text_is_split_so_that_slack_accepts_every_piece() {
    let room = room().await;
    let text = format!("Look:\n```html\n{}```\nDone.", "<p>a & b</p>\n".repeat(800));
    let pieces = room.slack.split(&text);
    assert!(pieces.len() > 3);
    for piece in &pieces {
        let post = Post { buttons: buttons(1), ..Post::text(piece) };
        room.slack.send(&place("D1", None), &post).await.unwrap();
    }
    for message in room.fake.service_state().state().messages {
        assert_eq!(message.text.matches("```").count() % 2, 0);
    }
    room.is_fine();
}

#[tokio::test]
async fn a_file_goes_into_the_thread_with_its_caption() {
    let room = Room::new(Options::default()).await.listening().await;
    let ts = room.say("C1", None, "@baton show me");
    let thread = place("C1", Some(&ts));
    let file = Document {
        name: "changes.diff".to_owned(),
        mime: "text/x-diff".to_owned(),
        text: "+ new\n".to_owned(),
    };
    let post = Post { file: Some(file), ..Post::text("The **changes**") };
    let sent = room.slack.send(&thread, &post).await.unwrap();
    let shown = room.fake.service_state().state().messages.remove(0);
    let file = shown.file.unwrap();
    assert_eq!((shown.text.as_str(), shown.thread), ("The *changes*", Some(ts)));
    assert_eq!((file.name.as_str(), file.text.as_str()), ("changes.diff", "+ new\n"));
    room.slack.remove(&thread, &sent).await.unwrap();
    assert!(room.fake.service_state().state().messages[0].is_removed);
    room.is_fine();
}

#[tokio::test]
async fn a_fault_tells_whether_a_retry_is_safe() {
    let room = room().await;
    let mut faults = Vec::new();
    for fault in [Wrong::Busy { after: 7 }, Wrong::Unavailable, Wrong::Broken, Wrong::Cut] {
        room.fake.service_state().plan(&Planned { method: "chat.postMessage".to_owned(), times: 1, fault });
        faults.push(room.slack.send(&place("D1", None), &Post::text("x")).await.unwrap_err());
    }
    assert_eq!(faults[0], AdapterError::Busy { after: Duration::from_secs(7) });
    assert!(matches!(faults[1], AdapterError::Unreachable(_)), "{faults:?}");
    assert!(matches!(faults[2], AdapterError::Uncertain(_)), "{faults:?}");
    assert!(matches!(faults[3], AdapterError::Uncertain(_)), "{faults:?}");
    // Only the call whose connection was cut was carried out.
    assert_eq!(room.fake.service_state().state().messages.len(), 1);
    assert!(!format!("{faults:?}").contains("xoxb"));
}

#[tokio::test]
async fn an_unreachable_service_is_a_certain_failure() {
    let mut settings = json!({"botToken": "xoxb-fake", "appToken": "xapp-fake"});
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    settings["api"] = json!(format!("http://{free}/api"));
    let slack = channels::slack::Slack::new(&serde_json::from_value(settings).unwrap()).unwrap();
    let fault = slack.send(&place("D1", None), &Post::text("x")).await.unwrap_err();
    assert!(matches!(fault, AdapterError::Unreachable(_)), "{fault:?}");
}

#[tokio::test]
async fn slacks_rate_limits_and_refusals_become_faults() {
    let options = Options { is_paced: true, outside: vec!["C2".to_owned()], ..Options::default() };
    let room = Room::new(options).await;
    room.fake.invite("C1");
    let say = async |chat: &str| room.slack.send(&place(chat, None), &Post::text("x")).await;
    say("C1").await.unwrap();
    assert_eq!(say("C1").await.unwrap_err(), AdapterError::Busy { after: Duration::from_secs(1) });
    let fault = say("C2").await.unwrap_err();
    assert_eq!(fault, AdapterError::Refused("not_in_channel: invite the app to the channel".to_owned()));
    assert!(say("C3").await.unwrap_err().to_string().contains("channel_not_found"));
}

#[tokio::test]
async fn the_status_is_shown_in_the_thread_or_below_the_message() {
    let room = Room::new(Options::default()).await.listening().await;
    let (root, message) = (room.say("C1", None, "@baton go"), room.say("D1", None, "go"));
    let (thread, chat) = (place("C1", Some(&root)), place("D1", None));
    room.slack.typing(&thread, None, "is thinking…").await.unwrap();
    room.slack.typing(&chat, Some(&message), "is reading…").await.unwrap();
    assert_eq!(room.fake.status("C1", &root), "is thinking…");
    assert_eq!(room.fake.status("D1", &message), "is reading…");
    // A later message moves the status.
    let later = room.say("D1", None, "and this");
    room.slack.typing(&chat, Some(&later), "is reading…").await.unwrap();
    assert_eq!(
        (room.fake.status("D1", &message).as_str(), room.fake.status("D1", &later).as_str()),
        ("", "is reading…")
    );
    room.slack.stop_typing(&thread).await.unwrap();
    room.slack.stop_typing(&chat).await.unwrap();
    assert_eq!(
        (room.fake.status("C1", &root), room.fake.status("D1", &later)),
        (String::new(), String::new())
    );
    room.is_fine();
}

#[tokio::test]
async fn a_server_without_statuses_is_asked_once() {
    let method = "assistant.threads.setStatus";
    let room = Room::new(Options { without: vec![method.to_owned()], ..Options::default() }).await;
    for _ in 0..3 {
        room.slack.typing(&place("D1", None), Some("1.0"), "is thinking…").await.unwrap();
    }
    room.slack.stop_typing(&place("D1", None)).await.unwrap();
    assert_eq!(room.fake.service_state().state().calls[method], 1);
}
