//! Text that Postgres can store.

use std::borrow::Cow;

/// Replaces U+0000, which Postgres cannot store, by U+FFFD. Searched values are replaced in the same way, so they still
/// match. Bodies need no replacement: JSON escapes U+0000.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}
