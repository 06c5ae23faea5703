//! The JavaScript runtime of plugins: Bun if it is installed, otherwise Node; and the host's own files.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;
use workspace::process::{Bounds, Spec};

/// The host's program and its modules.
const FILES: [(&str, &str); 11] = [
    ("bun.mjs", include_str!("js/bun.mjs")),
    ("client.mjs", include_str!("js/client.mjs")),
    ("console.mjs", include_str!("js/console.mjs")),
    ("host.mjs", include_str!("js/host.mjs")),
    ("logins.mjs", include_str!("js/logins.mjs")),
    ("modules.mjs", include_str!("js/modules.mjs")),
    ("plugins.mjs", include_str!("js/plugins.mjs")),
    ("providers.mjs", include_str!("js/providers.mjs")),
    ("shell.mjs", include_str!("js/shell.mjs")),
    ("tools.mjs", include_str!("js/tools.mjs")),
    ("wire.mjs", include_str!("js/wire.mjs")),
];

/// Moves the connection from standard input and output to other descriptors, so that a plugin's output cannot
/// corrupt it. Everything that a plugin prints goes to standard error, which is captured with a limit.
const LAUNCH: &str = r#"exec "$@" 3<&0 4>&1 0</dev/null 1>&2"#;

/// Limits of a plugin's captured output: its beginning and its end, in bytes.
const KEPT: Bounds = Bounds { head: 2 * 1024, tail: 6 * 1024 };

/// A JavaScript runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runtime {
    /// Bun, for which plugins are written.
    Bun(PathBuf),
    /// Node, to which the host adds Bun's missing functions.
    Node(PathBuf),
}

impl Runtime {
    /// Finds Bun, or else Node, in a search path.
    pub fn find(path: &OsStr) -> Option<Self> {
        let named = |name: &str| {
            std::env::split_paths(path).map(|folder| folder.join(name)).find(|file| is_program(file))
        };
        named("bun").map(Self::Bun).or_else(|| named("node").map(Self::Node))
    }

    /// The package installer and its arguments.
    pub(super) fn installer(&self) -> (OsString, &'static [&'static str]) {
        match self {
            Self::Bun(bun) => (bun.into(), &["install", "--ignore-scripts", "--no-progress", "--production"]),
            Self::Node(node) => (
                Some(node.with_file_name("npm"))
                    .filter(|npm| is_program(npm))
                    .map_or("npm".into(), Into::into),
                &["install", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", "--loglevel=error"],
            ),
        }
    }

    fn program(&self) -> (&Path, &'static [&'static str]) {
        match self {
            // By default Bun installs every missing import.
            Self::Bun(bun) => (bun, &["--no-install"]),
            Self::Node(node) => (node, &["--no-warnings"]),
        }
    }

    /// The process specification of the host. Its packages are in `home`.
    ///
    /// The process starts in its own directory and changes to the project's directory later: Bun executes scripts
    /// named in a `bunfig.toml` of the current directory, and reads its `.env`, before anything else.
    pub(super) fn spec(&self, home: &Path) -> Spec {
        let (program, options) = self.program();
        let mut spec = Spec::new("/bin/sh", folder(home), Duration::MAX).args(["-c", LAUNCH, "plugins"]);
        spec = spec.args([program]).args(options).args([folder(home).join("host.mjs")]);
        // Bun searches here for packages that are not installed beside a plugin. For Node, `modules.mjs` does that.
        spec.environment.push(("NODE_PATH".into(), home.join("node_modules").into()));
        // OpenCode sets these, and plugins look for them to know where they run.
        let pid = std::process::id().to_string();
        for (name, value) in [("AGENT", "1"), ("OPENCODE", "1"), ("OPENCODE_PID", pid.as_str())] {
            spec.environment.push((name.into(), value.into()));
        }
        spec.bounds = KEPT;
        spec
    }
}

/// Writes the host's files below `home` unless they exist.
pub(super) fn unpack(home: &Path) -> io::Result<()> {
    let folder = folder(home);
    std::fs::create_dir_all(&folder)?;
    for (name, text) in FILES {
        let path = folder.join(name);
        if std::fs::read(&path).is_ok_and(|present| present == text.as_bytes()) {
            continue;
        }
        // Hosts of other directories and servers may read or write the file at the same time, so each writer
        // renames a draft of its own.
        let mut draft = NamedTempFile::new_in(&folder)?;
        draft.write_all(text.as_bytes())?;
        draft.persist(&path)?;
    }
    Ok(())
}

fn folder(home: &Path) -> PathBuf {
    home.join(concat!("host-", env!("CARGO_PKG_VERSION")))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn program(folder: &Path, name: &str, mode: u32) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join(name), "").unwrap();
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn bun_comes_before_node_wherever_it_is() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (place.path().join("one"), place.path().join("two"));
        program(&first, "node", 0o755);
        program(&first, "bun", 0o644);
        program(&second, "node", 0o755);
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(Runtime::find(&path), Some(Runtime::Node(first.join("node"))));
        program(&second, "bun", 0o755);
        assert_eq!(Runtime::find(&path), Some(Runtime::Bun(second.join("bun"))));
        assert_eq!(Runtime::find(OsStr::new("/nonexistent")), None);
    }

    #[test]
    fn concurrent_writers_of_the_files_do_not_conflict() {
        let home = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8).map(|_| scope.spawn(|| unpack(home.path()))).collect();
            for writer in writers {
                writer.join().unwrap().unwrap();
            }
        });
        assert_eq!(std::fs::read_dir(folder(home.path())).unwrap().count(), FILES.len());
    }

    #[test]
    fn the_files_are_written_and_repaired() {
        let home = tempfile::tempdir().unwrap();
        unpack(home.path()).unwrap();
        let host = folder(home.path()).join("host.mjs");
        std::fs::write(&host, "something else").unwrap();
        unpack(home.path()).unwrap();
        assert!(std::fs::read_to_string(&host).unwrap().contains("wire.listen"));
        let count = std::fs::read_dir(folder(home.path())).unwrap().count();
        assert_eq!(count, FILES.len(), "no draft is left");
    }
}
