//! Similarity of two lines.

use super::Work;

/// Longest line to measure; longer ones are either equal or not.
const MAX_LINE: usize = 400;

/// Similarity from 0 (nothing in common) to 1 (equal), apart from surrounding spaces.
pub(super) fn of(one: &str, other: &str, work: &mut Work) -> f64 {
    let (one, other) = (one.trim(), other.trim());
    if one == other {
        return 1.0;
    }
    if one.len() > MAX_LINE || other.len() > MAX_LINE || !work.spend(one.len() * other.len()) {
        return 0.0;
    }
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let longer = one.len().max(other.len());
    1.0 - share(distance(&one, &other), longer)
}

/// Quotient of two small numbers.
#[expect(clippy::cast_precision_loss, reason = "lengths of lines and counts of them are far below 2^52")]
pub(super) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Levenshtein distance: the number of characters to insert, remove or replace.
fn distance(one: &[char], other: &[char]) -> usize {
    // Distances of the prefix of `one` so far from each prefix of `other`.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, character) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(row.first_mut().unwrap_or(&mut 0), at + 1);
        let mut left = at + 1;
        for (cell, against) in row.iter_mut().skip(1).zip(other) {
            let replaced = diagonal + usize::from(character != against);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_match_known_examples() {
        let distance = |one: &str, other: &str| {
            distance(&one.chars().collect::<Vec<_>>(), &other.chars().collect::<Vec<_>>())
        };
        for (one, other, expected) in
            [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("é", "e", 1), ("same", "same", 0)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn similarity_is_between_zero_and_one() {
        let mut work = Work(1000);
        assert!((of("  let a = 1;", "let a = 2;", &mut work) - 0.9).abs() < 1e-9);
        assert!((of("x", "x ", &mut work) - 1.0).abs() < 1e-9);
        assert!(of("abc", "xyz", &mut work).abs() < 1e-9);
        assert!(of(&"a".repeat(500), &"b".repeat(500), &mut work).abs() < 1e-9);
    }
}
