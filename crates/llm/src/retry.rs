//! When to try a failed call again. Pure: the caller owns the clock and the dice.

use std::time::Duration;

use crate::Headers;
use crate::http_date;

/// The wait before the first retry when the provider names none; it doubles with each further one.
pub const BASE: Duration = Duration::from_secs(2);

/// The shortest wait. `retry-after: 0` is an answer some providers give while they are down; without a floor
/// it turns the retries into a burst.
pub const FLOOR: Duration = Duration::from_secs(1);

/// The longest wait that Baton chooses by itself.
pub const CAP: Duration = Duration::from_secs(30);

/// The longest wait that a provider may ask for. Beyond it the caller gives up and shows the error: a person
/// who sees it can change the model, one who sees a session waiting for hours cannot tell it from a hang.
pub const CEILING: Duration = Duration::from_mins(15);

/// How much of the chosen wait the jitter may add.
const JITTER_SHARE: f64 = 0.25;

/// The wait before retry number `attempt` (the first is 1).
///
/// A hint is taken as it is, but never below [`FLOOR`]; it may lie above [`CEILING`], which the caller checks.
/// `jitter` is a random number from 0 to 1.
pub fn delay(attempt: u32, hint: Option<Duration>, jitter: f64) -> Duration {
    if let Some(hint) = hint {
        return hint.max(FLOOR);
    }
    let doublings = attempt.saturating_sub(1).min(16);
    let base = BASE.saturating_mul(1 << doublings).min(CAP);
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
    whole_milliseconds(base.mul_f64(1.0 + JITTER_SHARE * jitter)).clamp(FLOOR, CAP)
}

/// The wait a response asks for, if it asks for one that can be understood.
///
/// A date is read relative to the response's own `date` header, so that a wrong clock on either side does not
/// matter and none has to be asked.
pub fn hint(headers: &Headers) -> Option<Duration> {
    if let Some(delay) = headers.get("retry-after-ms").and_then(|text| duration(text, 0.001)) {
        return Some(delay);
    }
    let text = headers.get("retry-after")?;
    if let Some(delay) = duration(text, 1.0) {
        return Some(whole_milliseconds(delay));
    }
    let until = http_date::parse(text)?;
    let sent = http_date::parse(headers.get("date")?)?;
    u64::try_from(until - sent).ok().map(Duration::from_secs)
}

fn duration(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok()
}

fn whole_milliseconds(delay: Duration) -> Duration {
    let millis = delay.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        let waits: Vec<u64> = (1..=6).map(|attempt| delay(attempt, None, 0.0).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 30, 30]);
        assert_eq!(delay(u32::MAX, None, 1.0), CAP);
    }

    #[test]
    fn jitter_adds_at_most_a_quarter() {
        assert_eq!(delay(1, None, 1.0), Duration::from_millis(2500));
        assert_eq!(delay(1, None, 7.0), Duration::from_millis(2500));
        assert_eq!(delay(1, None, f64::NAN), Duration::from_secs(2));
    }

    #[test]
    fn a_hint_of_zero_still_waits_a_second() {
        assert_eq!(delay(1, Some(Duration::ZERO), 0.5), FLOOR);
        assert_eq!(delay(3, Some(Duration::from_secs(9)), 0.5), Duration::from_secs(9));
    }

    #[test]
    fn a_long_hint_is_left_for_the_caller_to_judge() {
        assert!(delay(1, Some(Duration::from_hours(24)), 0.0) > CEILING);
    }

    #[test]
    fn milliseconds_win_over_seconds() {
        let both = headers(&[("retry-after-ms", "1500.5"), ("retry-after", "9")]);
        assert_eq!(hint(&both), Some(Duration::from_micros(1_500_500)));
        assert_eq!(hint(&headers(&[("retry-after", "1.5")])), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn a_date_counts_from_the_response_itself() {
        let asked = headers(&[
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),
        ]);
        assert_eq!(hint(&asked), Some(Duration::from_secs(30)));
    }

    #[test]
    fn nonsense_is_no_hint() {
        for text in ["soon", "-1", "NaN", "inf", "", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert_eq!(hint(&headers(&[("retry-after", text)])), None, "{text}");
        }
        let past = headers(&[
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT"),
        ]);
        assert_eq!(hint(&past), None);
    }
}
