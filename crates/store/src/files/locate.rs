//! Finds a key in the user's own files, for errors that are only found where the key's meaning is known.

use std::path::Path;

use super::{
    Environment, Loaded,
    document::{self, Kind, Lines, Node},
    layers,
    problem::{Position, Problem, Source},
    substitute::conceal,
    walk,
};

/// Describes a problem with a key of the user's own files: its position and, if an unset variable left its value empty,
/// the name of the variable. `pointer` is a JSON pointer, such as `/channels/telegram/allow/0`; `loaded` is the result
/// of [`load_user`](super::load_user).
pub fn locate(environment: &Environment, loaded: &Loaded, pointer: &str, message: &str) -> Problem {
    let steps: Vec<String> =
        pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let key = shown(&steps);
    let found = find(environment, &steps);
    let unset = found.as_ref().and_then(|(source, at)| unset(loaded, source, *at));
    let message = match unset {
        Some(unset) => format!("`{key}`: {message}: {unset}"),
        None => format!("`{key}`: {message}"),
    };
    let (source, at) = found.map_or((Source::Merged, None), |(source, at)| (source, Some(at)));
    Problem { key, ..Problem::about(&source, at, message) }
}

/// A path as users write it: `channels.telegram.allow[0]`.
fn shown(steps: &[String]) -> String {
    let mut shown = String::new();
    for step in steps {
        match step.parse::<usize>() {
            Ok(index) => shown.extend(["[", &index.to_string(), "]"]),
            Err(_) if shown.is_empty() => shown.push_str(step),
            Err(_) => shown.extend([".", step]),
        }
    }
    shown
}

/// The warning about a variable in the value at this position.
fn unset<'a>(loaded: &'a Loaded, source: &Source, at: Position) -> Option<&'a str> {
    let is_there = |warning: &&Problem| {
        let is_beside = |found: Position| found.line == at.line && found.column >= at.column;
        warning.source == *source && warning.key.is_empty() && warning.at.is_some_and(is_beside)
    };
    loaded.warnings.iter().find(is_there).map(|warning| warning.message.as_str())
}

/// The position of the key, or of the longest part of its path that exists. The last file that has it counts.
fn find(environment: &Environment, steps: &[String]) -> Option<(Source, Position)> {
    let found = layers::user_files(environment).into_iter().filter_map(|path| {
        let (depth, at) = find_in(&path, steps)?;
        Some((depth, (Source::File(path), at)))
    });
    found.max_by_key(|(depth, _)| *depth).map(|(_, place)| place)
}

/// The number of steps of the key that a file has, and the position of the last one; `None` if it has none.
fn find_in(path: &Path, steps: &[String]) -> Option<(usize, Position)> {
    let text = walk::read(path, layers::MAX_BYTES).ok()??;
    let (lines, concealed) = (Lines::of(&text), conceal(&text));
    let place = |offset| lines.position(concealed.origin(offset));
    let root = document::parse(&concealed.text, &place).ok()??;
    let (mut node, mut depth) = (&root, 0);
    for step in steps {
        let Some(next) = child(node, step) else { break };
        node = next;
        depth += 1;
    }
    (depth > 0).then_some((depth, node.at))
}

fn child<'a>(node: &'a Node, step: &str) -> Option<&'a Node> {
    match &node.kind {
        Kind::List(items) => items.get(step.parse::<usize>().ok()?),
        _ => node.entry(step).map(|entry| &entry.value),
    }
}
