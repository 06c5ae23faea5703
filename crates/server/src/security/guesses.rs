//! Slows down clients that guess passwords.
//!
//! A source (a user of this machine, or the address of another) has a few free attempts. After that it must
//! wait before its next password is checked, and each further wrong one doubles the wait. While many sources
//! guess at the same time, none has free attempts. A right password from a source that is not waiting is never
//! delayed, however many others guess. It does not reset the source's count either, because a source may be a
//! proxy with both an attacker and the owner behind it.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::peer::Source;

/// Wrong passwords of one source before it must wait.
pub(super) const FREE_GUESSES: u32 = 5;
/// First wait; it doubles with each wrong password.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// Time without a wrong password after which a source's count is reset.
const FORGET: Duration = Duration::from_mins(15);
/// Wrong passwords of all sources within [`WINDOW`] above which each further one costs its source the longest
/// wait.
const GUESSES_OF_ALL: u32 = 60;
const WINDOW: Duration = Duration::from_mins(1);
/// Most sources in memory; the one with the oldest wrong password is evicted first.
const MAX_SOURCES: usize = 4_096;

/// Wrong passwords by source.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    sources: HashMap<Source, Record>,
    /// Start of the current window and the number of wrong passwords in it.
    window: Option<(Instant, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    wrong: u32,
    last: Instant,
    until: Instant,
}

impl Guesses {
    /// Time until the source's next password is checked; `None` if it need not wait.
    pub(super) fn wait(&self, source: Source) -> Option<Duration> {
        let until = self.table.lock().sources.get(&source)?.until;
        until.checked_duration_since(Instant::now()).filter(|wait| !wait.is_zero())
    }

    pub(super) fn wrong(&self, source: Source) {
        let now = Instant::now();
        let mut table = self.table.lock();
        let is_storm = table.count(now) > GUESSES_OF_ALL;
        table.make_room(source, now);
        let record = table.sources.entry(source).or_insert(Record { wrong: 0, last: now, until: now });
        record.wrong = record.wrong.saturating_add(1);
        record.last = now;
        record.until = now + if is_storm { LONGEST_WAIT } else { penalty(record.wrong) };
    }
}

impl Table {
    /// Counts this wrong password and returns the number in the current window.
    fn count(&mut self, now: Instant) -> u32 {
        let (start, count) = self.window.filter(|(start, _)| now - *start < WINDOW).unwrap_or((now, 0));
        let count = count.saturating_add(1);
        self.window = Some((start, count));
        count
    }

    fn make_room(&mut self, source: Source, now: Instant) {
        if self.sources.get(&source).is_some_and(|record| now - record.last >= FORGET) {
            self.sources.remove(&source);
        }
        if self.sources.len() < MAX_SOURCES || self.sources.contains_key(&source) {
            return;
        }
        self.sources.retain(|_, record| now - record.last < FORGET);
        if self.sources.len() >= MAX_SOURCES
            && let Some(oldest) =
                self.sources.iter().min_by_key(|(_, record)| record.last).map(|(source, _)| *source)
        {
            self.sources.remove(&oldest);
        }
    }
}

/// Wait after this many wrong passwords.
fn penalty(wrong: u32) -> Duration {
    match wrong.checked_sub(FREE_GUESSES) {
        None | Some(0) => Duration::ZERO,
        Some(over) => {
            FIRST_WAIT.saturating_mul(2_u32.saturating_pow(over.saturating_sub(1))).min(LONGEST_WAIT)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::time::advance;

    use super::*;

    fn source(number: u32) -> Source {
        Source::Network(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_up_to_a_minute_and_end() {
        let guesses = Guesses::default();
        for _ in 0..FREE_GUESSES {
            guesses.wrong(source(1));
            assert_eq!(guesses.wait(source(1)), None);
        }
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            guesses.wrong(source(1));
            let wait = guesses.wait(source(1)).unwrap();
            assert_eq!(wait, Duration::from_secs(seconds));
            assert_eq!(guesses.wait(source(2)), None, "other sources do not wait");
            advance(wait).await;
            assert_eq!(guesses.wait(source(1)), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_quarter_of_an_hour_a_source_is_forgotten() {
        let guesses = Guesses::default();
        (0..=FREE_GUESSES).for_each(|_| guesses.wrong(source(1)));
        assert!(guesses.wait(source(1)).is_some());
        advance(FORGET).await;
        guesses.wrong(source(1));
        assert_eq!(guesses.wait(source(1)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_from_everywhere_leave_none_to_spare_and_a_newcomer_alone() {
        let guesses = Guesses::default();
        for number in 0..=GUESSES_OF_ALL {
            guesses.wrong(source(number));
        }
        assert_eq!(guesses.wait(source(GUESSES_OF_ALL - 1)), None);
        assert_eq!(guesses.wait(source(GUESSES_OF_ALL)), Some(LONGEST_WAIT));
        assert_eq!(guesses.wait(source(1_000)), None, "a source that was never wrong does not wait");
        advance(WINDOW).await;
        guesses.wrong(source(1_000));
        assert_eq!(guesses.wait(source(1_000)), None, "the storm is over");
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_sources_are_remembered() {
        let guesses = Guesses::default();
        let last = u32::try_from(MAX_SOURCES).unwrap() + 9;
        for number in 0..=last {
            guesses.wrong(source(number));
            advance(Duration::from_millis(1)).await;
        }
        let table = guesses.table.lock();
        assert_eq!(table.sources.len(), MAX_SOURCES);
        assert!(table.sources.contains_key(&source(last)) && !table.sources.contains_key(&source(9)));
    }
}
