//! Receiving by Socket Mode.

use std::collections::BTreeSet;

use channels::{Adapter as _, AdapterError, Button, Content, Post};
use protocol::channel::ChannelState;
use serde_json::json;
use testkit::platforms::{
    service_state::{GivenFile, Planned, Platform as _, ServiceFault as Wrong, Tap, UserMessage},
    slack::Options,
};
use tokio::time::timeout;

use crate::room::{PATIENCE, Room, place, said};

#[tokio::test]
async fn messages_are_stored_before_they_are_acknowledged() {
    let mut room = Room::new(Options::default()).await.listening().await;
    room.say("D1", None, "a < b & see https://example.com");
    let update = room.next().await;
    assert_eq!((update.place.clone(), said(&update)), (place("D1", None), "a < b & see https://example.com"));
    assert!(update.is_direct && update.is_addressed);
    room.until("an acknowledgement", |_, state| state.acknowledged == 1).await;
    assert_eq!(room.ledger.open_updates(&update.place).await.unwrap().len(), 1);
    room.is_fine();
}

#[tokio::test]
async fn a_mention_reported_twice_is_one_update_in_its_own_thread() {
    let mut room = Room::new(Options::default()).await.listening().await;
    let ts = room.say("C1", None, "@baton fix it");
    let update = room.next().await;
    assert_eq!((update.place.clone(), said(&update)), (place("C1", Some(&ts)), "fix it"));
    room.until("both acknowledgements", |_, state| state.acknowledged == 2).await;
    room.say("C1", Some(&ts), "go on");
    let follow_up = room.next().await;
    assert_eq!((follow_up.place, follow_up.is_addressed), (place("C1", Some(&ts)), false));
    room.say("C1", None, "lunch?");
    room.until("an acknowledgement", |_, state| state.acknowledged == 4).await;
    assert!(!room.has_more());
    assert_eq!(room.ledger.open_updates(&update.place).await.unwrap().len(), 2);
    room.is_fine();
}

#[tokio::test]
async fn a_repeated_delivery_is_stored_once() {
    let mut room = Room::new(Options::default()).await.listening().await;
    room.say("D1", None, "once");
    let update = room.next().await;
    room.fake.repeat();
    room.until("both acknowledgements", |_, state| state.acknowledged == 2).await;
    assert!(!room.has_more());
    assert_eq!(room.ledger.open_updates(&update.place).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_warning_opens_a_new_connection_before_the_old_one_closes() {
    let mut room = Room::new(Options::default()).await.listening().await;
    room.fake.disconnect();
    // The fake closes the old connection only after there is a new one.
    room.until("another connection", |_, state| state.calls["apps.connections.open"] == 2).await;
    room.say("D1", None, "in between");
    assert_eq!(said(&room.next().await), "in between");
    room.until("the old one to go", |fake, _| fake.connections() == 1).await;
    room.say("D1", None, "afterwards");
    assert_eq!(said(&room.next().await), "afterwards");
    room.is_fine();
}

#[tokio::test]
async fn the_state_follows_the_connection() {
    let room = Room::new(Options::default()).await.listening().await;
    let mut states = room.inbox.health().subscribe();
    let mut until = async |state: ChannelState| {
        let found = states.wait_for(|states| states.get("slack").is_some_and(|it| it.state == state));
        drop(timeout(PATIENCE, found).await.expect("the state should change").unwrap());
    };
    until(ChannelState::Connected).await;
    // The next connection is not open yet, and the state already says so.
    let method = "apps.connections.open".to_owned();
    room.fake.service_state().plan(&Planned { method, times: 1, fault: Wrong::Hold });
    room.fake.cut();
    until(ChannelState::Reconnecting).await;
    room.until("the held call", |_, state| !state.held.is_empty()).await;
    room.fake.service_state().release();
    until(ChannelState::Connected).await;
}

#[tokio::test]
async fn a_broken_connection_is_replaced_and_nothing_is_lost() {
    let mut room = Room::new(Options::default()).await.listening().await;
    room.fake.service_state().plan(&Planned {
        method: "apps.connections.open".to_owned(),
        times: 1,
        fault: Wrong::Unavailable,
    });
    room.fake.cut();
    room.until("the break", |fake, _| fake.connections() == 0).await;
    room.say("D1", None, "is anybody there?");
    assert_eq!(said(&room.next().await), "is anybody there?");
    room.until("three attempts", |_, state| state.calls["apps.connections.open"] == 3).await;
    room.is_fine();
}

#[tokio::test]
async fn a_malformed_frame_does_no_harm() {
    let mut room = Room::new(Options::default()).await.listening().await;
    room.fake.event(&json!({"type": "message", "channel": 5, "text": ["x"]}));
    room.fake.event(&json!("nothing"));
    room.fake.event(
        &json!({"type": "message", "channel": "D1", "user": "U1", "ts": "1.0", "text": "x".repeat(1 << 20)}),
    );
    room.say("D1", None, "still there?");
    assert_eq!(said(&room.next().await), "still there?");
    room.until("all acknowledgements", |_, state| state.acknowledged == 4).await;
    assert!(!room.has_more());
    room.is_fine();
}

#[tokio::test]
async fn a_wrong_token_ends_receiving_with_advice_and_without_the_token() {
    for settings in
        [json!({"botToken": "xoxb-wrong", "appToken": "xapp-fake"}), json!({"appToken": "xapp-wrong"})]
    {
        let room = Room::with(Options::default(), settings).await;
        let fault = room.ends().await;
        let text = format!("{fault} {fault:?} {:?}", room.slack);
        assert!(matches!(fault, AdapterError::Refused(_)) && text.contains("invalid_auth"), "{text}");
        assert!(!text.contains("wrong\"") && !text.contains("xoxb-") && !text.contains("xapp-"), "{text}");
    }
}

#[tokio::test]
async fn a_bot_token_is_refused_as_app_token() {
    let room = Room::with(Options::default(), json!({"appToken": "xoxb-fake"})).await;
    let fault = room.ends().await.to_string();
    assert!(fault.contains("not_allowed_token_type") && fault.contains("xapp-"), "{fault}");
}

#[tokio::test]
async fn buttons_commands_and_slacks_own_stop_arrive() {
    let mut room = Room::new(Options::default()).await.listening().await;
    let ts = room.say("C1", None, "@baton may you?");
    let thread = room.next().await.place;
    let button = Button { label: "Once".to_owned(), token: "token-1".to_owned() };
    let post = Post { buttons: vec![button], ..Post::text("May I?") };
    let sent = room.slack.send(&thread, &post).await.unwrap();
    room.fake.tap(Tap {
        message: sent.0,
        label: "Once".to_owned(),
        from: "U2".to_owned(),
        name: "bob".to_owned(),
    });
    let tap = room.next().await;
    assert_eq!((tap.place, tap.sender.id.as_str()), (thread.clone(), "U2"));
    assert_eq!(tap.content, Content::Tap { token: "token-1".to_owned(), receipt: None });
    room.say("C1", None, "/baton what is new?");
    let command = room.next().await;
    assert_eq!((command.place.clone(), said(&command)), (place("C1", None), "what is new?"));
    room.fake.stop("C1", Some(&ts));
    // The newest update in the thread is the stop.
    assert_eq!(room.next().await.content, Content::Stop);
    let names: BTreeSet<String> = [&thread, &command.place].iter().map(ToString::to_string).collect();
    assert_eq!(names.len(), 2);
    room.is_fine();
}

#[tokio::test]
async fn a_stop_below_a_direct_message_is_for_the_chat() {
    let mut room = Room::new(Options::default()).await.listening().await;
    let ts = room.say("D1", None, "work");
    let chat = room.next().await.place;
    room.slack.typing(&chat, Some(&ts), "is working…").await.unwrap();
    room.fake.stop("D1", Some(&ts));
    let stop = room.next().await;
    assert_eq!((stop.content, stop.place), (Content::Stop, chat));
}

#[tokio::test]
async fn files_are_fetched_with_the_token_and_only_from_slack() {
    let mut room = Room::new(Options::default()).await.listening().await;
    let file =
        GivenFile { name: "a.txt".to_owned(), mime: "text/plain".to_owned(), base64: "aGVsbG8=".to_owned() };
    room.fake.say(UserMessage {
        chat: "D1".to_owned(),
        from: "U1".to_owned(),
        file: Some(file),
        ..UserMessage::default()
    });
    let Content::Message { mut files, .. } = room.next().await.content else { panic!() };
    let mut file = files.pop().unwrap();
    assert_eq!((file.name.as_str(), file.mime.as_str(), file.size), ("a.txt", "text/plain", Some(5)));
    assert_eq!(room.slack.download(&file, 5).await.unwrap(), "hello");
    let fault = room.slack.download(&file, 4).await.unwrap_err();
    assert!(matches!(fault, AdapterError::Refused(_)), "{fault}");
    // Another server, which must not receive the token; it would record the call.
    let elsewhere = Room::new(Options::default()).await;
    file.reference = format!("{}/api/auth.test", elsewhere.fake.url());
    let fault = room.slack.download(&file, 100).await.unwrap_err();
    assert!(fault.to_string().contains("not Slack"), "{fault}");
    assert!(elsewhere.fake.service_state().state().calls.is_empty());
}
