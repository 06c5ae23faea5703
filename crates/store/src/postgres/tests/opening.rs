//! Databases that are refused, with the reason and without a change.

use super::{super::OpenError, *};
use crate::contract::{DIRECTORY, commit, created, fence, here, id, session, there};
use engine::ports::{Alone, Commit, Fence, Fleet as _, Log as _, Reads as _, Span, StoreFailure};
use serde_json::json;

async fn refusal(url: &str) -> OpenError {
    let seen = Arc::new(Seen::default());
    Postgres::open(url, Options::default(), seen).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_is_refused_until_the_first_has_closed() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let (first, _) = open(&url, Options::default()).await;
    let error = refusal(&url).await;
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("in use by another server (a local socket, process "), "{error}");
    first.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    first.close().await.unwrap();
    let (second, _) = open(&url, Options::default()).await;
    assert_eq!(second.count().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_was_replaced_cannot_commit() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let (store, seen) = open(&url, Options::default()).await;
    store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    connect(&url).await.execute("UPDATE baton.node SET incarnation = incarnation + 1", &[]).await.unwrap();
    for _ in 0..2 {
        let error = store.append(commit("ses_b", 0, vec![created("ses_b")])).await.unwrap_err();
        assert_eq!(error.failure, StoreFailure::Fenced);
        assert!(error.message.contains("another server has taken over"), "{}", error.message);
    }
    assert_eq!(
        (store.count().await.unwrap(), seen.positions()),
        (1, vec![1]),
        "nothing was stored or published"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_of_the_first_schema_become_workspaces() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let client = connect(&url).await;
    let first = include_str!("../schema.sql");
    let approval = json!({
        "id": "psv_1", "projectID": "p", "directory": DIRECTORY, "action": "bash", "resource": "make *",
    });
    let rows = format!(
        "CREATE SCHEMA baton; {first} UPDATE baton.fleet SET schema = 1;
         INSERT INTO baton.session (id, head, project, directory, title, created, updated, archived, body)
             VALUES ('ses_a', 1, 'global', '{DIRECTORY}', 'a title', 1, 1, false, '{}');
         INSERT INTO baton.event (session, seq, directory, project, at, id, body)
             VALUES ('ses_a', 1, '{DIRECTORY}', 'global', 1, 'evt_1', '{{}}');
         INSERT INTO baton.log (position, session, seq, total) VALUES (1, 'ses_a', 1, 2);
         INSERT INTO baton.approval (id, directory, permission, pattern, body)
             VALUES ('psv_1', '{DIRECTORY}', 'bash', 'make *', '{approval}')",
        session("ses_a", json!({}))
    );
    client.batch_execute(&rows).await.unwrap();
    let (store, _) = open(&url, Options::default()).await;
    let workspace = Alone.workspace(DIRECTORY);
    assert_eq!(store.workspace(&id("ses_a")).await.unwrap(), Some(workspace.clone()));
    assert_eq!(store.approvals(Some(&workspace)).await.unwrap().len(), 1);
    let span = Span { after: 0, upto: u64::MAX, workspace: Some(workspace), limit: 9 };
    assert_eq!(store.replay(span).await.unwrap().len(), 1);
    store.append(commit("ses_b", 0, vec![created("ses_b")])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_connection_of_the_process_cannot_commit() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let (store, _) = open(&url, Options::default()).await;
    store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    connect(&url).await.execute("UPDATE baton.node SET writer = writer + 1", &[]).await.unwrap();
    let error = store.append(commit("ses_b", 0, vec![created("ses_b")])).await.unwrap_err();
    assert_eq!(error.failure, StoreFailure::Fenced, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_owner_of_a_workspace_cannot_commit_and_the_new_one_can() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let (store, seen) = open(&url, Options::default()).await;
    store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    let claim = "INSERT INTO baton.workspace (id, epoch, owner) VALUES ('wrk_here', 1, 'single')";
    connect(&url).await.execute(claim, &[]).await.unwrap();
    let of = |fence: Fence, session: &str| Commit { fence, ..commit(session, 0, vec![created(session)]) };
    let new = Fence { workspace: here(), epoch: 1 };
    let (old, new, other) = tokio::join!(
        store.append(of(fence(here()), "ses_b")),
        store.append(of(new, "ses_c")),
        store.append(of(fence(there()), "ses_d")),
    );
    let old = old.unwrap_err();
    assert_eq!(old.failure, StoreFailure::Fenced);
    assert!(old.message.contains("another node owns the workspace wrk_here"), "{old}");
    assert!(new.is_ok() && other.is_ok());
    assert_eq!(seen.positions(), [1, 2, 3]);
    assert_eq!(store.count().await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_on_another_session_of_a_pooler_is_refused() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let (_store, _) = open(&url, Options::default()).await;
    let client = connect(&url).await;
    let fence = "SELECT baton.fence(id, incarnation, writer, pg_backend_pid() + 1) FROM baton.node";
    let error = client.query(fence, &[]).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "BN003");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_that_cannot_be_used_are_refused_with_a_reason() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let client = connect(&url).await;
    let missing = url.replace("/test0", "/nowhere");
    assert!(matches!(refusal(&missing).await, OpenError::Missing { .. }));
    assert!(matches!(refusal("postgres://baton@%2Fnowhere/baton").await, OpenError::Unreachable { .. }));

    client.batch_execute("CREATE ROLE weak LOGIN; CREATE ROLE guarded LOGIN PASSWORD 'right'").await.unwrap();
    let weak = refusal(&url.replace("baton@", "weak@")).await;
    assert!(matches!(weak, OpenError::Rights { .. }), "{weak}");
    let wrong = refusal(&url.replace("baton@", "guarded:s3cret@")).await;
    assert!(matches!(wrong, OpenError::Login { .. }), "{wrong}");
    assert!(!wrong.to_string().contains("s3cret"), "{wrong}");
    let right = refusal(&url.replace("baton@", "guarded:right@")).await;
    assert!(matches!(right, OpenError::Rights { .. }), "{right}");

    let make = "CREATE DATABASE odd TEMPLATE template0 ENCODING 'SQL_ASCII'";
    client.batch_execute(make).await.unwrap();
    let odd = refusal(&url.replace("/test0", "/odd")).await;
    assert!(matches!(odd, OpenError::Encoding { .. }), "{odd}");

    client.batch_execute("ALTER DATABASE test0 SET default_transaction_read_only = on").await.unwrap();
    let frozen = refusal(&url).await;
    assert!(matches!(frozen, OpenError::ReadOnly { .. }), "{frozen}");

    let foreign = databases.url();
    connect(&foreign).await.batch_execute("CREATE SCHEMA baton; CREATE TABLE baton.other ()").await.unwrap();
    assert!(matches!(refusal(&foreign).await, OpenError::Foreign { .. }));

    let newer = databases.url();
    open(&newer, Options::default()).await.0.close().await.unwrap();
    connect(&newer).await.batch_execute("UPDATE baton.fleet SET schema = 99").await.unwrap();
    let error = refusal(&newer).await;
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
}
