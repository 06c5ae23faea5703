//! Commands that run without a question: real bash and real git, in a repository that tries to make them do more.

use std::path::Path;
use std::time::Duration;

use protocol::{EndReason, ToolState};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Exit, Spec, Support};

use super::harness::{Harness, Responder};
use super::tools::{named, output};
use crate::{Options, ToolOptions};

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({ "command": command }))
}

/// Runs a line of the test's set-up, without any restriction.
async fn shell(directory: &Path, line: &str) {
    let spec = Spec::shell(line, directory, Duration::from_mins(1));
    let done = process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    assert_eq!(done.exit, Exit::Code(0), "{line}: {}", done.output.text());
}

/// Sets up a project and runs lines in it; the user refuses every permission request.
async fn run(setup: &str, lines: &[&str]) -> (Harness, EndReason, Vec<ToolState>) {
    let calls: Vec<(&str, Value)> = lines.iter().map(|line| bash(line)).collect();
    let mut harness = Harness::with_scenarios(named("calls", &calls), Options::default()).await;
    shell(harness.project.path(), setup).await;
    let session = harness.turn("calls", Responder::Reject).await;
    let end = harness.end(&session);
    let tools = harness.tools(&session).await;
    (harness, end, tools)
}

fn seals() -> bool {
    Support::probe() >= Support::Sealed
}

/// A repository in which git would run `./evil`, which writes a file, in every way a repository can ask for.
const HOSTILE: &str = r#"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
printf '#!/bin/sh\necho ran-evil\necho x 2>/dev/null >"$(dirname "$0")/pwned"\ncat "$1" 2>/dev/null\nexit 0\n' >evil
chmod +x evil
git init -q . && git config user.name Test && git config user.email test@example.com
echo one >plain.txt; echo one >odd.txt; printf 'odd.txt diff=odd filter=odd\n' >.gitattributes
git add . && git commit -q -m first
echo two >>plain.txt; echo two >>odd.txt
cp evil .git/hooks/post-index-change; cp evil .git/hooks/fsmonitor-watchman
evil="$PWD/evil"
git config core.fsmonitor "$evil"
git config core.pager "$evil"
git config diff.odd.textconv "$evil"
git config filter.odd.clean "$evil"
git config gpg.program "$evil"
git config alias.status "!$evil"
rm -f pwned
"#;

#[tokio::test]
async fn a_repository_cannot_make_a_harmless_command_write() {
    if !seals() {
        return;
    }
    let lines = [
        "git status --short",
        "git log --format='%h %G? %s'",
        "git diff -- plain.txt",
        "git show HEAD --stat",
        "git branch -vv",
        "git diff",
        "git log -p",
        "echo hello; pwd | wc -l",
    ];
    let (harness, end, tools) = run(HOSTILE, &lines).await;
    assert_eq!(end, EndReason::Completed);
    assert!(!harness.project.path().join("pwned").exists(), "{tools:?}");
    assert!(output(&tools[0]).contains("M plain.txt"), "{tools:?}");
    assert!(output(&tools[1]).contains("first"), "{tools:?}");
    assert!(output(&tools[2]).contains("+two"), "{tools:?}");
    assert!(output(&tools[3]).contains("plain.txt"), "{tools:?}");
    assert!(output(&tools[4]).contains("first"), "{tools:?}");
    assert_eq!(output(&tools[7]), "hello\n1\n");
}

#[tokio::test]
async fn a_repository_that_an_agent_could_have_made_does_not_run_its_programs() {
    if !seals() {
        return;
    }
    let setup = r#"
printf '#!/bin/sh\necho x >"$(dirname "$0")/pwned"\n' >evil; chmod +x evil
mkdir -p sub/objects/x sub/refs/x gitdir sub2
echo 'ref: refs/heads/main' >sub/HEAD
printf '[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = %s/evil\n' "$PWD" >sub/config
git init -q --bare gitdir
printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = %s/evil\n' "$PWD" >gitdir/config
echo 'gitdir: ../gitdir' >sub2/.git
"#;
    let (harness, end, tools) = run(setup, &["cd sub && git status", "cd sub2 && git status"]).await;
    assert_eq!(end, EndReason::Completed);
    assert!(!harness.project.path().join("pwned").exists(), "{tools:?}");
    assert!(output(&tools[0]).contains("bare repository"), "{tools:?}");
    assert!(output(&tools[0]).contains("ran without a question, in a sandbox"), "{tools:?}");
    assert!(output(&tools[1]).contains("No commits yet"), "{tools:?}");
}

#[tokio::test]
async fn a_line_that_may_do_more_is_asked_about_and_does_not_run() {
    for line in [
        "test -v 'a[$(touch pwned)]'",
        "true; [[ -v 'a[$(touch pwned)]' ]]",
        "echo a\\\n#; touch pwned",
        "git log -1 '--output=pwned'",
        "echo hi &> 42",
    ] {
        let (harness, end, tools) = run("git init -q .", &[line]).await;
        assert_eq!(end, EndReason::Blocked, "{line}: {tools:?}");
        let left = ["pwned", "42"].map(|name| harness.project.path().join(name).exists());
        assert_eq!(left, [false, false], "{line}");
    }
}

#[tokio::test]
async fn without_kernel_support_every_command_is_asked_about() {
    let tools = ToolOptions { kernel: Support::Network, ..ToolOptions::default() };
    let options = Options { tools, ..Options::default() };
    let mut harness = Harness::with_scenarios(named("calls", &[bash("ls")]), options).await;
    let session = harness.turn("calls", Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Blocked);
}

#[tokio::test]
async fn a_sealed_command_sees_no_secrets() {
    if !seals() {
        return;
    }
    let setup = r"
git init -q . && echo x >x && printf 'x filter=odd\n' >.gitattributes && git add .
echo y >x && git config filter.odd.clean env
";
    let (_world, end, tools) = run(setup, &["git diff"]).await;
    assert_eq!(end, EndReason::Completed);
    let shown = output(&tools[0]);
    // Cargo sets this one for tests; it stands for all variables that are not on the list.
    assert!(shown.contains("PATH=") && !shown.contains("CARGO_MANIFEST_DIR"), "{shown}");
}
