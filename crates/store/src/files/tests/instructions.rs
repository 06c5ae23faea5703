//! The search for instructions, and its limits.

use std::path::PathBuf;

use super::{
    super::instructions::{self, MAX_FILE, MAX_FILES},
    Harness,
};

fn find(harness: &Harness) -> instructions::Instructions {
    instructions::find(&harness.environment, &harness.site(), &harness.load().unwrap().config)
}

fn paths(harness: &Harness) -> Vec<String> {
    let paths: Vec<PathBuf> = find(harness).files.into_iter().map(|file| file.path).collect();
    harness.relative(&paths)
}

#[test]
fn one_file_name_applies_on_all_levels() {
    let cases: [(&[&str], &[&str], &str); 8] = [
        (&[], &[], ""),
        (
            &["project/AGENTS.md", "project/sub/AGENTS.md", "project/sub/CLAUDE.md"],
            &["project/sub/AGENTS.md", "project/AGENTS.md"],
            "",
        ),
        (&["project/AGENTS.md", "project/sub/CLAUDE.md"], &["project/AGENTS.md"], ""),
        (&["project/CONTEXT.md", "project/sub/CLAUDE.md", "AGENTS.md"], &["project/sub/CLAUDE.md"], ""),
        (
            &["project/CONTEXT.md", "project/sub/CLAUDE.md"],
            &["project/CONTEXT.md"],
            "OPENCODE_DISABLE_CLAUDE_CODE",
        ),
        (
            &["me/.config/opencode/AGENTS.md", "me/.claude/CLAUDE.md", "project/CLAUDE.md"],
            &["me/.config/opencode/AGENTS.md", "project/CLAUDE.md"],
            "",
        ),
        (&["me/.claude/CLAUDE.md"], &["me/.claude/CLAUDE.md"], ""),
        (
            &["me/.claude/CLAUDE.md", "project/AGENTS.md"],
            &["me/.claude/CLAUDE.md"],
            "OPENCODE_DISABLE_PROJECT_CONFIG",
        ),
    ];
    for (files, expected, variable) in cases {
        let mut harness = Harness::new();
        for file in files {
            harness = harness.with(&[(file, "Do.")]);
        }
        if !variable.is_empty() {
            harness = harness.set(&[(variable, "1")]);
        }
        assert_eq!(paths(&harness), expected, "{files:?} {variable}");
    }
}

#[test]
fn claudes_own_file_can_be_switched_off() {
    let harness = Harness::new()
        .with(&[("me/.claude/CLAUDE.md", "Do.")])
        .set(&[("OPENCODE_DISABLE_CLAUDE_CODE_PROMPT", "true")]);
    assert_eq!(paths(&harness), [""; 0]);
}

#[test]
fn entries_are_paths_patterns_and_addresses() {
    let harness = Harness::new().with(&[
        (
            "project/opencode.json",
            r#"{ "instructions": [
                "rules.md", "docs/*.md", "docs/**/deep.md", "~/own.md", "§/else/{a,b}.md", "../x.md", "docs/a.md",
                "https://rules.test/a", "http://rules.test/b", "none.md", "[", ".hidden/*.md"
            ] }"#,
        ),
        ("project/sub/rules.md", "1"),
        ("project/rules.md", "2"),
        ("rules.md", "outside"),
        ("project/docs/b.md", "3"),
        ("project/docs/a.md", "4"),
        ("project/docs/c.txt", "no"),
        ("project/docs/x/y/deep.md", "5"),
        ("me/own.md", "6"),
        ("else/a.md", "7"),
        ("else/b.md", "8"),
        ("else/c.md", "no"),
        ("project/x.md", "9"),
        ("project/.hidden/h.md", "10"),
        ("project/sub/docs/empty.md", " \n"),
    ]);
    assert_eq!(
        paths(&harness),
        [
            "project/sub/rules.md",
            "project/rules.md",
            "project/docs/a.md",
            "project/docs/b.md",
            "project/docs/x/y/deep.md",
            "me/own.md",
            "else/a.md",
            "else/b.md",
            "project/x.md",
            "project/.hidden/h.md",
        ]
    );
    let found = find(&harness);
    assert_eq!(found.urls, ["https://rules.test/a", "http://rules.test/b"]);
    let told = harness.told(&found.warnings);
    assert!(told.contains("no file matches `none.md`"), "{told}");
    assert!(told.contains("`[` is not a pattern"), "{told}");
}

#[test]
fn sizes_are_bounded() {
    let large = "x".repeat(MAX_FILE + 1);
    let mut harness = Harness::new().with(&[
        ("project/opencode.json", r#"{ "instructions": ["many/*.md", "large.md"] }"#),
        ("project/large.md", &large),
    ]);
    for number in 0..MAX_FILES {
        harness = harness.with(&[(&format!("project/many/{number:03}.md"), "Do.")]);
    }
    let found = find(&harness);
    assert_eq!(found.files.len(), MAX_FILES);
    assert_eq!(
        harness.told(&found.warnings),
        "@/project/large.md: left out: more than 100 files or 1048576 bytes of instructions"
    );
    let harness = harness.with(&[("project/opencode.json", r#"{ "instructions": ["large.md"] }"#)]);
    let found = find(&harness);
    assert_eq!(found.files[0].text.len(), MAX_FILE);
    assert_eq!(harness.told(&found.warnings), "@/project/large.md: only the first 262144 bytes are used");
}

#[test]
fn files_near_a_file_that_is_read() {
    let harness = Harness::new().with(&[
        ("project/AGENTS.md", "known"),
        ("project/sub/AGENTS.md", "known"),
        ("project/sub/a/CLAUDE.md", "1"),
        ("project/sub/a/b/AGENTS.md", "2"),
        ("project/sub/a/b/CLAUDE.md", "not this"),
        ("project/sub/a/b/c/x.rs", ""),
    ]);
    let near = |file: &str| {
        harness.relative(&instructions::near(&harness.environment, &harness.site(), &harness.at(file)))
    };
    assert_eq!(near("project/sub/a/b/c/x.rs"), ["project/sub/a/b/AGENTS.md", "project/sub/a/CLAUDE.md"]);
    assert_eq!(near("project/sub/a/../a/CLAUDE.md"), [""; 0]);
    assert_eq!(near("project/sub/x.rs"), [""; 0]);
    assert_eq!(near("project/other/x.rs"), [""; 0]);
}

#[test]
fn closed_files_are_neither_substituted_nor_shown_to_models() {
    let mut harness = Harness::new().with(&[
        ("me/data/auth.json", "{ \"key\": \"canary\" }"),
        ("project/sub/opencode.json", "{ \"instructions\": [\"§/me/data/auth.json\", \"notes.md\"] }"),
        ("project/sub/notes.md", "notes"),
    ]);
    let closed = harness.at("me/data").canonicalize().unwrap();
    harness.environment = harness.environment.guarded(move |path| path.starts_with(&closed));
    let found = instructions::find(&harness.environment, &harness.site(), &harness.load().unwrap().config);
    assert_eq!(found.files.iter().map(|file| file.text.as_str()).collect::<Vec<_>>(), ["notes"]);
    assert!(found.warnings.iter().any(|problem| problem.to_string().contains("private data of Baton")));
    let harness = harness
        .with(&[("project/sub/opencode.json", "{ \"username\": \"{file:../../me/data/auth.json}\" }")]);
    let invalid = harness.load().unwrap_err().to_string();
    assert!(invalid.contains("private data of Baton") && !invalid.contains("canary"), "{invalid}");
}
