//! Applies hunks to one text.

use std::path::Path;

use super::{Error, Hunk, Line};
use crate::files::LineEnds;

/// Longest excerpt of missing lines in an error.
const MAX_SHOWN: usize = 20;

/// A line of a file and its line end.
#[derive(Debug, Clone, Copy)]
struct Row<'t> {
    text: &'t str,
    /// Empty if the last line of the file has none.
    end: &'t str,
}

/// Comparison of two lines.
type Same = fn(&str, &str) -> bool;

/// Comparisons from strict to loose. A looser one is used only where no stricter one matches.
const WAYS: [Same; 4] = [
    |one, other| one == other,
    |one, other| one.trim_end() == other.trim_end(),
    |one, other| one.trim() == other.trim(),
    |one, other| one.trim().chars().map(plain).eq(other.trim().chars().map(plain)),
];

/// The text with all hunks applied.
pub(super) fn apply(path: &Path, text: &str, hunks: &[Hunk]) -> Result<String, Error> {
    let rows = rows(text);
    let end = LineEnds::of(text).text();
    let mut after: Vec<Row<'_>> = Vec::with_capacity(rows.len());
    let mut done = 0;
    for hunk in hunks {
        let place = locate(&rows, done, hunk).ok_or_else(|| missing(path, hunk))?;
        after.extend(rows.get(done..place).unwrap_or_default());
        done = place;
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => after.extend(rows.get(done)),
                Line::Remove(_) => {}
                Line::Insert(text) => after.push(Row { text, end }),
            }
            done += usize::from(!matches!(line, Line::Insert(_)));
        }
    }
    after.extend(rows.get(done..).unwrap_or_default());
    // A file without a final line end stays so, but lines in its middle need one.
    let open = rows.last().is_some_and(|row| row.end.is_empty());
    let last = after.len().saturating_sub(1);
    let mut joined = String::with_capacity(text.len());
    for (at, row) in after.into_iter().enumerate() {
        joined.push_str(row.text);
        match row.end {
            _ if open && at == last => {}
            "" => joined.push_str(end),
            own => joined.push_str(own),
        }
    }
    Ok(joined)
}

fn rows(text: &str) -> Vec<Row<'_>> {
    let row = |whole| {
        let text = str::strip_suffix(whole, '\n').unwrap_or(whole);
        let text = text.strip_suffix('\r').filter(|_| whole.ends_with('\n')).unwrap_or(text);
        Row { text, end: whole.get(text.len()..).unwrap_or_default() }
    };
    text.split_inclusive('\n').map(row).collect()
}

/// Index of the row where a hunk applies, from `done` on.
fn locate(rows: &[Row<'_>], done: usize, hunk: &Hunk) -> Option<usize> {
    let mut from = done;
    for above in &hunk.above {
        let wanted = [above.as_str()];
        from = seek(rows, from, &wanted)? + 1;
    }
    let wanted: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Keep(text) | Line::Remove(text) => Some(text.as_str()),
            Line::Insert(_) => None,
        })
        .collect();
    if wanted.is_empty() {
        // Without lines to match, inserts below the headings or else at the end.
        return Some(if hunk.above.is_empty() || hunk.at_end { rows.len() } else { from });
    }
    let end = rows.len().checked_sub(wanted.len()).filter(|end| hunk.at_end && *end >= from);
    if let Some(end) = end
        && WAYS.iter().any(|same| fits(rows, end, &wanted, *same))
    {
        return Some(end);
    }
    // The heading may also be the first line of the hunk.
    seek(rows, from, &wanted).or_else(|| seek(rows, from.saturating_sub(1).max(done), &wanted))
}

/// The first match, with the strictest comparison that finds one.
fn seek(rows: &[Row<'_>], from: usize, wanted: &[&str]) -> Option<usize> {
    let last = rows.len().checked_sub(wanted.len())?;
    WAYS.iter().find_map(|same| (from..=last).find(|at| fits(rows, *at, wanted, *same)))
}

fn fits(rows: &[Row<'_>], at: usize, wanted: &[&str], same: Same) -> bool {
    let place = rows.get(at..at + wanted.len()).unwrap_or_default();
    place.len() == wanted.len() && place.iter().zip(wanted).all(|(row, wanted)| same(row.text, wanted))
}

/// Replaces typographic hyphens, quotes and spaces, which models like to write, by plain ones.
fn plain(character: char) -> char {
    match character {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

fn missing(path: &Path, hunk: &Hunk) -> Error {
    let above = hunk.above.iter().map(String::as_str);
    let lines = hunk.lines.iter().filter_map(|line| match line {
        Line::Keep(text) | Line::Remove(text) => Some(text.as_str()),
        Line::Insert(_) => None,
    });
    let wanted: Vec<&str> = above.chain(lines).take(MAX_SHOWN).collect();
    Error::NoMatch { path: path.to_owned(), wanted: wanted.join("\n") }
}
