//! Converts agents' Markdown to the markup of a chat service.
//!
//! One renderer serves all services; a [`Flavour`] defines how a service writes bold, code or a link.
//! Elements that a service lacks become readable text: headings are bold lines, lists have bullets, narrow tables
//! are aligned and wide ones are rows. Opening and closing marks are always written together, so broken Markdown
//! cannot leave one open.

pub mod html;
pub mod mrkdwn;
mod render;
mod table;
#[cfg(test)]
mod tests;

pub use render::render;

/// The markup of one service. `inner` is already in this markup.
pub trait Flavour {
    /// Plain text, escaped.
    fn text(&self, text: &str) -> String;

    fn strong(&self, inner: &str) -> String;

    fn emphasis(&self, inner: &str) -> String;

    fn strike(&self, inner: &str) -> String;

    fn code(&self, code: &str) -> String;

    fn block(&self, language: Option<&str>, code: &str) -> String;

    /// A link to an address that is safe to open.
    fn link(&self, inner: &str, address: &str) -> String;

    /// A quote; never nested.
    fn quote(&self, inner: &str) -> String;
}

/// A text followed by its address, where a link is not possible; only one of them if they are equal or one is
/// empty.
pub fn beside(inner: &str, address: &str) -> String {
    match (inner == address, inner.is_empty()) {
        (true, _) => inner.to_owned(),
        (_, true) => address.to_owned(),
        _ => format!("{inner} ({address})"),
    }
}

/// True if an address may become a link: only schemes that are safe to open.
fn is_safe(address: &str) -> bool {
    let kind = address.split_once(':').map(|(kind, _)| kind.to_ascii_lowercase());
    let is_known = kind.is_some_and(|kind| matches!(kind.as_str(), "http" | "https" | "tg" | "mailto"));
    is_known && !address.contains(|it: char| it.is_whitespace() || it.is_control())
}
