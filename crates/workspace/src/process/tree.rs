//! Finding and ending everything a program has started.
//!
//! A process group is not enough: `setsid` leaves it. So every program gets a mark in its environment, which its
//! descendants inherit, and on Linux the tree is everything that carries the mark, is in the group, or descends
//! from such a process. A process would have to drop its environment, leave its group and lose its parent to get
//! away. Elsewhere the group has to do.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};

/// The variable that carries the mark.
pub(crate) const VARIABLE: &str = "BATON_PROCESS";

/// A mark that no other program started by any running server has.
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

    /// Leaves whatever still runs alone.
    pub(crate) fn disarm(&mut self) {
        self.root = None;
    }

    /// Asks everything to end.
    pub(crate) fn ask(&self) {
        self.signal(Signal::TERM);
    }

    /// Tells everything that its terminal is gone.
    pub(crate) fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Ends everything. Looks again until nothing new appears, since a process may fork while it is looked at.
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
        // A process that is gone already is what we want, so failures are of no interest.
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

    /// Every living process of the tree.
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

    /// All processes that are not dead already.
    fn processes() -> Vec<Process> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|id: i32| {
                let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
                // The name is in parentheses and may contain anything, parentheses and spaces included.
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

    /// The group's leader stands for the group; nobody else can be found.
    pub(super) fn of(root: Pid, _mark: &str) -> Vec<Pid> {
        if test_kill_process_group(root).is_ok() { vec![root] } else { Vec::new() }
    }
}
