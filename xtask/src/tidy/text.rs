//! Rules about the text of the repository: the length and the beginning of a file, and leftovers that it must not
//! contain.

use std::path::Path;

use super::{Finding, extension, words};
use crate::repo::TextFile;

/// A longer file usually has two subjects.
const MAX_LINES: usize = 600;

/// Files that are long for a reason: path, reason. Only flat lists qualify.
const LONG_FILES: &[(&str, &str)] = &[];

/// Notes to self, written in pieces so that this file passes its own rule.
const LEFTOVERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// A disabled test looks like a passing one.
const IGNORED_TEST: &str = concat!("#[", "ignore");

/// Directories of users and temporary files; a path below one of these exists on one machine only.
const MACHINE_ROOTS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/ro", "ot/"),
    concat!("/t", "mp/"),
    concat!("/var/", "folders/"),
    concat!(":\\Us", "ers\\"),
    concat!(":\\\\Us", "ers\\\\"),
];

/// User names that examples may use in the path of a home directory.
const PLACEHOLDERS: &[&str] = &["ada", "user", "zoë"];

/// Recorded output of other programs is kept unchanged.
const RECORDINGS: &str = "/tests/fixtures/";

pub(super) fn check(files: &[TextFile], root: &Path) -> Vec<Finding> {
    let mut findings = lengths(files, LONG_FILES);
    for file in files {
        findings.extend(module_doc(file));
        findings.extend(leftovers(file));
        findings.extend(machine_paths(file, root));
    }
    findings
}

fn lengths(files: &[TextFile], exempt: &[(&str, &str)]) -> Vec<Finding> {
    let long: Vec<(&str, usize)> = files
        .iter()
        .filter(|file| ["rs", "ts", "tsx"].contains(&extension(&file.path)))
        .map(|file| (file.path.as_str(), file.text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .collect();
    let too_long = long.iter().filter(|(path, _)| !exempt.iter().any(|(listed, _)| listed == path)).map(
        |(path, lines)| {
            Finding::in_file(path, format!("{lines} lines (at most {MAX_LINES}): split it by subject"))
        },
    );
    // An exemption that is no longer needed would silently allow the file to grow again.
    let stale =
        exempt.iter().filter(|(listed, _)| !long.iter().any(|(path, _)| path == listed)).map(|(path, _)| {
            Finding::in_file(path, "listed as a long file but is not one any more: remove the entry")
        });
    too_long.chain(stale).collect()
}

/// A reader who opens a file should first learn its purpose. The names of test files suffice.
fn module_doc(file: &TextFile) -> Option<Finding> {
    if extension(&file.path) != "rs" || is_test(&file.path) {
        return None;
    }
    let documented = file.text.trim_start().starts_with("//!");
    (!documented)
        .then(|| Finding::in_file(&file.path, "does not begin with a `//!` line that states its purpose"))
}

fn leftovers(file: &TextFile) -> Vec<Finding> {
    if !is_source(&file.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if let Some(mark) = words(line).find(|word| LEFTOVERS.contains(word)) {
            findings.push(Finding::at(&file.path, index, format!("`{mark}`: do it, or open an issue")));
        }
        if line.contains(IGNORED_TEST) {
            findings.push(Finding::at(&file.path, index, "a disabled test: repair it or remove it"));
        }
    }
    findings
}

fn machine_paths(file: &TextFile, root: &Path) -> Vec<Finding> {
    // A checkout directly below `/` has a name too short to search for without false alarms.
    let checkout = root.to_str().filter(|_| root.components().count() > 2);
    let recorded = file.path.contains(RECORDINGS);
    let lines = file.text.lines().enumerate();
    lines
        .filter(|(_, line)| {
            (!recorded && MACHINE_ROOTS.iter().any(|prefix| names_machine(line, prefix)))
                || checkout.is_some_and(|checkout| line.contains(checkout))
        })
        .map(|(index, _)| Finding::at(&file.path, index, "a path that exists on one machine only"))
        .collect()
}

/// Returns true if `line` contains an absolute path below `prefix`, other than a placeholder's.
fn names_machine(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + prefix.len()..).unwrap_or_default();
        let name = words(after).next().unwrap_or_default();
        // `target/…`, `$dir/…` and `https://host/…` only contain the prefix.
        let absolute = prefix.starts_with(':')
            || !before.is_some_and(|c| {
                c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '}' | ')' | '>' | '*' | '@')
            });
        let below = after
            .starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | '{' | '<'));
        absolute && below && !PLACEHOLDERS.contains(&name)
    })
}

/// Code and scripts. Prose and recordings may contain anything.
fn is_source(path: &str) -> bool {
    const EXTENSIONS: &[&str] =
        &["rs", "ts", "tsx", "mts", "js", "mjs", "cjs", "toml", "sh", "sql", "css", "html", "yml", "yaml"];
    EXTENSIONS.contains(&extension(path)) || path.starts_with(".ci/")
}

fn is_test(path: &str) -> bool {
    let mut folders = path.split('/');
    let name = folders.next_back().unwrap_or_default();
    folders.any(|folder| folder == "tests") || name == "tests.rs" || name.ends_with("_tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn paths_found(line: &str) -> bool {
        !machine_paths(&file("docs/x.md", line), Path::new("/srv/checkout/baton")).is_empty()
    }

    #[test]
    fn a_long_file_fails_unless_it_is_listed() {
        let long = [file("crates/a/src/b.rs", &"x\n".repeat(MAX_LINES + 1))];
        assert_eq!(lengths(&long, &[]).len(), 1);
        assert_eq!(lengths(&long, &[("crates/a/src/b.rs", "a flat table")]), []);
        assert_eq!(lengths(&[file("b.rs", &"x\n".repeat(MAX_LINES))], &[]), []);
        assert_eq!(lengths(&[file("b.md", &"x\n".repeat(MAX_LINES + 1))], &[]), []);
    }

    #[test]
    fn an_exemption_that_is_not_needed_fails() {
        let short = [file("a.rs", "x\n")];
        assert_eq!(lengths(&short, &[("a.rs", "was long")]).len(), 1);
        assert_eq!(lengths(&short, &[("gone.rs", "was long")]).len(), 1);
    }

    #[test]
    fn a_module_begins_with_its_purpose() {
        assert!(module_doc(&file("crates/a/src/b.rs", "//! Bees.\n")).is_none());
        assert!(module_doc(&file("crates/a/src/b.rs", "use bees;\n")).is_some());
        assert!(module_doc(&file("crates/a/src/b.rs", "")).is_some());
        assert!(module_doc(&file("crates/a/tests/b.rs", "use bees;\n")).is_none());
        assert!(module_doc(&file("crates/a/src/b/tests.rs", "use bees;\n")).is_none());
        assert!(module_doc(&file("e2e/b.ts", "import bees\n")).is_none());
    }

    #[test]
    fn notes_to_self_are_found_in_source_and_not_in_prose() {
        for mark in LEFTOVERS {
            let text = format!("fn a() {{}}\n// {mark}: later\n");
            let findings = leftovers(&file("a.rs", &text));
            assert_eq!(findings.len(), 1, "{mark}");
            assert_eq!(findings[0].line, Some(2), "{mark}");
            assert_eq!(leftovers(&file("a.md", &text)), [], "{mark}");
        }
        assert_eq!(leftovers(&file("a.rs", "mktemp name.XXXXXX // the todo list\n")), []);
    }

    #[test]
    fn a_switched_off_test_is_found() {
        assert_eq!(leftovers(&file("a.rs", &format!("{IGNORED_TEST} = \"slow\"]\n"))).len(), 1);
    }

    #[test]
    fn machine_paths_are_found_wherever_they_start() {
        for root in MACHINE_ROOTS {
            assert!(paths_found(&format!("see {root}jane/baton")), "{root}");
            assert!(paths_found(&format!("\"{root}jane\"")), "{root}");
        }
        assert!(paths_found("built in /srv/checkout/baton/target"));
    }

    #[test]
    fn placeholders_relative_paths_and_addresses_are_fine() {
        let home = MACHINE_ROOTS[0];
        let temp = MACHINE_ROOTS[3];
        for line in [
            format!("{home}user/.config"),
            format!("https://example.com{home}page"),
            format!("${{ROOT}}{temp}x"),
            format!("target{temp}x"),
            format!("files below `{temp}` are not kept"),
        ] {
            assert!(!paths_found(&line), "{line}");
        }
    }

    #[test]
    fn a_checkout_directly_below_the_root_directory_is_not_searched_for() {
        let text = file("a.md", "the recordings say /project/src\n");
        assert_eq!(machine_paths(&text, Path::new("/project")), []);
    }
}
