//! Ends programs when the server dies without ending them.
//!
//! A killed server cannot end the programs it has started. So it has a guard: one shell for the whole process, which
//! reads the list of running programs from a pipe whose other end the server holds. The kernel closes that end however
//! the server dies, and then the guard kills every program on its list. A living server ends its programs itself and
//! takes them off the list.
//!
//! The guard works on a busy machine with many programs: it kills the listed process groups with builtins of the shell
//! only, and then looks for processes that have left their group in one search for all programs together.
//!
//! `PR_SET_PDEATHSIG` does not replace it: that signal comes when the thread that started a program ends, and a program
//! in a sandbox is started by a thread that ends at once. It also does not reach the program's own children.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use parking_lot::Mutex;
use rustix::io::ioctl_fionbio;

use super::tree;

/// Reads the lines `watch ENTRY` and `leave ENTRY`; an entry is `PROCESS:START:MARK`. `$1` is the variable with the mark.
///
/// A listed process leads a group, which also has processes without the mark. The group is killed only if the time of the
/// leader's start is still the same, because process ids are reused. Processes with a mark are searched repeatedly,
/// because one may fork meanwhile.
const WATCH: &str = r#"
trap '' HUP INT TERM
watched=' '
while read -r verb entry; do
    case "$verb$watched" in
    watch*) watched="$watched$entry " ;;
    leave*" $entry "*) watched=${watched%%" $entry "*}' '${watched#*" $entry "} ;;
    esac
done

is_original() {
    [ -d /proc/self ] || return 0
    read -r stat <"/proc/$1/stat" || return 1
    began=$2
    set -- ${stat##*)}
    [ "${20}" = "$began" ]
}
variable=$1
marks=
for entry in $watched; do
    process=${entry%%:*}
    entry=${entry#*:}
    if is_original "$process" "${entry%%:*}" 2>/dev/null; then kill -s KILL -- "-$process" 2>/dev/null; fi
    marks="$marks -e $variable=${entry#*:}"
done
[ -n "$marks" ] && [ -d /proc/self ] || exit 0

if printf 'a\0b' | grep -qzx a 2>/dev/null; then
    marked() { grep -lzxF $marks /proc/[0-9]*/environ 2>/dev/null; }
else
    marked() {
        for file in /proc/[0-9]*/environ; do
            if tr '\0' '\n' 2>/dev/null <"$file" | grep -qxF $marks; then echo "$file"; fi
        done 2>/dev/null
    }
fi
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    found=$(marked)
    [ -n "$found" ] || exit 0
    for file in $found; do
        process=${file#/proc/}
        kill -s KILL "${process%/environ}" 2>/dev/null
    done
done
"#;

/// The guard of this process.
static GUARD: Mutex<Guard> = Mutex::new(Guard { shell: None, watched: BTreeSet::new() });

/// A program on the guard's list. Dropping it takes the program off the list.
#[derive(Debug)]
pub(super) struct Watched(String);

/// Puts a program on the guard's list. Without a guard the program still runs, and a warning is logged.
pub(super) fn watch(process: Option<u32>, mark: &str) -> Option<Watched> {
    let process = process?;
    let entry = format!("{process}:{}:{mark}", start(process).unwrap_or_default());
    GUARD.lock().add(&entry);
    Some(Watched(entry))
}

impl Drop for Watched {
    fn drop(&mut self) {
        GUARD.lock().remove(&self.0);
    }
}

/// The time at which a process started, which identifies it together with its id. None where there is no `/proc`.
fn start(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may itself contain parentheses and spaces; the time is the 20th field after it.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19).map(str::to_owned)
}

#[derive(Debug)]
struct Guard {
    /// The shell; none before the first program and after a failure.
    shell: Option<Shell>,
    /// The programs on the list, for a shell that replaces a broken one.
    watched: BTreeSet<String>,
}

impl Guard {
    fn add(&mut self, entry: &str) {
        self.watched.insert(entry.to_owned());
        if self.shell.as_mut().is_some_and(|shell| shell.tell("watch", entry).is_ok()) {
            return;
        }
        // Ends a shell that does not read its list before another one takes over.
        self.shell = None;
        match Shell::start(&self.watched) {
            Ok(shell) => self.shell = Some(shell),
            Err(error) => {
                tracing::warn!(%error, "cannot start the guard; programs would outlive a crash of this server");
            }
        }
    }

    fn remove(&mut self, entry: &str) {
        self.watched.remove(entry);
        if let Some(shell) = &mut self.shell
            && shell.tell("leave", entry).is_err()
        {
            // The next program starts another one.
            self.shell = None;
        }
    }
}

/// The guard's process. Dropping it ends the process without effect.
#[derive(Debug)]
struct Shell {
    process: Child,
    list: ChildStdin,
}

impl Shell {
    /// Starts a shell with these programs on its list.
    fn start(watched: &BTreeSet<String>) -> io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "all child processes start here")]
        let mut command = Command::new("/bin/sh");
        std::os::unix::process::CommandExt::process_group(&mut command, 0)
            .args(["-c", WATCH, "baton-guard", tree::VARIABLE])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = command.spawn()?;
        let list = process.stdin.take().ok_or_else(|| io::Error::other("the shell has no input"))?;
        // A shell that was stopped must not block the server.
        ioctl_fionbio(&list, true)?;
        let mut shell = Self { process, list };
        for entry in watched {
            shell.tell("watch", entry)?;
        }
        Ok(shell)
    }

    /// Sends one line, which the kernel takes whole or not at all, because it is short.
    fn tell(&mut self, verb: &str, entry: &str) -> io::Result<()> {
        self.list.write_all(format!("{verb} {entry}\n").as_bytes())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // A failure means that the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests;
