//! Starts programs in a network namespace with loopback and nothing else.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{self, program};

/// Enables loopback, then executes the program.
const SCRIPT: &str = r#"ip link set lo up && exec "$@""#;

/// Starts programs that cannot reach the network.
#[derive(Debug)]
pub(crate) struct Sealed {
    unshare: &'static [&'static str],
}

impl Sealed {
    /// Root creates the namespace directly; other users need to map themselves to root inside it.
    pub(crate) fn find(dir: &Path) -> Result<Self> {
        for unshare in [&["--net"][..], &["--map-root-user", "--net"][..]] {
            let sealed = Self { unshare };
            if command::present(&mut sealed.program("true", dir)) {
                return Ok(sealed);
            }
        }
        bail!(
            "this machine does not allow network namespaces (`unshare --net`); peers do not run without one. \
             Run as root, or allow user namespaces"
        )
    }

    /// The command that starts the program without a network.
    pub(crate) fn program(&self, name: &str, dir: &Path) -> Command {
        let mut command = program("unshare", dir);
        command.args(self.unshare).args(["--", "sh", "-c", SCRIPT, "sh", name]);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_program_is_started_through_the_namespace() {
        let sealed = Sealed { unshare: &["--net"] };
        let command = sealed.program("node", Path::new("."));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(command.get_program(), "unshare");
        assert_eq!(words, ["--net", "--", "sh", "-c", SCRIPT, "sh", "node"]);
    }
}
