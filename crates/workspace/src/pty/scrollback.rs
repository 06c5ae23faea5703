//! The last output of a terminal's program as text with positions.

use std::collections::VecDeque;

/// Bytes of text kept per terminal.
pub const SCROLLBACK: usize = 1024 * 1024;

/// Size at which a new piece begins.
const PIECE: usize = 16 * 1024;

/// Text with a bounded past. A position is the number of UTF-16 units before it, counted from the very
/// beginning, because clients written in JavaScript count received text that way.
#[derive(Debug, Default)]
pub(super) struct Scrollback {
    pieces: VecDeque<Piece>,
    /// Total bytes of all pieces.
    kept: usize,
    /// Position of the first piece.
    start: u64,
    /// First bytes of a character whose rest has not arrived yet.
    unfinished: Vec<u8>,
}

#[derive(Debug, Default)]
struct Piece {
    text: String,
    units: u64,
}

impl Scrollback {
    /// Position after all text.
    pub(super) fn end(&self) -> u64 {
        self.start + self.pieces.iter().map(|piece| piece.units).sum::<u64>()
    }

    /// Adds output. Invalid bytes become replacement characters.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut bytes = [std::mem::take(&mut self.unfinished).as_slice(), bytes].concat();
        self.unfinished = bytes.split_off(bytes.len() - unfinished(&bytes));
        let text = String::from_utf8_lossy(&bytes);
        if text.is_empty() {
            return;
        }
        if self.pieces.back().is_none_or(|piece| piece.text.len() >= PIECE) {
            self.pieces.push_back(Piece::default());
        }
        if let Some(piece) = self.pieces.back_mut() {
            piece.text.push_str(&text);
            piece.units += units(&text);
        }
        self.kept += text.len();
        self.forget();
    }

    fn forget(&mut self) {
        while let Some(oldest) = self.pieces.front()
            && self.kept - oldest.text.len() >= SCROLLBACK
        {
            (self.kept, self.start) = (self.kept - oldest.text.len(), self.start + oldest.units);
            self.pieces.pop_front();
        }
    }

    /// The text after a position up to the end of a piece, and the position after it. Text that was dropped is
    /// skipped.
    pub(super) fn read(&self, from: u64) -> (String, u64) {
        let mut begin = self.start;
        for piece in &self.pieces {
            let end = begin + piece.units;
            if from < end {
                return (tail(&piece.text, from.saturating_sub(begin)).to_owned(), end);
            }
            begin = end;
        }
        (String::new(), begin)
    }
}

fn units(text: &str) -> u64 {
    text.chars().map(|character| character.len_utf16() as u64).sum()
}

/// The text after this many units; a character that would be split is omitted.
fn tail(text: &str, skip: u64) -> &str {
    let mut before = 0;
    let starts = text.char_indices().find(|(_, character)| {
        let found = before >= skip;
        before += character.len_utf16() as u64;
        found
    });
    starts.and_then(|(index, _)| text.get(index..)).unwrap_or_default()
}

/// Number of bytes at the end that begin an incomplete character.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(scrollback: &Scrollback, mut from: u64) -> String {
        let mut text = String::new();
        loop {
            let (piece, after) = scrollback.read(from);
            if piece.is_empty() {
                return text;
            }
            text.push_str(&piece);
            from = after;
        }
    }

    #[test]
    fn positions_are_counted_in_utf16_units() {
        let mut scrollback = Scrollback::default();
        scrollback.push("aä💡z".as_bytes());
        assert_eq!(scrollback.end(), 5);
        for (place, text) in [(0, "aä💡z"), (1, "ä💡z"), (2, "💡z"), (3, "z"), (4, "z"), (5, ""), (9, "")]
        {
            assert_eq!(scrollback.read(place), (text.to_owned(), 5), "{place}");
        }
    }

    #[test]
    fn split_and_invalid_characters_are_handled() {
        let mut scrollback = Scrollback::default();
        for byte in "ä💡".bytes() {
            scrollback.push(&[byte]);
        }
        scrollback.push(b"\xff\xe2\x82");
        scrollback.push(b"x\xf0");
        assert_eq!(all(&scrollback, 0), "ä💡\u{fffd}\u{fffd}x");
        scrollback.push(b"\x9f\x92\xa1");
        assert_eq!(all(&scrollback, 0), "ä💡\u{fffd}\u{fffd}x💡");
    }

    #[test]
    fn old_text_is_dropped_and_positions_stay_valid() {
        let mut scrollback = Scrollback::default();
        for number in 0..300_000 {
            scrollback.push(format!("{number:>7}\n").as_bytes());
        }
        assert_eq!(scrollback.end(), 300_000 * 8);
        assert!(scrollback.kept >= SCROLLBACK && scrollback.kept < SCROLLBACK + 2 * PIECE);
        assert_eq!(all(&scrollback, 299_999 * 8), " 299999\n");
        let kept = all(&scrollback, 0);
        assert_eq!(kept.len(), scrollback.kept);
        assert!(kept.ends_with(" 299998\n 299999\n"));
    }
}
