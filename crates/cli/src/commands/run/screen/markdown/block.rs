//! The kinds of lines in Markdown, decided from their beginnings.

use super::style::Style;

/// The kind of a line of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    Paragraph,
    Heading,
    Item,
    Quote,
}

impl Block {
    pub(super) fn style(self) -> Style {
        match self {
            Self::Paragraph | Self::Item => Style::default(),
            Self::Heading => Style::HEADING,
            Self::Quote => Style::DIM,
        }
    }
}

/// The beginning of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineStart {
    Blank,
    /// Opens a code block that this marker ends.
    Fence(String),
    /// A line that is not wrapped, such as a row of a table.
    Verbatim,
    /// A horizontal rule.
    Rule,
    Words {
        block: Block,
        /// Columns to the left of `mark`.
        indent: usize,
        /// Text in front of the words.
        mark: String,
        /// Bytes of the line that `indent` and `mark` replace.
        used: usize,
    },
}

/// Deepest indentation of a list entry that is kept, in columns.
const MAX_INDENT: usize = 16;

/// Decides the kind of a line from its beginning; `None` if more of it is needed.
pub(super) fn of_line(line: &str, is_whole: bool) -> Option<LineStart> {
    let text = line.trim_start_matches([' ', '\t']);
    let blanks = line.len() - text.len();
    let Some(first) = text.chars().next() else { return is_whole.then_some(LineStart::Blank) };
    let words = |block, indent, mark: &str, used| {
        Some(LineStart::Words { block, indent, mark: mark.to_owned(), used: blanks + used })
    };
    let paragraph = || words(Block::Paragraph, 0, "", 0);
    let run = text.chars().take_while(|letter| *letter == first).count();
    let after = text.chars().nth(run);
    // The run of equal characters may still grow, and its end decides.
    let is_open = after.is_none() && !is_whole;
    match first {
        '`' | '~' if run >= 3 => is_whole.then(|| match text.get(run..) {
            Some(rest) if rest.contains('`') => LineStart::Verbatim,
            _ => LineStart::Fence(text.get(..run).unwrap_or_default().to_owned()),
        }),
        '|' => is_whole.then_some(LineStart::Verbatim),
        '`' | '~' | '#' | '-' | '+' | '*' | '_' | '>' if is_open => None,
        '#' if run <= 6 && after.is_none_or(|next| next == ' ') => {
            words(Block::Heading, 0, "", run + usize::from(after.is_some()))
        }
        '-' | '*' | '_' if run >= 3 && after.is_none_or(|next| next == ' ') => {
            let is_rule = text.chars().all(|letter| letter == first || letter == ' ');
            if is_rule { is_whole.then_some(LineStart::Rule) } else { paragraph() }
        }
        '-' | '*' | '+' if run == 1 && after.is_none_or(|next| next == ' ') => {
            words(Block::Item, blanks.min(MAX_INDENT), "• ", run + usize::from(after.is_some()))
        }
        '>' => words(Block::Quote, 0, "│ ", run + usize::from(after == Some(' '))),
        '0'..='9' => {
            let digits = text.chars().take_while(char::is_ascii_digit).count();
            match (text.chars().nth(digits), text.chars().nth(digits + 1)) {
                (None, _) | (Some('.' | ')'), None) if !is_whole => None,
                (Some(mark @ ('.' | ')')), Some(' ')) if digits <= 3 => {
                    let number = text.get(..digits).unwrap_or_default();
                    words(Block::Item, blanks.min(MAX_INDENT), &format!("{number}{mark} "), digits + 2)
                }
                _ => paragraph(),
            }
        }
        _ => paragraph(),
    }
}

/// Returns true if a line ends the code block that `fence` opened.
pub(super) fn ends_fence(line: &str, fence: &str) -> bool {
    let mark = fence.chars().next().unwrap_or('`');
    let line = line.trim();
    line.len() >= fence.len() && line.chars().all(|letter| letter == mark)
}
