//! Words of a command, as written and as meant.

use tree_sitter::Node;

/// Returns the source text of a node.
pub(super) fn text<'l>(node: Node<'_>, line: &'l str) -> &'l str {
    line.get(node.byte_range()).unwrap_or_default()
}

/// Returns the meaning of a word, as far as it can be known without running it.
pub(super) fn plain(node: Node<'_>, line: &str) -> String {
    let shown = text(node, line);
    match node.kind() {
        "word" => unescaped(shown, |_| true),
        "raw_string" => shown.trim_matches('\'').to_owned(),
        "string" => {
            let inner = shown.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(shown);
            unescaped(inner, |escaped| matches!(escaped, '"' | '\\' | '$' | '`' | '\n'))
        }
        "ansi_c_string" | "translated_string" => {
            shown.trim_start_matches('$').trim_matches(['\'', '"']).to_owned()
        }
        "command_name" | "concatenation" => {
            let mut cursor = node.walk();
            let inner: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
            if inner.is_empty() {
                shown.to_owned()
            } else {
                inner.into_iter().map(|part| plain(part, line)).collect()
            }
        }
        _ => shown.to_owned(),
    }
}

/// Removes the backslashes that quote the character after them.
fn unescaped(text: &str, quotes: impl Fn(char) -> bool) -> String {
    let mut meant = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match characters.peek().copied() {
            Some(escaped) if character == '\\' && quotes(escaped) => {
                characters.next();
                // An escaped new line continues the line.
                if escaped != '\n' {
                    meant.push(escaped);
                }
            }
            _ => meant.push(character),
        }
    }
    meant
}
