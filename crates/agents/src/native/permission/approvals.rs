//! What people have allowed for good. It lasts as long as the server and is kept apart by directory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::request::Rule;

use crate::native::limits;

/// Rules from replies of `always`, by directory. Clones share them: what was allowed to one loop is allowed to
/// the next one with the same approvals.
#[derive(Debug, Clone, Default)]
pub struct Approvals(Arc<Mutex<HashMap<String, Vec<Rule>>>>);

impl Approvals {
    pub(super) fn of(&self, directory: &str) -> Vec<Rule> {
        self.lock().get(directory).cloned().unwrap_or_default()
    }

    pub(super) fn add(&self, directory: &str, rules: impl IntoIterator<Item = Rule>) {
        let mut all = self.lock();
        let known = all.entry(directory.to_owned()).or_default();
        for rule in rules {
            if !known.contains(&rule) {
                known.push(rule);
            }
        }
        let over = known.len().saturating_sub(limits::APPROVALS);
        known.drain(..over);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<Rule>>> {
        // Every change is a whole one, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
