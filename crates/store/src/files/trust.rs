//! The directories that the user trusts.
//!
//! A project's configuration can name programs to run and addresses to send keys to, and a project may be
//! third-party. So these parts count only in directories that the user has trusted ([`super::TrustPolicy`]). Trust in a
//! directory includes everything below it.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::replace::{OWNER_ONLY, replace};

/// The file's name in the data directory.
const NAME: &str = "trusted.json";

/// The trusted directories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    directories: BTreeSet<PathBuf>,
}

impl Trust {
    pub fn file(data: &Path) -> PathBuf {
        data.join(NAME)
    }

    /// Reads the file. Without a file nothing is trusted; an invalid file is an error.
    pub fn read(data: &Path) -> io::Result<Self> {
        match fs::read(Self::file(data)) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

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

    /// Trusts a directory; returns false if it was already trusted.
    pub fn grant(&mut self, directory: &Path) -> bool {
        self.directories.insert(directory.to_owned())
    }

    /// Stops trusting a directory; returns false if the directory itself was not trusted.
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
        assert_eq!(trust.covering(Path::new("/projects/ada/a")), None);
        assert!(trust.grant(Path::new("/projects/ada/a")) && !trust.grant(Path::new("/projects/ada/a")));
        trust.write(data.path()).unwrap();
        let mut trust = Trust::read(data.path()).unwrap();
        let granted = Path::new("/projects/ada/a");
        for (directory, by) in [
            ("/projects/ada/a", Some(granted)),
            ("/projects/ada/a/b/c", Some(granted)),
            ("/projects/ada", None),
            ("/projects/ada/ab", None),
        ] {
            assert_eq!(trust.covering(Path::new(directory)), by, "{directory}");
        }
        assert_eq!(trust.directories().collect::<Vec<_>>(), [granted]);
        assert!(trust.revoke(Path::new("/projects/ada/a")) && !trust.revoke(Path::new("/projects/ada/a")));
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
