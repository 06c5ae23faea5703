//! The commands in a command line, so that rules can be about each of them.
//!
//! The line is read with the grammar of tree-sitter, so that commands are found wherever a shell would run them: in
//! lists, loops, functions, substitutions and here documents. What a rule cannot judge by reading makes a command
//! opaque, and an opaque command is not allowed by a rule about its first word. Whatever the grammar does not
//! understand is opaque as a whole.

mod arity;
mod words;

use tree_sitter::{Node, Parser};

use arity::naming;

/// Longer lines are not read; they are opaque.
const MAX_LINE: usize = 64 * 1024;

/// Words that run the command after them and change nothing about what it does.
const PREFIXES: [&str; 6] = ["builtin", "command", "coproc", "exec", "nohup", "time"];

/// Commands whose arguments are files, so that a plain name can be one, too.
const FILE_COMMANDS: [&str; 36] = [
    "awk", "cat", "cd", "chgrp", "chmod", "chown", "cp", "cut", "diff", "du", "file", "find", "grep", "head",
    "less", "ln", "ls", "mkdir", "more", "mv", "pushd", "readlink", "rg", "rm", "rmdir", "rsync", "sed",
    "sort", "source", "stat", "tail", "tar", "tee", "touch", "truncate", "wc",
];

/// Those of them that make the directories they need.
const CREATING: [&str; 3] = ["mkdir", "rsync", "tar"];

/// One simple command of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::native) struct Command {
    /// As it was written.
    pub(in crate::native) text: String,
    /// Its words, without quotes.
    pub(in crate::native) words: Vec<String>,
    /// Where its input comes from or its output goes, if that is a file.
    pub(in crate::native) files: Vec<String>,
    /// Whether it may do more than its words show: substitutions, variables, redirections, open quotes.
    pub(in crate::native) opaque: bool,
}

impl Command {
    fn opaque(text: &str) -> Self {
        Self { text: text.trim().to_owned(), opaque: true, ..Self::default() }
    }

    fn name(&self) -> &str {
        self.words.first().map(String::as_str).unwrap_or_default()
    }

    /// Whether it only changes the shell's directory.
    pub(in crate::native) fn moves(&self) -> bool {
        matches!(self.name(), "cd" | "pushd" | "popd")
    }

    /// What a reply of `always` allows: the same program, or the same part of it, with any arguments.
    pub(in crate::native) fn always(&self) -> String {
        match naming(&self.words) {
            Some(named) if !self.opaque => format!("{} *", named.join(" ")),
            _ => self.text.clone(),
        }
    }

    /// Arguments that name a place which could be outside of the project.
    pub(in crate::native) fn places(&self) -> impl Iterator<Item = Place<'_>> {
        let (name, on_files) = (self.name(), FILE_COMMANDS.contains(&self.name()));
        let creates = CREATING.contains(&name);
        let values = self.words.iter().skip(1).filter_map(|word| match word.split_once('=') {
            Some((_, value)) => Some(value),
            None => (!word.starts_with('-')).then_some(word.as_str()),
        });
        let arguments = values.map(move |path| Place { path, creates });
        let arguments = arguments.filter(move |place| on_files || place.leads_away());
        arguments.chain(self.files.iter().map(|path| Place { path, creates: false }))
    }
}

/// A word that may be a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::native) struct Place<'a> {
    pub(in crate::native) path: &'a str,
    /// Whether directories may come into being that are not there yet.
    pub(in crate::native) creates: bool,
}

impl Place<'_> {
    /// Whether it is in somebody's home, wherever that is.
    pub(in crate::native) fn is_home(&self) -> bool {
        self.path.starts_with('~') || self.path.starts_with("$HOME") || self.path.starts_with("${HOME}")
    }

    fn leads_away(&self) -> bool {
        self.path.starts_with('/')
            || self.is_home()
            || self.path.split('/').any(|component| component == "..")
    }
}

/// The simple commands of a line, those in substitutions included, in the order they are written.
pub(in crate::native) fn commands(line: &str) -> Vec<Command> {
    read(line).unwrap_or_else(|| vec![Command::opaque(line)])
}

/// Whether what the grammar takes for a comment is none: for a shell `\ #` is a word, and what follows is run.
fn follows_backslash(comment: Node<'_>, line: &str) -> bool {
    let before = line.get(..comment.start_byte()).unwrap_or_default();
    before.trim_end_matches([' ', '\t']).ends_with('\\')
}

fn read(line: &str) -> Option<Vec<Command>> {
    if line.len() > MAX_LINE {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let tree = parser.parse(line, None)?;
    let root = tree.root_node();
    let mut found = Vec::new();
    let mut says_something = false;
    let mut broken = root.has_error();
    for (node, parent) in descendants(root) {
        says_something |= node.is_named() && !matches!(node.kind(), "program" | "comment");
        broken |= node.kind() == "comment" && follows_backslash(node, line);
        found.extend(command(node, parent, line));
    }
    if broken {
        for command in &mut found {
            command.opaque = true;
        }
    }
    if broken || (found.is_empty() && says_something) {
        found.push(Command::opaque(line));
    }
    Some(found)
}

/// The command that a node is, if it is one.
fn command(node: Node<'_>, parent: Option<Node<'_>>, line: &str) -> Option<Command> {
    let within = parent.map_or("", |parent| parent.kind());
    match node.kind() {
        "command" => Some(simple(node, parent, line)),
        "redirected_statement" => {
            let inner = node.child_by_field_name("body").map_or("", |body| body.kind());
            let files = redirected(node, line);
            // That of a simple command is part of it.
            (inner != "command" && !files.is_empty())
                .then(|| Command { files, ..Command::opaque(words::text(node, line)) })
        }
        // What is set here may change what every other command does.
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
    let hides = descendants(whole).any(|(inner, _)| words::hides(inner.kind()))
        || node.children(&mut cursor).any(|child| child.kind() == "variable_assignment")
        || name != shown;
    // A name in quotes is judged as what it means.
    let text = format!("{name}{rest}").trim().to_owned();
    Command { text, words, opaque: hides || !files.is_empty(), files }
}

/// The files that a statement's redirections are about; nothing and other streams are none.
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

/// A node and everything in it, in the order it is written, each with what it is in. Not recursive, and without asking
/// nodes for their parents, which is slow: lines can nest as deep as they like.
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

#[cfg(test)]
mod tests;
