//! The sealed sandbox of commands that run without a question because the built-in rules call them harmless.
//!
//! The rules may be wrong about a command, and git runs programs that a repository names. So these commands can
//! only read and print: they run in a sealed sandbox, with an environment that has no secrets and no settings for
//! shells and loaders, and with everything switched off by which git would start another program.

use std::ffi::OsString;

use workspace::process::{Sandbox, Spec, Support};

/// The hint for a model whose command failed.
pub const REMARK: &str = "The command ran without a question, in a sandbox: it could not write any file or change \
                                 anything else, and had no network.";

/// Variables that such a command inherits. Others may hold secrets, or change the behaviour of shells, loaders and
/// git.
const KEPT: &[&str] = &[
    "COLUMNS",
    "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_TIME",
    "LOCALE_ARCHIVE",
    "LOGNAME",
    "PATH",
    "TERM",
    "TZ",
    "USER",
    "XDG_CONFIG_HOME",
];

/// Variables for git. A repository's attributes can still name drivers (`textconv`, `filter`) that no variable can
/// list; those run, in the sandbox.
const VARIABLES: [(&str, &str); 5] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
];

/// Settings for git, which override those of a repository.
const SETTINGS: [(&str, &str); 15] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("core.alternateRefsCommand", "true"),
    ("core.attributesFile", "/dev/null"),
    ("credential.helper", ""),
    // `git diff` would refresh the index in spite of `GIT_OPTIONAL_LOCKS`.
    ("diff.autoRefreshIndex", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("log.diffMerges", "separate"),
    ("log.showSignature", "false"),
    ("safe.bareRepository", "explicit"),
    ("status.submoduleSummary", "false"),
];

/// Prepares the environment of a command and returns its sandbox.
pub fn prepare(spec: &mut Spec, kernel: Support) -> Sandbox {
    spec.inherited = Some(KEPT);
    // Plugins add variables, too.
    spec.environment.retain(|(name, _)| KEPT.iter().any(|kept| name == kept));
    spec.environment.extend(git());
    Sandbox::sealed(kernel)
}

fn git() -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> =
        VARIABLES.iter().map(|(name, value)| (name.into(), value.into())).collect();
    variables.push(("GIT_CONFIG_COUNT".into(), SETTINGS.len().to_string().into()));
    for (index, (name, value)) in SETTINGS.iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{index}").into(), name.into()));
        variables.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.into()));
    }
    variables
}
