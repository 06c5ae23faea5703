//! Converts HTML to Markdown or plain text.
//!
//! Pages are untrusted. A parser builds a tree, and a very deep tree or a tag with a great many attributes would
//! cost far more than the size of the page. Such pages are not parsed; only their tags are removed.

use htmd::HtmlToMarkdown;

/// Elements that are left out with their contents.
const SILENT: [&str; 8] = ["head", "iframe", "noscript", "object", "script", "style", "svg", "template"];

/// Elements whose contents are not markup, so that tags in them do not count.
const RAW: [&str; 3] = ["script", "style", "textarea"];

/// Elements without contents or with an optional end tag: they do not nest.
const FLAT: [&str; 26] = [
    "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta", "option",
    "p", "param", "path", "rect", "source", "tbody", "td", "th", "thead", "tr", "track", "wbr",
];

/// Elements that stand on lines of their own.
const BLOCKS: [&str; 30] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "tr",
    "ul",
];

/// Pages with deeper trees are not parsed.
const MAX_DEPTH: usize = 256;

/// Pages with tags that have more attributes are not parsed.
const MAX_ATTRIBUTES: usize = 200;

/// Converts a page to Markdown.
pub(super) fn markdown(html: &str) -> String {
    if !is_tame(html) {
        return text(html);
    }
    let converter = HtmlToMarkdown::builder().skip_tags(SILENT.to_vec()).build();
    converter.convert(html).unwrap_or_else(|_| text(html))
}

/// Converts a page to plain text.
pub(super) fn text(html: &str) -> String {
    let mut out = String::new();
    let mut silent: Option<&str> = None;
    for token in Tokenizer::new(html) {
        match (token, silent) {
            (Token::Tag(tag), Some(name)) if tag.closes && tag.is(name) => silent = None,
            (_, Some(_)) => {}
            (Token::Text(text), None) => push(&mut out, &decoded(text)),
            (Token::Tag(tag), None) => {
                if BLOCKS.iter().any(|name| tag.is(name)) {
                    end_line(&mut out);
                }
                silent = SILENT.into_iter().find(|name| tag.is(name) && !tag.closes && !tag.is_empty());
            }
        }
    }
    out.trim().to_owned()
}

/// Returns true if the cost of parsing a page is in proportion to its size.
fn is_tame(html: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for token in Tokenizer::new(html) {
        let Token::Tag(tag) = token else { continue };
        if tag.attributes > MAX_ATTRIBUTES {
            return false;
        }
        if FLAT.iter().any(|name| tag.is(name)) || tag.is_empty() {
            continue;
        }
        if !tag.closes {
            open.push(tag.name);
        } else if open.last().is_some_and(|name| tag.is(name)) {
            // The parser may ignore an end tag that does not match, so only matching ones count.
            open.pop();
        }
        if open.len() > MAX_DEPTH {
            return false;
        }
    }
    true
}

/// Adds words. Any white space between them becomes one space.
fn push(out: &mut String, text: &str) {
    for word in text.split_inclusive(char::is_whitespace) {
        let (word, space) = (word.trim_end(), word.ends_with(char::is_whitespace));
        out.push_str(word);
        if space && !out.is_empty() && !out.ends_with(char::is_whitespace) {
            out.push(' ');
        }
    }
}

fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    if !out.is_empty() && !out.ends_with("\n\n") {
        out.push('\n');
    }
}

enum Token<'h> {
    Text(&'h str),
    Tag(Tag<'h>),
}

struct Tag<'h> {
    name: &'h str,
    closes: bool,
    attributes: usize,
    self_closing: bool,
}

impl Tag<'_> {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn is_empty(&self) -> bool {
        self.self_closing
    }
}

/// Iterates over texts and tags, without comments.
struct Tokenizer<'h> {
    rest: &'h str,
    /// The raw element whose end tag is searched for next.
    raw: Option<&'h str>,
}

impl<'h> Tokenizer<'h> {
    fn new(html: &'h str) -> Self {
        Self { rest: html, raw: None }
    }

    fn take(&mut self, length: usize) -> &'h str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }
}

impl<'h> Iterator for Tokenizer<'h> {
    type Item = Token<'h>;

    fn next(&mut self) -> Option<Token<'h>> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            if let Some(name) = self.raw.take() {
                let end = find_end(self.rest, name);
                if end > 0 {
                    return Some(Token::Text(self.take(end)));
                }
            }
            match self.rest.find('<') {
                Some(0) => {}
                at => return Some(Token::Text(self.take(at.unwrap_or(self.rest.len())))),
            }
            if self.rest.starts_with("<!--") {
                let end = self.rest.find("-->").map_or(self.rest.len(), |at| at + 3);
                self.take(end);
                continue;
            }
            let inside = self.rest.get(1..).unwrap_or_default();
            let starts = inside.strip_prefix('/').unwrap_or(inside);
            if !starts.starts_with(|first: char| first.is_ascii_alphabetic()) {
                // A stray `<`, or a declaration, which is not part of the text.
                let length = if starts.starts_with(['!', '?']) { tag_length(self.rest) } else { 1 };
                let taken = self.take(length);
                if length == 1 {
                    return Some(Token::Text(taken));
                }
                continue;
            }
            let tag = read_tag(self.take(tag_length(self.rest)));
            if !tag.closes && RAW.iter().any(|name| tag.is(name)) {
                self.raw = Some(tag.name);
            }
            return Some(Token::Tag(tag));
        }
    }
}

/// Returns the position of the end tag of a raw element.
fn find_end(text: &str, name: &str) -> usize {
    let ends = |at: &usize| {
        let rest = text.get(at + 2..).unwrap_or_default();
        rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
    };
    text.match_indices("</").map(|(at, _)| at).find(ends).unwrap_or(text.len())
}

/// Returns the length of the tag at the beginning. A `>` in quotes does not end it.
fn tag_length(text: &str) -> usize {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (byte, quote) {
            (b'>', None) => return at + 1,
            (b'"' | b'\'', None) if text.as_bytes().get(at.wrapping_sub(1)) == Some(&b'=') => {
                quote = Some(byte);
            }
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
    }
    text.len()
}

fn read_tag(text: &str) -> Tag<'_> {
    let inside = text.trim_start_matches('<').trim_end_matches('>');
    let closes = inside.starts_with('/');
    let inside = inside.trim_start_matches('/');
    let end = inside.find(|end: char| end.is_ascii_whitespace() || end == '/').unwrap_or(inside.len());
    let (name, rest) = inside.split_at_checked(end).unwrap_or((inside, ""));
    let attributes =
        rest.split(|end: char| end.is_ascii_whitespace() || end == '/').filter(|it| !it.is_empty()).count();
    Tag { name, closes, attributes, self_closing: rest.ends_with('/') }
}

/// Decodes the common character references in a text.
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        let (before, reference) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let end = reference.bytes().take(12).position(|byte| byte == b';');
        let name = end.and_then(|end| reference.get(1..end));
        let (read, length) =
            name.and_then(character).map_or(('&', 1), |read| (read, end.unwrap_or_default() + 1));
        out.push(read);
        rest = reference.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        };
        return code.ok().and_then(char::from_u32);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "copy" => '©',
        "hellip" => '…',
        "laquo" => '«',
        "ldquo" => '“',
        "lsquo" => '‘',
        "mdash" => '—',
        "middot" => '·',
        "ndash" => '–',
        "raquo" => '»',
        "rdquo" => '”',
        "reg" => '®',
        "rsquo" => '’',
        "times" => '×',
        "trade" => '™',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use testkit::dice::Dice;

    use super::*;

    const PAGE: &str = "<!DOCTYPE html><html><head><title>T</title><style>p { color: red }</style></head><body>\
        <!-- a > b --><h1>Title &amp; more</h1>\n<p>One <b>bold</b>\n word<br>next &lt;line&gt;.</p>\
        <script>if (a < b) { document.write('<p>no</p>') }</script><ul><li>first<li><a href=\"/x?a>b\">second</a></ul>\
        <img src=x alt=y></body></html>";

    #[test]
    fn a_page_becomes_markdown() {
        let markdown = markdown(PAGE);
        assert!(markdown.starts_with("# Title & more\n\nOne **bold** word"), "{markdown}");
        assert!(
            markdown.contains("[second](/x?a>b)")
                && !markdown.contains("color")
                && !markdown.contains("document")
        );
    }

    #[test]
    fn a_page_becomes_text() {
        assert_eq!(text(PAGE), "Title & more\n\nOne bold word\nnext <line>.\n\nfirst\nsecond");
        assert_eq!(text("a < b &unknown; &#65;&#x42; &amp"), "a < b &unknown; AB &amp");
        assert_eq!(text("<p"), "");
        assert_eq!(text("<script>x"), "");
    }

    #[test]
    fn pages_that_are_made_to_hurt_are_only_stripped() {
        let depth = 50_000;
        let deep = format!("{}word{}", "<div>".repeat(depth), "</div>".repeat(depth));
        let unclosed = format!("{}word", "<b></x>".repeat(depth));
        let hidden = format!("{}word", "<div><table><td></div>".repeat(depth));
        let wide = format!("<p {}>word</p>", "a b c ".repeat(depth));
        let start = std::time::Instant::now();
        for page in [deep, unclosed, hidden, wide] {
            assert_eq!(markdown(&page), "word");
        }
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    }

    #[test]
    fn deep_but_tame_pages_are_survived() {
        let depth = MAX_DEPTH - 1;
        let deep = format!("{}word{}", "<div>".repeat(depth), "</div>".repeat(depth));
        assert!(is_tame(&deep));
        assert_eq!(markdown(&deep), "word");
        let lists = format!("{}word{}", "<ul><li>".repeat(depth), "</li></ul>".repeat(depth));
        assert!(is_tame(&lists));
        assert!(markdown(&lists).contains("word"));
    }

    /// Fragments that fit together, and fragments that do not.
    const FRAGMENTS: [&str; 32] = [
        "word ",
        "é",
        "\u{0}",
        "<",
        ">",
        "</",
        "/>",
        "<p>",
        "</p>",
        "<div class=a>",
        "</div>",
        "<b",
        "<a href='",
        "'",
        "\"",
        "<!--",
        "-->",
        "<!doctype html>",
        "<script>",
        "</script>",
        "<style>",
        "</style",
        "<table><tr><td>",
        "</table>",
        "<ul><li>",
        "&amp;",
        "&#x41;",
        "&#99999999;",
        "&",
        "<![CDATA[",
        "]]>",
        "<pre>\n",
    ];

    #[test]
    fn no_page_panics_or_grows_without_limit() {
        for seed in 0..5_000 {
            let mut dice = Dice::new(seed);
            let count = dice.roll(40);
            let page: String = (0..count)
                .map(|_| FRAGMENTS[usize::try_from(dice.roll(FRAGMENTS.len() as u64)).unwrap()])
                .collect();
            let (markdown, text) = (markdown(&page), text(&page));
            let most = page.len() * 8 + 64;
            assert!(markdown.len() <= most && text.len() <= most, "seed {seed}: {page:?}");
        }
    }
}
