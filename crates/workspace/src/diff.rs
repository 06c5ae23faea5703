//! Unified diffs in the format that clients of the wire display.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use similar::{ChangeTag, DiffOp, TextDiff};

/// Unchanged lines around a change.
const CONTEXT: usize = 4;

/// Time to search for the shortest diff; after that a longer one is accepted.
const DEADLINE: Duration = Duration::from_millis(500);

/// Largest diff in bytes. A larger one consists of its header and the counts.
pub const MAX_PATCH: usize = 256 * 1024;

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    pub file: String,
    /// The unified diff, with an `Index:` line.
    pub patch: String,
    pub additions: usize,
    pub deletions: usize,
}

/// Compares two versions of a file.
pub fn unified(file: &str, before: &str, after: &str) -> FileDiff {
    let diff = TextDiff::configure().timeout(DEADLINE).diff_lines(before, after);
    let (mut additions, mut deletions) = (0, 0);
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => additions += 1,
            ChangeTag::Delete => deletions += 1,
            ChangeTag::Equal => {}
        }
    }
    let body = diff.unified_diff().context_radius(CONTEXT).header(file, file).to_string();
    let body = if body.len() > MAX_PATCH { format!("--- {file}\n+++ {file}\n") } else { body };
    let line = "=".repeat(67);
    FileDiff { file: file.to_owned(), patch: format!("Index: {file}\n{line}\n{body}"), additions, deletions }
}

/// A changed range of two versions, with the lines around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// First line in the old version, counted from 1.
    pub old_start: usize,
    /// Number of lines in the old version.
    pub old_lines: usize,
    /// First line in the new version.
    pub new_start: usize,
    /// Number of lines in the new version.
    pub new_lines: usize,
    /// The lines, each with its sign.
    pub lines: Vec<String>,
}

/// Finds the changed ranges of two versions.
pub fn hunks(before: &str, after: &str) -> Vec<Hunk> {
    let diff = TextDiff::configure().timeout(DEADLINE).diff_lines(before, after);
    let hunk = |group: Vec<DiffOp>| {
        let (first, last) = (group.first()?, group.last()?);
        let (old, new) =
            (first.old_range().start..last.old_range().end, first.new_range().start..last.new_range().end);
        let lines = group.iter().flat_map(|op| diff.iter_changes(op));
        Some(Hunk {
            old_start: old.start + 1,
            old_lines: old.len(),
            new_start: new.start + 1,
            new_lines: new.len(),
            lines: lines
                .map(|line| format!("{}{}", line.tag(), line.value().trim_end_matches('\n')))
                .collect(),
        })
    };
    diff.grouped_ops(CONTEXT).into_iter().filter_map(hunk).collect()
}

#[cfg(test)]
mod tests {
    use super::{Hunk, hunks, unified};

    #[test]
    fn hunks_contain_positions_and_lines() {
        let numbers: Vec<String> = (1..=20).map(|line| line.to_string()).collect();
        let before = format!("{}\n", numbers.join("\n"));
        let after = before.replace("10\n", "ten\n10b\n");
        let lines = [" 6", " 7", " 8", " 9", "-10", "+ten", "+10b", " 11", " 12", " 13", " 14"];
        let lines = lines.map(str::to_owned).to_vec();
        let expected = Hunk { old_start: 6, old_lines: 9, new_start: 6, new_lines: 10, lines };
        assert_eq!(hunks(&before, &after), [expected]);
        assert_eq!(hunks(&before, &before), []);
    }

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
    fn a_missing_last_newline_is_marked() {
        let diff = unified("a", "one", "two");
        assert!(diff.patch.contains("\\ No newline at end of file"), "{}", diff.patch);
        assert_eq!((diff.additions, diff.deletions), (1, 1));
    }

    #[test]
    fn a_large_file_is_compared_quickly_and_a_large_change_has_only_counts() {
        let before = "some line that is in the file many times\n".repeat(250_000);
        let start = std::time::Instant::now();
        let diff = unified("a", &before, &before.replacen("many", "several", 1));
        assert_eq!((diff.additions, diff.deletions), (1, 1));
        let other = (0..100_000).map(|number| number.to_string()).collect::<Vec<_>>().join("\n");
        let diff = unified("a", &before, &other);
        assert_eq!((diff.additions, diff.deletions), (100_000, 250_000));
        assert!(diff.patch.len() < 200, "{}", diff.patch.len());
        assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    }
}
