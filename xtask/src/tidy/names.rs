//! Checks that one type name means one thing: a public type name is declared in at most two rooms.
//!
//! Two rooms may share a name where one translates into the other. A third one makes a reader ask which is meant.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, extension};
use crate::repo::TextFile;

/// Rooms that may declare the same public type name.
const SHARED_BY: usize = 2;

/// Words of the field that mean the same in every room; the path in front of them says whose they are.
const ACCEPTED: &[&str] = &[
    "Error", "Frame", "Headers", "Kind", "Limits", "Message", "Options", "Page", "Provider", "Request",
    "Settings",
];

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut rooms_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (room, file) in files.iter().filter_map(|file| Some((room(&file.path)?, file))) {
        for name in file.text.lines().filter_map(declared) {
            rooms_of.entry(name).or_default().insert(room);
        }
    }
    rooms_of.retain(|name, rooms| rooms.len() > SHARED_BY && !ACCEPTED.contains(name));
    let finding = |(name, rooms): (&str, BTreeSet<&str>)| {
        let rooms = rooms.into_iter().collect::<Vec<_>>().join(", ");
        Finding::in_file("crates", format!("`{name}` is a public type in {rooms}; give each its own name"))
    };
    rooms_of.into_iter().map(finding).collect()
}

/// The room of a source file, if it is one.
fn room(path: &str) -> Option<&str> {
    let (room, below) = path.strip_prefix("crates/")?.split_once('/')?;
    (below.starts_with("src/") && extension(path) == "rs").then_some(room)
}

/// The name of the public type that this line declares. Indented lines belong to a module or an `impl`.
fn declared(line: &str) -> Option<&str> {
    let (kind, rest) = line.strip_prefix("pub ")?.split_once(' ')?;
    let is_type = matches!(kind, "struct" | "enum" | "trait" | "type" | "union");
    let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
    is_type.then_some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declares(room: &str, line: &str) -> TextFile {
        TextFile { path: format!("crates/{room}/src/lib.rs"), text: line.to_owned() }
    }

    #[test]
    fn a_third_room_needs_another_name() {
        let mut files =
            vec![declares("net", "pub struct Lantern {"), declares("store", "pub enum Lantern<T> {")];
        assert_eq!(check(&files), []);
        files.push(declares("client", "pub type Lantern = ();"));
        let told: Vec<_> = check(&files).into_iter().map(|finding| finding.message).collect();
        assert_eq!(told, ["`Lantern` is a public type in client, net, store; give each its own name"]);
    }

    #[test]
    fn private_types_and_accepted_words_may_repeat() {
        for line in
            ["pub(crate) struct Lantern;", "struct Lantern;", "    pub struct Lantern;", "pub struct Error;"]
        {
            let files: Vec<_> = ["net", "store", "client"].map(|room| declares(room, line)).into();
            assert_eq!(check(&files), [], "{line}");
        }
    }
}
