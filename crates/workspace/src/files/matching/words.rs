//! The same words with different spaces or line breaks between them.

use memchr::memmem;

use super::{Swap, Work};

pub(super) fn equal(text: &str, old: &str, new: &str, work: &mut Work) -> Vec<Swap> {
    let words: Vec<&str> = old.split_whitespace().collect();
    // An exact search would have found a single word.
    let anchor = words.iter().enumerate().max_by_key(|(_, word)| word.len());
    let Some((place, anchor)) = anchor.filter(|_| words.len() > 1) else { return Vec::new() };
    let (before, after) =
        (words.get(..place).unwrap_or_default(), words.get(place + 1..).unwrap_or_default());
    let mut found = Vec::new();
    for offset in memmem::find_iter(text.as_bytes(), anchor.as_bytes()) {
        let end = follow(text, offset + anchor.len(), after, work);
        let start = end.and_then(|_| lead(text, offset, before, work));
        if let (Some(start), Some(end)) = (start, end) {
            found.push(Swap { span: start..end, text: trimmed_like(old, new).to_owned() });
        }
    }
    found
}

/// End of the words that follow an offset.
fn follow(text: &str, mut at: usize, words: &[&str], work: &mut Work) -> Option<usize> {
    for word in words {
        let rest = text.get(at..)?;
        let next = rest.trim_start();
        let blank = rest.len() - next.len();
        if blank == 0 || !work.spend(blank + word.len()) || !next.starts_with(word) {
            return None;
        }
        at += blank + word.len();
    }
    Some(at)
}

/// Start of the words that precede an offset.
fn lead(text: &str, mut at: usize, words: &[&str], work: &mut Work) -> Option<usize> {
    for word in words.iter().rev() {
        let rest = text.get(..at)?;
        let next = rest.trim_end();
        let blank = rest.len() - next.len();
        if blank == 0 || !work.spend(blank + word.len()) || !next.ends_with(word) {
            return None;
        }
        at -= blank + word.len();
    }
    Some(at)
}

/// Strips the blanks that `old` has at its edges from `new`, because the match runs from the first word to the
/// last.
fn trimmed_like<'n>(old: &str, new: &'n str) -> &'n str {
    let leading = old.get(..old.len() - old.trim_start().len()).unwrap_or_default();
    let trailing = old.get(old.trim_end().len()..).unwrap_or_default();
    let new = new.strip_prefix(leading).unwrap_or(new);
    new.strip_suffix(trailing).unwrap_or(new)
}
