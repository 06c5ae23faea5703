//! Programs without a network: a namespace of their own, with loopback and nothing else.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{self, program};

/// Switches loopback on, then becomes the program.
const SCRIPT: &str = r#"ip link set lo up && exec "$@""#;

/// A way to start programs that reach nobody.
#[derive(Debug)]
pub(crate) struct Sealed {
    unshare: &'static [&'static str],
}

impl Sealed {
    /// Root makes the namespace directly; anybody else needs to be root inside it.
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

    /// The program, to be started without a network.
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
