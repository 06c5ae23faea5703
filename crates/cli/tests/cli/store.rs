//! Tests of `--store`: sessions in a Postgres database.

use serde_json::json;
use testkit::postgres::Cluster;

use crate::harness::{Harness, Server, finish};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_in_postgres_outlive_the_server_and_a_second_server_is_refused() {
    let Some(cluster) = Cluster::start().unwrap() else { return };
    let url = cluster.database("baton").unwrap();
    let harness = Harness::new();
    let serve = || harness.with_data(&["serve", "--port", "0", "--store", &url]);
    let server = Server::start(serve()).await;
    let session = server.calls.session().await.unwrap();
    let prompt = json!({ "parts": [{ "type": "text", "text": "hello" }] });
    let answer = server.calls.post(&format!("/session/{session}/message"), &prompt).await.unwrap();
    assert_eq!(answer["info"]["role"], "assistant");
    let messages = server.calls.get(&format!("/session/{session}/message")).await.unwrap();

    let other = Harness::new();
    let second = finish(other.with_data(&["serve", "--port", "0", "--store", &url]), "").await;
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(second.stderr.contains("in use by another server"), "{}", second.stderr);
    assert!(second.stderr.contains("with --node NAME"), "{}", second.stderr);

    // A command of the same data directory finds the running server, with or without the URL.
    let listed = harness.run_with_data(&["sessions", "--json"]).await;
    assert!(listed.stdout.contains(&session), "{listed:?}");
    server.stop().await;

    let mut sessions = harness.with_data(&["sessions", "--json"]);
    sessions.env("BATON_STORE", &url);
    let listed = finish(sessions, "").await;
    assert!(listed.stdout.contains(&session), "{listed:?}");
    let server = Server::start(serve()).await;
    assert_eq!(server.calls.get(&format!("/session/{session}/message")).await.unwrap(), messages);
    assert!(server.metrics().await.contains("baton_"), "metrics know the store");
    server.stop().await;
}

#[tokio::test]
async fn an_unusable_database_is_a_usage_error_without_its_password() {
    let harness = Harness::new();
    for url in ["mysql://ada:s3cret@localhost/baton", "postgres://ada:s3cret@%2Fnowhere/baton"] {
        let ended = harness.run_with_data(&["serve", "--port", "0", "--store", url]).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
        assert!(ended.stderr.contains("postgres://"), "{}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_moves_into_postgres_and_its_file_is_not_used_again() {
    let Some(cluster) = Cluster::start().unwrap() else { return };
    let url = cluster.database("baton").unwrap();
    let harness = Harness::new();
    let server = harness.serve().await;
    let session = server.calls.session().await.unwrap();
    let prompt = json!({ "parts": [{ "type": "text", "text": "hello" }] });
    server.calls.post(&format!("/session/{session}/message"), &prompt).await.unwrap();
    let messages = server.calls.get(&format!("/session/{session}/message")).await.unwrap();
    let early = harness.run_with_data(&["migrate", "--store", &url]).await;
    assert_eq!(early.code, Some(2), "the file is in use: {early:?}");
    server.stop().await;

    let moved = harness.run_with_data(&["migrate", "--store", &url]).await;
    assert_eq!(moved.code, Some(0), "{moved:?}");
    let copied = format!("copied sessions: 1, messages: {},", messages.as_array().unwrap().len());
    assert!(moved.stdout.starts_with(&copied), "{}", moved.stdout);
    let stale = harness.run_with_data(&["serve", "--port", "0"]).await;
    assert_eq!(stale.code, Some(2), "{stale:?}");
    assert!(stale.stderr.contains("were moved to Postgres"), "{}", stale.stderr);
    let server = Server::start(harness.with_data(&["serve", "--port", "0", "--store", &url])).await;
    assert_eq!(server.calls.get(&format!("/session/{session}/message")).await.unwrap(), messages);
    server.stop().await;
}
