//! `baton agents`, with programs that only print their version.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use crate::harness::{Ended, Harness, finish};

/// Installs a program on the PATH of a world.
fn install(harness: &Harness, name: &str, script: &str) {
    let bin = harness.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let file = bin.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

async fn agents(harness: &Harness, args: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = harness.command(&[&["agents"], args].concat());
    command.env("PATH", format!("{}:/usr/bin:/bin", harness.path("bin").display()));
    command.envs(variables.iter().copied());
    finish(command, "").await
}

fn named<'a>(rows: &'a Value, id: &str) -> &'a Value {
    rows.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap()
}

#[tokio::test]
async fn found_agents_are_listed_with_version_and_login() {
    let harness = Harness::new();
    install(&harness, "claude", "echo '2.1.197 (Claude Code)'");
    install(&harness, "codex", "echo 'codex-cli 0.166.0'");
    install(&harness, "gemini", "echo it is broken; exit 3");
    let own = harness.path("home/.config/opencode");
    fs::create_dir_all(&own).unwrap();
    fs::write(
        own.join("baton.json"),
        json!({
            "agents": { "codex": { "environment": { "CODEX_API_KEY": "sk-secret-1" } } },
            "acp": { "mine": { "command": ["claude", "--acp"] }, "gone": { "command": ["/nowhere/gone"] } },
        })
        .to_string(),
    )
    .unwrap();
    let ended = agents(&harness, &["--json"], &[("ANTHROPIC_API_KEY", "sk-secret-2")]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(!ended.stdout.contains("sk-secret"), "{}", ended.stdout);
    let rows: Value = serde_json::from_str(&ended.stdout).unwrap();
    let claude = named(&rows, "claude-code");
    assert_eq!((&claude["version"], &claude["loggedIn"]), (&json!("2.1.197"), &json!(true)));
    assert_eq!(claude["login"], "ANTHROPIC_API_KEY");
    assert_eq!(named(&rows, "codex")["login"], "CODEX_API_KEY");
    let gemini = named(&rows, "acp:gemini");
    assert_eq!(
        (&gemini["found"], &gemini["version"], &gemini["loggedIn"]),
        (&json!(true), &Value::Null, &json!(false))
    );
    assert!(gemini["hint"].as_str().unwrap().contains("GEMINI_API_KEY"));
    assert_eq!(named(&rows, "acp:mine")["loggedIn"], Value::Null, "there is no way to detect the login");
    assert_eq!(named(&rows, "acp:gone")["hint"], "`/nowhere/gone` is not on PATH");
    let shown = agents(&harness, &[], &[]).await.stdout;
    assert!(
        shown.contains("claude-code") && shown.contains("not logged in") && shown.contains("Not found:"),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "no colours in a pipe");
}

#[tokio::test]
async fn a_program_that_never_prints_its_version_does_not_block_the_list() {
    let harness = Harness::new();
    install(&harness, "claude", "trap '' TERM; sleep 600 & wait");
    let begun = std::time::Instant::now();
    let ended = agents(&harness, &["--json"], &[]).await;
    assert!(begun.elapsed() < std::time::Duration::from_secs(30));
    let rows: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&named(&rows, "claude-code")["found"], &named(&rows, "claude-code")["version"]),
        (&json!(true), &Value::Null)
    );
}

#[tokio::test]
async fn an_invalid_configuration_is_reported() {
    let harness = Harness::new();
    for (config, words) in [
        (json!({ "acp": { "mine": {} } }), "acp.mine: no `command` is set"),
        (json!({ "agents": { "codex": { "permission_mode": "yolo" } } }), "permission_mode"),
    ] {
        fs::write(harness.project().join("baton.json"), config.to_string()).unwrap();
        let ended = agents(&harness, &[], &[]).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}
