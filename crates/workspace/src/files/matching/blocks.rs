//! Blocks whose first and last lines match and whose inside was quoted from memory.

use std::ops::Range;

use super::lines::{Lines, Wanted};
use super::similarity::{self, share};
use super::{Miss, Swap, Work, ambiguous};

/// Lowest similarity of the inside of a block.
const SIMILAR: f64 = 0.65;

/// Margin by which the best block must be more similar than every other.
const CLEARLY: f64 = 0.1;

/// Share of the inside that must match exactly if the rest may differ freely.
const RECALLED: f64 = 0.5;

/// A block that may match.
struct Candidate {
    block: Range<usize>,
    score: f64,
}

/// The block with the most similar inside. It may be a little longer or shorter than the quoted text.
pub(super) fn similar(
    lines: &Lines<'_>,
    old: &str,
    new: &str,
    work: &mut Work,
) -> Result<Option<Swap>, Miss> {
    let wanted = Wanted::new(old);
    let slack = (wanted.lines.len() / 4).max(1);
    let mut candidates = between_edges(lines, &wanted, slack, work, |inside, work| {
        likeness(lines, inside, &wanted, slack, work)
    });
    candidates.retain(|candidate| candidate.score >= SIMILAR);
    candidates.sort_by(|one, other| other.score.total_cmp(&one.score));
    if let [best, second, ..] = candidates.as_slice()
        && best.score - second.score < CLEARLY
    {
        let starts = candidates.iter().map(|candidate| lines.start(candidate.block.start));
        return Err(ambiguous(lines.text(), candidates.len(), starts));
    }
    Ok(candidates.into_iter().next().map(|best| lines.swap(best.block, &wanted, new)))
}

/// The only block of the same length with enough matching lines.
pub(super) fn recalled(
    lines: &Lines<'_>,
    old: &str,
    new: &str,
    work: &mut Work,
) -> Result<Option<Swap>, Miss> {
    let wanted = Wanted::new(old);
    let mut candidates = between_edges(lines, &wanted, 0, work, |inside, work| {
        let inner = wanted.lines.iter().skip(1).zip(inside).filter(|(wanted, _)| !wanted.trim().is_empty());
        let (mut count, mut right) = (0, 0);
        for (wanted, line) in inner {
            count += 1;
            right += usize::from(work.spend(wanted.len()) && wanted.trim() == lines.get(line).trim());
        }
        share(right, count)
    });
    candidates.retain(|candidate| candidate.score >= RECALLED);
    if candidates.len() > 1 {
        let starts = candidates.iter().map(|candidate| lines.start(candidate.block.start));
        return Err(ambiguous(lines.text(), candidates.len(), starts));
    }
    Ok(candidates.into_iter().next().map(|only| lines.swap(only.block, &wanted, new)))
}

/// Blocks with matching first and last lines whose length differs by at most `slack`.
fn between_edges(
    lines: &Lines<'_>,
    wanted: &Wanted<'_>,
    slack: usize,
    work: &mut Work,
    mut score: impl FnMut(Range<usize>, &mut Work) -> f64,
) -> Vec<Candidate> {
    let [first, inside @ .., last] = wanted.lines.as_slice() else { return Vec::new() };
    let (first, last) = (first.trim(), last.trim());
    if inside.is_empty() || first.is_empty() || last.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for start in lines.like(first) {
        let shortest = start + wanted.lines.len().saturating_sub(slack).max(3);
        let longest = (start + wanted.lines.len() + slack).min(lines.count());
        for end in shortest..=longest {
            if !work.spend(last.len()) {
                return Vec::new();
            }
            if lines.get(end - 1).trim() == last {
                found.push(Candidate { block: start..end, score: score(start + 1..end - 1, work) });
            }
        }
    }
    found
}

/// Similarity of the inside of a block to the quoted lines. Either side may lack lines, so the best alignment
/// counts, with an offset of at most `slack`.
fn likeness(
    lines: &Lines<'_>,
    inside: Range<usize>,
    wanted: &Wanted<'_>,
    slack: usize,
    work: &mut Work,
) -> f64 {
    let quoted = wanted.lines.get(1..wanted.lines.len().saturating_sub(1)).unwrap_or_default();
    let longer = quoted.len().max(inside.len());
    // Best sum of similarities of the quoted lines so far with each prefix of the block.
    let mut row = vec![0.0_f64; inside.len() + 1];
    for (at, quote) in quoted.iter().enumerate() {
        let mut diagonal = 0.0;
        let mut left = 0.0_f64;
        for ((place, cell), line) in row.iter_mut().skip(1).enumerate().zip(inside.clone()) {
            let near = place.abs_diff(at) <= slack;
            let paired = if near { diagonal + similarity::of(quote, lines.get(line), work) } else { 0.0 };
            diagonal = *cell;
            left = paired.max(diagonal).max(left);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default() / share(longer, 1)
}
