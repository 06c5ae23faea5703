//! Text that Postgres can store, and its words.

use std::{borrow::Cow, collections::BTreeSet, fmt::Write as _};

/// Longest word of a text that can be found, in bytes. Postgres allows 2,046.
const WORD_BYTES: usize = 2_000;

/// Words of one text that can be found, in bytes. Postgres allows a mebibyte.
const WORDS_BYTES: usize = 512 * 1024;

/// Replaces U+0000, which Postgres cannot store, by U+FFFD. Searched values are replaced in the same way, so they still
/// match. Bodies need no replacement: JSON escapes U+0000.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// The words of a text as the literal of a `tsvector`: runs of letters and digits, in lower case.
pub(crate) fn words(text: &str) -> String {
    let text = text.to_lowercase();
    let said: BTreeSet<&str> = text.split(|it: char| !it.is_alphanumeric()).collect();
    let mut literal = String::new();
    let mut bytes = 0;
    for word in said.into_iter().filter(|word| !word.is_empty() && word.len() <= WORD_BYTES) {
        bytes += word.len();
        if bytes > WORDS_BYTES {
            break;
        }
        // Letters and digits need no escape. Writing to a string cannot fail.
        let _ = write!(literal, "'{word}' ");
    }
    literal
}

/// The search for texts with all of these words, as the literal of a `tsquery`. A word also matches longer words.
pub(super) fn search(words: &[String]) -> String {
    let plain = |word: &String| word.chars().filter(|it| it.is_alphanumeric()).collect::<String>();
    let words = words.iter().map(|word| format!("'{}':*", plain(word)));
    words.collect::<Vec<_>>().join(" & ")
}
