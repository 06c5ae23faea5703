//! Directory listing for clients, which includes and marks entries that git ignores.

use std::path::Path;

use super::open::names;
use super::{Error, MAX_ENTRIES, Root};
use crate::search::{Kind, visible};

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// File or directory; a link counts as its target.
    pub kind: Kind,
    /// True if git ignores the entry.
    pub ignored: bool,
}

/// Entries of a directory inside a project, directories first, at most [`MAX_ENTRIES`].
pub fn nodes(root: &Root, path: &Path) -> Result<Vec<Node>, Error> {
    if path.is_file() {
        return Err(Error::NotDirectory(path.to_owned()));
    }
    let (visible, hidden) = (visible(path), is_ignored(root, path));
    let mut nodes = Vec::new();
    for name in names(path)? {
        // Skips `.git`, and names that are not UTF-8 because JSON cannot represent them.
        let Some(text) = name.to_str().filter(|name| *name != ".git") else { continue };
        let kind = if path.join(&name).is_dir() { Kind::Directory } else { Kind::File };
        nodes.push(Node { name: text.to_owned(), kind, ignored: hidden || !visible.contains(&name) });
    }
    nodes.sort_by(|one, other| other.kind.cmp(&one.kind).then_with(|| one.name.cmp(&other.name)));
    nodes.truncate(MAX_ENTRIES);
    Ok(nodes)
}

/// Returns true if git ignores a directory or one of its parents.
fn is_ignored(root: &Root, path: &Path) -> bool {
    let inside = path.ancestors().take_while(|above| *above != root.top());
    inside
        .filter_map(|path| Some((path.parent()?, path.file_name()?)))
        .any(|(parent, name)| parent.starts_with(root.top()) && !visible(parent).contains(name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn ignored_entries_are_marked_at_every_depth() {
        let directory = TempDir::new().unwrap();
        let top = directory.path().canonicalize().unwrap();
        for path in ["src", "target/debug", ".git"] {
            fs::create_dir_all(top.join(path)).unwrap();
        }
        for (path, text) in
            [(".gitignore", "target/\n*.log\n"), ("a.log", ""), ("src/b.log", ""), ("src/c", "")]
        {
            fs::write(top.join(path), text).unwrap();
        }
        let root = Root::new(&top).unwrap();
        let shown = |path: &str| -> Vec<(String, bool)> {
            nodes(&root, &top.join(path)).unwrap().into_iter().map(|node| (node.name, node.ignored)).collect()
        };
        let pair = |name: &str, ignored| (name.to_owned(), ignored);
        let expected =
            [pair("src", false), pair("target", true), pair(".gitignore", false), pair("a.log", true)];
        assert_eq!(shown(""), expected);
        assert_eq!(shown("src"), [pair("b.log", true), pair("c", false)]);
        assert_eq!(shown("target"), [pair("debug", true)]);
        assert!(matches!(nodes(&root, &top.join("a.log")), Err(Error::NotDirectory(_))));
    }
}
