//! The limit of idle processes that all agents of the server share; see [`super`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Default number of idle processes of all agents together.
pub const MAX_IDLE: usize = 4;

/// The idle processes of all agents. Clones share them; each clone may have its own limit, because a limit comes from the
/// configuration of a directory.
#[derive(Debug, Clone)]
pub struct IdlePool {
    idle: Arc<Mutex<State>>,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the next process. Processes with lower numbers have been idle longer.
    next: u64,
    evictions: BTreeMap<u64, CancellationToken>,
}

impl Default for IdlePool {
    fn default() -> Self {
        Self { idle: Arc::default(), most: MAX_IDLE }
    }
}

impl IdlePool {
    /// The same processes with another limit.
    #[must_use]
    pub fn with_limit(&self, most: usize) -> Self {
        Self { idle: Arc::clone(&self.idle), most }
    }

    /// Adds a process that has become idle. If there are too many, those that have been idle the longest are evicted.
    pub fn enter(&self) -> Idle {
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        let evicted = CancellationToken::new();
        state.evictions.insert(number, evicted.clone());
        while state.evictions.len() > self.most
            && let Some((_, eviction)) = state.evictions.pop_first()
        {
            eviction.cancel();
        }
        drop(state);
        Idle { pool: self.clone(), number, evicted }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is complete in itself, so a poisoned lock holds no broken state.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An idle process in the pool. Dropping it takes the process out of the pool.
#[derive(Debug)]
pub struct Idle {
    pool: IdlePool,
    number: u64,
    evicted: CancellationToken,
}

impl Idle {
    /// Cancelled when the process has to end to make room for another one.
    pub fn evicted(&self) -> &CancellationToken {
        &self.evicted
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.pool.state().evictions.remove(&self.number);
    }
}
