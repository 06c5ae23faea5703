//! Cleaning up, and never while somebody works.
//!
//! Git removes the directories of its objects that it finds empty. One that another git has made this very moment,
//! for a file it is about to write, is empty, too: that file would be missing from a snapshot. So upkeep starts
//! only when nobody works, and whoever begins to work ends it first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio_util::sync::CancellationToken;

/// Who works and who cleans up.
#[derive(Debug, Clone, Default)]
pub(super) struct Upkeep {
    state: Arc<Mutex<State>>,
    /// Shared by those who work, held alone by whoever cleans up.
    place: Arc<RwLock<()>>,
}

#[derive(Debug, Default)]
struct State {
    working: usize,
    cleaning: Option<CancellationToken>,
}

/// Held while somebody works.
#[derive(Debug)]
pub(super) struct Work {
    upkeep: Upkeep,
    place: Option<OwnedRwLockReadGuard<()>>,
}

/// Held while somebody cleans up.
#[derive(Debug)]
pub(super) struct Cleaning {
    upkeep: Upkeep,
    place: Option<OwnedRwLockWriteGuard<()>>,
    /// Tells that somebody wants to work.
    pub(super) stop: CancellationToken,
}

impl Upkeep {
    /// Begins to work, after whoever cleans up has stopped.
    pub(super) async fn work(&self) -> Work {
        let mut work = Work { upkeep: self.clone(), place: None };
        {
            let mut state = self.lock();
            state.working += 1;
            if let Some(stop) = &state.cleaning {
                stop.cancel();
            }
        }
        work.place = Some(Arc::clone(&self.place).read_owned().await);
        work
    }

    /// Begins to clean up, unless somebody works or does that already.
    pub(super) fn clean(&self) -> Option<Cleaning> {
        let mut state = self.lock();
        if state.working > 0 || state.cleaning.is_some() {
            return None;
        }
        let place = Arc::clone(&self.place).try_write_owned().ok()?;
        let stop = CancellationToken::new();
        state.cleaning = Some(stop.clone());
        Some(Cleaning { upkeep: self.clone(), place: Some(place), stop })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // The place first: whoever sees that nobody works finds it free.
        self.place = None;
        self.upkeep.lock().working -= 1;
    }
}

impl Drop for Cleaning {
    fn drop(&mut self) {
        self.upkeep.lock().cleaning = None;
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
    async fn nobody_cleans_up_while_somebody_works() {
        let upkeep = Upkeep::default();
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
    async fn whoever_begins_to_work_waits_until_the_cleaning_has_stopped() {
        let upkeep = Upkeep::default();
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
    async fn work_that_is_given_up_while_it_waits_holds_nobody() {
        let upkeep = Upkeep::default();
        let cleaning = upkeep.clean().unwrap();
        let mut work = Box::pin(upkeep.work());
        assert!(is_waiting(&mut work).await);
        drop(work);
        drop(cleaning);
        assert!(upkeep.clean().is_some());
    }
}
