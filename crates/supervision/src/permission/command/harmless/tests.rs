//! Ordinary lines that run without a question, and attacks that do more than read.

use super::super::commands;
use super::Harmless;

/// Returns true if every command of a line is harmless.
fn is_harmless(line: &str) -> bool {
    commands(line)
        .iter()
        .all(|command| command.harmless.is_some() || (command.changes_directory() && !command.opaque))
}

#[test]
fn looking_runs_without_a_question() {
    for line in [
        "git status",
        "git status -sb",
        "git status --porcelain=v2 -uno -- src",
        "git log --oneline -5",
        "git log -n 5 --format='%h %s' --since='2 weeks ago' -- src",
        "git log -p -S needle --author Ada main..HEAD",
        "git log --graph --all --decorate",
        "git --no-pager log -1",
        "git diff",
        "git diff HEAD~1 -- src",
        "git diff --stat --cached src/*.rs",
        "git diff -U5 -w main...HEAD",
        "git diff -- *.rs",
        "git show HEAD^:src/main.rs",
        "git show --name-only 'stash@{0}'",
        "git branch",
        "git branch --show-current",
        "git branch -a",
        "git branch --list 'fix/*'",
        "ls",
        "ls -la src",
        "ls -lt --color=never *.rs",
        "ls -I '*.o' .",
        "wc -l a b",
        "wc -lw src/*.rs",
        "which cargo",
        "which -a node npm",
        "uname -a",
        "whoami",
        "sleep 2",
        "sleep 0.5s",
        "echo \"hello world\"",
        "echo -e 'a\\tb' *",
        "pwd && ls",
        "pwd -P",
        "true || false",
        "cd src && git status 2>/dev/null | wc -l",
    ] {
        assert!(is_harmless(line), "{line}: {:?}", commands(line));
    }
}

#[test]
fn more_than_looking_asks() {
    for line in [
        // Options that write, read other files or start programs, in every spelling.
        "git log -1 '--output=pwned'",
        "git log -1 \"--\"output=pwned",
        "git log -1 \\--output=pwned",
        "git log -1 \\\n--output=pwned",
        "git log -1 {--output=pwned,-q}",
        "git log --output pwned",
        "git log --outp=pwned",
        "git log --author -- --output=pwned",
        "git log -S -- --output=pwned",
        "git log -n -- --output=pwned",
        "git log --output=.git/hooks/post-index-change --format='#!/bin/sh'",
        "git diff -Opwned",
        "git diff -pOpwned",
        "git diff --ext-diff",
        "git diff --textconv",
        "git diff --no-index /dev/null x",
        "git show --show-signature",
        "git log *",
        "git log ?-output=x",
        "git log [-]-output=x",
        "git diff ''*",
        "git -c core.pager=x log",
        "git -C x status",
        "git --git-dir=x log",
        "git --work-tree=x status",
        "git --exec-path=x log",
        "git -p log",
        "git --paginate log",
        "git --no-pager --paginate log",
        "git grep -O x",
        "git grep --open-files-in-pager=x y",
        "git show HEAD:.env",
        "git diff -- config/.env.local",
        "git branch new",
        "git branch -a new",
        "git branch -v -- new",
        "git branch -D main",
        "git branch --edit-description",
        "git push",
        "git",
        "wc --files0-from=.env",
        "wc --files0-from .env",
        "wc --files0-fr=.env",
        "wc *",
        "wc .*",
        "ls .*",
        "ls .[.]",
        "sleep inf",
        "sleep 1 2",
        "sleep",
        "which --read-alias",
        "whoami x",
        "head -5 x",
        "cat x",
        "env",
        "/bin/ls",
        "./ls",
        // Lines that a shell reads differently from how they look.
        "test -v 'a[$(touch pwned)]'",
        "test -f x",
        "true; [[ -v 'a[$(touch pwned)]' ]]",
        "true; [[ 'a[$(touch pwned)]' -eq 0 ]]",
        "true; (( 'a[$(touch pwned)]' ))",
        "echo a\\\n#; touch pwned",
        "echo hi &> 42",
        "echo hi >& 42",
        "echo hi > x",
        "echo $(touch pwned)",
        "echo `touch pwned`",
        "echo $'a'",
        "echo $\"a\"",
        "echo \"$x\"",
        "PATH=. ls",
        "ls & touch pwned",
        "for x in a; do ls; done",
        "(ls)",
        "{ ls; }",
        "ls <(pwd)",
        "ls <<< x",
    ] {
        assert!(!is_harmless(line), "{line}: {:?}", commands(line));
    }
}

#[test]
fn git_needs_a_sandbox_and_the_others_are_inert() {
    assert_eq!(commands("git status")[0].harmless, Some(Harmless::Git));
    assert_eq!(commands("ls")[0].harmless, Some(Harmless::Inert));
}
