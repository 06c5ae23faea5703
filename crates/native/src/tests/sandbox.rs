//! The sandbox restricts tools, and without support of the kernel nothing runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use protocol::config::SandboxMode;
use protocol::request::{Action, Rule};
use protocol::{EndReason, ToolState};
use serde_json::{Value, json};
use supervision::SandboxOptions;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Exit, Spec, Support};

use super::harness::{Harness, Responder};
use super::tools::{named, output};
use crate::{Options, ToolOptions, built_in};

fn sandbox(mode: SandboxMode) -> SandboxOptions {
    SandboxOptions { mode, network: true, temporary: Vec::new(), support: Support::probe() }
}

/// Makes calls with all permissions in a sandbox and returns their states.
async fn run_calls(
    sandbox: SandboxOptions,
    model: &str,
    calls: &[(&str, Value)],
) -> (Harness, Vec<ToolState>) {
    let tools = ToolOptions { sandbox: Some(sandbox), ..ToolOptions::default() };
    let agents = built_in(&[Rule::new("*", "*", Action::Allow)]);
    let mut harness =
        Harness::with_scenarios(named(model, calls), Options { agents, tools, ..Options::default() }).await;
    let session = harness.turn(model, Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let tools = harness.tools(&session).await;
    (harness, tools)
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({ "command": command }))
}

/// A directory outside of every project, with a file in it.
fn outside() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().canonicalize().unwrap().join("precious");
    fs::write(&file, "as it was").unwrap();
    (directory, file)
}

#[tokio::test]
async fn commands_write_in_the_project_and_to_temporary_files_only() {
    let (_kept, precious) = outside();
    let temporary = TempDir::new().unwrap();
    let real = temporary.path().canonicalize().unwrap();
    let sandbox = SandboxOptions { temporary: vec![real.clone()], ..sandbox(SandboxMode::WorkspaceWrite) };
    if sandbox.support < Support::Files {
        return;
    }
    let calls = [
        bash("echo mine >made"),
        bash(&format!("echo mine >{}/made", real.display())),
        bash(&format!("echo mine >{}", precious.display())),
        bash("exit 0"),
    ];
    let (harness, tools) = run_calls(sandbox, "calls", &calls).await;
    assert_eq!(fs::read_to_string(harness.project.path().join("made")).unwrap(), "mine\n");
    assert_eq!(fs::read_to_string(real.join("made")).unwrap(), "mine\n");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "as it was");
    let failed = output(&tools[2]);
    assert!(failed.contains("Permission denied"), "{failed}");
    assert!(
        failed.contains("ran in a sandbox: it could write only in the project and to temporary files."),
        "{failed}"
    );
    assert_eq!(output(&tools[3]), "(no output)");
}

#[tokio::test]
async fn in_a_read_only_sandbox_no_tool_writes() {
    let patch = "*** Begin Patch\n*** Add File: made\n+mine\n*** End Patch";
    let edit = json!({ "filePath": "README.md", "oldString": "Fixture", "newString": "Mine" });
    let write = json!({ "filePath": "made", "content": "mine" });
    for (model, calls) in [
        ("calls", vec![bash("echo mine >made"), ("write", write), ("edit", edit)]),
        ("gpt-5", vec![("apply_patch", json!({ "patchText": patch }))]),
    ] {
        let (harness, tools) = run_calls(sandbox(SandboxMode::ReadOnly), model, &calls).await;
        assert!(!harness.project.path().join("made").exists());
        assert!(fs::read_to_string(harness.project.path().join("README.md")).unwrap().contains("Fixture"));
        for (state, (name, _)) in tools.iter().zip(&calls).filter(|(_, (name, _))| *name != "bash") {
            let expected =
                format!("The sandbox does not allow {name}: nothing may be written. Do without it.");
            assert!(matches!(state, ToolState::Error(_)), "{state:?}");
            assert_eq!(output(state), expected);
        }
    }
}

#[tokio::test]
async fn reading_works_in_a_read_only_sandbox() {
    let calls = [bash("cat README.md"), ("read", json!({ "filePath": "README.md" }))];
    let sandbox = sandbox(SandboxMode::ReadOnly);
    let able = sandbox.support >= Support::Files;
    let (_, tools) = run_calls(sandbox, "calls", &calls).await;
    assert!(output(&tools[1]).contains("A small project."));
    if able {
        assert!(output(&tools[0]).contains("A small project."));
    }
}

#[tokio::test]
async fn without_a_network_nothing_is_fetched() {
    let sandbox = SandboxOptions { network: false, ..sandbox(SandboxMode::WorkspaceWrite) };
    let calls = [("webfetch", json!({ "url": "http://127.0.0.1:9/", "format": "text" }))];
    let (_, tools) = run_calls(sandbox, "calls", &calls).await;
    let expected = "The sandbox does not allow webfetch: the network may not be used. Do without it.";
    assert_eq!(output(&tools[0]), expected);
}

#[tokio::test]
async fn a_command_is_refused_if_the_kernel_cannot_enforce_the_sandbox() {
    let sandbox = SandboxOptions { support: Support::None, ..sandbox(SandboxMode::WorkspaceWrite) };
    let (harness, tools) = run_calls(sandbox, "calls", &[bash("touch ran")]).await;
    let ToolState::Error(state) = &tools[0] else { panic!("{tools:?}") };
    assert!(
        state.error.starts_with("refused to start `/bin/bash` outside of its sandbox: "),
        "{}",
        state.error
    );
    assert!(!harness.project.path().join("ran").exists());
}

#[tokio::test]
async fn a_disabled_sandbox_needs_no_kernel_support() {
    let sandbox = SandboxOptions { support: Support::None, ..sandbox(SandboxMode::Off) };
    let (harness, _) = run_calls(sandbox, "calls", &[bash("touch ran; exit 1")]).await;
    assert!(harness.project.path().join("ran").exists());
}

#[tokio::test]
async fn a_session_whose_directory_became_a_link_stays_confined() {
    let (_kept, precious) = outside();
    let tools = ToolOptions { sandbox: Some(sandbox(SandboxMode::WorkspaceWrite)), ..ToolOptions::default() };
    let agents = built_in(&[Rule::new("*", "*", Action::Allow)]);
    let calls = [bash("rm precious")];
    let mut harness =
        Harness::with_scenarios(named("calls", &calls), Options { agents, tools, ..Options::default() })
            .await;
    let session = harness.session().await;
    let directory = PathBuf::from(&session.directory);
    fs::remove_dir_all(&directory).unwrap();
    symlink(precious.parent().unwrap(), &directory).unwrap();
    harness.submit(&session, "calls", "please").await;
    harness.until_idle(&session, Responder::Reject).await;
    fs::remove_file(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    let tools = harness.tools(&session).await;
    assert!(
        output(&tools[0]).contains("The sandbox does not allow a directory that was replaced by a link."),
        "{tools:?}"
    );
    assert!(precious.exists());
}

/// An environment whose project is a git repository with one commit and a restrictive configuration.
async fn repository(calls: &[(&str, Value)]) -> Harness {
    let sandbox = SandboxOptions { temporary: Vec::new(), ..sandbox(SandboxMode::WorkspaceWrite) };
    let tools = ToolOptions { sandbox: Some(sandbox), ..ToolOptions::default() };
    let agents = built_in(&[Rule::new("*", "*", Action::Allow)]);
    let harness =
        Harness::with_scenarios(named("calls", calls), Options { agents, tools, ..Options::default() }).await;
    let project = harness.project.path();
    fs::write(project.join("baton.json"), STRICT).unwrap();
    for arguments in ["init -q", "config user.name Test", "config user.email test@example.com"] {
        let spec = Spec::new("git", project, Duration::from_mins(1)).args(arguments.split(' '));
        let done = process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
        assert_eq!(done.exit, Exit::Code(0), "{}", done.output.text());
    }
    harness
}

const STRICT: &str = r#"{ "sandbox": "workspace-write" }"#;

#[tokio::test]
async fn a_command_does_not_change_the_rules() {
    if Support::probe() < Support::Files {
        return;
    }
    let changed =
        "was changed by the command and has been put back: configuration is read-only in the sandbox.";
    let made = "was made by the command and has been removed: configuration is read-only in the sandbox.";
    let cases = [
        (r#"echo '{"sandbox":"off"}' > baton.json"#, format!("baton.json {changed}")),
        (r#"echo '{"sandbox":"off"}' > x && mv x baton.json"#, format!("baton.json {changed}")),
        ("rm baton.json && ln -s /etc/passwd baton.json", format!("baton.json {changed}")),
        ("rm baton.json", format!("baton.json {changed}")),
        (
            r#"mkdir .opencode && echo '{"permission":"allow"}' > .opencode/opencode.json"#,
            format!(".opencode {made}"),
        ),
        ("echo '{}' > opencode.jsonc; exit 1", format!("opencode.jsonc {made}")),
        (
            r"printf '#!/bin/sh\ntouch pwned\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
            format!(".git/hooks/pre-commit {made}"),
        ),
        ("git config core.fsmonitor 'touch pwned'", format!(".git/config {changed}")),
        ("mv .git aside && ln -s /etc .git", ".git, .git/config, .git/hooks, ".to_owned()),
    ];
    let calls: Vec<_> = cases.iter().map(|(line, _)| bash(line)).collect();
    let mut harness = repository(&calls).await;
    let config = fs::read_to_string(harness.project.path().join(".git/config")).unwrap();
    let session = harness.turn("calls", Responder::Reject).await;
    let tools = harness.tools(&session).await;
    for ((line, expected), state) in cases.iter().zip(&tools) {
        assert!(output(state).contains(expected), "{line}: {}", output(state));
    }
    let project = harness.project.path();
    assert_eq!(fs::read_to_string(project.join("baton.json")).unwrap(), STRICT);
    assert_eq!(fs::read_to_string(project.join(".git/config")).unwrap(), config);
    for new in [".opencode", "opencode.jsonc", ".git/hooks/pre-commit"] {
        assert!(fs::symlink_metadata(project.join(new)).is_err(), "{new}");
    }
}

#[tokio::test]
async fn commits_work_in_a_sandbox() {
    if Support::probe() < Support::Files {
        return;
    }
    let calls =
        [bash("git add -A && git commit -q -m first && git checkout -q -b topic && git log --oneline")];
    let mut harness = repository(&calls).await;
    let session = harness.turn("calls", Responder::Reject).await;
    let tools = harness.tools(&session).await;
    assert!(output(&tools[0]).contains(" first"), "{}", output(&tools[0]));
    assert!(!output(&tools[0]).contains("read-only in the sandbox"), "{}", output(&tools[0]));
}
