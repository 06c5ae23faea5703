//! Long polling: every update arrives once and in order.

use super::*;

#[tokio::test]
async fn updates_are_stored_before_they_are_acknowledged() {
    let harness = Harness::new().await;
    let mut gateway = harness.receive();
    let message = harness.say("hello");
    let updates = gateway.next().await;
    assert_eq!(updates.len(), 1);
    let update = &updates[0];
    assert_eq!((text(update), &update.message), ("hello", &Some(message)));
    assert_eq!((update.id.as_str(), &update.place), ("4200/1", &place()));
    assert_eq!((update.sender.id.as_str(), update.sender.name.as_str()), ("1", "Ada"));
    assert!(update.is_direct && update.is_addressed && update.sent > 0);
    // Only the next poll acknowledges.
    let acknowledged =
        |state: &testkit::platforms::service_state::State| (state.acknowledged == 1).then_some(());
    harness.fake.service_state().until("the confirmation", acknowledged).await.unwrap();
    assert_eq!(gateway.inbox.bookmark("telegram/4200").await.unwrap().as_deref(), Some("2"));
    assert!(harness.problems().is_empty());
}

#[tokio::test]
async fn a_restart_neither_loses_nor_repeats() {
    let harness = Harness::new().await;
    let mut gateway = harness.receive();
    harness.say("one");
    assert_eq!(gateway.next().await.len(), 1);
    gateway.stop().await;
    harness.say("two");
    let mut gateway = harness.receive();
    let texts: Vec<String> = gateway.next().await.iter().map(|it| text(it).to_owned()).collect();
    assert_eq!(texts, ["one", "two"]);
}

#[tokio::test]
async fn a_repeated_update_is_stored_once() {
    let harness = Harness::new().await;
    let mut gateway = harness.receive();
    harness.say("one");
    assert_eq!(gateway.next().await.len(), 1);
    harness.fake.repeat();
    harness.say("two");
    let updates = gateway.next().await;
    assert_eq!(updates.iter().map(text).collect::<Vec<_>>(), ["one", "two"]);
}

#[tokio::test]
async fn another_bots_offset_is_not_used() {
    let harness = Harness::new().await;
    let gateway = harness.receive();
    gateway.inbox.set_bookmark("telegram/99", "1000".into()).await.unwrap();
    gateway.stop().await;
    harness.say("hello");
    assert_eq!(harness.receive().next().await.len(), 1);
}

#[tokio::test]
async fn a_wrong_token_ends_it_with_a_clear_fault() {
    let mut harness = Harness::new().await;
    harness.settings.token = Secret::new("4200:wrong-token");
    let fault = harness.receive().fault().await;
    let told = fault.to_string();
    assert!(matches!(fault, AdapterError::Refused(_)) && told.contains("rejects the bot's token"), "{told}");
    assert!(!told.contains("wrong-token"));
}

#[tokio::test]
async fn failed_polls_are_retried() {
    let harness = Harness::new().await;
    for fault in [Planned::Unavailable, Planned::Broken, Planned::Cut, Planned::Busy { after: 0 }] {
        harness.plan("getMe", fault);
        harness.plan("getUpdates", fault);
    }
    let mut gateway = harness.receive();
    harness.say("hello");
    assert_eq!(text(&gateway.next().await[0]), "hello");
    assert_eq!(harness.fake.service_state().state().calls["getMe"], 5);
}

#[tokio::test]
async fn a_poll_that_hangs_is_given_up() {
    let mut harness = Harness::new().await;
    harness.pace = Pace { poll: Duration::ZERO, grace: Duration::from_millis(50), ..PACE };
    harness.plan("getUpdates", Planned::Hold);
    let mut gateway = harness.receive();
    harness.called("getUpdates", 2).await;
    harness.say("hello");
    assert_eq!(text(&gateway.next().await[0]), "hello");
}

#[tokio::test]
async fn a_server_that_answers_at_once_is_not_polled_in_a_loop() {
    let mut harness = Harness::new().await;
    harness.pace = Pace { poll: Duration::ZERO, idle: Duration::from_millis(40), ..PACE };
    let started = std::time::Instant::now();
    let _gateway = harness.receive();
    harness.called("getUpdates", 4).await;
    assert!(started.elapsed() >= Duration::from_millis(120));
}

#[tokio::test]
async fn two_pollers_are_reported_and_continue() {
    let harness = Harness::new().await;
    let mut first = harness.receive();
    harness.called("getUpdates", 1).await;
    let other =
        Harness { directory: tempfile::tempdir().unwrap(), fake: Arc::clone(&harness.fake), ..harness };
    let mut second = other.receive();
    // Each client ends the other's poll.
    other.called("getUpdates", 4).await;
    other.say("hello");
    let heard = timeout(PATIENCE, async {
        tokio::select! { updates = first.next() => updates, updates = second.next() => updates }
    });
    assert_eq!(text(&heard.await.unwrap()[0]), "hello");
}

#[tokio::test]
async fn polling_removes_an_old_webhook() {
    let harness = Harness::new().await;
    let hook = json!({"url": "http://127.0.0.1:9/telegram"});
    let _: Value = harness.adapter().api.call("setWebhook", &hook).await.unwrap();
    let mut gateway = harness.receive();
    harness.called("getUpdates", 1).await;
    harness.say("hello");
    assert_eq!(text(&gateway.next().await[0]), "hello");
}

#[tokio::test]
async fn an_unparsable_update_does_not_block_the_rest() {
    let harness = Harness::new().await;
    let mut gateway = harness.receive();
    harness.fake.bring(json!({"update_id": 70, "message": "nonsense"}));
    harness.fake.bring(json!({"no": "id"}));
    harness.fake.bring(json!(7));
    harness.say("hello");
    assert_eq!(text(&gateway.next().await[0]), "hello");
}

#[tokio::test]
async fn a_tap_has_its_topic_and_is_confirmed() {
    let harness = Harness::new().await;
    let mut gateway = harness.receive();
    let said = UserMessage {
        chat: "-100".into(),
        thread: Some("5".into()),
        is_group: true,
        ..ada("hello @Baton_Bot")
    };
    harness.fake.say(said);
    let update = gateway.next().await.remove(0);
    assert_eq!((text(&update), update.is_direct, update.is_addressed), ("hello", false, true));
    assert_eq!(update.place.thread.as_deref(), Some("5"));
    let button = Button { label: "Allow".into(), token: "t1".into() };
    let post = Post { buttons: vec![button], ..Post::text("May I?") };
    let sent = gateway.adapter.send(&update.place, &post).await.unwrap();
    let tap = testkit::platforms::service_state::Tap {
        message: sent.0.clone(),
        label: "Allow".into(),
        from: "1".into(),
        name: "Ada".into(),
    };
    harness.fake.tap(tap);
    let tapped = gateway.next().await.remove(1);
    assert_eq!((&tapped.place, tapped.message.as_deref()), (&update.place, Some(sent.0.as_str())));
    assert_eq!(tapped.sent, 1_000_000, "the message's own time says nothing about the tap");
    let Content::Tap { token, receipt } = &tapped.content else { panic!("{tapped:?}") };
    assert_eq!(token, "t1");
    let receipt = receipt.as_deref().unwrap();
    gateway.adapter.confirm_tap(receipt, Some("Allowed")).await.unwrap();
    assert_eq!(harness.fake.service_state().state().understood, ["Allowed"]);
    // Confirming a tap again is not a fault.
    gateway.adapter.confirm_tap(receipt, None).await.unwrap();
    assert!(harness.problems().is_empty(), "{:?}", harness.problems());
}

#[tokio::test]
async fn a_moved_group_keeps_its_updates() {
    let harness = Harness::new().await;
    let mut gateway = harness.receive();
    harness.fake.say(UserMessage { chat: "-7".into(), is_group: true, ..ada("/one") });
    let old = Place { chat: "-7".into(), ..place() };
    let new = Place { chat: "-1007".into(), ..place() };
    assert_eq!(gateway.next().await.len(), 1);
    harness.fake.migrate_loudly("-7", -1_007);
    // An update with the old id belongs to the new chat.
    harness.fake.say(UserMessage { chat: "-7".into(), is_group: true, ..ada("/two") });
    while gateway.stored(&new).await.len() < 2 {
        timeout(PATIENCE, gateway.news.recv()).await.unwrap().unwrap();
    }
    let updates = gateway.stored(&new).await;
    assert_eq!(updates.iter().map(text).collect::<Vec<_>>(), ["/one", "/two"]);
    assert!(updates.iter().all(|update| update.place == new) && gateway.stored(&old).await.is_empty());
    assert_eq!(updates[0].message, None, "it has another name there");
}
