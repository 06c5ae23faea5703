//! Checks that the lifecycle of a session and the protocol of a fleet are pure: they never wait and never read the
//! clock.
//!
//! Types cannot enforce that, because any module may name a clock. The source text shows it.

use super::{Finding, extension, words};
use crate::repo::TextFile;

const PURE: &[&str] = &["crates/engine/src/lifecycle", "crates/engine/src/fleet"];

const FORBIDDEN: &[(&str, &str)] = &[
    ("async", "pure code returns effects, its caller performs them"),
    ("await", "pure code returns effects, its caller performs them"),
    ("tokio", "pure code knows no runtime"),
    ("Instant", "time enters pure code as part of an input"),
    ("SystemTime", "time enters pure code as part of an input"),
];

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    PURE.iter().flat_map(|module| check_module(files, module)).collect()
}

fn check_module(files: &[TextFile], module: &str) -> Vec<Finding> {
    let sources: Vec<_> = files.iter().filter(|file| is_part(&file.path, module)).collect();
    if sources.is_empty() {
        // Moving the module must not silently disable the rule.
        return vec![Finding::in_file(module, "no sources found here; the purity rule reads them")];
    }
    sources.into_iter().flat_map(check_file).collect()
}

fn is_part(path: &str, module: &str) -> bool {
    let below = path.strip_prefix(module);
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

/// Comments may, and should, explain what the code does not do. Cutting at the first `//` also cuts a string
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

    /// The findings in `files`, in a repository that also has the roots of the pure modules.
    fn found(files: &[TextFile]) -> Vec<Finding> {
        let roots = PURE.iter().map(|module| file(&format!("{module}.rs"), "//! Pure.\n"));
        check(&roots.chain(files.iter().map(|it| file(&it.path, &it.text))).collect::<Vec<_>>())
    }

    #[test]
    fn each_forbidden_word_is_found_with_its_line() {
        for (word, _) in FORBIDDEN {
            let text = format!("//! Pure.\n\nlet x = a::{word}(b);\n");
            for module in PURE {
                let findings = found(&[file(&format!("{module}/turn.rs"), &text)]);
                assert_eq!(findings.len(), 1, "{word}");
                assert_eq!(findings[0].line, Some(3), "{word}");
            }
        }
    }

    #[test]
    fn comments_and_longer_words_are_no_finding() {
        let text = "//! Never async, no await, no Instant.\nlet instants = awaits; // tokio would await\n";
        assert_eq!(found(&[file("crates/engine/src/lifecycle/turn.rs", text)]), []);
    }

    #[test]
    fn the_rest_of_the_engine_may_wait() {
        let session = file("crates/engine/src/session.rs", "async fn run() { tokio::spawn(x).await }\n");
        assert_eq!(found(&[session]), []);
    }

    #[test]
    fn a_missing_module_is_a_finding() {
        assert_eq!(check(&[file("crates/engine/src/lib.rs", "")]).len(), PURE.len());
    }
}
