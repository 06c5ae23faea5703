//! The directories that the user trusts.
//!
//! A project's configuration can name programs to run and addresses to send keys to, and a project may be somebody
//! else's. So these parts count only in directories that the user has trusted ([`super::Guard`]). Trust in a directory
//! holds for everything below it.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::replace::{OWNER_ONLY, replace};

/// The file, in the data directory.
const NAME: &str = "trusted.json";

/// What the user trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    directories: BTreeSet<PathBuf>,
}

impl Trust {
    /// Where it is kept.
    pub fn file(data: &Path) -> PathBuf {
        data.join(NAME)
    }

    /// Reads it. Nothing is trusted if there is no file; a file that cannot be understood is an error.
    pub fn read(data: &Path) -> io::Result<Self> {
        match fs::read(Self::file(data)) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes it.
    pub fn write(&self, data: &Path) -> io::Result<()> {
        fs::create_dir_all(data)?;
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        replace(&Self::file(data), &text, OWNER_ONLY)
    }

    /// The trusted directory that covers a directory: the directory itself or the nearest one above it.
    pub fn covering<'d>(&self, directory: &'d Path) -> Option<&'d Path> {
        directory.ancestors().find(|above| self.directories.contains(*above))
    }

    /// Every trusted directory, in order.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(PathBuf::as_path)
    }

    /// Trusts a directory; whether that is new.
    pub fn grant(&mut self, directory: &Path) -> bool {
        self.directories.insert(directory.to_owned())
    }

    /// Trusts a directory no longer; whether it was trusted by itself.
    pub fn revoke(&mut self, directory: &Path) -> bool {
        self.directories.remove(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn trust_holds_for_everything_below_until_it_is_revoked() {
        let data = tempfile::tempdir().unwrap();
        let mut trust = Trust::read(data.path()).unwrap();
        assert_eq!(trust.covering(Path::new("/people/ada/a")), None);
        assert!(trust.grant(Path::new("/people/ada/a")) && !trust.grant(Path::new("/people/ada/a")));
        trust.write(data.path()).unwrap();
        let mut trust = Trust::read(data.path()).unwrap();
        let granted = Path::new("/people/ada/a");
        for (directory, by) in [
            ("/people/ada/a", Some(granted)),
            ("/people/ada/a/b/c", Some(granted)),
            ("/people/ada", None),
            ("/people/ada/ab", None),
        ] {
            assert_eq!(trust.covering(Path::new(directory)), by, "{directory}");
        }
        assert_eq!(trust.directories().collect::<Vec<_>>(), [granted]);
        assert!(trust.revoke(Path::new("/people/ada/a")) && !trust.revoke(Path::new("/people/ada/a")));
        assert_eq!(trust.covering(granted), None);
        let mode = Trust::file(data.path()).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_no_trust() {
        let data = tempfile::tempdir().unwrap();
        fs::write(Trust::file(data.path()), "everything").unwrap();
        assert!(Trust::read(data.path()).is_err());
    }
}
