//! Ends a program when the server dies without ending it.
//!
//! A killed server cannot end the programs it has started. So each companion program has a guard: a shell that
//! waits for the end of a pipe whose other end the server holds. The kernel closes that end however the server
//! dies, and then the guard kills every process that carries the program's mark. A living server ends the
//! program itself, and the guard before it can act.

use std::process::Stdio;

use tokio::process::{Child, Command};

use super::tree;

/// `$1` is the process, `$2` the mark in its environment. Processes of its group without the mark are found
/// through the group, but only while the process certainly is the original one, because ids are reused.
const WATCH: &str = r#"
trap '' HUP INT TERM
while read -r _; do :; done
marked() { tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | grep -qxF -- "$2"; }
if [ ! -d /proc/self ] || marked "$1" "$2"; then kill -KILL -- "-$1" 2>/dev/null; fi
for entry in /proc/[0-9]*; do
    if marked "${entry#/proc/}" "$2"; then kill -KILL "${entry#/proc/}" 2>/dev/null; fi
done
"#;

/// A guard process. Dropping it ends the guard without effect.
#[derive(Debug)]
pub(super) struct Guard {
    /// The shell, with the pipe whose end it waits for.
    #[cfg_attr(not(test), expect(dead_code, reason = "held so that dropping it ends the guard"))]
    shell: Child,
}

impl Guard {
    /// Starts a guard for a process. Without a shell there is no guard; the program still runs and a warning is
    /// logged.
    pub(super) fn over(process: Option<u32>, mark: &str) -> Option<Self> {
        let process = process?.to_string();
        #[expect(clippy::disallowed_methods, reason = "all child processes start here")]
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", WATCH, "baton-guard", &process, &format!("{}={mark}", tree::VARIABLE)])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        match command.spawn() {
            Ok(shell) => Some(Self { shell }),
            Err(error) => {
                tracing::warn!(process, %error, "cannot start a guard; the program would outlive a crash of this server");
                None
            }
        }
    }

    /// Simulates the death of the server.
    #[cfg(test)]
    pub(super) fn abandon(&mut self) {
        self.shell.stdin = None;
    }
}
