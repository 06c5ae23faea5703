//! Emphasis and code inside a line, and the escape sequences that show them.

/// The look of a word, as a set of attributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Style(u8);

impl Style {
    pub(super) const PLAIN: Self = Self(0);
    const BOLD: Self = Self(1);
    pub(super) const DIM: Self = Self(1 << 1);
    const ITALIC: Self = Self(1 << 2);
    const UNDERLINED: Self = Self(1 << 3);
    /// A colour of its own.
    pub(super) const CODE: Self = Self(1 << 4);
    pub(super) const HEADING: Self = Self(Self::BOLD.0 | Self::UNDERLINED.0);

    /// The attributes with the parameters of their escape sequences.
    const CODES: [(Self, &'static str); 5] = [
        (Self::BOLD, "1"),
        (Self::DIM, "2"),
        (Self::ITALIC, "3"),
        (Self::UNDERLINED, "4"),
        (Self::CODE, "36"),
    ];

    /// Both looks together.
    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The escape sequence that switches from another look to this one.
    pub(super) fn after(self, before: Self) -> String {
        if self == before {
            return String::new();
        }
        let on = Self::CODES.iter().filter(|(attribute, _)| self.with(*attribute) == self);
        let reset = (before != Self::PLAIN).then_some("0");
        let codes: Vec<&str> = reset.into_iter().chain(on.map(|(_, code)| *code)).collect();
        format!("\u{1b}[{}m", codes.join(";"))
    }
}

/// The next piece of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Span<'a> {
    Letter(char),
    /// A character after a backslash.
    Escaped(char),
    Code {
        inside: &'a str,
        /// Bytes of the span with its marks.
        length: usize,
    },
    Emphasis {
        inside: &'a str,
        added: Style,
        /// Bytes of the span with its marks.
        length: usize,
    },
    /// A mark whose counterpart is not in the text.
    Open,
}

/// Returns the next piece of a text that is not empty. `before` is the character in front of it. A mark at the end of
/// a text that is not whole may still grow, so it ends nothing yet.
pub(super) fn span(text: &str, before: char, is_whole: bool) -> Span<'_> {
    let mut letters = text.chars();
    let first = letters.next().unwrap_or(' ');
    match first {
        '\\' => match letters.next() {
            None => Span::Open,
            Some(next) if next.is_ascii_punctuation() => Span::Escaped(next),
            Some(_) => Span::Letter(first),
        },
        '`' => code(text, is_whole),
        '*' | '_' => emphasis(text, before, is_whole),
        _ => Span::Letter(first),
    }
}

fn code(text: &str, is_whole: bool) -> Span<'_> {
    let run = run_of(text, '`');
    let (mark, inside) = text.split_at(run);
    for (at, tail) in found(inside, mark) {
        let is_decided = is_whole || run < tail.len();
        if run_of(tail, '`') == run && is_decided {
            return Span::Code { inside: inside.get(..at).unwrap_or_default(), length: run + at + run };
        }
    }
    Span::Open
}

fn emphasis(text: &str, before: char, is_whole: bool) -> Span<'_> {
    let mark = text.chars().next().unwrap_or('*');
    let run = run_of(text, mark);
    let (marks, inside) = text.split_at(run);
    let added = match run {
        1 => Style::ITALIC,
        2 => Style::BOLD,
        3 => Style::BOLD.with(Style::ITALIC),
        _ => return Span::Letter(mark),
    };
    match inside.chars().next() {
        None => return Span::Open,
        Some(next) if next.is_whitespace() => return Span::Letter(mark),
        // Names such as snake_case are no emphasis.
        Some(_) if mark == '_' && before.is_alphanumeric() => return Span::Letter(mark),
        Some(_) => {}
    }
    for (at, tail) in found(inside, marks) {
        let head = inside.get(..at).unwrap_or_default();
        let next = tail.chars().nth(run);
        let is_decided = is_whole || next.is_some();
        let is_end = run_of(tail, mark) == run && head.ends_with(|last: char| !last.is_whitespace());
        let is_name = mark == '_' && next.is_some_and(char::is_alphanumeric);
        if is_end && is_decided && !is_name {
            return Span::Emphasis { inside: head, added, length: run + at + run };
        }
    }
    Span::Open
}

/// Number of equal marks at the beginning of a text.
fn run_of(text: &str, mark: char) -> usize {
    text.len() - text.trim_start_matches(mark).len()
}

/// The places of runs of marks in a text, with the text from there on.
fn found<'a>(text: &'a str, marks: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let mark = marks.chars().next().unwrap_or('*');
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text.get(from..)?.find(marks)?;
        let tail = text.get(at..)?;
        from = at + run_of(tail, mark);
        Some((at, tail))
    })
}
