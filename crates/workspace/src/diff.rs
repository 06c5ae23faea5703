//! Unified diffs in the shape clients of the wire show.

use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};

/// Unchanged lines shown around a change.
const CONTEXT: usize = 4;

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// The file.
    pub file: String,
    /// The unified diff, with an `Index:` line.
    pub patch: String,
    /// Lines added.
    pub additions: usize,
    /// Lines removed.
    pub deletions: usize,
}

/// Compares two versions of a file.
pub fn unified(file: &str, before: &str, after: &str) -> FileDiff {
    let diff = TextDiff::from_lines(before, after);
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    let body = diff.unified_diff().context_radius(CONTEXT).header(file, file).to_string();
    let line = "=".repeat(67);
    FileDiff {
        file: file.to_owned(),
        patch: format!("Index: {file}\n{line}\n{body}"),
        additions: count(ChangeTag::Insert),
        deletions: count(ChangeTag::Delete),
    }
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn a_change_has_a_header_context_and_counts() {
        let before = "# Fixture\n\nA small project for traces.\n\nEnd of file.\n";
        let diff = unified("/project/README.md", before, &format!("{before}Added.\n"));
        let expected = "Index: /project/README.md\n\
            ===================================================================\n\
            --- /project/README.md\n+++ /project/README.md\n@@ -2,4 +2,5 @@\n \n A small project for traces.\n \n \
            End of file.\n+Added.\n";
        assert_eq!(diff.patch, expected);
        assert_eq!((diff.additions, diff.deletions), (1, 0));
    }

    #[test]
    fn a_missing_last_newline_is_said() {
        let diff = unified("a", "one", "two");
        assert!(diff.patch.contains("\\ No newline at end of file"), "{}", diff.patch);
        assert_eq!((diff.additions, diff.deletions), (1, 1));
    }
}
