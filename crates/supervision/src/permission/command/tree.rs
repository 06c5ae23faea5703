//! Finds the commands in a line that is not plain, with the grammar of tree-sitter.
//!
//! It finds them wherever a shell would run them: in lists, loops, functions, substitutions and here documents.
//! Rules that deny or ask apply to each of them. Rules cannot allow any of them by its words: the grammar and the
//! shell may read the line differently.

use tree_sitter::{Node, Parser};

use super::{Command, words};

/// Words that run the command after them without changing its effect.
const PREFIXES: [&str; 6] = ["builtin", "command", "coproc", "exec", "nohup", "time"];

/// Returns the simple commands of a line in order, including those in substitutions. Returns the line itself if
/// none is found, because a line that is not plain must never pass for an empty one.
pub(super) fn commands(line: &str) -> Vec<Command> {
    let mut found = read(line).unwrap_or_default();
    if line.contains("\\\n") {
        // A shell joins such lines before it looks for comments; the grammar does not.
        let joined = read(&line.replace("\\\n", "")).unwrap_or_default();
        for command in joined {
            if !found.iter().any(|known| known.words == command.words && known.text == command.text) {
                found.push(command);
            }
        }
    }
    if found.is_empty() {
        found.push(Command::opaque(line));
    }
    for command in &mut found {
        line.trim().clone_into(&mut command.exact);
    }
    found
}

/// Returns true if a comment of the grammar is not a comment for the shell: for a shell `\ #` is a word, and the
/// rest of the line runs.
fn follows_backslash(comment: Node<'_>, line: &str) -> bool {
    let before = line.get(..comment.start_byte()).unwrap_or_default();
    before.trim_end_matches([' ', '\t']).ends_with('\\')
}

fn read(line: &str) -> Option<Vec<Command>> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let tree = parser.parse(line, None)?;
    let root = tree.root_node();
    let mut found = Vec::new();
    let mut broken = root.has_error();
    for (node, parent) in descendants(root) {
        broken |= node.kind() == "comment" && follows_backslash(node, line);
        found.extend(command(node, parent, line));
    }
    if broken {
        found.push(Command::opaque(line));
    }
    Some(found)
}

/// Returns the command that a node stands for, if any.
fn command(node: Node<'_>, parent: Option<Node<'_>>, line: &str) -> Option<Command> {
    let within = parent.map_or("", |parent| parent.kind());
    match node.kind() {
        "command" => Some(simple(node, parent, line)),
        "redirected_statement" => {
            let inner = node.child_by_field_name("body").map_or("", |body| body.kind());
            let files = redirected(node, line);
            // The redirection of a simple command is part of that command.
            (inner != "command" && !files.is_empty())
                .then(|| Command { files, ..Command::opaque(words::text(node, line)) })
        }
        // An assignment may change the effect of every other command.
        "declaration_command" | "unset_command" | "variable_assignments" => {
            Some(Command::opaque(words::text(node, line)))
        }
        "variable_assignment"
            if !matches!(within, "command" | "declaration_command" | "variable_assignments") =>
        {
            Some(Command::opaque(words::text(node, line)))
        }
        _ => None,
    }
}

fn simple(node: Node<'_>, parent: Option<Node<'_>>, line: &str) -> Command {
    let statement = parent.filter(|parent| {
        parent.kind() == "redirected_statement" && parent.child_by_field_name("body") == Some(node)
    });
    let whole = statement.unwrap_or(node);
    let mut files = redirected(node, line);
    files.extend(statement.iter().flat_map(|statement| redirected(*statement, line)));
    let mut parts: Vec<Node<'_>> = node.child_by_field_name("name").into_iter().collect();
    let mut cursor = node.walk();
    parts.extend(node.children_by_field_name("argument", &mut cursor));
    // `time make` is `make`.
    let spare = parts.windows(2).take_while(|pair| {
        let [one, next] = pair else { return false };
        PREFIXES.contains(&words::text(*one, line)) && !words::text(*next, line).starts_with('-')
    });
    let spare = spare.count();
    let parts = parts.get(spare..).unwrap_or_default();
    let words: Vec<String> = parts.iter().map(|part| words::plain(*part, line)).collect();
    let shown = parts.first().map_or("", |name| words::text(*name, line));
    let start = parts.first().map_or(whole.start_byte(), Node::start_byte);
    let rest = line.get(start + shown.len()..whole.end_byte()).unwrap_or_default();
    let name = words.first().map(String::as_str).unwrap_or_default();
    // A quoted name is judged by its meaning.
    let text = format!("{name}{rest}").trim().to_owned();
    Command { words, files, ..Command::opaque(&text) }
}

/// Returns the files in a statement's redirections, without `/dev/null` and other streams.
fn redirected(node: Node<'_>, line: &str) -> Vec<String> {
    let mut cursor = node.walk();
    let redirects = node.children_by_field_name("redirect", &mut cursor);
    let target = |redirect: Node<'_>| {
        let destination = redirect.child_by_field_name("destination")?;
        let path = words::plain(destination, line);
        let stream = words::text(redirect, line).contains('&')
            && path.chars().all(|character| character.is_ascii_digit() || character == '-');
        (path != "/dev/null" && !stream).then_some(path)
    };
    redirects.filter_map(target).collect()
}

/// Returns a node and its descendants in order, each with its parent. Lines can nest arbitrarily deep, so it is not
/// recursive, and it avoids the slow lookup of a node's parent.
fn descendants(node: Node<'_>) -> impl Iterator<Item = (Node<'_>, Option<Node<'_>>)> {
    let mut open = vec![(node, None)];
    std::iter::from_fn(move || {
        let (node, parent) = open.pop()?;
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        open.extend(children.into_iter().rev().map(|child| (child, Some(node))));
        Some((node, parent))
    })
}
