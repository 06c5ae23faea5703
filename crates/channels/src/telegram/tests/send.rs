//! Sending: posts arrive as intended, and each failure becomes the right fault.

use bytes::Bytes;
use testkit::platforms::service_state::{GivenFile, Shown};

use super::*;

/// A world in which Ada has written, so that the bot may write to her.
async fn met(options: Options) -> (Harness, Telegram) {
    let harness = Harness::with(options).await;
    harness.say("hello");
    let adapter = harness.adapter();
    (harness, adapter)
}

fn shown(harness: &Harness) -> Vec<Shown> {
    harness.fake.service_state().state().messages
}

#[tokio::test]
async fn text_is_sent_as_html_and_as_a_reply() {
    let (harness, adapter) = met(Options::default()).await;
    let post = Post { reply_to: Some("1".into()), ..Post::text("**Done** & `dusted`") };
    adapter.send(&place(), &post).await.unwrap();
    let gone = Post { reply_to: Some("999".into()), ..Post::text("Again") };
    adapter.send(&place(), &gone).await.unwrap();
    let shown = shown(&harness);
    assert_eq!(shown[0].text, "<b>Done</b> &amp; <code>dusted</code>");
    assert_eq!((&shown[0].reply_to, &shown[1].reply_to), (&Some("1".into()), &None));
    assert!(harness.problems().is_empty());
}

#[tokio::test]
async fn text_that_telegram_rejects_is_sent_plain() {
    let (harness, adapter) =
        met(Options { unknown_tags: vec!["blockquote".into()], ..Options::default() }).await;
    let sent = adapter.send(&place(), &Post::text("> quoted")).await.unwrap();
    assert_eq!(shown(&harness)[0].text, "> quoted");
    adapter.edit(&place(), &sent, &Post::text("> other")).await.unwrap();
    let file = Document { name: "a.txt".into(), mime: "text/plain".into(), text: "a".into() };
    adapter.send(&place(), &Post { file: Some(file), ..Post::text("> file") }).await.unwrap();
    let texts: Vec<String> = shown(&harness).into_iter().map(|it| it.text).collect();
    assert_eq!(texts, ["> other", "> file"]);
    assert_eq!(harness.fake.service_state().state().calls["sendMessage"], 2);
}

#[tokio::test]
async fn a_long_answer_fits_when_it_is_cut() {
    let (harness, adapter) = met(Options::default()).await;
    let code = "    let x = \"<&>\"; // 😀\n".repeat(300);
    let pieces = adapter.split(&format!("Look:\n\n```rust\n{code}```\n\nThat is **all**."));
    assert!(pieces.len() > 1);
    for piece in &pieces {
        adapter.send(&place(), &Post::text(piece)).await.unwrap();
    }
    assert_eq!(shown(&harness).len(), pieces.len());
    assert!(shown(&harness).iter().all(|it| it.text.contains("<pre><code class=\"language-rust\">")));
    assert!(harness.problems().is_empty(), "{:?}", harness.problems());
    let fault = adapter.send(&place(), &Post::text("x".repeat(5_000))).await.unwrap_err();
    assert!(matches!(fault, AdapterError::Refused(_)), "{fault}");
}

#[tokio::test]
async fn a_message_is_edited_and_deleted() {
    let (harness, adapter) = met(Options::default()).await;
    let button = Button { label: "Yes".into(), token: "x".repeat(40) };
    let post = Post { buttons: vec![button], ..Post::text("Shall I?") };
    let sent = adapter.send(&place(), &post).await.unwrap();
    // It is not a fault if an edit changes nothing.
    adapter.edit(&place(), &sent, &post).await.unwrap();
    adapter.edit(&place(), &sent, &Post::text("Yes.")).await.unwrap();
    let message = shown(&harness).remove(0);
    assert_eq!((message.text.as_str(), message.before.len(), message.buttons.len()), ("Yes.", 1, 0));
    adapter.remove(&place(), &sent).await.unwrap();
    adapter.remove(&place(), &sent).await.unwrap();
    assert!(shown(&harness)[0].is_removed);
    assert!(matches!(adapter.edit(&place(), &sent, &post).await, Err(AdapterError::Refused(_))));
    assert!(harness.problems().is_empty(), "{:?}", harness.problems());
}

#[tokio::test]
async fn a_file_comes_with_its_caption_and_buttons() {
    let (harness, adapter) = met(Options::default()).await;
    let file = Document {
        name: "changes \"1\".diff".into(),
        mime: "text/x-diff".into(),
        text: "-a\n+b\r\n--baton-\n".into(),
    };
    let button = Button { label: "Allow".into(), token: "t".into() };
    let post = Post {
        file: Some(file.clone()),
        buttons: vec![button],
        reply_to: Some("1".into()),
        ..Post::text("**word** ".repeat(300))
    };
    let sent = adapter.send(&place(), &post).await.unwrap();
    let message = shown(&harness).remove(0);
    let got = message.file.unwrap();
    assert_eq!((got.name.as_str(), got.text), ("changes _1_.diff", file.text));
    assert_eq!((message.buttons.len(), message.reply_to.as_deref()), (1, Some("1")));
    assert!(message.text.starts_with("<b>word</b>") && message.text.ends_with('…'), "{}", message.text);
    adapter.edit(&place(), &sent, &Post { buttons: vec![], ..post }).await.unwrap();
    assert!(shown(&harness)[0].buttons.is_empty());
    assert!(harness.problems().is_empty(), "{:?}", harness.problems());
}

#[tokio::test]
async fn topics_are_kept_apart() {
    let (harness, adapter) = met(Options::default()).await;
    harness.fake.say(UserMessage {
        chat: "-5".into(),
        thread: Some("3".into()),
        is_group: true,
        ..ada("hello")
    });
    let topic = Place { chat: "-5".into(), thread: Some("3".into()), ..place() };
    adapter.typing(&topic, None, "").await.unwrap();
    adapter.send(&topic, &Post::text("here")).await.unwrap();
    assert_eq!(shown(&harness)[0].thread.as_deref(), Some("3"));
    assert_eq!(harness.fake.service_state().state().typing["-5"], 1);
    let gone = Place { thread: Some("4".into()), ..topic };
    assert!(matches!(adapter.send(&gone, &Post::text("where?")).await, Err(AdapterError::Refused(_))));
}

#[tokio::test]
async fn faults_distinguish_calls_that_may_have_succeeded() {
    let (harness, adapter) = met(Options::default()).await;
    let post = Post::text("hello");
    let mut faults = Vec::new();
    for fault in [Planned::Busy { after: 7 }, Planned::Unavailable, Planned::Broken, Planned::Cut] {
        harness.plan("sendMessage", fault);
        faults.push(adapter.send(&place(), &post).await.unwrap_err());
    }
    assert_eq!(faults[0], AdapterError::Busy { after: Duration::from_secs(7) });
    assert!(
        matches!(
            &faults[1..],
            [AdapterError::Unreachable(_), AdapterError::Uncertain(_), AdapterError::Uncertain(_)]
        ),
        "{faults:?}"
    );
    assert_eq!(shown(&harness).len(), 1, "the call with the cut connection was carried out");
    let nobody = Place { chat: "8".into(), ..place() };
    assert!(matches!(adapter.send(&nobody, &post).await, Err(AdapterError::Refused(_))));
    assert!(faults.iter().all(|it| !it.to_string().contains("fake-token")), "{faults:?}");
}

#[tokio::test]
async fn a_rate_limit_becomes_a_pause() {
    let (_world, adapter) = met(Options { per_second: Some(1), ..Options::default() }).await;
    adapter.send(&place(), &Post::text("one")).await.unwrap();
    let fault = adapter.send(&place(), &Post::text("two")).await.unwrap_err();
    assert_eq!(fault, AdapterError::Busy { after: Duration::from_secs(1) });
}

#[tokio::test]
async fn a_moved_group_is_reported_with_its_new_id() {
    let (harness, adapter) = met(Options::default()).await;
    harness.fake.migrate("7", -1_007);
    let moved = AdapterError::Moved { into: "-1007".into() };
    assert_eq!(adapter.send(&place(), &Post::text("hello")).await, Err(moved.clone()));
    assert_eq!(adapter.typing(&place(), None, "").await, Err(moved));
}

#[tokio::test]
async fn an_unreachable_server_is_a_certain_failure() {
    let mut harness = Harness::new().await;
    harness.settings.api = "http://127.0.0.1:9".into();
    let fault = harness.adapter().send(&place(), &Post::text("hello")).await.unwrap_err();
    assert!(matches!(fault, AdapterError::Unreachable(_)), "{fault}");
    assert!(!fault.to_string().contains("fake-token"), "{fault}");
}

#[tokio::test]
async fn a_file_is_fetched_up_to_a_limit() {
    let harness = Harness::new().await;
    let mut gateway = harness.receive();
    let given = |name: &str, mime: &str| GivenFile {
        name: name.into(),
        mime: mime.into(),
        base64: "aGVsbG8=".into(),
    };
    for (name, mime) in [("notes.txt", "text/plain"), ("", "image/png"), ("", "audio/ogg")] {
        harness.fake.say(UserMessage { file: Some(given(name, mime)), ..ada("look") });
    }
    let mut files = Vec::new();
    while files.len() < 3 {
        let updates = gateway.next().await;
        let found = updates.iter().flat_map(|update| match &update.content {
            Content::Message { files, .. } => files.clone(),
            other => panic!("{other:?}"),
        });
        files = found.collect();
    }
    assert_eq!(
        files.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
        ["notes.txt", "photo.jpg", "voice.ogg"]
    );
    assert_eq!(files[1].reference, "file-2", "the largest size");
    for file in &files {
        assert_eq!(gateway.adapter.download(file, 1_000).await.unwrap(), Bytes::from_static(b"hello"));
    }
    // The limit applies to the reported size and to the actual one.
    assert!(matches!(gateway.adapter.download(&files[0], 4).await, Err(AdapterError::Refused(_))));
    let unsized_file = Attachment { size: None, ..files[0].clone() };
    assert!(matches!(gateway.adapter.download(&unsized_file, 4).await, Err(AdapterError::Refused(_))));
    let gone = Attachment { reference: "gone".into(), ..unsized_file };
    assert!(matches!(gateway.adapter.download(&gone, 1_000).await, Err(AdapterError::Refused(_))));
}

#[tokio::test]
async fn a_chat_of_two_is_edited_more_often_than_a_group() {
    let adapter = Harness::new().await.adapter();
    let pace = |chat: &str| adapter.edit_pace(&Place { chat: chat.to_owned(), ..place() }).unwrap();
    assert_eq!((pace("7").as_secs(), pace("-7").as_secs(), pace("-1007").as_secs()), (1, 3, 3));
}
