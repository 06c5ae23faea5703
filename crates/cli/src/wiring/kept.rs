//! Something that is made once and looked at before each use, because what it was made from may have changed.

use tokio::time::Instant;

/// What was made, and when it was last looked at.
#[derive(Debug, Clone)]
pub(super) struct Kept<T> {
    pub(super) made: T,
    /// When the last look began.
    looked: Instant,
}

impl<T: Clone> Kept<T> {
    /// What should be used by somebody who came at that moment.
    ///
    /// Looking takes a while, and whoever holds `kept` meanwhile keeps everybody else waiting. So a look serves all
    /// who came before it began: however many come at once, two looks are enough. Whoever is dropped while looking
    /// or making leaves what was there.
    pub(super) async fn current<E, L, M>(
        kept: &mut Option<Self>,
        came: Instant,
        is_stale: impl FnOnce(T) -> L,
        make: impl FnOnce(Option<T>) -> M,
    ) -> Result<T, E>
    where
        L: Future<Output = bool>,
        M: Future<Output = Result<T, E>>,
    {
        let looked = Instant::now();
        let before = kept.as_ref().map(|kept| kept.made.clone());
        let made = match before {
            Some(made) if kept.as_ref().is_some_and(|kept| kept.looked > came) => return Ok(made),
            Some(made) if !is_stale(made.clone()).await => made,
            before => make(before).await?,
        };
        *kept = Some(Self { made: made.clone(), looked });
        Ok(made)
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

    type Place = Option<Kept<u32>>;

    async fn made(value: u32) -> Place {
        let mut kept = None;
        let never = |_| ready(true);
        let first = Kept::current(&mut kept, Instant::now(), never, |_| ready(Ok::<_, ()>(value))).await;
        assert_eq!(first, Ok(value));
        advance(Duration::from_secs(1)).await;
        kept
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_made_anew_only_when_it_is_stale() {
        let mut kept = made(1).await;
        let again = |kept: &mut Place, stale: bool| {
            let make = |before: Option<u32>| ready(Ok::<_, ()>(before.unwrap() + 1));
            Kept::current(kept, Instant::now(), |_| ready(stale), make).now_or_never().unwrap()
        };
        assert_eq!(again(&mut kept, false), Ok(1));
        assert_eq!(again(&mut kept, true), Ok(2));
        assert_eq!(again(&mut kept, false), Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn one_look_serves_all_who_came_before_it_began() {
        let mut kept = made(1).await;
        let (came, looks) = (Instant::now(), Cell::new(0));
        advance(Duration::from_millis(1)).await;
        for _ in 0..10 {
            let look = |_| {
                looks.set(looks.get() + 1);
                ready(false)
            };
            let used = Kept::current(&mut kept, came, look, |_| ready(Err::<u32, _>("made"))).await;
            assert_eq!(used, Ok(1));
        }
        assert_eq!(looks.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_later_looks_again() {
        let mut kept = made(1).await;
        let changed =
            Kept::current(&mut kept, Instant::now(), |_| ready(true), |_| ready(Ok::<_, ()>(2))).await;
        assert_eq!(changed, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_dropped_or_fails_leaves_what_was_there() {
        let mut kept = made(1).await;
        let looking = Kept::current(&mut kept, Instant::now(), |_| pending(), |_| ready(Ok::<_, ()>(2)));
        assert_eq!(looking.now_or_never(), None);
        let making =
            Kept::current(&mut kept, Instant::now(), |_| ready(true), |_| pending::<Result<u32, ()>>());
        assert_eq!(making.now_or_never(), None);
        let failed =
            Kept::current(&mut kept, Instant::now(), |_| ready(true), |_| ready(Err("broken"))).await;
        assert_eq!(failed, Err("broken"));
        assert_eq!(kept.map(|kept| kept.made), Some(1));
    }
}
