//! Reads text files in pages.

use std::path::Path;

use super::ends::split_mark;
use super::open::{content, open};
use super::{Error, MAX_LINE, MAX_LINES, MAX_PAGE};

/// Bytes at the start of a file that decide if it is text.
const SAMPLE: usize = 4096;

/// The lines to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first line, counted from 1.
    pub offset: usize,
    /// Number of lines, at most [`MAX_LINES`].
    pub limit: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { offset: 1, limit: MAX_LINES }
    }
}

/// A range of lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Number of the first line.
    pub first: usize,
    /// The lines without their ends; overlong ones are cut.
    pub lines: Vec<String>,
    /// Number of lines in the file.
    pub total: usize,
    /// True if the page ended early because of its size.
    pub full: bool,
}

impl Page {
    /// Number of the last line of the page; one less than `first` when there is none.
    pub fn last(&self) -> usize {
        (self.first + self.lines.len()).saturating_sub(1)
    }

    /// Returns true if the file has lines after the page.
    pub fn more(&self) -> bool {
        self.last() < self.total
    }
}

/// Reads a range of lines of a text file.
pub fn read(path: &Path, window: Window) -> Result<Page, Error> {
    let bytes = load(path)?;
    if is_binary(&bytes) {
        return Err(Error::Binary(path.to_owned()));
    }
    let text = String::from_utf8_lossy(&bytes);
    // A byte order mark is invisible, so a model could not quote it.
    let (_, text) = split_mark(&text);
    let total = text.lines().count();
    let first = window.offset.max(1);
    if first > total && first > 1 {
        return Err(Error::BeyondEnd { path: path.to_owned(), offset: first, lines: total });
    }
    let mut page = Page { first, lines: Vec::new(), total, full: false };
    let mut size = 0;
    for line in text.lines().skip(first - 1).take(window.limit.min(MAX_LINES)) {
        let line = cut(line);
        size += line.len() + 1;
        if size > MAX_PAGE {
            page.full = true;
            break;
        }
        page.lines.push(line);
    }
    Ok(page)
}

/// Reads a whole file up to the size limit.
pub fn load(path: &Path) -> Result<Vec<u8>, Error> {
    content(path, &mut open(path)?)
}

/// Returns true if these first bytes are not text.
pub fn is_binary(bytes: &[u8]) -> bool {
    let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
    let odd = sample.iter().filter(|byte| matches!(byte, 0x01..=0x08 | 0x0e..=0x1a | 0x1c..=0x1f)).count();
    sample.contains(&0) || odd * 10 > sample.len() * 3
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}...", line.get(..end).unwrap_or(line)),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::NamedTempFile;

    use super::super::MAX_FILE;
    use super::super::temporary;
    use super::*;

    fn file(content: impl AsRef<[u8]>) -> NamedTempFile {
        let file = temporary::file();
        fs::write(file.path(), content).unwrap();
        file
    }

    #[test]
    fn a_window_has_its_lines_and_the_total() {
        let file = file("one\ntwo\r\nthree\nfour");
        let page = read(file.path(), Window { offset: 2, limit: 2 }).unwrap();
        assert_eq!(page.lines, ["two", "three"]);
        assert_eq!((page.first, page.last(), page.total, page.more()), (2, 3, 4, true));
        assert!(!read(file.path(), Window::default()).unwrap().more());
    }

    #[test]
    fn a_byte_order_mark_is_not_shown() {
        assert_eq!(read(file("\u{feff}one\n").path(), Window::default()).unwrap().lines, ["one"]);
    }

    #[test]
    fn an_empty_file_has_an_empty_page() {
        let page = read(file("").path(), Window::default()).unwrap();
        assert_eq!((page.lines.len(), page.total, page.more()), (0, 0, false));
    }

    #[test]
    fn a_window_after_the_end_is_an_error_with_the_length_of_the_file() {
        let error = read(file("one\n").path(), Window { offset: 5, limit: 1 }).unwrap_err();
        assert!(error.to_string().contains("(1 lines)"), "{error}");
    }

    #[test]
    fn pages_are_bounded_in_lines_line_length_and_bytes() {
        let page = read(file("x\n".repeat(5000)).path(), Window { offset: 1, limit: 9999 }).unwrap();
        assert_eq!((page.lines.len(), page.more(), page.full), (MAX_LINES, true, false));
        let page = read(file("é".repeat(5000)).path(), Window::default()).unwrap();
        assert_eq!(page.lines[0].chars().count(), MAX_LINE + 3);
        let page =
            read(file(format!("{}\n", "y".repeat(1000)).repeat(100)).path(), Window::default()).unwrap();
        assert!(page.full && page.lines.len() < 60);
    }

    #[test]
    fn binary_files_are_refused() {
        assert!(matches!(read(file(b"\x7fELF\0\0\0").path(), Window::default()), Err(Error::Binary(_))));
        assert!(matches!(read(Path::new("/dev/zero"), Window::default()), Err(Error::Binary(_))));
        assert!(matches!(read(temporary::directory().path(), Window::default()), Err(Error::IsDirectory(_))));
    }

    #[test]
    fn a_file_of_any_size_is_read_cheaply() {
        let file = file("");
        file.as_file().set_len(MAX_FILE + 1).unwrap();
        assert!(matches!(read(file.path(), Window::default()), Err(Error::TooLarge { .. })));
    }
}
