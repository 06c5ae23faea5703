//! Excludes cleaning and other operations from each other.
//!
//! Git removes empty object directories. A directory that another git process has just created for a file it is
//! about to write is empty, too, and that file would then be missing from a snapshot. So cleaning starts only
//! while no operation runs, and an operation that starts stops it first.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio_util::sync::CancellationToken;

/// State of running operations and cleaning.
#[derive(Debug, Clone, Default)]
pub(super) struct Maintenance {
    state: Arc<Mutex<State>>,
    /// Shared by operations, held exclusively by cleaning.
    place: Arc<RwLock<()>>,
}

#[derive(Debug, Default)]
struct State {
    working: usize,
    cleaning: Option<CancellationToken>,
}

/// Guard of a running operation.
#[derive(Debug)]
pub(super) struct Work {
    upkeep: Maintenance,
    place: Option<OwnedRwLockReadGuard<()>>,
}

/// Guard of a running cleaning.
#[derive(Debug)]
pub(super) struct Cleaning {
    upkeep: Maintenance,
    place: Option<OwnedRwLockWriteGuard<()>>,
    /// Cancelled when an operation wants to start.
    pub(super) stop: CancellationToken,
}

impl Maintenance {
    /// Starts an operation, after a running cleaning has stopped.
    pub(super) async fn work(&self) -> Work {
        let mut work = Work { upkeep: self.clone(), place: None };
        {
            let mut state = self.state.lock();
            state.working += 1;
            if let Some(stop) = &state.cleaning {
                stop.cancel();
            }
        }
        work.place = Some(Arc::clone(&self.place).read_owned().await);
        work
    }

    /// Starts cleaning, unless an operation or another cleaning runs.
    pub(super) fn clean(&self) -> Option<Cleaning> {
        let mut state = self.state.lock();
        if state.working > 0 || state.cleaning.is_some() {
            return None;
        }
        let place = Arc::clone(&self.place).try_write_owned().ok()?;
        let stop = CancellationToken::new();
        state.cleaning = Some(stop.clone());
        Some(Cleaning { upkeep: self.clone(), place: Some(place), stop })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Releases the lock first, so that a caller who sees no running operation finds it free.
        self.place = None;
        self.upkeep.state.lock().working -= 1;
    }
}

impl Drop for Cleaning {
    fn drop(&mut self) {
        self.upkeep.state.lock().cleaning = None;
        self.place = None;
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::Pin, task::Poll};

    use super::*;

    async fn is_waiting(future: &mut (impl Future + Unpin)) -> bool {
        poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn cleaning_does_not_start_during_an_operation() {
        let upkeep = Maintenance::default();
        let (one, two) = (upkeep.work().await, upkeep.work().await);
        assert!(upkeep.clean().is_none());
        drop(one);
        assert!(upkeep.clean().is_none());
        drop(two);
        let cleaning = upkeep.clean().unwrap();
        assert!(upkeep.clean().is_none(), "one is enough");
        drop(cleaning);
        assert!(upkeep.clean().is_some());
    }

    #[tokio::test]
    async fn an_operation_waits_until_cleaning_has_stopped() {
        let upkeep = Maintenance::default();
        let cleaning = upkeep.clean().unwrap();
        let mut work = Box::pin(upkeep.work());
        assert!(is_waiting(&mut work).await);
        assert!(cleaning.stop.is_cancelled(), "it is asked to stop");
        drop(cleaning);
        let work = work.await;
        assert!(upkeep.clean().is_none());
        drop(work);
        assert!(upkeep.clean().is_some());
    }

    #[tokio::test]
    async fn an_operation_dropped_while_it_waits_blocks_no_cleaning() {
        let upkeep = Maintenance::default();
        let cleaning = upkeep.clean().unwrap();
        let mut work = Box::pin(upkeep.work());
        assert!(is_waiting(&mut work).await);
        drop(work);
        drop(cleaning);
        assert!(upkeep.clean().is_some());
    }
}
