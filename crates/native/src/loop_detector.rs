//! Detects a model that repeats the same calls.
//!
//! It considers the whole turn and not one message, because a model that is stuck usually makes one call per step.
//! It also detects cycles of several calls, because a model that gets an error often alternates between two calls.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol::Extra;

/// The longest cycle that is detected, in calls.
const MAX_CYCLE: usize = 4;

/// The number of remembered calls: enough to see each cycle several times.
const MAX_CALLS: usize = 32;

/// Hashes of the newest calls, newest first. The inputs may be long, so only hashes are kept.
#[derive(Debug, Default)]
pub(super) struct LoopDetector(VecDeque<u64>);

impl LoopDetector {
    /// Records a call. Returns the number of consecutive rounds of the cycle that it completes, including this one.
    pub(super) fn record(&mut self, tool: &str, input: &Extra) -> usize {
        let mut hasher = DefaultHasher::new();
        (tool, serde_json::to_string(input).unwrap_or_default()).hash(&mut hasher);
        self.0.push_front(hasher.finish());
        self.0.truncate(MAX_CALLS);
        (1..=MAX_CYCLE).map(|length| self.rounds(length)).max().unwrap_or(1)
    }

    /// Returns the number of consecutive rounds of a cycle of `length` calls.
    fn rounds(&self, length: usize) -> usize {
        let repeated = self.0.iter().zip(self.0.iter().skip(length)).take_while(|(one, other)| one == other);
        repeated.count() / length + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of rounds after each call; each letter stands for a tool.
    fn rounds(story: &str) -> Vec<usize> {
        let mut detector = LoopDetector::default();
        story.chars().map(|tool| detector.record(&tool.to_string(), &Extra::new())).collect()
    }

    #[test]
    fn equal_calls_in_a_row_are_counted() {
        assert_eq!(rounds("aaab"), [1, 2, 3, 1]);
        let mut detector = LoopDetector::default();
        let input = |text: &str| Extra::from_iter([("filePath".to_owned(), text.into())]);
        assert_eq!([detector.record("read", &input("a")), detector.record("read", &input("a"))], [1, 2]);
        assert_eq!([detector.record("read", &input("b")), detector.record("list", &input("b"))], [1, 1]);
    }

    #[test]
    fn cycles_are_counted() {
        assert_eq!(rounds("ababab"), [1, 1, 1, 2, 2, 3]);
        assert_eq!(rounds("xabcabcabc").last(), Some(&3));
        assert_eq!(rounds("abcdabcdabcd").last(), Some(&3));
        assert_eq!(rounds("abab-abab").iter().max(), Some(&2));
    }

    #[test]
    fn work_with_progress_is_not_a_loop() {
        assert!(rounds("abcdeabcdfabcdg").iter().all(|times| *times < 3));
        assert_eq!(rounds("1t2t3t4t5t").iter().max(), Some(&1));
    }
}
