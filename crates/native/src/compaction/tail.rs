//! Selects the tail of a conversation, which a summary does not replace. Pure.

use std::borrow::Borrow;

use protocol::{Message, MessageWithParts};

/// The limits of the tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// The size limit in tokens.
    pub(super) tokens: u64,
    /// The largest number of turns.
    pub(super) turns: Option<u32>,
    /// The index of a prompt without an answer, which is always kept with everything after it.
    pub(super) unanswered: Option<usize>,
}

/// Returns the index of the first message of the tail, or `None` if nothing is kept.
///
/// Whole turns are kept from the newest backwards while they fit. Of the first turn that does not fit, as many of
/// its last messages as fit are kept. `measure` returns the size of a range of messages.
pub(super) fn start<M: Borrow<MessageWithParts>>(
    messages: &[M],
    limits: Limits,
    measure: impl Fn(&[M]) -> u64,
) -> Option<usize> {
    let turns: Vec<usize> = messages
        .iter()
        .enumerate()
        .filter(|(_, message)| matches!((*message).borrow().info, Message::User(_)))
        .map(|(at, _)| at)
        .collect();
    let most = limits.turns.map_or(usize::MAX, |turns| usize::try_from(turns).unwrap_or(usize::MAX));
    let fits = |at: usize| messages.get(at..).is_some_and(|rest| measure(rest) <= limits.tokens);
    let mut start = messages.len();
    for turn in turns.into_iter().rev().take(most) {
        if fits(turn) {
            start = turn;
            continue;
        }
        start = (turn + 1..start).find(|at| fits(*at)).unwrap_or(start);
        break;
    }
    let start = limits.unanswered.map_or(start, |prompt| start.min(prompt));
    // Keeping everything would leave nothing to summarise.
    let start = if start == 0 { limits.unanswered.filter(|prompt| *prompt > 0) } else { Some(start) };
    start.filter(|start| *start < messages.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::messages::{answer, prompt};

    /// Two turns of three messages, each message of one token.
    fn check(tokens: u64, turns: Option<u32>, unanswered: Option<usize>) -> Option<usize> {
        let messages = [
            prompt("p1"),
            answer("a1", "p1"),
            answer("a2", "p1"),
            prompt("p2"),
            answer("a3", "p2"),
            answer("a4", "p2"),
        ];
        let measure = |messages: &[MessageWithParts]| messages.len() as u64;
        start(&messages, Limits { tokens, turns, unanswered }, measure)
    }

    #[test]
    fn whole_turns_are_kept_while_they_fit() {
        assert_eq!(check(3, None, None), Some(3));
        assert_eq!(check(3, Some(1), None), Some(3));
    }

    #[test]
    fn a_turn_that_does_not_fit_is_kept_from_where_it_does() {
        assert_eq!(check(2, None, None), Some(4));
        assert_eq!(check(4, None, None), Some(2));
    }

    #[test]
    fn nothing_is_kept_if_nothing_fits_or_no_turns_are_wanted() {
        assert_eq!(check(0, None, None), None);
        assert_eq!(check(9, Some(0), None), None);
    }

    #[test]
    fn something_is_left_to_summarise() {
        assert_eq!(check(9, None, None), None);
        assert_eq!(check(9, Some(1), None), Some(3));
    }

    #[test]
    fn a_prompt_that_waits_for_its_answer_is_kept_whatever_its_size() {
        assert_eq!(check(0, None, Some(5)), Some(5));
        assert_eq!(check(9, None, Some(3)), Some(3));
        assert_eq!(check(2, None, Some(5)), Some(4));
        assert_eq!(check(9, None, Some(0)), None, "nothing comes before it");
    }
}
