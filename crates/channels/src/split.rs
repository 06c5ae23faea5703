//! Splits a long text into messages without breaking its formatting.
//!
//! It cuts between paragraphs if possible, else between lines, else between words, else between any two characters.
//! A fenced code block that does not fit into one message is closed at the cut and opened again, with its language,
//! in the next message.

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

    /// Length in bytes of the longest prefix that has at most `length` units.
    fn prefix(self, text: &str, length: usize) -> usize {
        let mut used = 0;
        for (at, character) in text.char_indices() {
            used += match self.unit {
                Unit::Character => 1,
                Unit::Utf16 => character.len_utf16(),
                Unit::Byte => character.len_utf8(),
            };
            if used > length {
                return at;
            }
        }
        text.len()
    }
}

/// Maximum length of a repeated fence; a longer info string is dropped.
const MAX_FENCE: usize = 40;

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
    found("\n\n").or_else(|| found("\n")).or_else(|| found(" ").map(|at| at + 1)).unwrap_or(most)
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
