//! The markup of Slack and WhatsApp: single marks around words. They differ in links and escaping.

use super::{Flavour, beside, html::escape, render};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    Slack,
    /// It has no links except bare addresses, and no escaping.
    WhatsApp,
}

/// Converts Markdown to Slack's markup.
pub fn slack(markdown: &str) -> String {
    render(markdown, &Service::Slack)
}

/// Converts Markdown to WhatsApp's markup.
pub fn whatsapp(markdown: &str) -> String {
    render(markdown, &Service::WhatsApp)
}

impl Flavour for Service {
    fn text(&self, text: &str) -> String {
        if *self == Self::Slack { escape(text) } else { text.to_owned() }
    }

    fn strong(&self, inner: &str) -> String {
        marked(inner, '*')
    }

    fn emphasis(&self, inner: &str) -> String {
        marked(inner, '_')
    }

    fn strike(&self, inner: &str) -> String {
        marked(inner, '~')
    }

    fn code(&self, code: &str) -> String {
        inline(&self.text(code))
    }

    fn block(&self, _language: Option<&str>, code: &str) -> String {
        fenced(&self.text(code))
    }

    fn link(&self, inner: &str, address: &str) -> String {
        if *self == Self::Slack { slack_link(inner, address) } else { beside(inner, address) }
    }

    fn quote(&self, inner: &str) -> String {
        inner.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
    }
}

fn slack_link(inner: &str, address: &str) -> String {
    let address = address.replace('|', "%7C").replace('<', "%3C").replace('>', "%3E");
    let address = address.replace('&', "&amp;");
    // A `|`, a line break or another link in the label would break the link.
    let label = inner.replace(['\n', '|'], " ");
    match label.trim() {
        "" => format!("<{address}>"),
        label if label == address => format!("<{address}>"),
        label if label.contains(['<', '>']) => beside(label, &address),
        label => format!("<{address}|{label}>"),
    }
}

/// Puts marks around each line, because a mark does not span line breaks. White space stays outside. A line that
/// already has the mark keeps it once, because a doubled mark shows nothing.
fn marked(inner: &str, mark: char) -> String {
    let line = |line: &str| {
        let words = line.trim();
        let is_marked = words.len() > 1 && words.starts_with(mark) && words.ends_with(mark);
        if words.is_empty() || is_marked {
            return line.to_owned();
        }
        let (before, after) = line.split_once(words).unwrap_or_default();
        format!("{before}{mark}{words}{mark}{after}")
    };
    inner.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// A code span. Code that contains a backtick cannot be marked.
fn inline(code: &str) -> String {
    if code.contains(['`', '\n']) { code.to_owned() } else { format!("`{code}`") }
}

/// A code block. A zero-width space separates three backticks within it, which would end it early.
fn fenced(code: &str) -> String {
    let code = code.trim_end_matches('\n').replace("```", "`\u{200b}`\u{200b}`");
    format!("```\n{code}\n```")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_get_single_marks() {
        let cases = [
            ("**bold** and *italic* and ~~gone~~", "*bold* and _italic_ and ~gone~"),
            ("***both***", "_*both*_"),
            ("# Heading", "*Heading*"),
            ("# A **bold** heading", "*A bold heading*"),
            ("use `a_b`", "use `a_b`"),
            ("> quoted\n> twice", "> quoted\n> twice"),
            ("```rust\nlet x = 1;\n```", "```\nlet x = 1;\n```"),
        ];
        for (markdown, words) in cases {
            assert_eq!(slack(markdown), words);
            assert_eq!(whatsapp(markdown), words);
        }
    }

    #[test]
    fn each_service_has_its_own_links() {
        let markdown = "see [the page](https://example.com/?a=1&b=2)";
        assert_eq!(slack(markdown), "see <https://example.com/?a=1&amp;b=2|the page>");
        assert_eq!(whatsapp(markdown), "see the page (https://example.com/?a=1&b=2)");
        assert_eq!(slack("<https://example.com>"), "<https://example.com>");
        assert_eq!(whatsapp("<https://example.com>"), "https://example.com");
        assert_eq!(slack("[a|b](https://example.com/a|b)"), "<https://example.com/a%7Cb|a b>");
    }

    #[test]
    fn only_slack_escapes() {
        let markdown = "`a < b` & c > d\n\n```\n<b>\n```";
        assert_eq!(slack(markdown), "`a &lt; b` &amp; c &gt; d\n\n```\n&lt;b&gt;\n```");
        assert_eq!(whatsapp(markdown), "`a < b` & c > d\n\n```\n<b>\n```");
    }

    #[test]
    fn an_agents_text_cannot_mention_anyone() {
        assert_eq!(slack("<!channel> <@U1>"), "&lt;!channel&gt; &lt;@U1&gt;");
        assert_eq!(slack("[<!channel>](https://example.com)"), "<https://example.com|&lt;!channel&gt;>");
    }

    #[test]
    fn a_fence_in_code_does_not_end_the_block() {
        let shown = slack("~~~\n```js\nx\n```\n~~~");
        assert_eq!(shown.matches("```").count(), 2, "{shown}");
    }
}
