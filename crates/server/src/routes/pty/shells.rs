//! The shells of this machine.

use std::path::Path;

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Error, blocking::blocking, extract::Directory};

/// The system's list of shells.
const LIST: &str = "/etc/shells";
/// Shells to try if the system has no list.
const USUAL: [&str; 3] = ["/bin/zsh", "/bin/bash", "/bin/sh"];
/// Shells with a language that differs from POSIX scripts.
const OWN_LANGUAGE: [&str; 2] = ["fish", "nu"];
/// Shells that support the option `-l`.
const LOGIN: [&str; 6] = ["bash", "dash", "fish", "ksh", "sh", "zsh"];
/// Maximum number of bytes to read from the list.
const MAX_LIST: usize = 64 * 1024;

/// A shell of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Shell {
    path: String,
    name: String,
    /// True if POSIX scripts run in the shell.
    acceptable: bool,
}

pub(super) async fn list(_: Directory) -> Result<Json<Vec<Shell>>, Error> {
    blocking(|| {
        let listed = std::fs::read_to_string(LIST).unwrap_or_default();
        Ok::<_, Error>(Json(parse(&listed, Path::is_file)))
    })
    .await
}

/// Returns the default program: the user's shell, or another one that exists.
pub(super) fn usual(own: Option<&str>) -> String {
    let exists = |shell: &&str| Path::new(shell).is_file();
    own.filter(exists).or_else(|| USUAL.into_iter().skip(1).find(exists)).unwrap_or("/bin/sh").to_owned()
}

/// Returns the default arguments. A shell becomes a login shell and reads the user's profile, as in other
/// terminals; otherwise `PATH` would lack the user's programs.
pub(super) fn usual_args(command: &str) -> Vec<String> {
    let name = Path::new(command).file_name().unwrap_or_default();
    if LOGIN.iter().any(|shell| name == *shell) { vec!["-l".to_owned()] } else { Vec::new() }
}

fn parse(listed: &str, exists: impl Fn(&Path) -> bool) -> Vec<Shell> {
    let listed = listed.get(..MAX_LIST).unwrap_or(listed).lines().map(str::trim);
    let mut shells: Vec<Shell> = Vec::new();
    for path in listed.filter(|line| line.starts_with('/')).chain(USUAL) {
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The same shell is often listed with two paths.
        if exists(Path::new(path)) && !shells.iter().any(|shell| shell.name == name) {
            let acceptable = !OWN_LANGUAGE.contains(&name.as_str());
            shells.push(Shell { path: path.to_owned(), name, acceptable });
        }
    }
    shells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shells_get_the_login_option() {
        for shell in ["/bin/sh", "/usr/local/bin/fish", "zsh"] {
            assert_eq!(usual_args(shell), ["-l"], "{shell}");
        }
        for other in ["/bin/cat", "ssh", "/bin/sh/x", ""] {
            assert!(usual_args(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn each_existing_shell_is_listed_once() {
        let listed = "# shells\n/usr/bin/fish\n/bin/bash\n/usr/bin/bash\n/bin/gone\nnonsense\n";
        let shells = parse(listed, |path| path != Path::new("/bin/gone") && path != Path::new("/bin/zsh"));
        let shell =
            |path: &str, name: &str, acceptable| Shell { path: path.into(), name: name.into(), acceptable };
        let expected = [
            shell("/usr/bin/fish", "fish", false),
            shell("/bin/bash", "bash", true),
            shell("/bin/sh", "sh", true),
        ];
        assert_eq!(shells, expected);
    }

    #[test]
    fn the_users_shell_is_preferred_if_it_exists() {
        assert_eq!(usual(Some("/bin/sh")), "/bin/sh");
        assert_ne!(usual(Some("/nonexistent/shell")), "/nonexistent/shell");
    }
}
