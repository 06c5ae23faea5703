//! What a program may change, kept up by the kernel (Landlock).
//!
//! A restriction belongs to a thread, is inherited by whatever that thread starts, and cannot be taken back. So a
//! restricted program is started from a thread of its own, which restricts itself, starts the program and is gone.
//! The reasons are in `docs/decisions/0005-a-sandbox-is-a-thread.md`; what it does not protect from is in
//! `docs/configuration.md`.
//!
//! Restricted are: writing, creating, removing, renaming and truncating files, commands to devices, and, on demand, TCP
//! and abstract sockets. Reading and starting programs are not. A *sealed* sandbox adds a filter of system calls
//! ([`seal`]) against what Landlock does not know about.

mod seal;

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// Devices that every program expects to be able to write to, and that keep nothing.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What a program may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// What may be written to, with all that is below. Real paths: one that leads through a link is refused, since a
    /// program could have put the link there. Missing ones are left out.
    pub writable: Vec<PathBuf>,
    /// Whether TCP may be used.
    pub network: bool,
    /// Whether sockets of every kind, changes of file attributes and signals are forbidden as well.
    pub sealed: bool,
    /// What the kernel can do about it.
    pub support: Support,
}

/// How much of a sandbox the kernel can keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    /// Nothing.
    None,
    /// What is written.
    Files,
    /// That, and the network.
    Network,
    /// That, and system calls by number (seccomp).
    Sealed,
}

/// Why a program was not started in a sandbox. It is not started without one either.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The kernel cannot restrict what is written.
    #[error(
        "this system cannot restrict what programs write, which takes Linux 6.2 or newer with Landlock switched on"
    )]
    Files,
    /// The kernel cannot restrict the network.
    #[error(
        "this system cannot keep programs off the network, which takes Linux 6.7 or newer with Landlock switched on"
    )]
    Network,
    /// The kernel cannot filter system calls.
    #[error("this system cannot filter the system calls of programs, which takes seccomp on x86-64 or ARM64")]
    Seal,
    /// Something that should be writable is not what it was.
    #[error("`{}` now leads to `{}`", path.display(), real.display())]
    Moved {
        /// What was to be writable.
        path: PathBuf,
        /// Where it leads.
        real: PathBuf,
    },
    /// Something that should be writable cannot be opened.
    #[error("`{}` cannot be opened: {source}", path.display())]
    Unreadable {
        /// What was to be writable.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel did not like the rules.
    #[error("the kernel does not accept the rules: {0}")]
    Rules(#[from] RulesetError),
}

impl Support {
    /// What the running kernel can do. The answer is remembered: it does not change while the kernel runs.
    pub fn probe() -> Self {
        static KNOWN: OnceLock<Support> = OnceLock::new();
        *KNOWN.get_or_init(Self::ask_kernel)
    }

    fn ask_kernel() -> Self {
        let can = |network| handled(network, false).and_then(Ruleset::create).is_ok();
        match (can(false), can(true)) {
            (true, _) if seal::works() => Self::Sealed,
            (true, _) => Self::Network,
            (false, true) => Self::Files,
            (false, false) => Self::None,
        }
    }
}

impl Sandbox {
    /// A sandbox in which a program can only read and print: it writes no file, reaches no network and changes nothing
    /// about other processes.
    pub fn sealed(support: Support) -> Self {
        Self { writable: Vec::new(), network: false, sealed: true, support }
    }

    /// The rules, ready to be put in force.
    pub(super) fn prepare(&self) -> Result<Fence, Refusal> {
        if self.support < Support::Files {
            return Err(Refusal::Files);
        }
        if !self.network && self.support < Support::Network {
            return Err(Refusal::Network);
        }
        if self.sealed && self.support < Support::Sealed {
            return Err(Refusal::Seal);
        }
        let mut rules = handled(self.network, self.sealed)?.create()?;
        for device in DEVICES {
            rules = allow(rules, Path::new(device))?;
        }
        for path in &self.writable {
            rules = allow(rules, path)?;
        }
        Ok(Fence { rules, sealed: self.sealed })
    }
}

/// What is forbidden unless a rule allows it. The first part has to work; the rest is taken where there is it.
fn handled(network: bool, sealed: bool) -> Result<Ruleset, RulesetError> {
    // Before this version, files outside could be truncated.
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(ABI::V3))?;
    if !network {
        rules = rules.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    rules = rules.set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::IoctlDev)?;
    if !network {
        rules = rules.scope(Scope::AbstractUnixSocket)?;
    }
    if sealed {
        rules = rules.scope(Scope::Signal)?;
    }
    Ok(rules)
}

fn allow(rules: RulesetCreated, path: &Path) -> Result<RulesetCreated, Refusal> {
    let unreadable = |source| Refusal::Unreadable { path: path.to_owned(), source };
    let open = match PathFd::new(path) {
        Ok(open) => open,
        Err(PathFdError::OpenCall { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(rules);
        }
        Err(error) => return Err(unreadable(io::Error::other(error))),
    };
    // What was opened, not what the path leads to by the time somebody looks again.
    let opened = format!("/proc/self/fd/{}", open.as_fd().as_raw_fd());
    let real = std::fs::read_link(&opened).map_err(unreadable)?;
    if real != path {
        return Err(Refusal::Moved { path: path.to_owned(), real });
    }
    let is_directory = std::fs::metadata(&opened).map_err(unreadable)?.is_dir();
    Ok(rules.add_rule(PathBeneath::new(open, rights(is_directory)))?)
}

fn rights(is_directory: bool) -> BitFlags<AccessFs> {
    let writing = AccessFs::from_write(ABI::V5);
    if is_directory { writing } else { writing & AccessFs::from_file(ABI::V5) }
}

/// Rules that are about to be in force.
#[derive(Debug)]
pub(super) struct Fence {
    rules: RulesetCreated,
    sealed: bool,
}

impl Fence {
    /// Starts a program behind the fence. Waits for it to be started, as starting without one does.
    pub(super) fn spawn(self, command: &mut Command) -> io::Result<Child> {
        let runtime = Handle::current();
        let start = move || {
            let _entered = runtime.enter();
            let status = self.rules.restrict_self().map_err(io::Error::other)?;
            if status.ruleset == RulesetStatus::NotEnforced {
                return Err(io::Error::other("the sandbox is not in force"));
            }
            if self.sealed {
                seal::apply()?;
            }
            command.spawn()
        };
        thread::scope(|scope| {
            let starting = thread::Builder::new().name("sandbox".to_owned()).spawn_scoped(scope, start)?;
            starting.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts it broke")))
        })
    }
}

#[cfg(test)]
mod tests;
