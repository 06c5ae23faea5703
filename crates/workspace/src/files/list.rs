//! Listings of a directory.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Error, MAX_ENTRIES};

/// Most suggestions for a name that does not exist.
const MAX_ALIKE: usize = 3;

/// The entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Names in alphabetical order; directories end with a slash.
    pub names: Vec<String>,
    /// Number of entries beyond [`MAX_ENTRIES`].
    pub omitted: usize,
}

/// Lists a directory without `.git`.
pub fn list(path: &Path) -> Result<Listing, Error> {
    if path.is_file() {
        return Err(Error::NotDirectory(path.to_owned()));
    }
    let mut names = Vec::new();
    for name in super::open::names(path)?.into_iter().filter(|name| name != ".git") {
        let slash = if path.join(&name).is_dir() { "/" } else { "" };
        names.push(format!("{}{slash}", name.to_string_lossy()));
    }
    names.sort();
    let omitted = names.len().saturating_sub(MAX_ENTRIES);
    names.truncate(MAX_ENTRIES);
    Ok(Listing { names, omitted })
}

/// A few files beside a missing one with similar names.
pub fn alike(path: &Path) -> Vec<PathBuf> {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let (Some(directory), Some(wanted)) = (path.parent(), name(path)) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let stem = wanted.split('.').find(|part| !part.is_empty()).unwrap_or(&wanted).to_owned();
    let alike = |path: &PathBuf| {
        name(path).is_some_and(|name| name.contains(&stem) || (name.len() > 3 && wanted.contains(&name)))
    };
    let mut found: Vec<PathBuf> =
        entries.flatten().take(MAX_ENTRIES).map(|entry| entry.path()).filter(alike).collect();
    found.sort();
    found.truncate(MAX_ALIKE);
    found
}

#[cfg(test)]
mod tests {
    use super::super::temporary;
    use super::*;

    #[test]
    fn entries_are_sorted_and_directories_marked() {
        let directory = temporary::directory();
        for name in ["src", ".git", ".github"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        for name in ["b.txt", "a.txt"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let listing = list(directory.path()).unwrap();
        assert_eq!(
            listing,
            Listing { names: [".github/", "a.txt", "b.txt", "src/"].map(String::from).to_vec(), omitted: 0 }
        );
        assert!(matches!(list(&directory.path().join("a.txt")), Err(Error::NotDirectory(_))));
        assert!(matches!(list(&directory.path().join("none")), Err(Error::NotFound(_))));
    }

    #[test]
    fn similar_names_are_suggested() {
        let directory = temporary::directory();
        for name in ["main.rs", "Main.test.rs", "other.rs", "README.md"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let alike = |name: &str| {
            let found = alike(&directory.path().join(name)).into_iter();
            found.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(alike("main.ts"), ["Main.test.rs", "main.rs"]);
        assert_eq!(alike("readme"), ["README.md"]);
        assert_eq!(alike("nothing"), Vec::<String>::new());
        assert_eq!(alike("no/such/main.rs"), Vec::<String>::new());
    }

    #[test]
    fn a_huge_directory_is_truncated_and_counted() {
        let directory = temporary::directory();
        for number in 0..MAX_ENTRIES + 5 {
            fs::write(directory.path().join(format!("{number:05}")), "").unwrap();
        }
        let listing = list(directory.path()).unwrap();
        assert_eq!((listing.names.len(), listing.omitted), (MAX_ENTRIES, 5));
    }
}
