//! Protected files by name, through links and as parts of a bare repository.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// Creates a project with these files. Relative paths start in its directory `work`.
fn project(files: &[&str]) -> (TempDir, Root) {
    let outer = TempDir::new().unwrap();
    let top = outer.path().canonicalize().unwrap();
    fs::create_dir(top.join("work")).unwrap();
    for file in files {
        let path = top.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let root = Root::within(&top.join("work"), &top).unwrap();
    (outer, root)
}

fn guarded(root: &Root, written: &str) -> Option<Protection> {
    guard(root, written, &root.locate(written).unwrap().path)
}

fn named(names: &[&str]) -> Protection {
    Protection::Named(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn configuration_is_protected_however_it_is_written() {
    let (_outer, root) = project(&[".opencode/opencode.json", "README.md"]);
    let absolute = root.top().join("deep/er/opencode.json");
    for (written, name) in [
        ("opencode.json", "opencode.json"),
        ("baton.jsonc", "baton.jsonc"),
        (".././/OpenCode.JSON", "opencode.json"),
        (absolute.to_str().unwrap(), "opencode.json"),
        (".opencode/plugin/x.js", ".opencode"),
        ("../.opencode/agent/new.md", ".opencode"),
        (".OPENCODE/command/x.md", ".opencode"),
        ("sub/.git", ".git"),
        ("../.git/hooks/pre-commit", ".git"),
        ("sub/.Git/config", ".git"),
        (".g\u{200c}it/config", ".git"),
    ] {
        assert_eq!(guarded(&root, written), Some(named(&[name])), "{written}");
    }
    assert_eq!(guarded(&root, ".opencode/.git/config"), Some(named(&[".git", ".opencode"])));
    assert_eq!(guarded(&root, "../.config/opencode/agent/a.md"), Some(named(&["opencode"])));
    for free in [
        "src/main.rs",
        ".gitignore",
        "config",
        "opencode/a.rs",
        "AGENTS.md",
        "my.opencode/x",
        "refs/a",
        "b.json",
    ] {
        assert_eq!(guarded(&root, free), None, "{free}");
    }
}

#[test]
fn links_do_not_hide_their_targets() {
    let (_outer, root) =
        project(&[".git/config", "shared/agent/a.md", "shared/main.json", "free/x", "baton.json"]);
    let top = root.top();
    symlink(".git", top.join("docs")).unwrap();
    symlink("shared", top.join(".opencode")).unwrap();
    symlink("../shared/main.json", top.join("work/opencode.json")).unwrap();
    fs::hard_link(top.join("baton.json"), top.join("work/same")).unwrap();
    fs::create_dir(top.join("other")).unwrap();
    symlink("../free", top.join("other/.opencode")).unwrap();
    assert_eq!(guarded(&root, "../docs/config"), Some(named(&[".git"])));
    assert_eq!(
        guarded(&root, "../shared/agent/a.md"),
        Some(Protection::Exact),
        "this is .opencode/agent/a.md"
    );
    assert_eq!(guarded(&root, "../shared/new"), Some(Protection::Exact));
    assert_eq!(guarded(&root, "opencode.json"), Some(named(&["opencode.json"])), "as it was written");
    assert_eq!(guarded(&root, "../other/.opencode/x"), Some(named(&[".opencode"])), "as it was written");
    assert_eq!(guarded(&root, "same"), Some(Protection::Exact), "this is baton.json");
    assert_eq!(guarded(&root, "../free/x"), None, "no session of this directory reads it");
}

#[test]
fn a_bare_repository_cannot_be_made_in_any_order() {
    let parts = ["bare/HEAD", "bare/objects/x", "bare/refs/x", "bare/config"];
    // Every order of the four files: at least one write before the last one is asked about.
    for first in 0..parts.len() {
        for second in (0..parts.len()).filter(|second| *second != first) {
            for third in (0..parts.len()).filter(|third| ![first, second].contains(third)) {
                let (_outer, root) = project(&[]);
                let order = [first, second, third, 6 - first - second - third];
                let mut asked = 0;
                for part in order.map(|part| root.top().join(parts[part])) {
                    asked += usize::from(guard(&root, "", &part) == Some(named(&["bare"])));
                    fs::create_dir_all(part.parent().unwrap()).unwrap();
                    fs::write(part, "").unwrap();
                }
                assert!(asked >= 2, "{order:?}");
            }
        }
    }
}

#[test]
fn everything_in_a_bare_repository_is_protected() {
    let (_outer, root) =
        project(&["bare/HEAD", "bare/objects/x", "bare/refs/x", "linked/HEAD", "linked/commondir"]);
    for file in ["../bare/info/attributes", "../bare/new", "../bare/config", "../bare/hooks/post-checkout"] {
        assert_eq!(guarded(&root, file), Some(named(&["bare"])), "{file}");
    }
    assert_eq!(guarded(&root, "../linked/index"), Some(named(&["linked"])));
    let (_outer, root) = project(&["HEAD", "objects/x", "refs/x"]);
    assert_eq!(guarded(&root, "new"), Some(Protection::Exact), "the project itself is one");
}

#[test]
fn a_rule_lifts_the_protection_by_naming_the_file() {
    let guard = named(&[".opencode"]);
    for pattern in [".opencode/*", "*/.opencode/*", ".OpenCode/agent/?.md", ".opencode/agent/a.md"] {
        assert!(guard.is_named_by(pattern), "{pattern}");
    }
    for pattern in ["*", "**", "*.md", "*opencode/*", ".opencod?/*", "*/agent/*"] {
        assert!(!guard.is_named_by(pattern), "{pattern}");
    }
    assert!(!named(&[".git", ".opencode"]).is_named_by(".opencode/*"));
    assert!(Protection::Exact.is_named_by("shared/new") && !Protection::Exact.is_named_by("shared/*"));
}
