//! Listing: orders, pages and filters.

use engine::ports::{Cursor, Direction, Listing, Page, Record, Search, Stretch};
use protocol::MessageWithParts;
use serde_json::json;

use super::*;

fn names(messages: &[MessageWithParts]) -> Vec<&str> {
    messages.iter().map(|message| message.info.id().as_str()).collect()
}

async fn page(subject: &Subject, before: Option<Cursor>, limit: Option<usize>) -> Vec<MessageWithParts> {
    subject.reads.messages(&id("ses_a"), Page { before, limit }).await.unwrap()
}

pub(crate) async fn messages_are_ordered_by_time_then_id(subject: &Subject) {
    // The time part of ids wraps, so a later message may have the smaller id.
    subject
        .say(
            "ses_a",
            vec![
                user("ses_a", "msg_9", 10),
                user("ses_a", "msg_1", 20),
                user("ses_a", "msg_3", 15),
                user("ses_a", "msg_2", 15),
            ],
        )
        .await;
    assert_eq!(names(&page(subject, None, None).await), ["msg_9", "msg_2", "msg_3", "msg_1"]);
    // A message that is saved again keeps its place.
    subject.say("ses_a", vec![user("ses_a", "msg_9", 10)]).await;
    assert_eq!(names(&page(subject, None, None).await), ["msg_9", "msg_2", "msg_3", "msg_1"]);
}

pub(crate) async fn pages_lead_back_to_the_beginning(subject: &Subject) {
    let messages = (0..10).map(|n| user("ses_a", &format!("msg_{n}"), n / 3)).collect();
    subject.say("ses_a", messages).await;
    for n in 0..10 {
        let part = text("ses_a", &format!("msg_{n}"), "prt_1", &n.to_string(), Some(1));
        subject.say("ses_a", vec![saved(&part)]).await;
    }
    let all = page(subject, None, None).await;
    assert_eq!(all.len(), 10);
    for size in [1, 3, 4, 10, 11] {
        let mut found: Vec<MessageWithParts> = Vec::new();
        loop {
            let before = found.first().map(|message| Cursor::of(&message.info));
            let older = page(subject, before, Some(size)).await;
            if older.is_empty() {
                break;
            }
            found.splice(0..0, older);
        }
        assert_eq!(found, all, "in pages of {size}");
    }
    assert_eq!(names(&page(subject, None, Some(2)).await), ["msg_8", "msg_9"]);
    assert!(page(subject, None, Some(0)).await.is_empty());
    // A cursor need not point to a message.
    let between = Cursor { created: 1, id: id("msg") };
    assert_eq!(names(&page(subject, Some(between), None).await), ["msg_0", "msg_1", "msg_2"]);
}

/// Ten messages of a few hundred bytes, three per millisecond, and one message of another session.
async fn ten(subject: &Subject) {
    let messages = (0..10).map(|n| user("ses_a", &format!("msg_{n}"), n / 3)).collect();
    subject.say("ses_a", messages).await;
    for n in 0..10 {
        let words = n.to_string().repeat(100);
        let part = text("ses_a", &format!("msg_{n}"), "prt_1", &words, (n != 9).then_some(1));
        let second = text("ses_a", &format!("msg_{n}"), "prt_0", "first", Some(1));
        subject.say("ses_a", vec![saved(&part), saved(&second)]).await;
    }
    subject.say("ses_b", vec![user("ses_b", "msg_5", 1)]).await;
}

fn all(direction: Direction) -> Stretch {
    Stretch { after: None, before: None, direction, limit: usize::MAX, bytes: usize::MAX, bulk: false }
}

async fn stretch(subject: &Subject, stretch: Stretch) -> Vec<Record> {
    subject.reads.stretch(&id("ses_a"), stretch).await.unwrap()
}

pub(crate) async fn a_stretch_is_the_page_still_encoded(subject: &Subject) {
    ten(subject).await;
    let page = page(subject, None, None).await;
    let records = stretch(subject, all(Direction::Forward)).await;
    let read: Vec<MessageWithParts> = records.iter().map(|record| record.read().unwrap()).collect();
    assert_eq!(read, page);
    for (record, message) in records.iter().zip(&page) {
        let mut written = Vec::new();
        record.write(&mut written);
        assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(message).unwrap());
        assert_eq!(record.place, Cursor::of(&message.info));
    }
    let open: Vec<bool> = records[9].parts.iter().map(|part| part.open).collect();
    assert_eq!(open, [false, true]);
    let back = stretch(subject, all(Direction::Backward)).await;
    assert!(back.iter().eq(records.iter().rev()));
}

pub(crate) async fn stretches_lead_through_a_session_in_both_directions(subject: &Subject) {
    ten(subject).await;
    let everything = stretch(subject, all(Direction::Forward)).await;
    let one = everything[0].bytes();
    // Limited by count, by bytes, by whichever is reached first, and with messages larger than the limit.
    for (limit, bytes) in [(3, usize::MAX), (usize::MAX, 3 * one), (4, 2 * one), (20, 1), (1, 1)] {
        for direction in [Direction::Forward, Direction::Backward] {
            let mut found: Vec<Record> = Vec::new();
            loop {
                let last = found.last().map(|record| record.place.clone());
                let (after, before) = match direction {
                    Direction::Forward => (last, None),
                    Direction::Backward => (None, last),
                };
                let more = stretch(subject, Stretch { after, before, limit, bytes, ..all(direction) }).await;
                let size: usize = more.iter().map(Record::bytes).sum();
                assert!(more.len() <= limit && size < bytes.saturating_add(2 * one), "{limit} {bytes}");
                if more.is_empty() {
                    break;
                }
                found.extend(more);
            }
            if direction == Direction::Backward {
                found.reverse();
            }
            assert_eq!(found, everything, "{limit} messages, {bytes} bytes");
        }
    }
    let (after, before) = (Some(everything[2].place.clone()), Some(everything[6].place.clone()));
    let between = stretch(subject, Stretch { after, before, bulk: true, ..all(Direction::Forward) }).await;
    assert_eq!(between, everything[3..6]);
    assert!(stretch(subject, Stretch { limit: 0, ..all(Direction::Forward) }).await.is_empty());
}

pub(crate) async fn a_message_is_found_by_counting_back(subject: &Subject) {
    ten(subject).await;
    let back = |before: Option<Cursor>, count| async move {
        let found = subject.reads.nth_before(&id("ses_a"), before, count).await.unwrap();
        found.map(|place| (place.created, place.id.to_string()))
    };
    assert_eq!(back(None, 1).await, Some((3, "msg_9".to_owned())));
    assert_eq!(back(None, 10).await, Some((0, "msg_0".to_owned())));
    assert_eq!(back(None, 11).await, None);
    assert_eq!(back(None, 0).await, None);
    let fifth = Cursor { created: 1, id: id("msg_5") };
    assert_eq!(back(Some(fifth.clone()), 2).await, Some((1, "msg_3".to_owned())));
    let on = async |count| {
        let found = subject.reads.nth_after(&id("ses_a"), fifth.clone(), count).await.unwrap();
        found.map(|place| (place.created, place.id.to_string()))
    };
    assert_eq!((on(0).await, on(100).await), (None, None));
    let mut newer = 0;
    while on(newer + 1).await.is_some() {
        newer += 1;
    }
    assert_eq!(on(newer).await, Some((3, "msg_9".to_owned())));
    assert_eq!(back(None, newer + 1).await, Some((fifth.created, fifth.id.to_string())));
}

pub(crate) async fn the_newest_summary_is_a_complete_one(subject: &Subject) {
    let session = id("ses_a");
    let newest = || async {
        let found = subject.reads.newest_summary(&session).await.unwrap();
        found.map(|place| (place.created, place.id.to_string()))
    };
    assert_eq!(newest().await, None);
    let summary = |message: &str, time: i64, more: serde_json::Value| {
        let info = json!({
            "id": message, "sessionID": "ses_a", "role": "assistant", "parentID": "msg_0",
            "time": { "created": time, "completed": time }, "modelID": "baton", "providerID": "demo",
            "mode": "compaction", "agent": "compaction", "path": { "cwd": "/", "root": "/" }, "cost": 0,
            "tokens": { "input": 1, "output": 2 },
        });
        event("message.updated", json!({ "sessionID": "ses_a", "info": merge(info, more) }))
    };
    let complete = || json!({ "summary": true, "finish": "stop" });
    let failed = json!({
        "summary": true, "finish": "stop", "error": { "name": "UnknownError", "data": { "message": "no" } },
    });
    subject
        .say(
            "ses_a",
            vec![
                user("ses_a", "msg_0", 1),
                summary("msg_2", 2, complete()),
                summary("msg_1", 3, complete()),
                summary("msg_4", 4, json!({ "summary": true })),
                summary("msg_5", 5, failed),
                summary("msg_6", 6, json!({ "summary": false, "finish": "stop" })),
                answer("ses_a", "msg_7", "msg_0", 7, Some(8)),
            ],
        )
        .await;
    assert_eq!(newest().await, Some((3, "msg_1".to_owned())));
}

pub(crate) async fn open_messages_are_what_a_dead_owner_left(subject: &Subject) {
    let open_text = text("ses_a", "msg_4", "prt_1", "half a", None);
    subject
        .say(
            "ses_a",
            vec![
                user("ses_a", "msg_1", 1),
                answer("ses_a", "msg_2", "msg_1", 2, Some(3)),
                answer("ses_a", "msg_3", "msg_1", 3, None),
                answer("ses_a", "msg_4", "msg_1", 4, Some(5)),
                saved(&text("ses_a", "msg_4", "prt_0", "whole", Some(2))),
                saved(&open_text),
            ],
        )
        .await;
    let session = id("ses_a");
    let open = subject.reads.open(&session).await.unwrap();
    assert_eq!(names(&open), ["msg_3", "msg_4"]);
    assert_eq!(open[1].parts.len(), 2, "an open message comes with all of its parts");
    subject
        .say(
            "ses_a",
            vec![
                saved(&text("ses_a", "msg_4", "prt_1", "half a word", Some(6))),
                answer("ses_a", "msg_3", "msg_1", 3, Some(6)),
            ],
        )
        .await;
    assert!(subject.reads.open(&session).await.unwrap().is_empty());
}

pub(crate) async fn the_last_answer_is_the_newest_one(subject: &Subject) {
    let session = id("ses_a");
    subject.say("ses_a", vec![user("ses_a", "msg_1", 1)]).await;
    assert!(subject.reads.last_answer(&session, None).await.unwrap().is_none());
    let closed = text("ses_a", "msg_3", "prt_1", "hello", Some(2));
    subject
        .say(
            "ses_a",
            vec![
                answer("ses_a", "msg_3", "msg_1", 2, Some(2)),
                saved(&closed),
                answer("ses_a", "msg_2", "msg_1", 2, Some(2)),
                user("ses_a", "msg_4", 3),
                answer("ses_a", "msg_0", "msg_4", 4, None),
                user("ses_a", "msg_5", 5),
            ],
        )
        .await;
    let last = |prompt: Option<&str>| {
        let prompt = prompt.map(id);
        async move { subject.reads.last_answer(&id("ses_a"), prompt.as_ref()).await.unwrap() }
    };
    assert_eq!(last(None).await.unwrap().info.id().as_str(), "msg_0");
    let first = last(Some("msg_1")).await.unwrap();
    assert_eq!(first.info.id().as_str(), "msg_3");
    assert_eq!(first.parts, [closed]);
    assert!(last(Some("msg_5")).await.is_none());
}

async fn listed(subject: &Subject, listing: Listing) -> Vec<String> {
    let found = subject.reads.sessions(listing).await.unwrap();
    found.iter().map(|session| session.id.to_string()).collect()
}

pub(crate) async fn sessions_are_listed_by_their_last_update(subject: &Subject) {
    for (session, time) in [("ses_a", 10), ("ses_b", 30), ("ses_c", 20), ("ses_d", 20)] {
        let fields = json!({ "time": { "created": 1, "updated": time } });
        subject.append(session, 0, vec![created_with(session, fields)]).await.unwrap();
    }
    assert_eq!(listed(subject, Listing::default()).await, ["ses_b", "ses_c", "ses_d", "ses_a"]);
    let two = Listing { limit: Some(2), ..Listing::default() };
    assert_eq!(listed(subject, two).await, ["ses_b", "ses_c"]);
    let none = Listing { limit: Some(0), ..Listing::default() };
    assert_eq!(listed(subject, none).await, [""; 0]);
    subject.say("ses_a", vec![updated("ses_a", json!({ "time": { "created": 1, "updated": 40 } }))]).await;
    assert_eq!(listed(subject, Listing::default()).await, ["ses_a", "ses_b", "ses_c", "ses_d"]);
}

pub(crate) async fn sessions_are_listed_by_every_filter(subject: &Subject) {
    let sessions = [
        ("ses_a", json!({ "projectID": "p", "directory": "/x", "title": "Fix the ÄRGER" })),
        (
            "ses_b",
            json!({ "projectID": "p", "directory": "/x/y", "parentID": "ses_a", "title": "100% done" }),
        ),
        (
            "ses_c",
            json!({ "projectID": "q", "directory": "/x", "time": { "created": 1, "updated": 9, "archived": 9 } }),
        ),
    ];
    for (session, fields) in sessions {
        let workspace = if session == "ses_b" { there() } else { here() };
        let commit =
            Commit { fence: fence(workspace), ..commit(session, 0, vec![created_with(session, fields)]) };
        subject.log.append(commit).await.unwrap();
    }
    let text = |text: &str| Some(text.to_owned());
    let all = Listing::default;
    for (listing, expected) in [
        (Listing { project: text("p"), ..all() }, &["ses_a", "ses_b"][..]),
        (Listing { project: text("none"), ..all() }, &[]),
        (Listing { workspace: Some(here()), ..all() }, &["ses_c", "ses_a"]),
        (Listing { parent: Some(id("ses_a")), ..all() }, &["ses_b"]),
        (Listing { roots: true, ..all() }, &["ses_c", "ses_a"]),
        (Listing { updated_since: Some(9), ..all() }, &["ses_c"]),
        (Listing { updated_since: Some(10), ..all() }, &[]),
        (Listing { updated_before: Some(9), ..all() }, &["ses_a", "ses_b"]),
        (Listing { unarchived: true, ..all() }, &["ses_a", "ses_b"]),
        (Listing { search: text("ärger"), ..all() }, &["ses_a"]),
        (Listing { search: text("0% D"), ..all() }, &["ses_b"]),
        (Listing { search: text("_"), ..all() }, &[]),
        (Listing { search: text(""), ..all() }, &["ses_c", "ses_a", "ses_b"]),
        (Listing { project: text("p"), workspace: Some(here()), roots: true, ..all() }, &["ses_a"]),
    ] {
        assert_eq!(listed(subject, listing.clone()).await, expected, "{listing:?}");
    }
}

pub(crate) async fn paths_are_compared_by_whole_names(subject: &Subject) {
    for (session, path) in [
        ("ses_a", Some("src")),
        ("ses_b", Some("src/deep")),
        ("ses_c", Some("srcs")),
        ("ses_d", Some("")),
        ("ses_e", None),
    ] {
        let fields = path.map_or(json!({}), |path| json!({ "path": path }));
        subject.append(session, 0, vec![created_with(session, fields)]).await.unwrap();
    }
    for (path, expected) in [
        ("src", &["ses_a", "ses_b"][..]),
        ("src/deep", &["ses_b"]),
        ("sr", &[]),
        ("", &["ses_a", "ses_b", "ses_c", "ses_d"]),
    ] {
        let listing = Listing { path: Some(path.to_owned()), ..Listing::default() };
        assert_eq!(listed(subject, listing).await, expected, "below {path:?}");
    }
}

/// The numbers and texts that a search finds.
async fn found(subject: &Subject, words: &[&str], before: Option<u64>, limit: usize) -> Vec<(u64, String)> {
    let search = Search { words: words.iter().map(|word| (*word).to_owned()).collect(), before, limit };
    let found = subject.reads.find(search).await.unwrap();
    found.into_iter().map(|found| (found.number, found.text)).collect()
}

pub(crate) async fn texts_are_found_by_the_beginnings_of_their_words(subject: &Subject) {
    let say = |part: &str, words: &str| saved(&text("ses_a", "msg_1", part, words, Some(2)));
    let parts =
        [say("prt_1", "Fix the LOGIN page"), say("prt_2", "a login-form, Ünïcode"), say("prt_3", "nothing")];
    subject.say("ses_a", [vec![user("ses_a", "msg_1", 7)], parts.into()].concat()).await;
    let open = text("ses_b", "msg_1", "prt_1", "login is still being written", None);
    subject.say("ses_b", vec![user("ses_b", "msg_1", 8), saved(&open)]).await;
    let (first, second) = ((1, "Fix the LOGIN page".to_owned()), (2, "a login-form, Ünïcode".to_owned()));
    let cases: [(&[&str], Vec<_>); 7] = [
        (&["login"], vec![second.clone(), first.clone()]),
        (&["log", "fix"], vec![first.clone()]),
        (&["form"], vec![second.clone()]),
        (&["ünï"], vec![second.clone()]),
        (&["ogin"], vec![]),
        (&["login", "nothing"], vec![]),
        (&["or"], vec![]),
    ];
    for (words, expected) in cases {
        assert_eq!(found(subject, words, None, 10).await, expected, "{words:?}");
    }
    assert_eq!(found(subject, &["login"], None, 1).await, [second]);
    assert_eq!(found(subject, &["login"], Some(2), 1).await, [first], "the next page");
    let one = Search { words: vec!["fix".into()], before: None, limit: 1 };
    let one = subject.reads.find(one).await.unwrap().remove(0);
    assert_eq!((one.place.created, one.part), (7, id("prt_1")));
}

pub(crate) async fn a_search_forgets_what_is_changed_or_removed(subject: &Subject) {
    let say = |message: &str, part: &str, words: &str| saved(&text("ses_a", message, part, words, Some(2)));
    let old = ["msg_1", "msg_2", "msg_3"].map(|message| user("ses_a", message, 1)).to_vec();
    let texts = vec![
        say("msg_1", "prt_1", "apple"),
        say("msg_1", "prt_2", "apple"),
        say("msg_2", "prt_1", "apple"),
        say("msg_3", "prt_1", "apple"),
    ];
    subject.say("ses_a", [old, texts].concat()).await;
    let count = async |word| found(subject, &[word], None, 10).await.len();
    assert_eq!(count("apple").await, 4);
    subject.say("ses_a", vec![say("msg_1", "prt_1", "pear")]).await;
    assert_eq!((count("apple").await, count("pear").await), (3, 1));
    subject.say("ses_a", vec![part_removed("ses_a", "msg_1", "prt_2")]).await;
    subject.say("ses_a", vec![message_removed("ses_a", "msg_2")]).await;
    assert_eq!((count("apple").await, count("pear").await), (1, 1));
    subject.say("ses_a", vec![deleted("ses_a")]).await;
    assert_eq!((count("apple").await, count("pear").await), (0, 0));
}
