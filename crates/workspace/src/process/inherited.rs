//! Environment that child processes inherit besides this process's own.

use std::ffi::OsString;
use std::fmt;
use std::sync::OnceLock;

/// Difference between the environment of children and that of this process.
pub struct Inherited {
    /// Variables that children get although this process keeps them elsewhere.
    pub added: Vec<(OsString, OsString)>,
    /// Variables that children do not get.
    pub removed: Vec<OsString>,
}

static INHERITED: OnceLock<Inherited> = OnceLock::new();

/// Children have the same environment as this process.
static SAME: Inherited = Inherited { added: Vec::new(), removed: Vec::new() };

/// Sets the environment for every program started from now on, except for variables hidden from it. Called once
/// at start, because an environment belongs to the process.
pub fn inherit(inherited: Inherited) {
    // The first call wins: a second would be too late for programs that already run.
    let _ = INHERITED.set(inherited);
}

pub(crate) fn inherited() -> &'static Inherited {
    INHERITED.get().unwrap_or(&SAME)
}

impl fmt::Debug for Inherited {
    /// Shows only names, because values may be keys.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let added = self.added.iter().map(|(name, _)| name).collect::<Vec<_>>();
        out.debug_struct("Inherited").field("added", &added).field("removed", &self.removed).finish()
    }
}
