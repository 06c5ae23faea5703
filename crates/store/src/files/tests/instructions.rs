//! Which instructions are found, and how much of them is used.

use std::path::PathBuf;

use super::{
    super::instructions::{self, MAX_FILE, MAX_FILES},
    World,
};

fn find(world: &World) -> instructions::Instructions {
    instructions::find(&world.environment, &world.site(), &world.load().unwrap().config)
}

fn paths(world: &World) -> Vec<String> {
    let paths: Vec<PathBuf> = find(world).files.into_iter().map(|file| file.path).collect();
    world.relative(&paths)
}

#[test]
fn one_name_counts_on_all_levels() {
    let cases: [(&[&str], &[&str], &str); 8] = [
        (&[], &[], ""),
        (
            &["work/AGENTS.md", "work/sub/AGENTS.md", "work/sub/CLAUDE.md"],
            &["work/sub/AGENTS.md", "work/AGENTS.md"],
            "",
        ),
        (&["work/AGENTS.md", "work/sub/CLAUDE.md"], &["work/AGENTS.md"], ""),
        (&["work/CONTEXT.md", "work/sub/CLAUDE.md", "AGENTS.md"], &["work/sub/CLAUDE.md"], ""),
        (&["work/CONTEXT.md", "work/sub/CLAUDE.md"], &["work/CONTEXT.md"], "OPENCODE_DISABLE_CLAUDE_CODE"),
        (
            &["me/.config/opencode/AGENTS.md", "me/.claude/CLAUDE.md", "work/CLAUDE.md"],
            &["me/.config/opencode/AGENTS.md", "work/CLAUDE.md"],
            "",
        ),
        (&["me/.claude/CLAUDE.md"], &["me/.claude/CLAUDE.md"], ""),
        (
            &["me/.claude/CLAUDE.md", "work/AGENTS.md"],
            &["me/.claude/CLAUDE.md"],
            "OPENCODE_DISABLE_PROJECT_CONFIG",
        ),
    ];
    for (files, expected, variable) in cases {
        let mut world = World::new();
        for file in files {
            world = world.with(&[(file, "Do.")]);
        }
        if !variable.is_empty() {
            world = world.set(&[(variable, "1")]);
        }
        assert_eq!(paths(&world), expected, "{files:?} {variable}");
    }
}

#[test]
fn claudes_own_file_can_be_switched_off() {
    let world = World::new()
        .with(&[("me/.claude/CLAUDE.md", "Do.")])
        .set(&[("OPENCODE_DISABLE_CLAUDE_CODE_PROMPT", "true")]);
    assert_eq!(paths(&world), [""; 0]);
}

#[test]
fn entries_are_paths_patterns_and_addresses() {
    let world = World::new().with(&[
        (
            "work/opencode.json",
            r#"{ "instructions": [
                "rules.md", "docs/*.md", "docs/**/deep.md", "~/own.md", "§/else/{a,b}.md", "../x.md", "docs/a.md",
                "https://rules.test/a", "http://rules.test/b", "none.md", "[", ".hidden/*.md"
            ] }"#,
        ),
        ("work/sub/rules.md", "1"),
        ("work/rules.md", "2"),
        ("rules.md", "outside"),
        ("work/docs/b.md", "3"),
        ("work/docs/a.md", "4"),
        ("work/docs/c.txt", "no"),
        ("work/docs/x/y/deep.md", "5"),
        ("me/own.md", "6"),
        ("else/a.md", "7"),
        ("else/b.md", "8"),
        ("else/c.md", "no"),
        ("work/x.md", "9"),
        ("work/.hidden/h.md", "10"),
        ("work/sub/docs/empty.md", " \n"),
    ]);
    assert_eq!(
        paths(&world),
        [
            "work/sub/rules.md",
            "work/rules.md",
            "work/docs/a.md",
            "work/docs/b.md",
            "work/docs/x/y/deep.md",
            "me/own.md",
            "else/a.md",
            "else/b.md",
            "work/x.md",
            "work/.hidden/h.md",
        ]
    );
    let found = find(&world);
    assert_eq!(found.urls, ["https://rules.test/a", "http://rules.test/b"]);
    let told = world.told(&found.warnings);
    assert!(told.contains("no file matches `none.md`"), "{told}");
    assert!(told.contains("`[` is not a pattern"), "{told}");
}

#[test]
fn sizes_are_bounded() {
    let large = "x".repeat(MAX_FILE + 1);
    let mut world = World::new().with(&[
        ("work/opencode.json", r#"{ "instructions": ["many/*.md", "large.md"] }"#),
        ("work/large.md", &large),
    ]);
    for number in 0..MAX_FILES {
        world = world.with(&[(&format!("work/many/{number:03}.md"), "Do.")]);
    }
    let found = find(&world);
    assert_eq!(found.files.len(), MAX_FILES);
    assert_eq!(
        world.told(&found.warnings),
        "@/work/large.md: left out: more than 100 files or 1048576 bytes of instructions"
    );
    let world = world.with(&[("work/opencode.json", r#"{ "instructions": ["large.md"] }"#)]);
    let found = find(&world);
    assert_eq!(found.files[0].text.len(), MAX_FILE);
    assert_eq!(world.told(&found.warnings), "@/work/large.md: only the first 262144 bytes are used");
}

#[test]
fn files_near_a_file_that_is_read() {
    let world = World::new().with(&[
        ("work/AGENTS.md", "known"),
        ("work/sub/AGENTS.md", "known"),
        ("work/sub/a/CLAUDE.md", "1"),
        ("work/sub/a/b/AGENTS.md", "2"),
        ("work/sub/a/b/CLAUDE.md", "not this"),
        ("work/sub/a/b/c/x.rs", ""),
    ]);
    let near =
        |file: &str| world.relative(&instructions::near(&world.environment, &world.site(), &world.at(file)));
    assert_eq!(near("work/sub/a/b/c/x.rs"), ["work/sub/a/b/AGENTS.md", "work/sub/a/CLAUDE.md"]);
    assert_eq!(near("work/sub/a/../a/CLAUDE.md"), [""; 0]);
    assert_eq!(near("work/sub/x.rs"), [""; 0]);
    assert_eq!(near("work/other/x.rs"), [""; 0]);
}
