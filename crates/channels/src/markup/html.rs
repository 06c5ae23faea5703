//! Telegram's HTML: a few tags, and three characters to escape.

use super::Flavour;

/// Telegram's HTML.
#[derive(Debug, Clone, Copy)]
pub struct Html;

/// Maximum length of a code block's language.
const MAX_LANGUAGE: usize = 40;

impl Flavour for Html {
    fn text(&self, text: &str) -> String {
        escape(text)
    }

    fn strong(&self, inner: &str) -> String {
        format!("<b>{inner}</b>")
    }

    fn emphasis(&self, inner: &str) -> String {
        format!("<i>{inner}</i>")
    }

    fn strike(&self, inner: &str) -> String {
        format!("<s>{inner}</s>")
    }

    fn code(&self, code: &str) -> String {
        format!("<code>{}</code>", escape(code))
    }

    fn block(&self, language: Option<&str>, code: &str) -> String {
        let code = escape(code);
        match language.filter(|it| is_language(it)) {
            Some(language) => format!("<pre><code class=\"language-{language}\">{code}</code></pre>"),
            None => format!("<pre>{code}</pre>"),
        }
    }

    fn link(&self, inner: &str, address: &str) -> String {
        format!("<a href=\"{}\">{inner}</a>", escape(address).replace('"', "&quot;"))
    }

    fn quote(&self, inner: &str) -> String {
        format!("<blockquote>{inner}</blockquote>")
    }
}

/// Escapes text so that it contains no tag and no entity.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// True if a language name can be written into an attribute without escaping.
fn is_language(language: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '+' | '-' | '_' | '#' | '.');
    language.len() <= MAX_LANGUAGE && language.chars().all(is_plain)
}
