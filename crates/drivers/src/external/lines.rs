//! Splits a stream of bytes into lines, with a limit for the length of a line.

use memchr::memchr;

/// A line is longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// The unfinished end of a stream of lines.
#[derive(Debug)]
pub(super) struct Lines {
    limit: usize,
    kept: Vec<u8>,
    /// The length of the prefix that contains no line feed.
    seen: usize,
}

impl Lines {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, kept: Vec::new(), seen: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
    }

    /// The next complete line that is not blank, without its line feed.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        loop {
            let Some(at) = memchr(b'\n', self.kept.get(self.seen..).unwrap_or_default()) else {
                self.seen = self.kept.len();
                return if self.kept.len() > self.limit { Err(TooLong) } else { Ok(None) };
            };
            let end = self.seen + at;
            let mut line: Vec<u8> = self.kept.drain(..=end).collect();
            self.seen = 0;
            line.truncate(end);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if line.len() > self.limit {
                return Err(TooLong);
            }
            if !line.is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// The incomplete last line.
    pub(super) fn rest(&self) -> &[u8] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines) -> Result<Vec<String>, TooLong> {
        let mut found = Vec::new();
        while let Some(line) = lines.next()? {
            found.push(String::from_utf8(line).unwrap());
        }
        Ok(found)
    }

    #[test]
    fn lines_do_not_depend_on_the_sizes_of_reads() {
        let whole = b"one\r\n\n\ntwo\nthree\n and a half";
        for size in 1..=whole.len() {
            let mut lines = Lines::new(100);
            let mut found = Vec::new();
            for piece in whole.chunks(size) {
                lines.push(piece);
                found.extend(all(&mut lines).unwrap());
            }
            assert_eq!(found, ["one", "two", "three"]);
            assert_eq!(lines.rest(), b" and a half");
        }
    }

    #[test]
    fn a_line_beyond_the_limit_is_rejected() {
        let mut lines = Lines::new(8);
        lines.push(b"12345678");
        assert_eq!(all(&mut lines), Ok(Vec::new()));
        lines.push(b"9");
        assert_eq!(all(&mut lines), Err(TooLong));
        let mut lines = Lines::new(8);
        lines.push(b"123456789\n");
        assert_eq!(all(&mut lines), Err(TooLong));
    }
}
