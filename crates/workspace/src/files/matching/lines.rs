//! Whole lines that are equal apart from surrounding spaces.

use std::collections::BTreeMap;
use std::ops::Range;

use memchr::{memchr_iter, memmem};

use super::{Swap, Work};

/// A text split into lines. Line ends, including Windows', belong to no line.
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut starts = vec![0];
        starts.extend(memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
        // Text after the last line end is a line only if it is not empty.
        if starts.last() == Some(&text.len()) {
            starts.pop();
        }
        Self { text, starts }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len()
    }

    /// The line that contains an offset.
    pub(super) fn at(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// A line without its end.
    pub(super) fn get(&self, line: usize) -> &'t str {
        let text = self.text.get(self.whole(line)).unwrap_or_default();
        let text = text.strip_suffix('\n').unwrap_or(text);
        text.strip_suffix('\r').unwrap_or(text)
    }

    /// Lines that equal `wanted` apart from surrounding spaces.
    pub(super) fn like<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
        let finder = memmem::Finder::new(wanted.as_bytes());
        let mut from = 0;
        std::iter::from_fn(move || {
            loop {
                let rest = self.text.as_bytes().get(from..)?;
                let line = self.at(from + finder.find(rest)?);
                from = self.start(line + 1).max(from + 1);
                if self.get(line).trim() == wanted {
                    return Some(line);
                }
            }
        })
    }

    /// Offset of the start of a line.
    pub(super) fn start(&self, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(self.text.len())
    }

    /// A line with its end.
    fn whole(&self, line: usize) -> Range<usize> {
        self.start(line)..self.start(line + 1)
    }

    /// Replaces a block of lines. Where the quoted text was indented differently, the new text gets the block's
    /// indentation.
    pub(super) fn swap(&self, block: Range<usize>, wanted: &Wanted<'_>, new: &str) -> Swap {
        let last = block.end.saturating_sub(1);
        let start = self.start(block.start);
        let end = if wanted.closed { self.start(block.end) } else { self.start(last) + self.get(last).len() };
        let mut text = reindent(new, &self.indents(block, wanted));
        let ends_open = self.text.get(start..end).is_some_and(|span| !span.ends_with('\n'));
        if wanted.closed && ends_open && text.ends_with('\n') {
            // The last line of the file has no line end and gets none.
            text.pop();
        }
        Swap { span: start..end, text }
    }

    /// Pairs of the indentation of the wanted lines and of the block's lines.
    fn indents<'a>(&'a self, block: Range<usize>, wanted: &'a Wanted<'a>) -> Vec<(&'a str, &'a str)> {
        let pairs = wanted.lines.iter().zip(block).filter(|(wanted, _)| !wanted.trim().is_empty());
        pairs.map(|(wanted, line)| (indent(wanted), indent(self.get(line)))).collect()
    }
}

/// The quoted text by lines.
pub(super) struct Wanted<'o> {
    pub(super) lines: Vec<&'o str>,
    /// True if the quoted text includes the end of its last line.
    pub(super) closed: bool,
}

impl<'o> Wanted<'o> {
    pub(super) fn new(old: &'o str) -> Self {
        Self { lines: old.lines().collect(), closed: old.ends_with('\n') }
    }

    /// The longest line and its index, because few lines of a file resemble it.
    fn anchor(&self) -> Option<(usize, &'o str)> {
        let trimmed = self.lines.iter().map(|line| line.trim()).enumerate();
        trimmed.max_by_key(|(_, line)| line.len()).filter(|(_, line)| !line.is_empty())
    }
}

/// Blocks with equal lines: those that are indented differently as a whole, or else any.
pub(super) fn equal(lines: &Lines<'_>, old: &str, new: &str, work: &mut Work) -> Vec<Swap> {
    let wanted = Wanted::new(old);
    let blocks = trimmed_blocks(lines, &wanted, work);
    let shifted = |block: &&Range<usize>| is_shifted(&lines.indents((*block).clone(), &wanted));
    let strict: Vec<Range<usize>> = blocks.iter().filter(shifted).cloned().collect();
    let blocks = if strict.is_empty() { blocks } else { strict };
    blocks.into_iter().map(|block| lines.swap(block, &wanted, new)).collect()
}

fn trimmed_blocks(lines: &Lines<'_>, wanted: &Wanted<'_>, work: &mut Work) -> Vec<Range<usize>> {
    let Some((place, anchor)) = wanted.anchor() else { return Vec::new() };
    let mut blocks = Vec::new();
    for line in lines.like(anchor) {
        let Some(first) = line.checked_sub(place) else { continue };
        let block = first..first + wanted.lines.len();
        if block.end > lines.count() {
            continue;
        }
        let same = wanted.lines.iter().zip(block.clone()).all(|(wanted, line)| {
            let line = lines.get(line);
            work.spend(line.len()) && line.trim() == wanted.trim()
        });
        if same {
            blocks.push(block);
        }
    }
    blocks
}

fn indent(line: &str) -> &str {
    line.get(..line.len() - line.trim_start().len()).unwrap_or_default()
}

/// Returns true if all lines have the same additional indentation, or all lack the same.
fn is_shifted(indents: &[(&str, &str)]) -> bool {
    let more = |(wanted, found): &(&str, &str)| found.strip_suffix(wanted).map(str::to_owned);
    let less = |(wanted, found): &(&str, &str)| wanted.strip_suffix(found).map(str::to_owned);
    let same = |by: &dyn Fn(&(&str, &str)) -> Option<String>| {
        let mut shifts = indents.iter().map(by);
        let first = shifts.next().flatten();
        first.is_some() && shifts.all(|shift| shift == first)
    };
    same(&more) || same(&less)
}

/// Indents a text for its target; `indents` maps the model's indentation to the file's.
///
/// If one indentation maps to several, only the first line is adjusted.
fn reindent(text: &str, indents: &[(&str, &str)]) -> String {
    let mut meant: BTreeMap<&str, &str> = BTreeMap::new();
    for (wanted, found) in indents {
        if meant.insert(wanted, found).is_some_and(|before| before != *found) {
            let first = indents.first().filter(|(wanted, _)| indent(text) == *wanted);
            let moved =
                first.and_then(|(wanted, found)| Some(format!("{found}{}", text.strip_prefix(wanted)?)));
            return moved.unwrap_or_else(|| text.to_owned());
        }
    }
    let line = |line: &str| {
        let own = indent(line);
        let known = meant.iter().filter(|(wanted, _)| own.starts_with(**wanted));
        match known.max_by_key(|(wanted, _)| wanted.len()) {
            Some((wanted, found)) if !line.trim().is_empty() => {
                format!("{found}{}", line.strip_prefix(wanted).unwrap_or(line))
            }
            _ => line.to_owned(),
        }
    };
    text.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_exclude_their_ends() {
        let lines = Lines::new("a\r\n\nb");
        assert_eq!((0..lines.count()).map(|line| lines.get(line)).collect::<Vec<_>>(), ["a", "", "b"]);
        assert_eq!([lines.at(0), lines.at(2), lines.at(3), lines.at(4), lines.at(99)], [0, 0, 1, 2, 2]);
        assert_eq!(Lines::new("").count(), 0);
        assert_eq!(Lines::new("\n").count(), 1);
    }

    #[test]
    fn indentation_is_translated() {
        assert_eq!(reindent("a\n  b\n\nc\n", &[("", "\t"), ("  ", "\t\t")]), "\ta\n\t\tb\n\n\tc\n");
        assert_eq!(reindent("    a\n      b", &[("    ", "")]), "a\n  b");
        assert_eq!(reindent("  a", &[("", "\t"), ("", "")]), "  a");
        assert_eq!(reindent("a\nb", &[("", "\t"), ("", "")]), "\ta\nb");
        assert_eq!(reindent("a", &[("  ", "")]), "a");
    }
}
