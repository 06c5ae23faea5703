//! Building, revalidating, changing and evicting projects.

use std::{fs, sync::Arc};

use futures::future::join_all;
use serde_json::{Value, json};
use server::{Instances, instance::Unchanged};

use super::harness::{CONFIG, Harness, names, write};
use crate::directories::MAX_CACHED;

#[tokio::test]
async fn each_directory_has_its_own_agents_models_commands_and_skills() {
    let harness = Harness::new();
    let plain = harness.project("plain", &json!({}));
    let poetic = harness.project(
        "poetic",
        &json!({ "model": "demo/simple", "default_agent": "poet", "agent": { "poet": { "prompt": "Rhyme." } } }),
    );
    write(&poetic, ".opencode/command/greet.md", "---\ndescription: Greets\n---\nSay hello to $1.");
    write(
        &poetic,
        ".opencode/skills/knots/SKILL.md",
        "---\nname: knots\ndescription: Ties\n---\nOver, under.",
    );

    let (here, there) = (harness.instance(&plain).await, harness.instance(&poetic).await);
    assert_eq!(names(&there.agents, |agent| &agent.name)[0], "poet");
    assert!(!names(&here.agents, |agent| &agent.name).contains(&"poet"));
    assert!(names(&there.commands, |command| &command.name).contains(&"greet"));
    assert!(!names(&here.commands, |command| &command.name).contains(&"greet"));
    assert_eq!((here.skills.len(), names(&there.skills, |skill| &skill.name)), (0, vec!["knots"]));
    let resolved = harness.resolve(&plain, None).await.unwrap();
    assert_eq!((resolved.agent.as_str(), resolved.model.model_id.as_str()), ("build", "baton"));
    let resolved = harness.resolve(&poetic, None).await.unwrap();
    assert_eq!((resolved.agent.as_str(), resolved.model.model_id.as_str()), ("poet", "simple"));
}

#[tokio::test]
async fn a_project_is_built_again_only_when_its_configuration_has_changed() {
    let harness = Harness::new();
    let directory = harness.project("p", &json!({ "username": "ada" }));
    let first = harness.instance(&directory).await;
    let at_once = join_all((0..8).map(|_| harness.instance(&directory))).await;
    assert!(at_once.iter().all(|instance| Arc::ptr_eq(&first, instance)));

    write(&directory, CONFIG, r#"{ "username": "grace" }"#);
    let second = harness.instance(&directory).await;
    assert_eq!((&first.config["username"], &second.config["username"]), (&json!("ada"), &json!("grace")));

    harness.directories.forget(Some(&directory));
    assert!(!Arc::ptr_eq(&second, &harness.instance(&directory).await));
}

#[tokio::test]
async fn an_invalid_configuration_is_reported_until_it_is_corrected() {
    let harness = Harness::new();
    let (broken, other) = (harness.project("broken", &json!({})), harness.project("other", &json!({})));
    harness.instance(&broken).await;
    write(&broken, CONFIG, r#"{ "share": "sometimes" }"#);
    let invalid = harness.find(&broken).await.unwrap_err();
    assert_eq!(invalid.path.as_deref(), Some(format!("{broken}/{CONFIG}").as_str()));
    assert!(invalid.message.contains("`share` must be one of"), "{invalid}");
    let unresolved = harness.resolve(&broken, None).await.unwrap_err().to_string();
    assert!(unresolved.contains(&broken) && unresolved.contains("must be one of"), "{unresolved}");
    harness.instance(&other).await;

    write(&broken, CONFIG, "{}");
    harness.instance(&broken).await;
}

#[tokio::test]
async fn a_directory_in_which_a_turn_runs_is_not_evicted() {
    let harness = Harness::new();
    let directories: Vec<String> =
        (0..=MAX_CACHED + 1).map(|number| harness.project(&format!("p{number}"), &json!({}))).collect();
    let is_cached = |directory: &str| harness.directories.entries.lock().contains_key(directory);

    let running = harness.resolve(&directories[0], None).await.unwrap();
    drop(harness.resolve(&directories[1], None).await.unwrap());
    for directory in &directories[2..=MAX_CACHED] {
        harness.instance(directory).await;
    }
    assert!(is_cached(&directories[0]), "a turn holds a lease");
    assert!(!is_cached(&directories[1]), "the least recently used directory without a lease is evicted");

    // A changed configuration builds another project. The turn still runs in the directory.
    write(&directories[0], CONFIG, r#"{ "username": "ada" }"#);
    drop(running.clone());
    harness.instance(&directories[0]).await;
    assert!(harness.directories.entry(&directories[0]).is_busy());
    drop(running);
    assert!(!harness.directories.entry(&directories[0]).is_busy());

    harness.instance(&directories[MAX_CACHED + 1]).await;
    assert!(!is_cached(&directories[2]));
    assert_eq!(harness.directories.entries.lock().len(), MAX_CACHED);
}

#[tokio::test]
async fn a_client_changes_a_configuration_file_or_learns_why_not() {
    let harness = Harness::new();
    let directory = harness.project("p", &json!({}));
    write(&directory, CONFIG, "{\n  // keep me\n  \"model\": \"demo/slow\"\n}\n");
    let change = async |change: Value| {
        harness.directories.configure(Some(&directory), change.as_object().unwrap().clone()).await
    };
    let key = json!({ "provider": { "acme": { "options": { "apiKey": "sk-1" } } }, "model": "demo/simple" });
    let shown = change(key).await.unwrap();
    assert_eq!(shown["model"], "demo/simple");
    assert!(!shown.to_string().contains("sk-1"), "{shown}");
    assert_eq!(harness.instance(&directory).await.config, shown);
    let written = fs::read_to_string(format!("{directory}/{CONFIG}")).unwrap();
    assert!(written.contains("// keep me") && written.contains("sk-1"), "{written}");

    let invalid = change(json!({ "modle": "demo/simple" })).await.unwrap_err();
    assert!(
        matches!(&invalid, Unchanged::Invalid(invalid) if invalid.message.contains("did you mean")),
        "{invalid}"
    );
    let refused = change(json!({ "sandbox": "off" })).await.unwrap_err();
    assert!(matches!(refused, Unchanged::Refused(_)), "{refused}");
    assert_eq!(fs::read_to_string(format!("{directory}/{CONFIG}")).unwrap(), written);
}

#[tokio::test]
async fn the_users_configuration_counts_in_every_directory() {
    let harness = Harness::new();
    let (one, two) = (harness.project("one", &json!({})), harness.project("two", &json!({})));
    harness.instance(&one).await;
    let change = json!({ "username": "ada" }).as_object().unwrap().clone();
    let shown = harness.directories.configure(None, change).await.unwrap();
    assert_eq!(shown, harness.directories.user_config().await.unwrap());
    for directory in [one, two] {
        assert_eq!(harness.instance(&directory).await.config["username"], "ada", "{directory}");
    }
}
