//! The names of MCP tools for models.

use crate::limits;

/// Returns `<server>_<tool>` in characters and of a length that every provider accepts.
pub fn id(server: &str, tool: &str) -> String {
    let mut id = format!("{}_{}", sanitised(server), sanitised(tool));
    // The text is ASCII at this point, so the cut cannot split a character.
    id.truncate(limits::TOOL_NAME);
    id
}

/// Replaces everything but letters, digits, `_` and `-` by `_`.
pub(super) fn sanitised(name: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    name.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_what_providers_accept() {
        assert_eq!(id("my server", "files/read.all"), "my_server_files_read_all");
        assert_eq!(id("db-1", "query_ü"), "db-1_query__");
        assert_eq!(id("server", &"long".repeat(40)).len(), limits::TOOL_NAME);
    }
}
