//! Payloads from Slack's documentation, and their updates.

use serde_json::{Value, json};

use super::*;

const NOW: Millis = 1_700_000_500_000;

fn me() -> Identity {
    Identity { user: Some("UBOT".to_owned()) }
}

fn read(kind: &str, payload: Value) -> Option<Update> {
    update(&Delivery::parse(kind, payload).unwrap(), &me(), NOW)
}

fn event(event: &Value) -> Option<Update> {
    read("events_api", json!({"type": "event_callback", "event_id": "Ev1", "event": event}))
}

fn said(update: &Update) -> &str {
    match &update.content {
        Content::Message { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_direct_message_is_addressed_and_has_no_thread() {
    let message = json!({"type": "message", "channel": "D1", "channel_type": "im", "user": "U1",
        "text": "a &lt; b", "ts": "1700000000.123456"});
    let update = event(&message).unwrap();
    assert_eq!((update.id.as_str(), update.alias.as_deref()), ("Ev1", Some("D1:1700000000.123456")));
    assert_eq!(update.place.to_string(), "slack/D1");
    assert_eq!((update.is_direct, update.is_addressed, said(&update)), (true, true, "a < b"));
    assert_eq!((update.sent, update.sender.id.as_str()), (1_700_000_000_123, "U1"));
    assert_eq!(update.message.as_deref(), Some("1700000000.123456"));
}

#[test]
fn a_direct_message_in_a_thread_stays_there() {
    let message = json!({"type": "message", "channel": "D1", "channel_type": "im", "user": "U1",
        "text": "hi", "ts": "2.0", "thread_ts": "1.0"});
    assert_eq!(event(&message).unwrap().place.to_string(), "slack/D1/1.0");
}

#[test]
fn a_mention_starts_a_thread_in_either_event() {
    let mention =
        json!({"type": "app_mention", "channel": "C1", "user": "U1", "text": "<@UBOT> fix it", "ts": "5.1"});
    let message = json!({"type": "message", "channel": "C1", "channel_type": "channel", "user": "U1",
        "text": "<@UBOT> fix it", "ts": "5.1"});
    let (mention, message) = (event(&mention).unwrap(), event(&message).unwrap());
    assert_eq!(mention, message);
    assert_eq!(mention.place.to_string(), "slack/C1/5.1");
    assert_eq!((mention.is_direct, mention.is_addressed, said(&mention)), (false, true, "fix it"));
}

#[test]
fn messages_in_threads_count_and_other_channel_messages_do_not() {
    let message = |thread: Value| {
        json!({"type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "text": "go on",
            "ts": "6.1", "thread_ts": thread})
    };
    let update = event(&message(json!("5.1"))).unwrap();
    assert_eq!((update.place.to_string().as_str(), update.is_addressed), ("slack/C1/5.1", false));
    assert!(event(&message(Value::Null)).is_none());
}

#[test]
fn edits_and_messages_of_bots_are_ignored() {
    let with = |field: &str, value: Value| {
        let mut message = json!({"type": "message", "channel": "D1", "channel_type": "im", "user": "U1", "text": "x", "ts": "1.0"});
        message[field] = value;
        event(&message)
    };
    assert!(with("text", json!("y")).is_some());
    assert!(with("bot_id", json!("BBOT")).is_none());
    assert!(with("bot_id", json!("BOTHER")).is_none());
    assert!(with("user", json!("UBOT")).is_none());
    assert!(with("user", Value::Null).is_none());
    for subtype in ["message_changed", "message_deleted", "channel_join", "bot_message"] {
        assert!(with("subtype", json!(subtype)).is_none(), "{subtype}");
    }
    assert!(with("edited", json!({"user": "U1", "ts": "2.0"})).is_none());
    assert!(with("type", json!("reaction_added")).is_none());
}

#[test]
fn files_come_with_the_message() {
    let message = json!({"type": "message", "subtype": "file_share", "channel": "D1", "channel_type": "im",
        "user": "U1", "text": "", "ts": "1.0", "files": [
            {"id": "F1", "name": "a.txt", "mimetype": "text/plain", "size": 3, "url_private": "https://files.slack.com/a"},
            {"id": "F2", "mode": "tombstone"}]});
    let Content::Message { files, .. } = event(&message).unwrap().content else { panic!() };
    let file = Attachment {
        reference: "https://files.slack.com/a".to_owned(),
        name: "a.txt".to_owned(),
        mime: "text/plain".to_owned(),
        size: Some(3),
    };
    assert_eq!(files, [file]);
}

#[test]
fn a_button_is_a_tap_where_its_message_is() {
    let payload = json!({"type": "block_actions", "user": {"id": "U1", "username": "ada"}, "trigger_id": "1.2.3",
        "channel": {"id": "C1"}, "container": {"type": "message", "message_ts": "7.1", "channel_id": "C1", "thread_ts": "5.1"},
        "message": {"ts": "7.1", "thread_ts": "5.1"},
        "actions": [{"action_id": "baton-0", "value": "tok", "action_ts": "1700000001.5"}]});
    let update = read("interactive", payload.clone()).unwrap();
    assert_eq!(update.place.to_string(), "slack/C1/5.1");
    assert_eq!(update.content, Content::Tap { token: "tok".to_owned(), receipt: None });
    assert_eq!((update.sender.name.as_str(), update.sent), ("ada", 1_700_000_001_500));
    assert_eq!(update.id, read("interactive", payload).unwrap().id);
    assert!(read("interactive", json!({"type": "view_submission", "user": {"id": "U1"}})).is_none());
}

#[test]
fn a_slash_command_addresses_the_whole_chat() {
    let payload = |text: &str| {
        json!({"command": "/baton", "text": text, "channel_id": "C1", "channel_name": "general", "user_id": "U1",
            "user_name": "ada", "trigger_id": "1.2.3"})
    };
    let update = read("slash_commands", payload("fix &amp; go")).unwrap();
    assert_eq!((update.place.to_string().as_str(), said(&update)), ("slack/C1", "fix & go"));
    assert_eq!((update.sent, update.is_addressed, update.is_direct), (NOW, true, false));
    assert_eq!(said(&read("slash_commands", payload("")).unwrap()), "/help");
}

#[test]
fn slacks_own_button_stops() {
    let stop = json!({"type": "agent_session_stopped", "channel": "C1", "thread_ts": "5.1", "user": "U1",
        "event_ts": "1700000002.0", "streaming_message_ts": []});
    let update = event(&stop).unwrap();
    assert_eq!((update.place.to_string().as_str(), update.content), ("slack/C1/5.1", Content::Stop));
}

#[test]
fn missing_fields_are_accepted() {
    assert!(event(&json!({})).is_none());
    assert!(event(&json!({"type": "message"})).is_none());
    assert!(read("interactive", json!({"type": "block_actions", "actions": [{"value": "x"}]})).is_none());
    assert!(read("slash_commands", json!({})).is_none());
    assert!(read("something_new", json!([])).is_none());
}

#[test]
fn times_are_read_exactly() {
    assert_eq!(millis("1700000000.123456"), Some(1_700_000_000_123));
    assert_eq!(millis("1700000000.5"), Some(1_700_000_000_500));
    assert_eq!(millis("1700000000"), Some(1_700_000_000_000));
    assert_eq!(millis("soon"), None);
    assert_eq!(millis("1.😀😀"), None);
}

#[test]
fn an_edit_by_a_user_is_unusable_and_slacks_own_changes_are_ignored() {
    let changed = |new: Value| {
        event(&json!({"type": "message", "subtype": "message_changed", "channel": "D1", "channel_type": "im",
            "ts": "1700000009.1", "message": new, "previous_message": {"user": "U1", "text": "one", "ts": "6.1"}}))
    };
    let edit = json!({"user": "U1", "text": "two", "ts": "6.1", "edited": {"user": "U1", "ts": "9.0"}});
    let update = changed(edit.clone()).unwrap();
    assert_eq!(update.content, Content::Unusable { why: Unusable::Edit });
    assert_eq!((update.place.to_string().as_str(), update.message.as_deref()), ("slack/D1", Some("6.1")));
    for (field, value) in [("edited", Value::Null), ("text", json!("one")), ("user", json!("UBOT"))] {
        let mut other = edit.clone();
        other[field] = value;
        assert_eq!(changed(other), None, "{field}");
    }
}
