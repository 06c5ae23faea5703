use std::sync::Arc;

use engine::ports::{Log as _, Outbox as _, Reads as _, Search, Span};

use super::*;
use crate::{
    contract::{
        Databases, Seen, answer, busy, commit, created, deleted, idle, permission, permitted_always, queued,
        saved, seen, started, text, todos, user,
    },
    postgres::{Options, Postgres},
    sqlite::Sqlite,
};

/// Fills a file with a row of every kind.
async fn fill(path: &Path) -> Arc<Sqlite> {
    let store = Sqlite::open(path, sqlite::Options::default(), Arc::new(Seen::default())).unwrap();
    let open = text("ses_a", "msg_2", "prt_1", "open \u{0}", None);
    let events = vec![
        created("ses_a"),
        user("ses_a", "msg_1", 1),
        answer("ses_a", "msg_2", "msg_1", 2, None),
        saved(&open),
        saved(&text("ses_a", "msg_1", "prt_1", "Find the LOGIN page", Some(3))),
        seen("ses_a", 3),
        todos("ses_a", &["one"]),
        busy("ses_a"),
        permission("ses_a", "per_2", "second"),
        permission("ses_a", "per_1", "first"),
        permitted_always("ses_a", "per_1", &[("psv_1", "/project/here", "*")]),
        queued("ses_a", "msg_1", "steer"),
        started("ses_a", "msg_1"),
        queued("ses_a", "msg_3", "queue"),
    ];
    store.append(commit("ses_a", 0, events)).await.unwrap();
    store.append(commit("ses_b", 0, vec![created("ses_b"), idle("ses_b")])).await.unwrap();
    store.append(commit("ses_b", 2, vec![deleted("ses_b")])).await.unwrap();
    store.put(7, Vec::new()).await.unwrap();
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copied_record_answers_like_the_file_and_continues_its_positions() {
    let Some(databases) = Databases::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("baton.db");
    let file = fill(&path).await;
    let url = databases.url();
    let in_use = migrate(&path, &url).await.unwrap_err();
    assert!(matches!(in_use, Error::File(sqlite::OpenError::Locked { .. })), "{in_use}");

    let session = crate::contract::id("ses_a");
    let everything = || Span { after: 0, upto: u64::MAX, workspace: None, limit: usize::MAX };
    macro_rules! answers {
        ($store:expr) => {
            format!(
                "{:?}",
                (
                    ($store.session(&session).await.unwrap(), $store.workspace(&session).await.unwrap()),
                    $store.messages(&session, engine::ports::Page::default()).await.unwrap(),
                    $store.todos(&session).await.unwrap(),
                    $store.statuses(None).await.unwrap(),
                    $store.requests(None).await.unwrap(),
                    $store.approvals(None).await.unwrap(),
                    $store.prompts(&session).await.unwrap(),
                    $store.replay(everything()).await.unwrap(),
                    $store.events(&session, 0, 100).await.unwrap(),
                    $store.bounds().await.unwrap(),
                    $store.read_upto().await.unwrap(),
                    $store.find(Search { words: vec!["log".into()], before: None, limit: 9 }).await.unwrap(),
                )
            )
        };
    }
    let expected = answers!(file);
    file.close().await.unwrap();
    drop(file);

    let copied = migrate(&path, &url).await.unwrap();
    assert_eq!(copied, Copied { sessions: 1, messages: 2, events: 15 });
    let store = Postgres::open(&url, Options::default(), Arc::new(Seen::default())).await.unwrap();
    assert_eq!(answers!(store), expected);
    let next = store.append(commit("ses_a", 14, vec![queued("ses_a", "msg_0", "queue")])).await.unwrap();
    assert_eq!((next.head, next.position), (15, 18), "positions go on");
    let prompts = store.prompts(&session).await.unwrap();
    let order: Vec<&str> = prompts.iter().map(|prompt| prompt.message.as_str()).collect();
    assert_eq!(order, ["msg_1", "msg_3", "msg_0"]);
    store.close().await.unwrap();

    let refused = Sqlite::open(&path, sqlite::Options::default(), Arc::new(Seen::default())).unwrap_err();
    assert!(matches!(refused, sqlite::OpenError::Moved { .. }), "{refused}");
    let again = migrate(&path, &url).await.unwrap_err();
    assert!(matches!(again, Error::File(sqlite::OpenError::Moved { .. })), "{again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_with_a_record_is_refused_and_the_file_stays_usable() {
    let Some(databases) = Databases::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("baton.db");
    fill(&path).await.close().await.unwrap();
    let url = databases.url();
    let store = Postgres::open(&url, Options::default(), Arc::new(Seen::default())).await.unwrap();
    store.append(commit("ses_x", 0, vec![created("ses_x")])).await.unwrap();
    store.close().await.unwrap();
    let refused = migrate(&path, &url).await.unwrap_err();
    assert!(matches!(refused, Error::NotEmpty { .. }), "{refused}");
    let missing = migrate(&directory.path().join("other.db"), &url).await.unwrap_err();
    assert!(matches!(missing, Error::Missing { .. }), "{missing}");
    Sqlite::open(&path, sqlite::Options::default(), Arc::new(Seen::default())).unwrap();
}
