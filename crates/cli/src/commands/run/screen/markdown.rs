//! Renders Markdown for a terminal while it arrives: headings, lists, quotes, code and emphasis, with words wrapped
//! at the terminal's width.
//!
//! Text appears word by word. Only the pieces whose meaning depends on what follows are held back: the beginning of a
//! line until its kind is known, an emphasis or a code span until it ends, a line of code or of a table until it is
//! complete. A mark without its counterpart is ordinary text. Line breaks stay where the model put them.

mod block;
mod style;

use unicode_width::UnicodeWidthChar;

use crate::terminal;
use block::{Block, LineStart};
use style::Style;

/// Longest text that is held back for the end of an emphasis or a code span, in bytes.
const MAX_HELD: usize = 400;
/// Narrowest width to wrap at; a narrower terminal wraps by itself.
const MIN_WIDTH: usize = 20;
/// Indentation of code blocks.
const CODE_INDENT: usize = 2;
/// Longest horizontal rule, in columns.
const MAX_RULE: usize = 40;

/// The state of one text.
#[derive(Debug)]
pub(super) struct Markdown {
    width: usize,
    /// Text that is not rendered yet.
    held: String,
    /// The kind of the current line; `None` at its beginning.
    block: Option<Block>,
    /// The marker that ends the open code block.
    fence: Option<String>,
    /// The character before `held`, which decides whether an underscore can begin an emphasis.
    before: char,
    word: Word,
    /// Column of the cursor.
    column: usize,
    /// Text in front of a wrapped line: the bar of a quote, or spaces.
    margin: String,
    /// Width of `margin` in columns.
    indent: usize,
    /// A blank line is due before the next output. Trailing ones are dropped.
    blank: bool,
    /// Something was rendered.
    begun: bool,
    out: String,
}

/// The word that is being collected, with its escape sequences.
#[derive(Debug, Default)]
struct Word {
    text: String,
    width: usize,
    style: Style,
    /// A space precedes it.
    spaced: bool,
}

impl Markdown {
    pub(super) fn new(width: usize) -> Self {
        Self {
            width: width.max(MIN_WIDTH),
            held: String::new(),
            block: None,
            fence: None,
            before: ' ',
            word: Word::default(),
            column: 0,
            margin: String::new(),
            indent: 0,
            blank: false,
            begun: false,
            out: String::new(),
        }
    }

    /// Adds text and returns the output that is ready.
    pub(super) fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        self.render(false);
        std::mem::take(&mut self.out)
    }

    /// Renders everything that is held back and ends the last line.
    pub(super) fn finish(&mut self) -> String {
        self.render(true);
        self.end_word();
        if self.column > 0 {
            self.end_line();
        }
        self.block = None;
        self.fence = None;
        std::mem::take(&mut self.out)
    }

    /// Renders as much as can be decided; everything if no more text follows.
    fn render(&mut self, is_all: bool) {
        while !self.held.is_empty() {
            let used = match self.block {
                None => self.begin_line(is_all),
                Some(block) => Some(self.continue_line(block, is_all)).filter(|used| *used > 0),
            };
            let Some(used) = used else { return };
            if let Some(last) = self.held.get(..used).and_then(|used| used.chars().next_back()) {
                self.before = last;
            }
            self.held.drain(..used);
        }
    }

    /// Decides the kind of a line. Returns the number of bytes that are done; `None` if more of the line is needed.
    fn begin_line(&mut self, is_all: bool) -> Option<usize> {
        let held = std::mem::take(&mut self.held);
        let end = held.find('\n');
        let line = held.get(..end.unwrap_or(held.len())).unwrap_or_default();
        let is_whole = end.is_some() || is_all;
        let whole = line.len() + usize::from(end.is_some());
        let used = if self.fence.is_some() {
            is_whole.then(|| {
                self.code_line(line);
                whole
            })
        } else {
            block::of_line(line, is_whole).map(|begin| match begin {
                LineStart::Words { block, indent, mark, used } => {
                    self.open(block, indent, &mark);
                    used
                }
                begin => {
                    self.whole_line(line, begin);
                    whole
                }
            })
        };
        self.held = held;
        used
    }

    /// Renders a line of a code block, or ends the block.
    fn code_line(&mut self, line: &str) {
        if self.fence.as_deref().is_some_and(|fence| block::ends_fence(line, fence)) {
            self.fence = None;
        } else {
            self.verbatim(line, CODE_INDENT, Style::CODE);
        }
    }

    /// Renders a line that has no words to wrap.
    fn whole_line(&mut self, line: &str, begin: LineStart) {
        match begin {
            LineStart::Blank => self.blank = self.begun,
            LineStart::Fence(fence) => self.fence = Some(fence),
            LineStart::Rule => self.verbatim(&"─".repeat(self.width.min(MAX_RULE)), 0, Style::DIM),
            LineStart::Verbatim | LineStart::Words { .. } => self.verbatim(line, 0, Style::PLAIN),
        }
    }

    /// Begins a line of words.
    fn open(&mut self, block: Block, indent: usize, mark: &str) {
        self.begin_output();
        self.out.push_str(&" ".repeat(indent));
        self.out.push_str(mark);
        self.column = indent + width_of(mark);
        self.indent = self.column;
        self.margin = if block == Block::Quote { mark.to_owned() } else { " ".repeat(self.indent) };
        self.block = Some(block);
        self.word = Word::default();
        self.before = ' ';
    }

    /// Renders the words of a line. Returns the number of bytes that are done.
    fn continue_line(&mut self, block: Block, is_all: bool) -> usize {
        let held = std::mem::take(&mut self.held);
        let end = held.find('\n');
        let line = held.get(..end.unwrap_or(held.len())).unwrap_or_default();
        let mut used = self.words(line, block.style(), end.is_some() || is_all);
        if used == line.len() && end.is_some() {
            used += 1;
            self.close();
        }
        self.held = held;
        used
    }

    /// Ends a line of words.
    fn close(&mut self) {
        self.end_word();
        self.end_line();
        self.block = None;
    }

    /// Renders the words of a text. Returns the number of bytes that are done, which is less than all if the end of a
    /// span is still to come.
    fn words(&mut self, text: &str, style: Style, is_whole: bool) -> usize {
        let mut used = 0;
        let mut before = self.before;
        while let Some(rest) = text.get(used..).filter(|rest| !rest.is_empty()) {
            match style::span(rest, before, is_whole) {
                style::Span::Letter(letter) => {
                    self.letter(letter, style);
                    (used, before) = (used + letter.len_utf8(), letter);
                }
                style::Span::Escaped(letter) => {
                    self.letter(letter, style);
                    (used, before) = (used + 1 + letter.len_utf8(), letter);
                }
                style::Span::Code { inside, length } => {
                    for letter in inside.trim().chars() {
                        self.letter(letter, style.with(Style::CODE));
                    }
                    (used, before) = (used + length, '`');
                }
                style::Span::Emphasis { inside, added, length } => {
                    let outer = std::mem::replace(&mut self.before, ' ');
                    self.words(inside, style.with(added), true);
                    self.before = outer;
                    (used, before) = (used + length, '*');
                }
                style::Span::Open if !is_whole && rest.len() < MAX_HELD => return used,
                style::Span::Open => {
                    let mark = rest.chars().next().unwrap_or(' ');
                    let run = rest.chars().take_while(|letter| *letter == mark).count();
                    (0..run).for_each(|_| self.letter(mark, style));
                    (used, before) = (used + run * mark.len_utf8(), mark);
                }
            }
        }
        used
    }

    fn letter(&mut self, letter: char, style: Style) {
        if letter == ' ' || letter == '\t' {
            self.end_word();
            self.word.spaced = true;
            return;
        }
        let letter = terminal::harmless(letter);
        if self.word.style != style {
            self.word.text.push_str(&style.after(self.word.style));
            self.word.style = style;
        }
        self.word.width += letter.width().unwrap_or(0);
        self.word.text.push(letter);
    }

    /// Writes the collected word, on the next line if it does not fit.
    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if word.text.is_empty() {
            self.word.spaced = word.spaced;
            return;
        }
        let gap = usize::from(word.spaced && self.column > self.indent);
        if self.column > self.indent && self.column + gap + word.width > self.width {
            self.out.push('\n');
            self.out.push_str(&self.margin);
            self.column = self.indent;
        } else if gap > 0 {
            self.out.push(' ');
            self.column += 1;
        }
        self.out.push_str(&word.text);
        self.out.push_str(&Style::PLAIN.after(word.style));
        self.column += word.width;
    }

    fn verbatim(&mut self, line: &str, indent: usize, style: Style) {
        self.begin_output();
        self.out.push_str(&" ".repeat(indent));
        self.out.push_str(&style.after(Style::PLAIN));
        let line = line.replace('\t', "    ");
        self.out.extend(line.trim_end().chars().map(terminal::harmless));
        self.out.push_str(&Style::PLAIN.after(style));
        self.end_line();
    }

    fn begin_output(&mut self) {
        if std::mem::take(&mut self.blank) {
            self.out.push('\n');
        }
        self.begun = true;
    }

    fn end_line(&mut self) {
        self.out.push('\n');
        self.column = 0;
        self.indent = 0;
        self.word = Word::default();
    }
}

/// Number of columns that a text takes.
pub(super) fn width_of(text: &str) -> usize {
    text.chars().map(|letter| letter.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str, width: usize) -> String {
        let mut markdown = Markdown::new(width);
        markdown.push(text) + &markdown.finish()
    }

    fn plain(text: &str, width: usize) -> String {
        anstream::adapter::strip_str(&raw(text, width)).to_string()
    }

    #[test]
    fn the_output_does_not_depend_on_how_the_text_arrives() {
        let text = "# Title\n\nSome **bold words** and `code here`, 2 * 3, a_b_c.\n\n- one\n  - two\n10. ten\n\n\
                    > quoted\n\n```rust\nfn main() {\n    **x**\n}\n```\n| a | b |\n|---|---|\nend *of* text";
        let whole = raw(text, 40);
        for size in 1..12 {
            let mut markdown = Markdown::new(40);
            let letters: Vec<char> = text.chars().collect();
            let mut out: String =
                letters.chunks(size).map(|chunk| markdown.push(&chunk.iter().collect::<String>())).collect();
            out.push_str(&markdown.finish());
            assert_eq!(out, whole, "in pieces of {size}");
        }
        insta::assert_snapshot!(plain(text, 40), @r"
        Title

        Some bold words and code here, 2 * 3,
        a_b_c.

        • one
          • two
        10. ten

        │ quoted

          fn main() {
              **x**
          }
        | a | b |
        |---|---|
        end of text
        ");
    }

    #[test]
    fn words_appear_before_their_line_is_complete() {
        let mut markdown = Markdown::new(40);
        assert_eq!(markdown.push("Some wor"), "Some");
        assert_eq!(markdown.push("ds that"), " words");
        assert_eq!(markdown.push(" **are"), " that");
        assert_eq!(anstream::adapter::strip_str(&markdown.push(" bold** now")).to_string(), " are bold");
        assert_eq!(markdown.finish(), " now\n");
    }

    #[test]
    fn wrapped_lines_continue_below_their_text() {
        insta::assert_snapshot!(plain("- a list entry with many words\n1. numbers as well, they say\n> quotes have a bar in front of them", 20), @r"
        • a list entry with
          many words
        1. numbers as well,
           they say
        │ quotes have a bar
        │ in front of them
        ");
    }

    #[test]
    fn wide_letters_count_twice_and_a_long_word_stays_whole() {
        assert_eq!(plain("日本語 日本語 日本語 日本語", 20), "日本語 日本語 日本語\n日本語\n");
        let address = "https://example.org/a/very/long/address";
        assert_eq!(plain(&format!("see {address} there"), 20), format!("see\n{address}\nthere\n"));
    }

    #[test]
    fn unmatched_marks_are_text() {
        for text in ["2 * 3 * 4", "a ** b", "`open", "snake_case_name", "**open", "* ", "\\*", "_"] {
            let shown = plain(text, 40);
            assert!(!shown.trim().is_empty(), "{text}: {shown}");
        }
        assert_eq!(plain("2 * 3 * 4 and snake_case_name", 40), "2 * 3 * 4 and snake_case_name\n");
        assert_eq!(plain("**open and `shut", 40), "**open and `shut\n");
        assert_eq!(plain("a \\*star\\*", 40), "a *star*\n");
    }

    #[test]
    fn blank_lines_at_the_ends_are_dropped_and_control_characters_shown() {
        assert_eq!(plain("\n\none\n\n\n\ntwo\n\n", 40), "one\n\ntwo\n");
        assert_eq!(raw("a\u{1b}[2Jb\u{7}", 40), "a\u{fffd}[2Jb\u{fffd}\n");
        assert_eq!(raw("", 40), "");
    }
}
