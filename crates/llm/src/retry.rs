//! Delays before retries of failed calls. Pure: the caller owns the clock and the randomness.

use std::time::Duration;

use crate::Headers;
use crate::http_date;

/// Delay before the first retry when the provider names none; it doubles with each further one.
pub const BASE: Duration = Duration::from_secs(2);

/// Shortest delay, so that retries never become a burst.
pub const FLOOR: Duration = Duration::from_secs(1);

/// Longest delay that Baton chooses by itself.
pub const CAP: Duration = Duration::from_secs(30);

/// Longest delay that a provider may ask for. Beyond it the caller gives up and shows the error: a user who
/// sees it can change the model, but cannot tell a session that waits for hours from a hang.
pub const CEILING: Duration = Duration::from_mins(15);

/// Largest share of the delay that the jitter may add.
const JITTER_SHARE: f64 = 0.25;

/// Delay before retry number `attempt` (the first is 1).
///
/// A hint is used unchanged, but never below [`FLOOR`]; it may exceed [`CEILING`], which the caller checks.
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

/// The delay that a response asks for, if it can be parsed. Some providers answer `retry-after: 0` while they are down or
/// limit the rate, so zero counts as no hint.
///
/// A date is interpreted relative to the response's own `date` header, so that a wrong clock on either side
/// does not matter.
pub fn hint(headers: &Headers) -> Option<Duration> {
    written(headers).filter(|delay| !delay.is_zero())
}

fn written(headers: &Headers) -> Option<Duration> {
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

/// The delay in a message: `Please try again in 1.5s`, `34.4s`, `try again in 2m30s`.
pub(crate) fn duration_in_text(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    let mut rest = text.rsplit_once("try again in").map_or(text.as_str(), |(_, after)| after).trim_start();
    let mut total = None;
    while let Some(end) = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.') {
        let (number, after) = rest.split_at(end);
        let end = after.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => break,
        };
        let Some(piece) = duration(number, unit) else { break };
        total = Some(total.unwrap_or(Duration::ZERO) + piece);
        rest = after;
    }
    // Also accepts units written as words.
    total.or_else(|| {
        let (number, unit) = rest.split_once(' ')?;
        let unit = match unit.trim_start() {
            unit if unit.starts_with("second") => 1.0,
            unit if unit.starts_with("minute") => 60.0,
            _ => return None,
        };
        duration(number, unit)
    })
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
    fn a_hint_of_zero_is_no_hint() {
        for name in ["retry-after", "retry-after-ms"] {
            assert_eq!(hint(&headers(&[(name, "0")])), None, "{name}");
        }
        let now = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(hint(&headers(&[("date", now), ("retry-after", now)])), None);
        assert_eq!(delay(1, Some(Duration::from_millis(1)), 0.5), FLOOR);
        assert_eq!(delay(3, Some(Duration::from_secs(9)), 0.5), Duration::from_secs(9));
    }

    #[test]
    fn a_long_hint_is_left_for_the_caller_to_judge() {
        assert!(delay(1, Some(Duration::from_hours(24)), 0.0) > CEILING);
    }

    #[test]
    fn milliseconds_take_precedence_over_seconds() {
        let both = headers(&[("retry-after-ms", "1500.5"), ("retry-after", "9")]);
        assert_eq!(hint(&both), Some(Duration::from_micros(1_500_500)));
        assert_eq!(hint(&headers(&[("retry-after", "1.5")])), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn a_date_is_relative_to_the_response() {
        let asked = headers(&[
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),
        ]);
        assert_eq!(hint(&asked), Some(Duration::from_secs(30)));
    }

    #[test]
    fn a_message_may_contain_the_delay() {
        let millis = |text: &str| duration_in_text(text).map(|wait| wait.as_millis());
        assert_eq!(millis("Rate limit reached. Please try again in 11.054s. Visit"), Some(11_054));
        assert_eq!(millis("try again in 20ms"), Some(20));
        assert_eq!(millis("Please try again in 2m30.5s."), Some(150_500));
        assert_eq!(millis("34.4s"), Some(34_400));
        assert_eq!(millis("Try again in 5 seconds."), Some(5_000));
        for text in ["try again in a while", "try again later", "", "9", "1.2.3s"] {
            assert_eq!(duration_in_text(text), None, "{text}");
        }
    }

    #[test]
    fn invalid_values_are_no_hint() {
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
