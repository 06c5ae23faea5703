//! The prompt that continues a turn because of open todos.

use std::fmt::Write as _;

use protocol::Todo;

use super::Count;

/// Maximum number of todos that the reminder lists.
const NAMED: usize = 20;
/// Maximum number of characters of one listed todo.
const LENGTH: usize = 200;

/// Asks the agent to work on the rest of its todo list.
pub fn reminder(todos: &[Todo]) -> String {
    let count = Count::of(todos);
    let mut text = format!(
        "The todo list is not finished: {} of {} entries are completed. These are open:\n",
        count.done,
        count.done + count.open + count.blocked
    );
    let is_open = |todo: &&Todo| !matches!(todo.status.as_str(), "completed" | "cancelled" | "deleted");
    for todo in todos.iter().filter(is_open).take(NAMED) {
        let content: String = todo.content.chars().take(LENGTH).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- [{}] {content}", todo.status);
    }
    if let Some(more) = todos.iter().filter(is_open).count().checked_sub(NAMED).filter(|more| *more > 0) {
        let _ = writeln!(text, "- and {more} more");
    }
    text.push_str(
        "\nGo on with the next one without asking for permission. Set each entry to completed as soon as it is done, \
         and to cancelled if it is no longer needed. If an entry cannot be done without the user, set it to blocked \
         and say what is needed.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::continuation::tests::todo;

    #[test]
    fn open_todos_are_named_and_finished_ones_counted() {
        insta::assert_snapshot!(reminder(&[
            todo("completed", "look"),
            todo("in_progress", "write"),
            todo("pending", "test"),
            todo("cancelled", "dream"),
        ]));
    }

    #[test]
    fn a_long_list_is_cut_short() {
        let todos: Vec<Todo> =
            (0..25).map(|n| todo("pending", &format!("{n} {}", "x".repeat(500)))).collect();
        let text = reminder(&todos);
        assert!(text.contains("- and 5 more"), "{text}");
        assert!(text.len() < 6_000, "{}", text.len());
    }
}
