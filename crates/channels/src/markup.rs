//! Markdown, as agents write it, in the form that a chat service shows.
//!
//! The walk over the Markdown is the same for all services; a [`Flavour`] says how one service writes bold, code or a
//! link. What a service has no form for becomes text that reads well: headings are bold lines, lists have bullets,
//! narrow tables are aligned and wide ones are rows. Whatever is opened is put together with what closes it in one
//! step, so nothing can stay open, however broken the Markdown is.

pub mod html;
pub mod mrkdwn;
mod table;
#[cfg(test)]
mod tests;
mod walk;

/// How a service writes things. What is given to a method as `inner` is already in the service's form.
pub trait Flavour {
    /// Words that are to be shown as they are.
    fn text(&self, text: &str) -> String;

    /// Bold.
    fn strong(&self, inner: &str) -> String;

    /// Italic.
    fn emphasis(&self, inner: &str) -> String;

    /// Struck through.
    fn strike(&self, inner: &str) -> String;

    /// A little code among words.
    fn code(&self, code: &str) -> String;

    /// Lines of code.
    fn block(&self, language: Option<&str>, code: &str) -> String;

    /// Words that lead to an address, which is of a kind that is safe to open.
    fn link(&self, inner: &str, address: &str) -> String;

    /// What somebody else said; never a quote in a quote.
    fn quote(&self, inner: &str) -> String;
}

/// Puts Markdown into a service's form.
pub fn render(markdown: &str, flavour: &dyn Flavour) -> String {
    walk::walk(markdown, flavour)
}

/// Words with their address beside them, for what cannot be a link; once, if they are the same.
pub fn beside(inner: &str, address: &str) -> String {
    match (inner == address, inner.is_empty()) {
        (true, _) => inner.to_owned(),
        (_, true) => address.to_owned(),
        _ => format!("{inner} ({address})"),
    }
}

/// Whether an address may be made a link: only kinds that a person can open without harm.
fn is_safe(address: &str) -> bool {
    let kind = address.split_once(':').map(|(kind, _)| kind.to_ascii_lowercase());
    let is_known = kind.is_some_and(|kind| matches!(kind.as_str(), "http" | "https" | "tg" | "mailto"));
    is_known && !address.contains(|it: char| it.is_whitespace() || it.is_control())
}
