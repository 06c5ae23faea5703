//! Metadata of files, and the file systems whose times can be trusted.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Magic numbers of local file systems: one kernel clock sets their times, with the resolution of a timer tick or
/// better. Git decides alone on every other file system, such as one of a network.
const LOCAL: [u64; 8] = [
    0xEF53,      // ext4
    0x5846_5342, // XFS
    0x9123_683E, // Btrfs
    0x0102_1994, // tmpfs
    0x794C_7630, // overlayfs
    0xF2F5_2010, // F2FS
    0x2FC1_2FC1, // ZFS
    0xCA45_1A4E, // bcachefs
];

/// A time of the file system, in seconds and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::snapshot) struct Time {
    pub(super) seconds: i64,
    pub(super) nanos: i64,
}

/// The metadata that a change of a file or directory alters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::snapshot) struct Stat {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) size: u64,
    pub(super) modified: Time,
    /// The time of the last change of any kind. Unlike `modified`, no program can set it.
    pub(super) changed: Time,
}

impl Stat {
    /// Reads the metadata of a path without following a link.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        path.symlink_metadata().map(|found| Self::from(&found))
    }

    pub(super) fn is_directory(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }

    /// Returns true if a change at or after this time would have altered the metadata. Two changes within one tick of
    /// the clock leave the same time, so an entry as new as `time` proves nothing.
    pub(super) fn is_settled(&self, time: Time) -> bool {
        self.changed < time
    }
}

impl From<&Metadata> for Stat {
    fn from(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            mode: found.mode(),
            owner: (found.uid(), found.gid()),
            size: found.size(),
            modified: Time { seconds: found.mtime(), nanos: found.mtime_nsec() },
            changed: changed(found),
        }
    }
}

/// Returns the time of the last change of a file.
pub(in crate::snapshot) fn changed(found: &Metadata) -> Time {
    Time { seconds: found.ctime(), nanos: found.ctime_nsec() }
}

/// Identifies the content of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::snapshot) struct Identity {
    inode: u64,
    size: u64,
    modified: Time,
}

impl From<&Metadata> for Identity {
    fn from(found: &Metadata) -> Self {
        let Stat { inode, size, modified, .. } = Stat::from(found);
        Self { inode, size, modified }
    }
}

/// Returns true if a directory is on a local file system.
pub(super) fn is_local(directory: &Path) -> bool {
    rustix::fs::statfs(directory)
        .is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|kind| LOCAL.contains(&kind)))
}
