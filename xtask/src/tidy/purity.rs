//! Checks that the lifecycle is pure: it never waits and never reads the clock.
//!
//! Types cannot enforce that, because any module may name a clock. The source text shows it.

use super::{Finding, extension, words};
use crate::repo::TextFile;

const LIFECYCLE: &str = "crates/engine/src/lifecycle";

const FORBIDDEN: &[(&str, &str)] = &[
    ("async", "the lifecycle returns effects, the session actor performs them"),
    ("await", "the lifecycle returns effects, the session actor performs them"),
    ("tokio", "the lifecycle knows no runtime"),
    ("Instant", "time enters the lifecycle as part of an input"),
    ("SystemTime", "time enters the lifecycle as part of an input"),
];

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let sources: Vec<_> = files.iter().filter(|file| is_lifecycle(&file.path)).collect();
    if sources.is_empty() {
        // Moving the module must not silently disable the rule.
        return vec![Finding::in_file(
            LIFECYCLE,
            "no lifecycle sources found here; the purity rule reads them",
        )];
    }
    sources.into_iter().flat_map(check_file).collect()
}

fn is_lifecycle(path: &str) -> bool {
    let below = path.strip_prefix(LIFECYCLE);
    below.is_some_and(|rest| rest.starts_with(['.', '/'])) && extension(path) == "rs"
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let lines = file.text.lines().map(without_comment).enumerate();
    lines
        .flat_map(|(index, code)| {
            FORBIDDEN
                .iter()
                .filter(move |(word, _)| words(code).any(|found| found == *word))
                .map(move |(word, why)| Finding::at(&file.path, index, format!("`{word}`: {why}")))
        })
        .collect()
}

/// Comments may, and should, explain what the lifecycle does not do. Cutting at the first `//` also cuts a string
/// that contains one; losing the rest of that line is cheaper than a lexer.
fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn each_forbidden_word_is_found_with_its_line() {
        for (word, _) in FORBIDDEN {
            let text = format!("//! Pure.\n\nlet x = a::{word}(b);\n");
            let findings = check(&[file("crates/engine/src/lifecycle/turn.rs", &text)]);
            assert_eq!(findings.len(), 1, "{word}");
            assert_eq!(findings[0].line, Some(3), "{word}");
        }
    }

    #[test]
    fn comments_and_longer_words_are_no_finding() {
        let text = "//! Never async, no await, no Instant.\nlet instants = awaits; // tokio would await\n";
        assert_eq!(check(&[file("crates/engine/src/lifecycle.rs", text)]), []);
    }

    #[test]
    fn the_rest_of_the_engine_may_wait() {
        let files = [
            file("crates/engine/src/lifecycle.rs", "//! Pure.\n"),
            file("crates/engine/src/session.rs", "async fn run() { tokio::spawn(x).await }\n"),
        ];
        assert_eq!(check(&files), []);
    }

    #[test]
    fn a_missing_lifecycle_is_a_finding() {
        assert_eq!(check(&[file("crates/engine/src/lib.rs", "")]).len(), 1);
    }
}
