//! The size limits of a model's context. Pure.

use llm::catalogue::Limit;
use protocol::session::Tokens;

use crate::limits;
use crate::size::Size;

/// The largest error of a token estimate: a model may count half as many, hardly fewer.
const ESTIMATE_ERROR: u64 = 2;

/// The limits of a model's context, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextWindow {
    /// The tokens that the model may write in one step.
    pub(crate) output: u64,
    /// The size at which a conversation is summarised. `None` if the model's limit is unknown.
    pub(crate) usable: Option<u64>,
    /// The most that the model accepts. `None` if its limit is unknown.
    pub(crate) max_input: Option<u64>,
}

impl ContextWindow {
    /// Returns the window of a model, with `reserved` tokens left free.
    ///
    /// The output never takes more than half of the context, and the default reserve never more than half of the
    /// input. Otherwise a model whose limits are all the same would be summarised after every step.
    pub(crate) fn new(limit: Limit, reserved: Option<u64>) -> Self {
        let half = |whole: u64| if whole == 0 { u64::MAX } else { whole / 2 };
        let output = if limit.output == 0 { limits::OUTPUT_TOKENS } else { limit.output };
        let output = output.min(limits::OUTPUT_TOKENS).min(half(limit.context)).max(1);
        let spare = |whole: u64| reserved.unwrap_or_else(|| limits::RESERVED.min(output).min(half(whole)));
        let usable = match limit.input {
            _ if limit.context == 0 => None,
            Some(input) => Some(input.saturating_sub(spare(input))),
            None => Some(limit.context.saturating_sub(spare(limit.context).max(output))),
        };
        let max_input = (limit.context > 0).then(|| limit.input.unwrap_or(limit.context));
        Self { output, usable, max_input }
    }

    /// Returns true if a request probably does not fit. `known` is the model's own count, if there is one.
    pub(crate) fn probably_exceeds(&self, estimate: Size, known: Option<u64>) -> bool {
        let tokens = known.map_or(estimate.tokens, |known| known.max(estimate.tokens / ESTIMATE_ERROR));
        estimate.bytes > limits::REQUEST_BYTES || self.usable.is_some_and(|usable| tokens >= usable)
    }

    /// Returns true if a request cannot fit even if the estimate is off by [`ESTIMATE_ERROR`].
    pub(crate) fn cannot_hold(&self, estimate: Size) -> bool {
        estimate.bytes > limits::REQUEST_BYTES
            || self.max_input.is_some_and(|most| estimate.tokens / ESTIMATE_ERROR > most)
    }

    /// Returns the size up to which a conversation is read. A conversation of this size is too long in any case.
    pub(crate) fn read_limit(&self) -> Size {
        let tokens =
            self.max_input.map_or(u64::MAX, |most| most.saturating_mul(ESTIMATE_ERROR).saturating_add(1));
        Size { tokens, bytes: limits::HISTORY_BYTES }
    }

    /// Returns true if a conversation of this size must be summarised.
    pub(crate) fn overflows(&self, tokens: &Tokens) -> bool {
        let counted = tokens.input + tokens.output + tokens.cache.read + tokens.cache.write;
        self.usable.is_some_and(|usable| tokens.total.unwrap_or(counted) >= usable)
    }

    /// Returns the size of the tail that a summary keeps.
    pub(crate) fn tail_tokens(&self, wanted: Option<u64>) -> u64 {
        let share = self.usable.map_or(0, |usable| usable / 4);
        wanted.unwrap_or_else(|| share.clamp(limits::MIN_TAIL, limits::MAX_TAIL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(context: u64, input: Option<u64>, output: u64, reserved: Option<u64>) -> ContextWindow {
        ContextWindow::new(Limit { context, input, output }, reserved)
    }

    #[track_caller]
    fn check(limits: (u64, Option<u64>, u64), reserved: Option<u64>, usable: Option<u64>) {
        assert_eq!(window(limits.0, limits.1, limits.2, reserved).usable, usable);
    }

    #[test]
    fn room_for_the_answer_is_left() {
        check((200_000, None, 64_000), None, Some(168_000));
        check((200_000, None, 8_000), None, Some(192_000));
        check((400_000, Some(272_000), 128_000), None, Some(252_000));
    }

    #[test]
    fn the_reserve_is_left_free_with_and_without_a_limit_on_input() {
        check((200_000, None, 8_000), Some(50_000), Some(150_000));
        check((400_000, Some(272_000), 128_000), Some(50_000), Some(222_000));
        check((200_000, None, 8_000), Some(100), Some(192_000));
    }

    #[test]
    fn a_small_context_is_not_full_from_the_start() {
        check((8_000, None, 8_000), None, Some(4_000));
        check((4_096, None, 0), None, Some(2_048));
        check((8_000, Some(8_000), 8_000), None, Some(4_000));
        assert_eq!(window(8_000, None, 8_000, None).output, 4_000);
    }

    #[test]
    fn an_unknown_context_is_never_full() {
        check((0, None, 0), None, None);
        let tokens = Tokens { input: u64::MAX / 4, ..Tokens::default() };
        assert!(!window(0, None, 0, None).overflows(&tokens));
        assert_eq!(window(0, None, 0, None).output, 32_000);
    }

    #[test]
    fn the_providers_total_counts_before_our_own() {
        let window = window(200_000, None, 64_000, None);
        let mut tokens = Tokens { input: 100_000, output: 8_000, ..Tokens::default() };
        tokens.cache.read = 60_000;
        assert!(window.overflows(&tokens));
        tokens.total = Some(167_999);
        assert!(!window.overflows(&tokens));
    }

    #[test]
    fn an_estimate_is_believed_only_so_far() {
        let small = window(32_000, None, 8_000, None);
        let estimate = |tokens| Size { tokens, bytes: tokens * 4 };
        assert!(
            !small.probably_exceeds(estimate(23_999), None) && small.probably_exceeds(estimate(24_000), None)
        );
        assert!(!small.probably_exceeds(estimate(47_000), Some(9_000)), "the model's own count is better");
        assert!(small.probably_exceeds(estimate(48_000), Some(9_000)), "but it cannot be that wrong");
        assert!(!small.cannot_hold(estimate(64_001)) && small.cannot_hold(estimate(64_002)));
        let unknown = window(0, None, 0, None);
        assert!(!unknown.cannot_hold(estimate(1_000_000)), "the limit is unknown");
        let pictures = Size { tokens: 1_500, bytes: limits::REQUEST_BYTES + 1 };
        assert!(unknown.cannot_hold(pictures) && unknown.probably_exceeds(pictures, None));
    }

    #[test]
    fn a_quarter_is_kept_within_bounds() {
        assert_eq!(window(200_000, None, 64_000, None).tail_tokens(None), 15_000);
        assert_eq!(window(32_000, None, 8_000, None).tail_tokens(None), 6_000);
        assert_eq!(window(4_096, None, 0, None).tail_tokens(None), 2_000);
        assert_eq!(window(0, None, 0, None).tail_tokens(Some(7)), 7);
    }
}
