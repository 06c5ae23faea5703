//! How a text file ends its lines and how it begins.

use memchr::memmem;

/// The byte order mark that some Windows programs put in front of a text.
const MARK: &str = "\u{feff}";

/// What ends a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnds {
    Unix,
    Windows,
}

impl LineEnds {
    /// What most lines of a text end with; bare newlines if there are none.
    pub(crate) fn of(text: &str) -> Self {
        let windows = memmem::find_iter(text.as_bytes(), b"\r\n").count();
        let all = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        if windows > 0 && windows * 2 >= all { Self::Windows } else { Self::Unix }
    }

    /// One of them.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Unix => "\n",
            Self::Windows => "\r\n",
        }
    }

    /// A text with bare newlines, with these ends.
    pub(crate) fn apply(self, text: &str) -> String {
        match self {
            Self::Unix => text.to_owned(),
            Self::Windows => text.replace('\n', "\r\n"),
        }
    }
}

/// The byte order mark, if there is one, and the rest.
pub(crate) fn split_mark(text: &str) -> (&str, &str) {
    text.strip_prefix(MARK).map_or(("", text), |rest| (MARK, rest))
}
