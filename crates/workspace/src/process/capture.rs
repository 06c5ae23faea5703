//! Captures the beginning and the end of a program's output.
//!
//! The beginning shows the purpose of a program and the end its result. The middle is only counted, so that a
//! runaway program uses a fixed amount of memory.

use std::collections::VecDeque;

/// Limits of captured output, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes from the beginning.
    pub head: usize,
    /// Bytes from the end.
    pub tail: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { head: 16 * 1024, tail: 48 * 1024 }
    }
}

/// Captured output of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    bounds: Bounds,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    lines: u64,
}

impl Output {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len().try_into().unwrap_or(u64::MAX));
        self.lines += u64::try_from(memchr::memchr_iter(b'\n', bytes).count()).unwrap_or_default();
        let room = self.bounds.head.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        // A chunk larger than the tail replaces all of it.
        let rest = rest.get(rest.len().saturating_sub(self.bounds.tail)..).unwrap_or_default();
        let over = (self.tail.len() + rest.len()).saturating_sub(self.bounds.tail);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// Number of bytes the program wrote.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of line ends among them.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns true if this many more bytes would not fit.
    pub(super) fn overflows(&self, more: usize) -> bool {
        self.head.len() + self.tail.len() + more > self.bounds.head + self.bounds.tail
    }

    /// All captured bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let (front, back) = self.tail.as_slices();
        [&self.head, front, back].concat()
    }

    /// Number of bytes omitted between the beginning and the end.
    pub fn omitted(&self) -> u64 {
        let kept = self.head.len() + self.tail.len();
        self.total.saturating_sub(kept.try_into().unwrap_or(u64::MAX))
    }

    /// The captured text, with a line in place of the omitted part.
    pub fn text(&self) -> String {
        match self.omitted() {
            0 => String::from_utf8_lossy(&self.bytes()).into_owned(),
            omitted => {
                let (front, back) = self.tail.as_slices();
                let head = String::from_utf8_lossy(whole_start(&self.head));
                let joined = [front, back].concat();
                let tail = String::from_utf8_lossy(whole_end(&joined));
                format!("{head}\n\n[... {omitted} bytes omitted ...]\n\n{tail}")
            }
        }
    }

    /// The captured end; everything if nothing was omitted.
    pub fn end(&self) -> String {
        if self.omitted() == 0 {
            return self.text();
        }
        let (front, back) = self.tail.as_slices();
        String::from_utf8_lossy(whole_end(&[front, back].concat())).into_owned()
    }

    /// The last `limit` characters.
    pub fn tail_text(&self, limit: usize) -> String {
        let text = self.end();
        let skip = text.chars().count().saturating_sub(limit);
        text.chars().skip(skip).collect()
    }
}

/// Removes a character at the end whose rest was cut off.
fn whole_start(bytes: &[u8]) -> &[u8] {
    let keep = (0..=3.min(bytes.len())).map(|cut| bytes.len() - cut).find(|end| {
        bytes.get(..*end).is_some_and(|bytes| match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) => error.error_len().is_some(),
        })
    });
    keep.and_then(|end| bytes.get(..end)).unwrap_or(bytes)
}

/// Removes the rest of a character whose beginning was cut off.
fn whole_end(bytes: &[u8]) -> &[u8] {
    let cut = bytes.iter().take(3).take_while(|byte| *byte & 0b1100_0000 == 0b1000_0000).count();
    bytes.get(cut..).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(head: usize, tail: usize, chunks: &[&str]) -> Output {
        let mut output = Output::new(Bounds { head, tail });
        for chunk in chunks {
            output.push(chunk.as_bytes());
        }
        output
    }

    #[test]
    fn short_output_is_kept_whole() {
        let output = output(4, 4, &["ab", "cdef", "gh"]);
        assert_eq!(output.text(), "abcdefgh");
        assert_eq!(output.omitted(), 0);
    }

    #[test]
    fn long_output_keeps_both_ends() {
        for chunks in [&["abcdefghijkl"][..], &["abcde", "fgh", "ijkl"], &["a", "bcdefghijkl"]] {
            let output = output(3, 4, chunks);
            assert_eq!(output.text(), "abc\n\n[... 5 bytes omitted ...]\n\nijkl", "{chunks:?}");
            assert_eq!(output.total(), 12);
        }
    }

    #[test]
    fn characters_are_not_cut_in_half() {
        let output = output(4, 4, &["aéé", "xxxxxxx", "ééa"]);
        assert_eq!(output.text(), "aé\n\n[... 9 bytes omitted ...]\n\néa");
        assert!(!output.text().contains('\u{fffd}'));
    }

    #[test]
    fn the_end_alone_can_be_had() {
        assert_eq!(output(10, 10, &["héllo"]).tail_text(4), "éllo");
        assert_eq!(output(0, 4, &["one\ntwo\n", "é!\n"]).end(), "é!\n");
        assert_eq!(output(0, 4, &["one\ntwo\n", "é!\n"]).lines(), 3);
    }
}
