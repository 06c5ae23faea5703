//! Line ends and byte order marks of text files.

use memchr::memmem;

/// The byte order mark that some Windows programs put at the start of a text.
const MARK: &str = "\u{feff}";

/// Line end of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnds {
    Unix,
    Windows,
}

impl LineEnds {
    /// The line end of most lines; `\n` if there are none.
    pub(crate) fn of(text: &str) -> Self {
        let windows = memmem::find_iter(text.as_bytes(), b"\r\n").count();
        let all = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        if windows > 0 && windows * 2 >= all { Self::Windows } else { Self::Unix }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Unix => "\n",
            Self::Windows => "\r\n",
        }
    }

    /// Converts a text with `\n` line ends to these.
    pub(crate) fn apply(self, text: &str) -> String {
        match self {
            Self::Unix => text.to_owned(),
            Self::Windows => text.replace('\n', "\r\n"),
        }
    }
}

/// Splits a text into its byte order mark, if any, and the rest.
pub(crate) fn split_mark(text: &str) -> (&str, &str) {
    text.strip_prefix(MARK).map_or(("", text), |rest| (MARK, rest))
}
