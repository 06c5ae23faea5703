//! Replaces a file atomically: a crash leaves the old version or the new one.

use std::{
    ffi::OsString,
    fs, io,
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// The mode of files that only their owner may read and write.
pub(super) const OWNER_ONLY: u32 = 0o600;

/// Replaces a file of Baton's own that only its owner may read. Callers must not replace the same file concurrently.
pub fn replace_private(path: &Path, text: &[u8]) -> io::Result<()> {
    replace(path, text, OWNER_ONLY)
}

/// Writes a second file and renames it over the first. Callers must not replace the same file concurrently.
pub(super) fn replace(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    let hidden: OsString = [".".as_ref(), name, ".new".as_ref()].into_iter().collect();
    let new = directory.join(hidden);
    // Left over from a crash.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let replaced = write(&new, text, mode).and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        // The file may not exist, and the first error is the one to report.
        let _ = fs::remove_file(&new);
    }
    replaced?;
    fs::File::open(directory)?.sync_all()
}

fn write(new: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(new)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(text)?;
    file.sync_all()
}
