//! Sending: posts arrive, or their fault is certain.

use testkit::platforms::service_state::{Planned, ServiceFault as Trouble};

use super::*;
use crate::{AdapterError, Document};

/// A world in which Ada has written, so that the number may write to her; and the id of her message.
async fn heard(options: Options) -> (Harness, Place, String) {
    let harness = Harness::with(options, 0).await;
    let message = harness.service.say(said(ADA, "Hello."));
    harness.acknowledged(1).await;
    (harness, updates::place(ADA), message)
}

#[tokio::test]
async fn text_is_sent_as_a_reply() {
    let (harness, place, message) = heard(Options::default()).await;
    let post = Post { reply_to: Some(message.clone()), ..Post::text("Hello, Ada.") };
    let sent = harness.adapter.send(&place, &post).await.unwrap();
    let state = harness.state();
    let shown = &state.messages[0];
    assert_eq!((&shown.id, &*shown.text, &shown.reply_to), (&sent.0, "Hello, Ada.", &Some(message)));
    assert_eq!(state.problems, Vec::<String>::new());
}

#[tokio::test]
async fn a_long_text_is_split_into_pieces_that_are_accepted() {
    let (harness, place, _) = heard(Options::default()).await;
    for piece in harness.adapter.split(&"😀 words ".repeat(2_000)) {
        harness.adapter.send(&place, &Post::text(piece)).await.unwrap();
    }
    let state = harness.state();
    assert!(state.messages.len() > 4 && state.problems.is_empty(), "{:?}", state.problems);
}

#[tokio::test]
async fn a_diff_is_sent_as_a_file() {
    let (harness, place, _) = heard(Options::default()).await;
    let file = Document { name: "a.diff".into(), mime: "text/x-diff".into(), text: "-1\r\n+2\n".into() };
    let post = Post { file: Some(file), ..Post::text("What changed") };
    harness.adapter.send(&place, &post).await.unwrap();
    let state = harness.state();
    let file = state.messages[0].file.clone().unwrap();
    assert_eq!((&*file.name, &*file.mime, &*file.text), ("a.diff", "text/plain", "-1\r\n+2\n"));
    assert_eq!(state.problems, Vec::<String>::new());
}

#[tokio::test]
async fn typing_is_shown_to_the_user_who_wrote() {
    let (harness, place, message) = heard(Options::default()).await;
    harness.adapter.typing(&place, Some(&message), "").await.unwrap();
    harness.adapter.typing(&place, None, "").await.unwrap();
    let state = harness.state();
    assert_eq!((state.typing[ADA], state.calls["typing"]), (1, 1));
    assert_eq!(state.problems, Vec::<String>::new());
}

#[tokio::test]
async fn a_fault_distinguishes_calls_that_may_have_succeeded() {
    let (harness, place, _) = heard(Options::default()).await;
    let mut faults = Vec::new();
    for fault in [Trouble::Busy { after: 3 }, Trouble::Unavailable, Trouble::Broken, Trouble::Cut] {
        harness.service.service_state().plan(&Planned { method: "messages".into(), times: 1, fault });
        faults.push(harness.adapter.send(&place, &Post::text("x")).await.unwrap_err());
    }
    assert_eq!(faults[0], AdapterError::Busy { after: Duration::from_secs(3) });
    assert!(matches!(faults[1], AdapterError::Unreachable(_)), "{}", faults[1]);
    assert!(matches!(faults[2], AdapterError::Uncertain(_)), "{}", faults[2]);
    assert!(matches!(faults[3], AdapterError::Uncertain(_)), "{}", faults[3]);
    assert_eq!(harness.state().messages.len(), 1, "only the call with the cut connection was carried out");
}

#[tokio::test]
async fn an_upload_that_fails_can_be_repeated() {
    let (harness, place, _) = heard(Options::default()).await;
    let file = Document { name: "a.txt".into(), mime: "text/plain".into(), text: "x".into() };
    let post = Post { file: Some(file), ..Post::default() };
    harness.service.service_state().plan(&Planned { method: "media".into(), times: 1, fault: Trouble::Cut });
    let fault = harness.adapter.send(&place, &post).await.unwrap_err();
    assert!(matches!(fault, AdapterError::Unreachable(_)), "{fault}");
    harness.adapter.send(&place, &post).await.unwrap();
    assert_eq!(harness.state().messages.len(), 1);
}

#[tokio::test]
async fn a_rate_limit_becomes_a_wait() {
    let (harness, place, _) = heard(Options { pair_limit: Some(1), ..Options::default() }).await;
    harness.adapter.send(&place, &Post::text("one")).await.unwrap();
    let fault = harness.adapter.send(&place, &Post::text("two")).await.unwrap_err();
    assert_eq!(fault, AdapterError::Busy { after: Duration::from_secs(6) });
}

#[tokio::test]
async fn after_a_day_the_user_has_to_write_first() {
    let (harness, place, _) = heard(Options { refuses_late: true, ..Options::default() }).await;
    harness.service.pass(Duration::from_hours(25));
    let fault = harness.adapter.send(&place, &Post::text("late")).await.unwrap_err();
    assert!(matches!(fault, AdapterError::Closed(_)), "{fault}");
    assert!(fault.to_string().contains("24 hours"), "{fault}");
}

#[tokio::test]
async fn a_post_that_failed_later_is_sent_when_the_user_writes() {
    let (harness, place, _) = heard(Options::default()).await;
    harness.service.pass(Duration::from_hours(25));
    let id = harness.ledger.say(&place, vec![Post::text("late")]).await.unwrap()[0];
    harness.ledger.sending(id).await.unwrap();
    let sent = harness.adapter.send(&place, &Post::text("late")).await.unwrap();
    // The service reports the failure before the post's id is stored, and has to repeat the report.
    harness.until("a status", |state| state.calls.contains_key("webhook.refused")).await;
    harness.ledger.sent(id, sent).await.unwrap();
    harness.until("the status again", |state| state.calls["webhook"] == 2).await;
    assert!(harness.state().messages.is_empty());
    assert_eq!(harness.ledger.next_post(&place).await.unwrap(), None);
    harness.service.say(said(ADA, "I am back."));
    harness.acknowledged(2).await;
    for text in [crate::words::LATE, "late"] {
        let next = harness.ledger.next_post(&place).await.unwrap().unwrap();
        assert_eq!(next.post.text, text);
        harness.ledger.sent(next.id, Sent("1".into())).await.unwrap();
    }
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_not_shown() {
    let (harness, place, _) = heard(Options::default()).await;
    let options = Options { token: "EAAwrong".into(), ..harness.service.options().clone() };
    let fault = adapter(&harness.service.api(), &options).send(&place, &Post::text("x")).await.unwrap_err();
    let AdapterError::Refused(reason) = &fault else { panic!("{fault}") };
    assert!(reason.contains("access token") && !reason.contains("EAAwrong"), "{reason}");
}

#[tokio::test]
async fn a_service_that_is_not_there_is_unreachable() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let adapter = adapter(&format!("http://{closed}/v26.0"), &Options::default());
    let fault = adapter.send(&updates::place(ADA), &Post::text("x")).await.unwrap_err();
    assert!(matches!(fault, AdapterError::Unreachable(_)), "{fault}");
}

#[tokio::test]
async fn a_wrong_token_is_reported_at_once_and_an_unreadable_number_is_not() {
    let harness = Harness::new().await;
    let wrong = Options { token: "EAAwrong".to_owned(), ..harness.service.options().clone() };
    let fault = adapter(&harness.service.api(), &wrong).receive(&harness.inbox).await;
    let AdapterError::Refused(reason) = fault else { panic!("{fault}") };
    assert!(reason.contains("the access token is wrong or has expired"), "{reason}");
    assert!(!reason.contains("EAAwrong"), "{reason}");
    let other = Options { phone_number_id: "7".to_owned(), ..harness.service.options().clone() };
    for options in [&other, harness.service.options()] {
        let adapter = adapter(&harness.service.api(), options);
        let receiving = adapter.receive(&harness.inbox);
        let asked = harness.state().calls.get("number").copied().unwrap_or_default() + 1;
        tokio::select! {
            fault = receiving => panic!("{fault}"),
            () = harness.until("a look at the number", |state| state.calls.get("number") == Some(&asked)) => {}
        }
    }
}
