//! Resolves paths and determines if they are inside the project.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::{Closed, Error};

/// A project's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Base of relative paths.
    directory: PathBuf,
    /// Top of the project: the directory or one above it.
    top: PathBuf,
    /// Closed paths, inside or outside.
    closed: Closed,
}

/// A resolved path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedPath {
    /// Absolute, with all symbolic links resolved. The file itself need not exist.
    pub path: PathBuf,
    pub inside: bool,
}

impl Root {
    /// A project with the files below `directory`.
    pub fn new(directory: &Path) -> Result<Self, Error> {
        Self::within(directory, directory)
    }

    /// A project that extends up to `top`, with relative paths based on `directory`.
    pub fn within(directory: &Path, top: &Path) -> Result<Self, Error> {
        let canonical = |path: &Path| {
            let found = path.canonicalize().map_err(Error::io(path))?;
            if found.is_dir() { Ok(found) } else { Err(Error::NotDirectory(found)) }
        };
        let directory = canonical(directory)?;
        let top = canonical(top)?;
        // If the worktree does not contain the directory, the directory itself would count as outside.
        let top = if directory.starts_with(&top) { top } else { directory.clone() };
        Ok(Self { directory, top, closed: Closed::default() })
    }

    /// The same project with closed paths. Fails if the project itself is closed.
    pub fn without(self, closed: &Closed) -> Result<Self, Error> {
        closed.check(&self.directory)?;
        Ok(Self { closed: closed.clone(), ..self })
    }

    /// Closed paths, inside or outside.
    pub fn closed(&self) -> &Closed {
        &self.closed
    }

    /// Base of relative paths.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Top of the project.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Resolves a path. An outside path is not an error, because the user may permit it. A closed path is an
    /// error, because no permission opens it.
    pub fn locate(&self, path: &str) -> Result<LocatedPath, Error> {
        let path = follow(&self.directory.join(path))?;
        self.closed.check(&path)?;
        let inside = path.starts_with(&self.top);
        Ok(LocatedPath { path, inside })
    }

    /// Resolves a path and refuses one outside the project.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, Error> {
        let place = self.locate(path)?;
        if place.inside {
            Ok(place.path)
        } else {
            Err(Error::Outside { path: place.path, root: self.top.clone() })
        }
    }

    /// The path relative to the top of the project.
    pub fn relative(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.top).unwrap_or(path);
        if path.as_os_str().is_empty() { ".".to_owned() } else { path.to_string_lossy().into_owned() }
    }
}

/// Resolves the links in the existing part of a path; the missing rest may only descend.
pub(super) fn follow(path: &Path) -> Result<PathBuf, Error> {
    let mut missing: Vec<&OsStr> = Vec::new();
    let mut known = path;
    let base = loop {
        match known.canonicalize() {
            Ok(base) => break base,
            // A dangling link exists as a link: creating a file through it would escape the check.
            Err(_) if known.symlink_metadata().is_ok() => return Err(Error::Unresolvable(path.to_owned())),
            Err(_) => {}
        }
        match known.components().next_back() {
            Some(Component::Normal(name)) => missing.push(name),
            Some(Component::CurDir) => {}
            // `..` after a missing component cannot be checked.
            _ => return Err(Error::Unresolvable(path.to_owned())),
        }
        known = known.parent().ok_or_else(|| Error::Unresolvable(path.to_owned()))?;
    };
    if !missing.is_empty() && !base.is_dir() {
        return Err(Error::NotDirectory(base));
    }
    Ok(missing.into_iter().rev().fold(base, |path, name| path.join(name)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A project with a secret beside it.
    fn project() -> (TempDir, Root) {
        let outer = TempDir::new().unwrap();
        let top = outer.path().join("project");
        fs::create_dir_all(top.join("src")).unwrap();
        fs::write(top.join("src/main.rs"), "fn main() {}\n").unwrap();
        fs::write(outer.path().join("secret"), "key\n").unwrap();
        let root = Root::new(&top).unwrap();
        (outer, root)
    }

    #[test]
    fn paths_inside_resolve_whether_they_exist_or_not() {
        let (_outer, root) = project();
        for path in ["src/main.rs", "./src/../src/main.rs", "new/deep/file.txt", "src/", "."] {
            let found = root.resolve(path).unwrap();
            assert!(found.starts_with(root.top()), "{path}");
        }
        let absolute = root.top().join("src/main.rs");
        assert_eq!(root.resolve(absolute.to_str().unwrap()).unwrap(), absolute);
        assert_eq!(root.relative(&absolute), "src/main.rs");
        assert_eq!(root.relative(root.top()), ".");
    }

    #[test]
    fn traversal_is_refused() {
        let (outer, root) = project();
        let secret = outer.path().join("secret");
        for path in
            ["../secret", "src/../../secret", "../../../../../../etc/passwd", secret.to_str().unwrap()]
        {
            assert!(matches!(root.resolve(path), Err(Error::Outside { .. })), "{path}");
        }
        assert!(matches!(root.resolve("no/such/../../../secret"), Err(Error::Unresolvable(_))));
    }

    #[test]
    fn links_that_lead_out_are_refused() {
        let (outer, root) = project();
        symlink(outer.path(), root.top().join("out")).unwrap();
        symlink(outer.path().join("secret"), root.top().join("file")).unwrap();
        for path in ["out/secret", "file", "out/new-file", "out/project/../secret"] {
            assert!(matches!(root.resolve(path), Err(Error::Outside { .. })), "{path}");
        }
        symlink(outer.path().join("not-yet"), root.top().join("dangling")).unwrap();
        assert!(matches!(root.resolve("dangling"), Err(Error::Unresolvable(_))));
        assert!(matches!(root.resolve("dangling/x"), Err(Error::Unresolvable(_))));
    }

    #[test]
    fn links_that_stay_inside_are_followed() {
        let (_outer, root) = project();
        symlink("src", root.top().join("code")).unwrap();
        assert_eq!(root.resolve("code/main.rs").unwrap(), root.top().join("src/main.rs"));
    }

    #[test]
    fn a_neighbour_with_a_similar_name_is_outside() {
        let (outer, root) = project();
        fs::create_dir(outer.path().join("project-two")).unwrap();
        assert!(root.resolve("../project-two/x").is_err());
    }

    #[test]
    fn outside_paths_are_located_without_an_error() {
        let (outer, root) = project();
        let place = root.locate("../secret").unwrap();
        assert_eq!(
            place,
            LocatedPath { path: outer.path().canonicalize().unwrap().join("secret"), inside: false }
        );
    }

    #[test]
    fn closed_places_are_refused_inside_and_outside_and_through_links() {
        let (outer, root) = project();
        let top = root.top().to_owned();
        fs::create_dir_all(top.join("data/worktrees/one")).unwrap();
        fs::write(top.join("data/auth.json"), "{}").unwrap();
        symlink(top.join("data"), top.join("link")).unwrap();
        let closed =
            Closed::new([top.join("data"), outer.path().join("secret")], [top.join("data/worktrees")]);
        let root = root.without(&closed).unwrap();
        for path in [
            "data",
            "data/auth.json",
            "data/new",
            "link/auth.json",
            "../secret",
            "/proc/self/environ",
            "/dev/fd/0",
        ] {
            assert!(root.locate(path).is_err(), "{path}");
        }
        assert!(matches!(root.locate("link/auth.json"), Err(Error::Closed(_))));
        assert!(root.locate("data/worktrees/one/file").unwrap().inside);
        let inside = Root::new(&top.join("data")).unwrap();
        assert!(matches!(inside.without(&closed), Err(Error::Closed(_))));
        assert!(Root::new(&top.join("data/worktrees/one")).unwrap().without(&closed).is_ok());
    }

    #[test]
    fn a_worktree_above_the_directory_counts_as_inside() {
        let (outer, root) = project();
        let within = Root::within(&root.top().join("src"), root.top()).unwrap();
        assert!(within.locate("../README.md").unwrap().inside);
        assert!(!within.locate("../../secret").unwrap().inside);
        let unrelated = Root::within(&root.top().join("src"), &outer.path().join("project")).unwrap();
        assert_eq!(unrelated, within);
    }
}
