//! Lines by content.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use parking_lot::Mutex;

use super::newest::Newest;
use super::walk::{Pattern, Stop, changed, files};
use super::{Error, MAX_EXCERPT, MAX_RESULTS, SearchScope};

/// Memory limit per file: a longer line is not searched.
const MAX_HEAP: usize = 16 * 1024 * 1024;

/// Memory limit of a compiled pattern.
const MAX_PATTERN: usize = 10 * 1024 * 1024;

/// Most matches reported per line.
pub const MAX_SPANS: usize = 20;

/// Lines that match a pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matches {
    /// The most recently changed files, newest first, with at most [`MAX_RESULTS`] lines in total.
    pub files: Vec<Matched>,
    /// Number of all matching lines.
    pub total: usize,
    /// Number of files that were skipped because their content must not be shown.
    pub withheld: usize,
    /// True if the search ended early, so that there may be more.
    pub unfinished: bool,
}

/// Matching lines of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched {
    pub path: PathBuf,
    /// Matching lines in file order.
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1.
    pub number: u64,
    /// Byte offset in the file.
    pub offset: u64,
    /// Text of the line, see [`MAX_EXCERPT`].
    pub text: String,
    /// Byte ranges of the matches in `text`; at most [`MAX_SPANS`].
    pub spans: Vec<Range<usize>>,
}

/// Finds lines with a regular expression, in files whose path matches `include` if given.
///
/// Binary files are not searched.
pub fn grep(pattern: &str, include: Option<&str>, scope: &SearchScope) -> Result<Matches, Error> {
    if !scope.path.exists() {
        return Err(Error::NotFound(scope.path.clone()));
    }
    let matcher = RegexMatcherBuilder::new()
        // Anchors match at lines, and `$` also before Windows line ends.
        .multi_line(true)
        .crlf(true)
        .size_limit(MAX_PATTERN)
        .dfa_size_limit(MAX_PATTERN)
        .build(pattern)
        .map_err(|error| Error::Pattern(error.to_string()))?;
    // A file that was named explicitly is searched regardless of `include`.
    let include = match include {
        Some(include) if scope.path.is_dir() => Some(Pattern::new(include, &scope.path)?),
        _ => None,
    };
    let stop = Stop::new(scope);
    let found = Mutex::new((Matches::default(), Newest::new(MAX_RESULTS)));
    files(&scope.path, &stop, || {
        // One searcher per thread, because its buffers are large.
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .line_terminator(LineTerminator::crlf())
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_HEAP))
            .build();
        let (matcher, include, stop, found) = (matcher.clone(), &include, &stop, &found);
        move |path| {
            if include.as_ref().is_some_and(|include| !include.fits(path)) {
                return;
            }
            let hidden = (scope.withheld)(path);
            let (total, lines) =
                if hidden { (0, Vec::new()) } else { search(&mut searcher, &matcher, path, stop) };
            if total == 0 && !hidden {
                return;
            }
            let changed = changed(path);
            let mut found = found.lock();
            found.0.withheld += usize::from(hidden);
            found.0.total += total;
            if !lines.is_empty() {
                found.1.add(changed, path.to_owned(), lines.len(), lines);
            }
        }
    });
    let (mut matches, newest) = found.into_inner();
    let mut room = MAX_RESULTS;
    for (path, mut lines) in newest.into_sorted() {
        lines.truncate(room);
        room -= lines.len();
        matches.files.push(Matched { path, lines });
    }
    matches.unfinished = stop.happened();
    Ok(matches)
}

/// Matching lines of one file, and their number.
fn search(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    path: &Path,
    stop: &Stop<'_>,
) -> (usize, Vec<Line>) {
    let Ok(file) = crate::files::open(path) else { return (0, Vec::new()) };
    let mut found = Collector { matcher, stop, total: 0, lines: Vec::new(), binary: false };
    // If reading fails midway, the matches so far are used.
    let _ = searcher.search_reader(matcher, Watched { file, stop }, &mut found);
    if found.binary { (0, Vec::new()) } else { (found.total, found.lines) }
}

/// A reader that fails when the search stops, so that no single file can block it.
struct Watched<'a> {
    file: File,
    stop: &'a Stop<'a>,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.now() { Err(io::Error::other("the search has ended")) } else { self.file.read(buffer) }
    }
}

struct Collector<'a> {
    matcher: &'a RegexMatcher,
    stop: &'a Stop<'a>,
    total: usize,
    lines: Vec<Line>,
    binary: bool,
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.total += 1;
        if self.lines.len() < MAX_RESULTS {
            let number = found.line_number().unwrap_or_default();
            let text = excerpt(self.matcher, found.bytes());
            let spans = spans(self.matcher, &text);
            self.lines.push(Line { number, offset: found.absolute_byte_offset(), text, spans });
        }
        Ok(!self.stop.now())
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }
}

/// A line or, if it is long, the part around the match.
fn excerpt(matcher: &RegexMatcher, line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\r', '\n']);
    if text.len() <= MAX_EXCERPT || text.chars().nth(MAX_EXCERPT).is_none() {
        return text.to_owned();
    }
    let found = matcher.find(line).ok().flatten().map_or(0, |found| found.start());
    // A quarter of the excerpt precedes the match.
    let before = line.get(..found).map_or(0, |before| String::from_utf8_lossy(before).chars().count());
    let skip = if before < MAX_EXCERPT * 3 / 4 { 0 } else { before - MAX_EXCERPT / 4 };
    let shown: String = text.chars().skip(skip).take(MAX_EXCERPT).collect();
    let opening = if skip > 0 { "..." } else { "" };
    let closing = if text.chars().nth(skip + MAX_EXCERPT).is_some() { "..." } else { "" };
    format!("{opening}{shown}{closing}")
}

/// Ranges of a text that match the pattern.
fn spans(matcher: &RegexMatcher, text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    // This matcher cannot fail.
    let _ = matcher.find_iter(text.as_bytes(), |found| {
        spans.push(found.start()..found.end());
        spans.len() < MAX_SPANS
    });
    spans
}
