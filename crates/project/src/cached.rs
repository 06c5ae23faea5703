//! A cached value that is revalidated before each use.

use tokio::time::Instant;

/// A cache of one value.
#[derive(Debug)]
pub(crate) struct Cached<T>(Option<Checked<T>>);

#[derive(Debug)]
struct Checked<T> {
    value: T,
    /// The time at which the last revalidation started.
    checked: Instant,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Clone> Cached<T> {
    /// Returns the cached value without revalidating it.
    pub(crate) fn peek(&self) -> Option<&T> {
        self.0.as_ref().map(|cached| &cached.value)
    }

    /// Returns a value that was valid at or after `asked`, the time at which the caller asked for it. Builds the value if
    /// there is none or `is_stale` says so; `build` receives the stale value.
    ///
    /// A revalidation takes time, and callers wait for each other while one of them runs it. So one revalidation serves
    /// every caller that asked before it started: two are enough, however many callers ask at once. If the future is
    /// dropped or `build` fails, the old value stays.
    pub(crate) async fn current<E, S, B>(
        &mut self,
        asked: Instant,
        is_stale: impl FnOnce(T) -> S,
        build: impl FnOnce(Option<T>) -> B,
    ) -> Result<T, E>
    where
        S: Future<Output = bool>,
        B: Future<Output = Result<T, E>>,
    {
        let checked = Instant::now();
        let value = match &self.0 {
            Some(cached) if cached.checked > asked => return Ok(cached.value.clone()),
            Some(cached) if !is_stale(cached.value.clone()).await => cached.value.clone(),
            stale => build(stale.as_ref().map(|cached| cached.value.clone())).await?,
        };
        self.0 = Some(Checked { value: value.clone(), checked });
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        future::{pending, ready},
        time::Duration,
    };

    use futures::FutureExt;
    use tokio::time::advance;

    use super::*;

    async fn holding(value: u32) -> Cached<u32> {
        let mut cached = Cached::default();
        let built = cached.current(Instant::now(), |_| ready(true), |_| ready(Ok::<_, ()>(value))).await;
        assert_eq!(built, Ok(value));
        advance(Duration::from_secs(1)).await;
        cached
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_built_again_only_when_it_is_stale() {
        let mut cached = holding(1).await;
        let mut again = |stale: bool| {
            let build = |before: Option<u32>| ready(Ok::<_, ()>(before.unwrap() + 1));
            cached.current(Instant::now(), |_| ready(stale), build).now_or_never().unwrap()
        };
        assert_eq!(again(false), Ok(1));
        assert_eq!(again(true), Ok(2));
        assert_eq!(again(false), Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn one_revalidation_serves_every_caller_that_asked_before_it_started() {
        let mut cached = holding(1).await;
        let (asked, checks) = (Instant::now(), Cell::new(0));
        advance(Duration::from_millis(1)).await;
        for _ in 0..10 {
            let check = |_| {
                checks.set(checks.get() + 1);
                ready(false)
            };
            let used = cached.current(asked, check, |_| ready(Err::<u32, _>("built"))).await;
            assert_eq!(used, Ok(1));
        }
        assert_eq!(checks.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_caller_revalidates_again() {
        let mut cached = holding(1).await;
        let changed = cached.current(Instant::now(), |_| ready(true), |_| ready(Ok::<_, ()>(2))).await;
        assert_eq!(changed, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_is_dropped_or_fails_leaves_the_old_value() {
        let mut cached = holding(1).await;
        let checking = cached.current(Instant::now(), |_| pending(), |_| ready(Ok::<_, ()>(2)));
        assert_eq!(checking.now_or_never(), None);
        let building = cached.current(Instant::now(), |_| ready(true), |_| pending::<Result<u32, ()>>());
        assert_eq!(building.now_or_never(), None);
        let failed = cached.current(Instant::now(), |_| ready(true), |_| ready(Err("broken"))).await;
        assert_eq!(failed, Err("broken"));
        assert_eq!(cached.peek(), Some(&1));
    }
}
