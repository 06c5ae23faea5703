//! Expands a command's template with its arguments. Pure.
//!
//! The template is scanned once, and inserted text is never scanned again: an argument that looks like a
//! placeholder or a command line stays as it is.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The placeholder for all arguments as they were written.
const ALL: &str = "$ARGUMENTS";

/// Maximum length of an expanded command, in bytes: about the size limit of an HTTP request.
pub(super) const MAX_TEXT: usize = 4 * 1024 * 1024;

/// An expanded template.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) text: String,
    /// Command lines in the text, to be replaced by their output.
    pub(super) snippets: Vec<Snippet>,
}

/// A command line in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snippet {
    /// The byte range in the text, including the delimiters.
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) command: String,
}

/// A token of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Text(&'t str),
    /// `$1` and so on.
    Number(usize),
    All,
    /// A command line, which may contain placeholders.
    Snippet(&'t str),
}

/// Returns the placeholders of a template, as clients show them.
pub(super) fn hints(template: &str) -> Vec<String> {
    let (numbers, all) = placeholders(template);
    let numbers = numbers.into_iter().map(|number| format!("${number}"));
    numbers.chain(all.then(|| ALL.to_owned())).collect()
}

/// Inserts the arguments into a template. Returns `None` if the text would be too long.
pub(super) fn expand(template: &str, arguments: &str) -> Option<Expanded> {
    let (numbers, all) = placeholders(template);
    let words = Words { all: arguments, split: split(arguments), last: numbers.last().copied() };
    let mut expanded = Expanded::default();
    for token in tokens(template.trim()) {
        let Token::Snippet(line) = token else {
            words.put(token, &mut expanded.text)?;
            continue;
        };
        let mut command = String::new();
        for token in tokens(line) {
            words.put(token, &mut command)?;
        }
        let start = expanded.text.len();
        expanded.text.push_str("!`");
        expanded.text.push_str(&command);
        expanded.text.push('`');
        let end = expanded.text.len();
        if end > MAX_TEXT {
            return None;
        }
        expanded.snippets.push(Snippet { start, end, command });
    }
    if numbers.is_empty() && !all && !arguments.trim().is_empty() {
        expanded.text.push_str("\n\n");
        words.put(Token::All, &mut expanded.text)?;
    }
    Some(expanded)
}

/// Returns the words after an `@` in a text, each once. They may name files or agents.
pub(super) fn mentions(expanded: &Expanded) -> Vec<(String, Range<usize>)> {
    let text = expanded.text.as_str();
    let hidden =
        |at: usize| expanded.snippets.iter().any(|snippet| (snippet.start..snippet.end).contains(&at));
    let mut found: Vec<(String, Range<usize>)> = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, _) in text.match_indices('@') {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let is_word = before.is_some_and(|before| before.is_alphanumeric() || "_`".contains(before));
        let rest = text.get(at + 1..).unwrap_or_default();
        let end = rest.find(|letter: char| letter.is_whitespace() || "@`,\"'()<>".contains(letter));
        let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let word = word.trim_end_matches(['.', ':', ';', '!', '?']);
        if is_word || word.is_empty() || hidden(at) || !seen.insert(word) {
            continue;
        }
        found.push((word.to_owned(), at..at + 1 + word.len()));
    }
    found
}

/// The values of placeholders.
struct Words<'a> {
    all: &'a str,
    split: Vec<&'a str>,
    /// The highest number in the template, which stands for all remaining arguments.
    last: Option<usize>,
}

impl Words<'_> {
    /// Writes a token. Returns `None` if the text gets too long.
    fn put(&self, token: Token<'_>, text: &mut String) -> Option<()> {
        match token {
            Token::Text(plain) | Token::Snippet(plain) => text.push_str(plain),
            Token::All => text.push_str(self.all),
            Token::Number(number) => {
                let rest = self.split.get(number.saturating_sub(1)..).unwrap_or_default();
                if Some(number) == self.last {
                    text.push_str(&rest.join(" "));
                } else {
                    text.push_str(rest.first().copied().unwrap_or_default());
                }
            }
        }
        (text.len() <= MAX_TEXT).then_some(())
    }
}

/// Returns the numbered placeholders of a template, and true if it uses `$ARGUMENTS`.
fn placeholders<'t>(template: &'t str) -> (BTreeSet<usize>, bool) {
    let (mut numbers, mut all) = (BTreeSet::new(), false);
    let inside = |token: Token<'t>| match token {
        Token::Snippet(line) => tokens(line),
        _ => Vec::new(),
    };
    let outer = tokens(template);
    let inner: Vec<Token<'t>> = outer.iter().copied().flat_map(inside).collect();
    for token in outer.into_iter().chain(inner) {
        match token {
            Token::Number(number) => {
                numbers.insert(number);
            }
            Token::All => all = true,
            Token::Text(_) | Token::Snippet(_) => {}
        }
    }
    (numbers, all)
}

fn tokens(template: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut rest, mut plain) = (template, 0);
    while let Some(here) = rest.get(plain..).filter(|here| !here.is_empty()) {
        let Some((token, length)) = special(here) else {
            plain += here.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        let (before, after) = rest.split_at(plain);
        tokens.push(Token::Text(before));
        tokens.push(token);
        (rest, plain) = (after.get(length..).unwrap_or_default(), 0);
    }
    tokens.push(Token::Text(rest));
    tokens.retain(|token| *token != Token::Text(""));
    tokens
}

/// Returns the placeholder or command line at the start of a text, and its length.
fn special(text: &str) -> Option<(Token<'_>, usize)> {
    if text.starts_with(ALL) {
        return Some((Token::All, ALL.len()));
    }
    if let Some(line) = text.strip_prefix("!`") {
        let length = line.find('`').filter(|length| *length > 0)?;
        return Some((Token::Snippet(line.get(..length)?), length + 3));
    }
    let digits = text.strip_prefix('$')?;
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let number = digits.get(..length)?.parse::<usize>().ok().filter(|number| *number > 0)?;
    Some((Token::Number(number), length + 1))
}

/// Splits arguments at white space. A quoted string is one argument.
pub(super) fn split(arguments: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = arguments.trim_start();
    while let Some(first) = rest.chars().next() {
        let quoted = Some(first).filter(|first| matches!(first, '"' | '\'')).and_then(|quote| {
            let inside = rest.get(1..)?;
            let end = inside.find(quote)?;
            Some((inside.get(..end)?, inside.get(end + 1..)?))
        });
        let (word, after) = quoted.unwrap_or_else(|| {
            // A quote that is never closed is an ordinary character.
            let end = rest
                .char_indices()
                .skip(1)
                .find(|(_, letter)| letter.is_whitespace() || "\"'".contains(*letter));
            rest.split_at(end.map_or(rest.len(), |(at, _)| at))
        });
        words.push(word);
        rest = after.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(template: &str, arguments: &str) -> String {
        expand(template, arguments).unwrap().text
    }

    #[test]
    fn arguments_take_their_places() {
        for (template, arguments, expected) in [
            ("Fix $1 in $2", "typo src/a.rs", "Fix typo in src/a.rs"),
            ("Fix $1 in $2", "typo a.rs b.rs c.rs", "Fix typo in a.rs b.rs c.rs"),
            ("Fix $1 in $2", "typo", "Fix typo in"),
            ("Say $1", "'two words' and more", "Say two words and more"),
            ("$2 before $1", "\"a b\" c", "c before a b"),
            ("All: $ARGUMENTS!", "  as 'they' are ", "All:   as 'they' are !"),
            ("$1$1", "x", "xx"),
            ("Nothing to fill", "", "Nothing to fill"),
            ("Nothing to fill", "but this", "Nothing to fill\n\nbut this"),
            ("It costs $0 or $ or $x", "", "It costs $0 or $ or $x"),
            ("$99999999999999999999999", "", "$99999999999999999999999"),
            ("  around  ", "", "around"),
        ] {
            assert_eq!(text(template, arguments).trim_end(), expected.trim_end(), "{template} / {arguments}");
        }
    }

    #[test]
    fn inserted_text_is_not_expanded_again() {
        assert_eq!(text("$ARGUMENTS and $1", "$ARGUMENTS $1"), "$ARGUMENTS $1 and $ARGUMENTS $1");
        let expanded = expand("Look: $ARGUMENTS", "!`rm -rf x` \n $(rm y) `rm z`").unwrap();
        assert_eq!(expanded.text, "Look: !`rm -rf x` \n $(rm y) `rm z`");
        assert!(expanded.snippets.is_empty(), "{expanded:?}");
    }

    #[test]
    fn command_lines_are_found_where_the_template_has_them() {
        let expanded = expand("é !`git log $1` and !`` and !`pwd`", "`x` y").unwrap();
        assert_eq!(expanded.text, "é !`git log `x` y` and !`` and !`pwd`");
        let commands: Vec<&str> = expanded.snippets.iter().map(|it| it.command.as_str()).collect();
        assert_eq!(commands, ["git log `x` y", "pwd"]);
        for snippet in &expanded.snippets {
            let there = expanded.text.get(snippet.start..snippet.end).unwrap();
            assert_eq!(there, format!("!`{}`", snippet.command));
        }
    }

    #[test]
    fn hints_name_every_placeholder_once() {
        assert_eq!(hints("$2 $1 $2 !`x $3` $ARGUMENTS $ARGUMENTS"), ["$1", "$2", "$3", "$ARGUMENTS"]);
        assert_eq!(hints("none, $0"), Vec::<String>::new());
    }

    #[test]
    fn mentions_are_words_of_their_own() {
        let found = |text: &str| {
            let expanded = Expanded { text: text.to_owned(), snippets: Vec::new() };
            mentions(&expanded).into_iter().map(|(word, _)| word).collect::<Vec<_>>()
        };
        assert_eq!(found("See @src/a.rs, @b.md. And @general!"), ["src/a.rs", "b.md", "general"]);
        assert_eq!(found("mail ada@example.org or `@x` @ @@"), Vec::<String>::new());
        assert_eq!(found("@a @a (@./b)"), ["a", "./b"]);
        let expanded = expand("!`echo @a` @b", "").unwrap();
        let found = mentions(&expanded);
        assert_eq!(found.len(), 1);
        assert_eq!(expanded.text.get(found[0].1.clone()), Some("@b"));
    }

    #[test]
    fn hostile_arguments_are_bounded_and_harmless() {
        let long = "x".repeat(1024 * 1024);
        assert_eq!(text("$ARGUMENTS", &long).len(), long.len());
        assert_eq!(expand(&"$ARGUMENTS ".repeat(1000), &long), None);
        assert_eq!(expand(&"!`$1`".repeat(1000), &long), None);
        for odd in ["\"", "'", "\"a 'b", "'a' 'b\"", "\u{0}\n\t", "\"\"", "é'è\"ê"] {
            assert!(expand("[$1] [$2] [$ARGUMENTS]", odd).is_some(), "{odd}");
        }
        assert_eq!(split("a'b c'd \"e"), ["a", "b c", "d", "\"e"]);
        assert_eq!(split("'' x"), ["", "x"]);
        assert!(mentions(&expand("$ARGUMENTS", &"@".repeat(1024 * 1024)).unwrap()).is_empty());
    }
}
