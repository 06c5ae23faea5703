//! Splits a long text into messages without breaking its formatting.
//!
//! It cuts between paragraphs if possible, else between lines, else between words or sentences, else between any two
//! user-perceived characters: an emoji of several code points stays whole.
//! A fenced code block that does not fit into one message is closed at the cut and opened again, with its language,
//! in the next message.

use unicode_segmentation::UnicodeSegmentation;

/// Maximum length of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub length: usize,
    pub unit: Unit,
}

/// The unit in which a service measures text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Unicode characters.
    Character,
    /// UTF-16 code units; an emoji has two.
    Utf16,
    /// Bytes of UTF-8.
    Byte,
}

impl Limit {
    /// Length of a text in this unit.
    pub fn measure(self, text: &str) -> usize {
        match self.unit {
            Unit::Character => text.chars().count(),
            Unit::Utf16 => text.encode_utf16().count(),
            Unit::Byte => text.len(),
        }
    }

    /// The text, or its beginning and an ellipsis if it is too long. Tears no emoji.
    pub fn shorten(self, text: &str) -> String {
        if self.measure(text) <= self.length {
            return text.to_owned();
        }
        let room = self.length.saturating_sub(self.measure("…"));
        let end = self.prefix_of(text.grapheme_indices(true), room).unwrap_or(text.len());
        format!("{}…", text.get(..end).unwrap_or_default().trim_end())
    }

    /// Length in bytes of the longest prefix that has at most `length` units and tears no emoji.
    fn prefix(self, text: &str, length: usize) -> usize {
        let whole = self.prefix_of(text.grapheme_indices(true), length);
        // A single grapheme that is too long has to be torn.
        let torn =
            || text.char_indices().map(|(at, it)| (at, text.get(at..at + it.len_utf8()).unwrap_or_default()));
        whole.filter(|end| *end > 0).or_else(|| self.prefix_of(torn(), length)).unwrap_or(text.len())
    }

    /// Position of the first piece that no longer fits; `None` if all do.
    fn prefix_of<'a>(self, pieces: impl Iterator<Item = (usize, &'a str)>, length: usize) -> Option<usize> {
        let mut used = 0;
        let mut too_much = pieces.skip_while(|(_, piece)| {
            used += self.measure(piece);
            used <= length
        });
        too_much.next().map(|(at, _)| at)
    }
}

/// Maximum length of a repeated fence; a longer info string is dropped.
const MAX_FENCE: usize = 40;

/// Marks after which a text can be cut: a space, and the ends of sentences in languages without spaces.
const SENTENCE_MARKS: [char; 4] = [' ', '。', '！', '？'];

/// Splits a text into pieces that fit, in order. Only white space at a cut is dropped.
pub fn pieces(text: &str, limit: Limit) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text.trim().to_owned();
    while limit.measure(&rest) > limit.length {
        // The closing fence must fit as well.
        let room = limit.length.saturating_sub(MAX_FENCE).max(1);
        let end = cut(&rest, limit.prefix(&rest, room).max(first_character(&rest)));
        let (head, tail) = rest.split_at(end);
        let (piece, next) = match open_fence(head) {
            Some(fence) => {
                let closing = fence.chars().take_while(|mark| matches!(mark, '`' | '~')).collect::<String>();
                // Indentation is part of the code; only the line break at the cut is dropped.
                let tail = tail.strip_prefix('\n').unwrap_or(tail);
                (format!("{}\n{closing}", head.trim_end()), format!("{fence}\n{tail}"))
            }
            None => (head.trim_end().to_owned(), tail.trim_start().to_owned()),
        };
        // A fence that fills the whole message would repeat forever.
        let (piece, next) =
            if next.len() < rest.len() { (piece, next) } else { (head.to_owned(), tail.to_owned()) };
        pieces.push(piece);
        rest = next;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

fn first_character(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// The best position for a cut, at most `most`.
fn cut(text: &str, most: usize) -> usize {
    let (head, _) = text.split_at(most);
    // A cut in the first half would make messages too short.
    let least = most / 2;
    let found = |pattern: &str| head.rfind(pattern).filter(|at| *at > least);
    let word = || head.rfind(SENTENCE_MARKS).filter(|at| *at > least);
    // The mark itself stays in the first piece.
    let after = |at: usize| at + head.get(at..).map_or(0, first_character);
    found("\n\n").or_else(|| found("\n")).or_else(|| word().map(after)).unwrap_or(most)
}

/// The opening line of the code block that is still open at the end of the text.
fn open_fence(text: &str) -> Option<String> {
    let mut open: Option<&str> = None;
    for line in text.lines() {
        let line = line.trim_start();
        let is_fence = line.starts_with("```") || line.starts_with("~~~");
        match open {
            None if is_fence => open = Some(line),
            Some(fence) if is_fence && closes(fence, line) => open = None,
            _ => {}
        }
    }
    open.map(|fence| {
        let marks: String = fence.chars().take_while(|mark| matches!(mark, '`' | '~')).take(8).collect();
        let language = fence.trim_start_matches(['`', '~']).split_whitespace().next().unwrap_or_default();
        format!("{marks}{}", if language.len() <= 24 { language } else { "" })
    })
}

/// True if a line closes a fence: at least as many marks of the same kind, and nothing else.
fn closes(fence: &str, line: &str) -> bool {
    let mark = fence.chars().next().unwrap_or('`');
    let count = |text: &str| text.chars().take_while(|it| *it == mark).count();
    count(line) >= count(fence) && line.trim_end().chars().all(|it| it == mark)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHORT: Limit = Limit { length: 100, unit: Unit::Character };

    #[test]
    fn a_text_that_fits_is_not_split() {
        assert_eq!(pieces("Hello.", SHORT), ["Hello."]);
        assert!(pieces(" \n ", SHORT).is_empty());
    }

    #[test]
    fn cuts_are_made_between_paragraphs() {
        let text = format!("{}\n\n{}", "a ".repeat(25), "b ".repeat(40));
        let pieces = pieces(&text, SHORT);
        assert!(pieces[0].ends_with('a') && pieces[1].starts_with('b'), "{pieces:?}");
    }

    #[test]
    fn code_is_closed_at_the_cut_and_opened_again() {
        let text = format!("Look:\n```rust\n{}```\nDone.", "    let x = 1;\n".repeat(12));
        let pieces = pieces(&text, SHORT);
        assert!(pieces.len() > 2);
        for piece in &pieces {
            assert_eq!(piece.matches("```").count() % 2, 0, "{piece}");
            assert!(SHORT.measure(piece) <= SHORT.length, "{piece}");
        }
        assert!(pieces[1].starts_with("```rust\n    let x"), "{}", pieces[1]);
        assert_eq!(pieces.iter().map(|piece| piece.matches("let x = 1;").count()).sum::<usize>(), 12);
    }

    #[test]
    fn length_is_measured_in_the_services_unit() {
        let faces = "😀".repeat(100);
        for unit in [Unit::Utf16, Unit::Byte, Unit::Character] {
            let limit = Limit { length: 100, unit };
            let pieces = pieces(&faces, limit);
            assert!(pieces.iter().all(|piece| limit.measure(piece) <= 100));
            assert_eq!(pieces.concat(), faces);
        }
    }

    #[test]
    fn an_emoji_of_several_code_points_is_not_torn() {
        for emoji in ["👨‍👩‍👧‍👦", "🇩🇪", "👍🏽"] {
            let limit = Limit { length: 100, unit: Unit::Utf16 };
            let text = emoji.repeat(40);
            let pieces = pieces(&text, limit);
            assert!(pieces.len() > 1);
            for piece in &pieces {
                assert!(limit.measure(piece) <= limit.length);
                assert_eq!(piece.replace(emoji, ""), "", "{piece}");
            }
        }
    }

    #[test]
    fn a_shortened_text_ends_with_an_ellipsis_and_tears_no_emoji() {
        let limit = |length, unit| Limit { length, unit };
        assert_eq!(limit(4, Unit::Character).shorten("abcd"), "abcd");
        assert_eq!(limit(4, Unit::Character).shorten("ab de"), "ab…");
        assert_eq!(limit(8, Unit::Character).shorten("ab👨‍👩‍👧‍👦cd"), "ab…");
        assert_eq!(limit(5, Unit::Utf16).shorten("🇩🇪🇩🇪"), "🇩🇪…");
        assert_eq!(limit(3, Unit::Utf16).shorten("🇩🇪🇩🇪"), "…");
    }

    #[test]
    fn a_text_without_spaces_is_cut_between_sentences() {
        let text = "这是一个很长的句子。".repeat(20);
        for piece in pieces(&text, SHORT) {
            assert!(piece.ends_with('。'), "{piece}");
        }
    }

    proptest! {
        #[test]
        fn every_piece_fits_and_no_word_is_lost(
            words in prop::collection::vec("[a-zé😀]{1,30}|\n|\n\n|```\n|```js\n|~~~\n|    ", 0..120),
            length in 60_usize..200,
        ) {
            let text = words.join(" ").replace("\n ", "\n");
            let limit = Limit { length, unit: Unit::Utf16 };
            let pieces = pieces(&text, limit);
            for piece in &pieces {
                prop_assert!(limit.measure(piece) <= length, "{} > {length}: {piece:?}", limit.measure(piece));
            }
            let letters = |text: &str| text.chars().filter(|it| it.is_alphabetic() || *it == '😀').collect::<String>();
            let plain = |text: &str| letters(&text.replace("```js", ""));
            prop_assert_eq!(plain(&pieces.join("\n")), plain(&text));
        }
    }
}
