//! Leases on a project: the cache does not evict a project while a turn holds one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use engine::{
    ports::{Draft, Prepared, Runner},
    session::Turn,
};
use futures::future::{BoxFuture, FutureExt};
use protocol::TurnEnd;

/// Counts the open leases of one project.
#[derive(Debug, Default)]
pub(crate) struct Leases(Arc<AtomicUsize>);

impl Leases {
    pub(crate) fn acquire(&self) -> Lease {
        Lease::count(&self.0)
    }

    pub(crate) fn are_open(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// One user of a project. Dropping it ends the lease.
#[derive(Debug)]
pub(crate) struct Lease(Arc<AtomicUsize>);

impl Lease {
    fn count(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(open))
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        Self::count(&self.0)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A runner that holds a lease: for as long as the engine keeps the runner, and until a turn that it runs has ended.
pub(crate) struct Leased {
    runner: Arc<dyn Runner>,
    lease: Lease,
}

impl Leased {
    pub(crate) fn new(runner: Arc<dyn Runner>, lease: Lease) -> Self {
        Self { runner, lease }
    }
}

impl Runner for Leased {
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let (run, lease) = (self.runner.run(turn), self.lease.clone());
        async move {
            let end = run.await;
            drop(lease);
            end
        }
        .boxed()
    }

    fn prepare<'a>(&'a self, draft: Draft<'a>) -> BoxFuture<'a, Result<Prepared, String>> {
        self.runner.prepare(draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_leased_until_the_last_lease_is_dropped() {
        let leases = Leases::default();
        assert!(!leases.are_open());
        let first = leases.acquire();
        let second = first.clone();
        drop(first);
        assert!(leases.are_open());
        drop(second);
        assert!(!leases.are_open());
    }
}
