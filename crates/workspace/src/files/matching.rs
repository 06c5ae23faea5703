//! Finds the piece of a file that a model means, although the model does not quote it exactly.
//!
//! Models misquote in known ways: indentation, spaces, escapes, blank edges, a line or two from memory. So the
//! text is searched in several ways, the strictest first, and the first way that finds anything decides:
//!
//! 1. exactly;
//! 2. whole lines that differ by their indentation only, all in the same way;
//! 3. whole lines that differ in spaces at their ends;
//! 4. words with other spaces or line breaks between them;
//! 5. without the blanks around it;
//! 6. any of these, with escapes such as `\n` decoded;
//! 7. a block whose first and last lines match and whose other lines are similar;
//! 8. a block of the same length whose first and last lines match and half of whose other lines match.
//!
//! A later way finds everything that an earlier one found and more, so several matches are never reduced by a
//! looser search: they are refused. The last two ways guess, so they must find exactly one place, and no way
//! may match something much larger than the quoted text. The search is bounded by an amount of work, not by
//! time, so the same input always gives the same result.

mod blocks;
mod escapes;
mod lines;
mod similarity;
mod words;

use std::ops::Range;

use memchr::memmem;

use lines::Lines;

/// Bound on the search, in bytes compared.
const WORK: usize = 20_000_000;

/// Minimum cost of a comparison.
const LEAST: usize = 16;

/// Most places listed in [`Miss::Ambiguous`].
const MAX_PLACES: usize = 10;

/// A range of the text and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Swap {
    pub(super) span: Range<usize>,
    pub(super) text: String,
}

/// The reason why no place was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Miss {
    /// The text does not occur.
    Nowhere,
    /// The text occurs more than once; these are the first lines of some occurrences.
    Ambiguous { count: usize, lines: Vec<usize> },
    /// The match is much larger than the text; these are its first and last line.
    TooLarge { first: usize, last: usize },
}

/// Remaining budget of the search.
pub(super) struct Work(usize);

impl Work {
    /// Spends this amount. Returns false when the budget is exhausted.
    fn spend(&mut self, amount: usize) -> bool {
        self.0 = self.0.saturating_sub(amount + LEAST);
        self.0 > 0
    }
}

/// Finds the ranges to replace. Both texts have `\n` line ends, and `old` is not empty.
pub(super) fn find(text: &str, old: &str, new: &str, all: bool) -> Result<Vec<Swap>, Miss> {
    let exact = exactly(text, old, new);
    if !exact.is_empty() {
        return decide(text, exact, all);
    }
    let lines = Lines::new(text);
    let mut work = Work(WORK);
    let found = loosely(&lines, old, new, &mut work);
    if !found.is_empty() {
        return proportionate(&lines, old, found, all);
    }
    if let Some(meant) = escapes::resolve(old) {
        let new = escapes::resolve(new).unwrap_or_else(|| new.to_owned());
        let mut found = exactly(text, &meant, &new);
        if found.is_empty() {
            found = loosely(&lines, &meant, &new, &mut work);
        }
        if !found.is_empty() {
            return proportionate(&lines, &meant, found, all);
        }
    }
    let guess = match blocks::similar(&lines, old, new, &mut work)? {
        Some(guess) => Some(guess),
        None => blocks::recalled(&lines, old, new, &mut work)?,
    };
    proportionate(&lines, old, Vec::from_iter(guess), all)
}

/// All exact occurrences. In a file with Windows line ends, also searches for the text with those.
fn exactly(text: &str, old: &str, new: &str) -> Vec<Swap> {
    let mut spans: Vec<Range<usize>> = occurrences(text, old).collect();
    if old.contains('\n') && memmem::find(text.as_bytes(), b"\r\n").is_some() {
        spans.extend(occurrences(text, &old.replace('\n', "\r\n")));
        spans.sort_by_key(|span| span.start);
    }
    spans.into_iter().map(|span| Swap { span, text: new.to_owned() }).collect()
}

fn occurrences<'a>(text: &'a str, wanted: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    let found = memmem::find_iter(text.as_bytes(), wanted.as_bytes());
    found.map(move |start| start..start + wanted.len())
}

/// The ways that compare the same words.
fn loosely(lines: &Lines<'_>, old: &str, new: &str, work: &mut Work) -> Vec<Swap> {
    let mut found = lines::equal(lines, old, new, work);
    if found.is_empty() {
        found = words::equal(lines.text(), old, new, work);
    }
    if found.is_empty() {
        found = trimmed(lines.text(), old, new);
    }
    found
}

/// Matches without surrounding blanks. Blanks that the new text shares with the old one are removed there, too.
fn trimmed(text: &str, old: &str, new: &str) -> Vec<Swap> {
    let core = old.trim();
    if core.is_empty() || core.len() == old.len() {
        return Vec::new();
    }
    let before = old.split(core).next().unwrap_or_default();
    let after = old.strip_prefix(before).and_then(|rest| rest.strip_prefix(core)).unwrap_or_default();
    let new = new.strip_prefix(before).unwrap_or(new);
    let new = new.strip_suffix(after).unwrap_or(new);
    exactly(text, core, new)
}

/// Refuses matches that are far larger than the quoted text.
fn proportionate(lines: &Lines<'_>, old: &str, found: Vec<Swap>, all: bool) -> Result<Vec<Swap>, Miss> {
    let count = old.lines().count();
    // The allowance per line covers deep indentation that the model omitted.
    let bytes = old.len() * 2 + count * 64;
    for Swap { span, .. } in &found {
        let (first, last) = (lines.at(span.start), lines.at(span.end.saturating_sub(1)));
        if last - first + 1 > count * 2 + 2 || span.len() > bytes {
            return Err(Miss::TooLarge { first: first + 1, last: last + 1 });
        }
    }
    decide(lines.text(), found, all)
}

/// Accepts one match, or several if all are meant.
fn decide(text: &str, mut found: Vec<Swap>, all: bool) -> Result<Vec<Swap>, Miss> {
    match found.len() {
        0 => Err(Miss::Nowhere),
        1 => Ok(found),
        _ if all => {
            let mut end = 0;
            found.retain(|swap| {
                let apart = swap.span.start >= end;
                if apart {
                    end = swap.span.end;
                }
                apart
            });
            Ok(found)
        }
        count => Err(ambiguous(text, count, found.iter().map(|swap| swap.span.start))),
    }
}

fn ambiguous(text: &str, count: usize, starts: impl Iterator<Item = usize>) -> Miss {
    let line = |start: usize| {
        let before = text.as_bytes().get(..start).unwrap_or_default();
        memchr::memchr_iter(b'\n', before).count() + 1
    };
    Miss::Ambiguous { count, lines: starts.take(MAX_PLACES).map(line).collect() }
}

#[cfg(test)]
mod tests;
