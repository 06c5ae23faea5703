//! Decides whether a file of a project may run programs and send secrets.

use std::{collections::BTreeSet, fs, io, os::unix::fs::MetadataExt, path::Path};

use protocol::trust::WithheldReason;

/// Every user may write to the file.
const WRITABLE_BY_ALL: u32 = 0o002;

/// Decides which parts of a project's configuration count. The default trusts nothing.
#[derive(Debug, Clone, Default)]
pub struct TrustPolicy {
    /// True if the user trusts the directory.
    pub trusted: bool,
    /// The user's id. Files of any other user but root are never trusted.
    pub user: u32,
    /// Providers that the user has logged in to.
    pub logins: BTreeSet<String>,
    /// Providers of the built-in list, whose keys may be in the environment.
    pub known: BTreeSet<String>,
}

impl TrustPolicy {
    /// A guard for a trusted directory of the user this process runs as.
    pub fn trusting() -> Self {
        Self { trusted: true, ..Self::strict() }
    }

    /// A guard for an untrusted directory of the user this process runs as.
    pub fn strict() -> Self {
        Self { user: rustix::process::geteuid().as_raw(), ..Self::default() }
    }

    /// The reason why parts of a file that need trust do not count; `None` if they count.
    pub(super) fn refusal(&self, path: &Path) -> Option<WithheldReason> {
        if !self.trusted {
            return Some(WithheldReason::Untrusted);
        }
        // Checks both the link and its target, because either decides what is read.
        let facts = [fs::symlink_metadata(path), fs::metadata(path)];
        let foreign = facts.iter().any(|facts| self.is_foreign(facts));
        foreign.then_some(WithheldReason::Owner)
    }

    fn is_foreign(&self, facts: &io::Result<fs::Metadata>) -> bool {
        let Ok(facts) = facts else { return false };
        let owned = facts.uid() == self.user || facts.uid() == 0;
        // The mode of a symbolic link has no meaning.
        !owned || (!facts.is_symlink() && facts.mode() & WRITABLE_BY_ALL != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A guard for a user who owns none of the files that this test creates.
    fn of_another_user(file: &Path) -> TrustPolicy {
        let owner = fs::metadata(file).unwrap().uid();
        if owner == 0 {
            // Files of root are trusted, so the file has to belong to another user.
            std::os::unix::fs::lchown(file, Some(65_534), None).unwrap();
        }
        TrustPolicy { user: if owner == 0 { 0 } else { owner + 1 }, ..TrustPolicy::trusting() }
    }

    #[test]
    fn a_file_of_another_owner_is_refused_in_a_trusted_directory() {
        let root = tempfile::tempdir().unwrap();
        let (file, link) = (root.path().join("opencode.json"), root.path().join("link"));
        fs::write(&file, "{}").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(TrustPolicy::trusting().refusal(&file), None);
        assert_eq!(TrustPolicy::strict().refusal(&file), Some(WithheldReason::Untrusted));
        let guard = of_another_user(&file);
        assert_eq!(guard.refusal(&file), Some(WithheldReason::Owner));
        assert_eq!(guard.refusal(&link), Some(WithheldReason::Owner), "the link leads to the same file");
        assert_eq!(guard.refusal(&root.path().join("new.json")), None, "there is no file yet");
    }

    #[test]
    fn a_file_that_every_user_may_write_to_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("opencode.json");
        fs::write(&file, "{}").unwrap();
        for (mode, refusal) in [(0o644, None), (0o664, None), (0o666, Some(WithheldReason::Owner))] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(TrustPolicy::trusting().refusal(&file), refusal, "{mode:o}");
        }
    }
}
