//! A bounded collection that prefers the most recently changed files.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

/// Results of the newest files, up to a limit.
#[derive(Debug)]
pub(super) struct Newest<T> {
    limit: usize,
    weight: usize,
    /// Newest first; entries of equal age by path, so that results are reproducible.
    entries: BTreeMap<(Reverse<SystemTime>, PathBuf), (usize, T)>,
}

impl<T> Newest<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, weight: 0, entries: BTreeMap::new() }
    }

    /// Adds the results of a file; drops older files that are no longer needed to fill the limit.
    pub(super) fn add(&mut self, changed: SystemTime, path: PathBuf, weight: usize, value: T) {
        self.weight += weight;
        self.entries.insert((Reverse(changed), path), (weight, value));
        while let Some(oldest) = self.entries.last_entry() {
            let without = self.weight.saturating_sub(oldest.get().0);
            if without < self.limit {
                break;
            }
            oldest.remove();
            self.weight = without;
        }
    }

    pub(super) fn into_sorted(self) -> impl Iterator<Item = (PathBuf, T)> {
        self.entries.into_iter().map(|((_, path), (_, value))| (path, value))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_newest_fill_the_limit_in_any_order() {
        let files = [(3, 2), (1, 5), (9, 1), (5, 1), (5, 1), (7, 1)];
        for turn in 0..files.len() {
            let mut newest = Newest::new(4);
            let mut order = files;
            order.rotate_left(turn);
            for (at, (seconds, weight)) in order.into_iter().enumerate() {
                let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
                newest.add(changed, PathBuf::from(at.to_string()), weight, seconds);
            }
            assert_eq!(newest.into_sorted().map(|(_, seconds)| seconds).collect::<Vec<_>>(), [9, 7, 5, 5]);
        }
    }

    #[test]
    fn a_file_that_only_partly_fits_is_kept() {
        let mut newest = Newest::new(3);
        for (seconds, weight) in [(1, 9), (2, 2), (3, 2)] {
            newest.add(
                SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
                PathBuf::new(),
                weight,
                seconds,
            );
        }
        assert_eq!(newest.into_sorted().map(|(_, seconds)| seconds).collect::<Vec<_>>(), [3, 2]);
    }
}
