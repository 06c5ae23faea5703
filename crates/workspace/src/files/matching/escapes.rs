//! Decoding of escape sequences that a model wrote literally.

/// The text with its escapes decoded; `None` if there are none.
///
/// Only a model that escaped once too often produces such text, and then all of it is escaped.
pub(super) fn resolve(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return None;
    }
    let mut read = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let meant = match (character, characters.peek()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('t')) => '\t',
            ('\\', Some('r')) => '\r',
            ('\\', Some(quoted @ ('"' | '\'' | '`' | '\\' | '$' | '\n'))) => *quoted,
            _ => {
                read.push(character);
                continue;
            }
        };
        characters.next();
        read.push(meant);
    }
    (read != text).then_some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_once() {
        assert_eq!(resolve("a\\n\\tb \\\"c\\\" \\\\n").as_deref(), Some("a\n\tb \"c\" \\n"));
        assert_eq!(resolve("plain"), None);
        assert_eq!(resolve("\\d+ \\"), None);
    }
}
