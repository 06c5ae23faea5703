//! Finds and ends all descendants of a program.
//!
//! A process group is not enough, because `setsid` leaves it. So every program gets a mark in its environment,
//! which its descendants inherit, and on Linux the tree consists of every process that carries the mark, is in
//! the group, or descends from such a process. To escape, a process would have to drop its environment, leave
//! its group and lose its parent. On other systems only the group is used.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};

/// Environment variable with the mark.
pub(crate) const VARIABLE: &str = "BATON_PROCESS";

/// A mark that is unique among programs of all running servers.
pub(crate) fn mark() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// A program and its descendants. Kills them when dropped, unless disarmed.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Option<Pid>,
    mark: String,
}

impl Tree {
    pub(crate) fn new(root: Option<u32>, mark: String) -> Self {
        let root = root.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { root, mark }
    }

    /// Leaves processes that still run alone.
    pub(crate) fn disarm(&mut self) {
        self.root = None;
    }

    /// Sends `SIGTERM` to all processes.
    pub(crate) fn ask(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends `SIGHUP` to all processes.
    pub(crate) fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Kills all processes. Repeats until no new one appears, since a process may fork meanwhile.
    pub(crate) fn kill(&self) {
        for _ in 0..5 {
            self.signal(Signal::KILL);
            if self.is_gone() {
                return;
            }
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        let Some(root) = self.root else { return true };
        members::of(root, &self.mark).is_empty()
    }

    fn signal(&self, signal: Signal) {
        let Some(root) = self.root else { return };
        // A failure means that the process is already gone, which is the goal.
        let _ = kill_process_group(root, signal);
        for member in members::of(root, &self.mark) {
            let _ = rustix::process::kill_process(member, signal);
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(target_os = "linux")]
mod members {
    use std::collections::HashSet;
    use std::fs;

    use rustix::process::Pid;

    use super::VARIABLE;

    struct Process {
        id: i32,
        parent: i32,
        group: i32,
    }

    /// All living processes of the tree.
    pub(super) fn of(root: Pid, mark: &str) -> Vec<Pid> {
        let root = root.as_raw_nonzero().get();
        let all = processes();
        let marked = format!("{VARIABLE}={mark}");
        let mut tree: HashSet<i32> = all
            .iter()
            .filter(|process| process.id == root || process.group == root || carries(process.id, &marked))
            .map(|process| process.id)
            .collect();
        loop {
            let before = tree.len();
            tree.extend(
                all.iter()
                    .filter(|process| tree.contains(&process.parent))
                    .map(|process| process.id)
                    .collect::<Vec<_>>(),
            );
            if tree.len() == before {
                break;
            }
        }
        tree.into_iter().filter_map(Pid::from_raw).collect()
    }

    /// All processes except zombies.
    fn processes() -> Vec<Process> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|id: i32| {
                let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
                // The name is in parentheses and may itself contain parentheses and spaces.
                let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
                let state = fields.next()?;
                let parent = fields.next()?.parse().ok()?;
                let group = fields.next()?.parse().ok()?;
                (!matches!(state, "Z" | "X")).then_some(Process { id, parent, group })
            })
            .collect()
    }

    fn carries(id: i32, marked: &str) -> bool {
        let Ok(environment) = fs::read(format!("/proc/{id}/environ")) else { return false };
        environment.split(|byte| *byte == 0).any(|variable| variable == marked.as_bytes())
    }
}

#[cfg(not(target_os = "linux"))]
mod members {
    use rustix::process::{Pid, test_kill_process_group};

    /// The group's leader represents the group; no other process can be found.
    pub(super) fn of(root: Pid, _mark: &str) -> Vec<Pid> {
        if test_kill_process_group(root).is_ok() { vec![root] } else { Vec::new() }
    }
}
