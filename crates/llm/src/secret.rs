//! Values that must not be shown: keys, and headers that may contain one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A key or token. It can be sent but not printed: `Debug` hides it and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

/// Replacement of a secret in visible text.
const HIDDEN: &str = "[hidden]";

/// Shortest text that is redacted. Shorter ones are no keys, and redacting them would hide ordinary words.
const SHORTEST_KEY: usize = 8;

impl Secret {
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the code that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Replaces every occurrence of the secret in a text. Some providers quote the key they refuse.
    pub(crate) fn redact(&self, text: String) -> String {
        if self.0.len() >= SHORTEST_KEY && text.contains(&*self.0) {
            text.replace(&*self.0, HIDDEN)
        } else {
            text
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// Headers to send. Their values may be keys, so `Debug` shows only names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CallHeaders(BTreeMap<String, String>);

impl CallHeaders {
    /// Sets a header; names are case-insensitive.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_ascii_lowercase(), value.into());
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// Sets all of these.
    pub fn extend(&mut self, more: &Self) {
        self.0.extend(more.0.iter().map(|(name, value)| (name.clone(), value.clone())));
    }

    /// Adds an item to a header with a list, without duplicates.
    pub(crate) fn append(&mut self, name: &str, item: &str) {
        let list = self.0.entry(name.to_owned()).or_default();
        if list.split(',').any(|listed| listed.trim() == item) {
            return;
        }
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(item);
    }

    /// Pairs of lower-case names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: AsRef<str>, V: Into<String>> FromIterator<(N, V)> for CallHeaders {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut headers = Self::default();
        for (name, value) in pairs {
            headers.set(name.as_ref(), value);
        }
        headers
    }
}

impl fmt::Debug for CallHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_and_redaction_hide_a_secret() {
        let key = Secret::new("sk-0123456789");
        let mut headers = CallHeaders::default();
        headers.set("Authorization", "Bearer sk-0123456789");
        let shown = format!("{key:?} {key:#?} {headers:?}");
        assert!(!shown.contains("0123456789"), "{shown}");
        assert_eq!(key.redact("no such key: sk-0123456789.".into()), "no such key: [hidden].");
        assert_eq!(Secret::new("a").redact("a banana".into()), "a banana");
    }

    #[test]
    fn header_names_are_case_insensitive_and_lists_have_no_duplicates() {
        let mut headers = CallHeaders::from_iter([("X-One", "1")]);
        headers.set("x-ONE", "2");
        assert_eq!(headers.get("X-one"), Some("2"));
        for item in ["a", "b", "a"] {
            headers.append("beta", item);
        }
        assert_eq!(headers.get("beta"), Some("a,b"));
    }
}
