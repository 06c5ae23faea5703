//! What children inherit besides this process's own environment.

use std::ffi::OsString;
use std::fmt;
use std::sync::OnceLock;

/// How the environment of children differs from the one of this process.
pub struct Inherited {
    /// Variables that children get although this process keeps them elsewhere.
    pub added: Vec<(OsString, OsString)>,
    /// Variables that only this process has any use for.
    pub removed: Vec<OsString>,
}

static INHERITED: OnceLock<Inherited> = OnceLock::new();

/// Children have the environment of this process.
static SAME: Inherited = Inherited { added: Vec::new(), removed: Vec::new() };

/// Makes every program that is started from now on inherit this, unless it is hidden from it. An environment belongs to
/// a process, so it is said once, when the process starts.
pub fn inherit(inherited: Inherited) {
    // A second call would come too late for programs that run already, so the first one stays.
    let _ = INHERITED.set(inherited);
}

pub(crate) fn inherited() -> &'static Inherited {
    INHERITED.get().unwrap_or(&SAME)
}

impl fmt::Debug for Inherited {
    /// Shows names only: values may be keys.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let added = self.added.iter().map(|(name, _)| name).collect::<Vec<_>>();
        out.debug_struct("Inherited").field("added", &added).field("removed", &self.removed).finish()
    }
}
