//! The shells of this machine.

use std::path::Path;

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Error, blocking::blocking, extract::Directory};

/// Where the system lists them.
const LIST: &str = "/etc/shells";
/// Where they are if the system does not say.
const USUAL: [&str; 3] = ["/bin/zsh", "/bin/bash", "/bin/sh"];
/// Shells with a language of their own, which scripts for the others do not run in.
const OWN_LANGUAGE: [&str; 2] = ["fish", "nu"];
/// Shells that know the option `-l`.
const LOGIN: [&str; 6] = ["bash", "dash", "fish", "ksh", "sh", "zsh"];
/// Bytes of the list that are read.
const MAX_LIST: usize = 64 * 1024;

/// A shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Shell {
    /// Where it is.
    path: String,
    /// What it is called.
    name: String,
    /// Whether ordinary scripts run in it.
    acceptable: bool,
}

pub(super) async fn list(_: Directory) -> Result<Json<Vec<Shell>>, Error> {
    blocking(|| {
        let listed = std::fs::read_to_string(LIST).unwrap_or_default();
        Ok::<_, Error>(Json(parse(&listed, Path::is_file)))
    })
    .await
}

/// What runs when nobody says what: the person's shell, or one that there is.
pub(super) fn usual(own: Option<&str>) -> String {
    let exists = |shell: &&str| Path::new(shell).is_file();
    own.filter(exists).or_else(|| USUAL.into_iter().skip(1).find(exists)).unwrap_or("/bin/sh").to_owned()
}

/// A shell that is told nothing reads the person's profile, as in every other terminal; without it their programs are
/// not found.
pub(super) fn usual_args(command: &str) -> Vec<String> {
    let name = Path::new(command).file_name().unwrap_or_default();
    if LOGIN.iter().any(|shell| name == *shell) { vec!["-l".to_owned()] } else { Vec::new() }
}

fn parse(listed: &str, exists: impl Fn(&Path) -> bool) -> Vec<Shell> {
    let listed = listed.get(..MAX_LIST).unwrap_or(listed).lines().map(str::trim);
    let mut shells: Vec<Shell> = Vec::new();
    for path in listed.filter(|line| line.starts_with('/')).chain(USUAL) {
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        // A shell is often in two places, which are one.
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
    fn shells_and_only_shells_read_the_profile() {
        for shell in ["/bin/sh", "/usr/local/bin/fish", "zsh"] {
            assert_eq!(usual_args(shell), ["-l"], "{shell}");
        }
        for other in ["/bin/cat", "ssh", "/bin/sh/x", ""] {
            assert!(usual_args(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn shells_are_listed_once_and_only_if_they_are_there() {
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
    fn the_own_shell_comes_first_if_it_is_there() {
        assert_eq!(usual(Some("/bin/sh")), "/bin/sh");
        assert_ne!(usual(Some("/nonexistent/shell")), "/nonexistent/shell");
    }
}
