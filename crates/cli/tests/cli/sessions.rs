//! Tests of `baton sessions` and `baton completions`.

use crate::harness::Harness;

#[tokio::test]
async fn sessions_are_listed_and_pruned() {
    let harness = Harness::new();
    for _ in 0..2 {
        harness.run_with_data(&["run", "hi", "-m", "demo/simple"]).await;
    }
    let listed = harness.run_with_data(&["sessions"]).await;
    assert_eq!((listed.code, listed.stdout.lines().count()), (Some(0), 2), "{listed:?}");
    assert!(listed.stdout.lines().all(|line| line.starts_with("ses_") && line.contains('$')), "{listed:?}");
    let young = harness.run_with_data(&["sessions", "prune", "--older-than", "30d"]).await;
    assert_eq!((young.code, young.stderr.as_str()), (Some(0), "deleted 0 sessions\n"), "{young:?}");
    let dry = harness.run_with_data(&["sessions", "prune", "--older-than", "0m", "--dry-run"]).await;
    assert_eq!((dry.code, dry.stderr.as_str()), (Some(0), "would delete 2 sessions\n"), "{dry:?}");
    assert_eq!(harness.run_with_data(&["sessions"]).await.stdout, listed.stdout);
    let pruned = harness.run_with_data(&["sessions", "prune", "--older-than", "0m"]).await;
    assert_eq!((pruned.code, pruned.stderr.as_str()), (Some(0), "deleted 2 sessions\n"), "{pruned:?}");
    assert!(harness.run_with_data(&["sessions", "--all"]).await.stdout.is_empty());
    let wrong = harness.run_with_data(&["sessions", "prune", "--older-than", "soon"]).await;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

#[tokio::test]
async fn a_running_server_lists_and_deletes_its_sessions() {
    let harness = Harness::new();
    let server = harness.serve().await;
    harness.run_with_data(&["run", "hi", "-m", "demo/simple"]).await;
    let listed = harness.run_with_data(&["sessions", "--json"]).await;
    let sessions: Vec<protocol::Session> = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(sessions.len(), 1);
    assert_eq!(harness.run(&["sessions", "--all", "--attach", &server.url]).await.stdout.lines().count(), 1);
    let pruned = harness.run_with_data(&["sessions", "prune", "--older-than", "0m"]).await;
    assert_eq!(pruned.stderr, "deleted 1 session\n", "{pruned:?}");
    let models = harness.run_with_data(&["models", "demo/baton"]).await;
    assert_eq!(models.stdout, "demo/baton\n", "{models:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_session_whose_subagent_works_is_not_pruned() {
    let harness = Harness::new();
    let server = harness.serve().await;
    let here = harness.project();
    let client = client::Client::new(&server.url).unwrap().in_directory(here.to_str().unwrap());
    let create = async |parent: Option<&protocol::Session>| {
        let parent_id = parent.map(|parent| parent.id.clone());
        let input = protocol::prompt::SessionInput { parent_id, ..Default::default() };
        client.create_session(&input).await.unwrap()
    };
    let parent = create(None).await;
    let (_done, working) = (create(Some(&parent)).await, create(Some(&parent)).await);
    let mut prompt = protocol::prompt::PromptInput::text("wait");
    prompt.model = Some(protocol::message::ModelRef::new("demo", "stall"));
    client.prompt_async(&working.id, &prompt).await.unwrap();
    let pruned = harness.run_with_data(&["sessions", "prune", "--older-than", "0m"]).await;
    assert_eq!(pruned.stderr, "deleted 0 sessions\nskipped 1 session: in use or shared\n", "{pruned:?}");
    assert_eq!(client.children(&parent.id).await.unwrap().len(), 2, "no child is deleted either");
    client.abort(&working.id).await.unwrap();
    let pruned = harness.run_with_data(&["sessions", "prune", "--older-than", "0m"]).await;
    assert_eq!(pruned.stderr, "deleted 1 session\n", "{pruned:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_wrong_password_is_called_wrong() {
    let harness = Harness::new();
    let mut serve = harness.with_data(&["serve", "--port", "0"]);
    serve.env("BATON_PASSWORD", "right");
    let server = crate::harness::Server::start(serve).await;
    let run = async |password: Option<&str>| {
        let mut command = harness.command(&["run", "hi", "-m", "demo/simple", "--attach", &server.url]);
        command.envs(password.map(|password| ("BATON_PASSWORD", password)));
        crate::harness::finish(command, "").await
    };
    let none = run(None).await;
    assert!(none.stderr.contains("hint: set BATON_PASSWORD"), "{none:?}");
    let wrong = run(Some("wrong")).await;
    assert!(wrong.stderr.contains("does not accept the password in BATON_PASSWORD"), "{wrong:?}");
    assert_eq!(run(Some("right")).await.code, Some(0));
    server.stop().await;
}

#[tokio::test]
async fn completions_contain_the_commands() {
    let harness = Harness::new();
    for shell in ["bash", "zsh", "fish"] {
        let ended = harness.run(&["completions", shell]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stdout.contains("older-than"), "{shell}");
    }
}
