//! Restricts what a program may change, enforced by the kernel (Landlock).
//!
//! A restriction belongs to a thread, is inherited by everything that thread starts, and cannot be lifted. So a
//! restricted program starts from its own thread, which restricts itself, starts the program and ends. The
//! reasons are in `docs/decisions/0005-a-sandbox-is-a-thread.md`; its limits are in `docs/configuration.md`.
//!
//! The sandbox restricts writing, creating, removing, renaming and truncating files, commands to devices and,
//! optionally, TCP and abstract sockets. It does not restrict reading or starting programs. A *sealed* sandbox
//! adds a filter of system calls ([`seal`]) for effects that Landlock does not cover.

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

/// Devices that every program expects to be writable, and that store nothing.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Restrictions on a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Paths that may be written, with everything below them. They must be real paths: one that contains a link
    /// is refused, because a program could have placed the link there. Missing paths are ignored.
    pub writable: Vec<PathBuf>,
    /// True to allow TCP.
    pub network: bool,
    /// True to forbid all sockets, changes of file attributes and signals as well.
    pub sealed: bool,
    /// Capabilities of the kernel.
    pub support: Support,
}

/// The restrictions that the kernel can enforce, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    None,
    /// Writing to files.
    Files,
    /// Files and network.
    Network,
    /// Files, network and system calls by number (seccomp).
    Sealed,
}

/// The reason why a program was not started in a sandbox. It is never started without one instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The kernel cannot restrict writing.
    #[error(
        "this system cannot restrict what programs write; that requires Linux 6.2 or newer with Landlock enabled"
    )]
    Files,
    /// The kernel cannot restrict the network.
    #[error(
        "this system cannot keep programs off the network; that requires Linux 6.7 or newer with Landlock enabled"
    )]
    Network,
    /// The kernel cannot filter system calls.
    #[error(
        "this system cannot filter the system calls of programs; that requires seccomp on x86-64 or ARM64"
    )]
    Seal,
    /// A path that should be writable has changed its target.
    #[error("`{}` now leads to `{}`", path.display(), real.display())]
    Moved {
        path: PathBuf,
        /// Its current target.
        real: PathBuf,
    },
    /// A path that should be writable cannot be opened.
    #[error("`{}` cannot be opened: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The kernel rejected the rules.
    #[error("the kernel rejected the sandbox rules: {0}")]
    Rules(#[from] RulesetError),
}

impl Support {
    /// Capabilities of the running kernel. Cached, because they do not change.
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
    /// A sandbox in which a program can only read and print: it writes no file, reaches no network and affects
    /// no other process.
    pub fn sealed(support: Support) -> Self {
        Self { writable: Vec::new(), network: false, sealed: true, support }
    }

    /// Builds the rules.
    pub(super) fn prepare(&self) -> Result<SandboxRules, Refusal> {
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
        Ok(SandboxRules { rules, sealed: self.sealed })
    }
}

/// Accesses that are forbidden unless a rule allows them. The first part is required; the rest is used where
/// the kernel supports it.
fn handled(network: bool, sealed: bool) -> Result<Ruleset, RulesetError> {
    // Earlier versions do not prevent truncating files outside.
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
    // Checks the opened file itself, because the path could lead elsewhere by now.
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

/// Rules that are ready to be enforced.
#[derive(Debug)]
pub(super) struct SandboxRules {
    rules: RulesetCreated,
    sealed: bool,
}

impl SandboxRules {
    /// Starts a program with the restrictions. Blocks until it has started, as an ordinary start does.
    pub(super) fn spawn(self, command: &mut Command) -> io::Result<Child> {
        let runtime = Handle::current();
        let start = move || {
            let _entered = runtime.enter();
            let status = self.rules.restrict_self().map_err(io::Error::other)?;
            if status.ruleset == RulesetStatus::NotEnforced {
                return Err(io::Error::other("the kernel did not enforce the sandbox"));
            }
            if self.sealed {
                seal::apply()?;
            }
            command.spawn()
        };
        thread::scope(|scope| {
            let starting = thread::Builder::new().name("sandbox".to_owned()).spawn_scoped(scope, start)?;
            starting
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread that starts the sandbox panicked")))
        })
    }
}

#[cfg(test)]
mod tests;
