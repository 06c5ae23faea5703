//! Opens a file at exactly the path that was checked.
//!
//! Between the check of a path and its use, another process can replace a component with a symbolic link. A
//! path from [`Root::locate`](super::Root::locate) contains no links, so it is opened without following any:
//! the kernel refuses it if a component has become a link since.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use super::{Error, MAX_FILE};

/// Permissions of a new file, before the user's umask.
const NEW: Mode = Mode::from_bits_truncate(0o666);

/// Opens a file for reading. Refuses directories, pipes and devices: they have no size and may never end.
pub(crate) fn open(path: &Path) -> Result<File, Error> {
    // Checked before opening, because opening some devices changes their state. The check of the opened file is
    // decisive.
    let about = path.symlink_metadata().map_err(Error::io(path))?;
    if !about.is_symlink() {
        check(path, &about)?;
    }
    let file = File::from(descend(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())?);
    check(path, &file.metadata().map_err(Error::io(path))?)?;
    Ok(file)
}

fn check(path: &Path, about: &std::fs::Metadata) -> Result<(), Error> {
    match about {
        about if about.is_dir() => Err(Error::IsDirectory(path.to_owned())),
        about if !about.is_file() => Err(Error::Binary(path.to_owned())),
        _ => Ok(()),
    }
}

/// Reads an open file up to [`MAX_FILE`].
pub(super) fn content(path: &Path, file: &mut File) -> Result<Vec<u8>, Error> {
    let size = file.metadata().map_err(Error::io(path))?.len();
    let mut bytes = Vec::new();
    if size <= MAX_FILE {
        // The file may grow while it is read.
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(Error::io(path))?;
    }
    let size = size.max(bytes.len() as u64);
    if size > MAX_FILE { Err(Error::TooLarge { path: path.to_owned(), size }) } else { Ok(bytes) }
}

/// Names in a directory.
pub(super) fn names(path: &Path) -> Result<Vec<OsString>, Error> {
    let directory = descend(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    let failed = |error: Errno| Error::io(path)(error.into());
    let mut names = Vec::new();
    for entry in Dir::new(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// Replaces the content of a file, or creates it.
pub(super) fn overwrite(path: &Path, content: &[u8]) -> Result<(), Error> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = File::from(descend(path, flags, NEW)?);
    file.write_all(content).map_err(Error::io(path))
}

/// Opens a path without following any link. `mode` applies to a new file.
fn descend(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Error> {
    let opened = reach(path, flags | OFlags::CLOEXEC, mode);
    opened.map_err(|error| match error {
        Errno::LOOP | Errno::MLINK => Error::Replaced(path.to_owned()),
        // A link in place of a directory, on a kernel where the path is opened component by component.
        Errno::NOTDIR if path.is_dir() => Error::Replaced(path.to_owned()),
        error => Error::io(path)(io::Error::from(error)),
    })
}

#[cfg(target_os = "linux")]
fn reach(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    use rustix::fs::{CWD, ResolveFlags, openat2};
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, flags, mode, resolve) {
        // Kernels before 5.6, sandboxes that do not know the call, and a concurrent rename.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => step_down(path, flags, mode),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn reach(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    step_down(path, flags, mode)
}

/// Opens a path component by component, each without following a link.
fn step_down(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    use rustix::fs::{CWD, openat};
    #[cfg(target_os = "linux")]
    const PASSING: OFlags = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    const PASSING: OFlags = OFlags::RDONLY;
    let start = if path.is_absolute() { "/" } else { "." };
    let mut reached = openat(CWD, start, PASSING | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut parts =
        path.components().filter(|part| matches!(part, std::path::Component::Normal(_))).peekable();
    if parts.peek().is_none() {
        return openat(CWD, start, flags, Mode::empty());
    }
    while let Some(part) = parts.next() {
        let how = if parts.peek().is_some() { PASSING | OFlags::DIRECTORY | OFlags::CLOEXEC } else { flags };
        reached = openat(&reached, part.as_os_str(), how | OFlags::NOFOLLOW, mode)?;
    }
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use tempfile::TempDir;

    use super::super::{Root, load};
    use super::*;

    /// Number of attempts to hit the race.
    const READS: usize = 3_000;

    fn tree() -> (TempDir, PathBuf) {
        let directory = TempDir::new().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("project/real")).unwrap();
        fs::create_dir(top.join("secret")).unwrap();
        fs::write(top.join("project/real/file"), "open").unwrap();
        fs::write(top.join("secret/file"), "canary").unwrap();
        (directory, top)
    }

    #[test]
    fn a_part_that_became_a_link_is_refused() {
        let (_directory, top) = tree();
        symlink(top.join("secret"), top.join("project/link")).unwrap();
        symlink(top.join("secret/file"), top.join("project/file")).unwrap();
        for how in [reach, step_down] {
            for path in ["project/link/file", "project/file"] {
                let opened = how(&top.join(path), OFlags::RDONLY, Mode::empty());
                assert!(opened.is_err(), "{path} {opened:?}");
            }
            let opened = how(&top.join("project/real/file"), OFlags::RDONLY, Mode::empty()).unwrap();
            let mut file = File::from(opened);
            assert_eq!(content(Path::new("file"), &mut file).unwrap(), b"open");
            assert!(how(Path::new("/"), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).is_ok());
        }
        assert!(matches!(open(&top.join("project/file")), Err(Error::Replaced(_))));
        assert!(matches!(overwrite(&top.join("project/file"), b"changed"), Err(Error::Replaced(_))));
        assert!(matches!(names(&top.join("project/link")), Err(Error::Replaced(_))));
    }

    #[test]
    fn a_link_swapped_in_between_check_and_use_never_exposes_outside_files() {
        let (_directory, top) = tree();
        let (project, stop) = (top.join("project"), AtomicBool::new(false));
        let (place, spare) = (project.join("place"), project.join("spare"));
        fs::create_dir(&place).unwrap();
        fs::write(place.join("file"), "open").unwrap();
        symlink(top.join("secret"), &spare).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let away = project.join("away");
                while !stop.load(Ordering::Relaxed) {
                    // A directory, then a link to the outside, then the directory again, all under one name.
                    for (from, to) in [(&place, &away), (&spare, &place), (&place, &spare), (&away, &place)] {
                        fs::rename(from, to).unwrap();
                    }
                }
            });
            let root = Root::new(&project).unwrap();
            let read = |_| root.resolve("place/file").and_then(|path| load(&path));
            let leaks =
                (0..READS).map(read).filter(|read| matches!(read, Ok(bytes) if bytes == b"canary")).count();
            stop.store(true, Ordering::Relaxed);
            assert_eq!(leaks, 0);
        });
    }
}
