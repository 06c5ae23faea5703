//! Verifies Slack's calls: their signature over the raw body, and their age.

use http::HeaderMap;
use protocol::Millis;
use ring::hmac;

use crate::settings::Secret;

/// Maximum difference between a call's timestamp and the clock, in milliseconds, as protection against replayed
/// calls.
const MAX_AGE: u64 = 5 * 60 * 1_000;

/// Verifies signatures.
#[derive(Debug)]
pub(super) struct Signature(hmac::Key);

impl Signature {
    pub(super) fn new(secret: &Secret) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes()))
    }

    /// True if the headers prove that the body is from Slack and recent. The comparison takes constant time.
    pub(super) fn is_genuine(&self, headers: &HeaderMap, body: &[u8], now: Millis) -> bool {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let Some(moment) = header("x-slack-request-timestamp") else { return false };
        let Some(age) =
            moment.parse::<Millis>().ok().and_then(|moment| Some(now.abs_diff(moment.checked_mul(1_000)?)))
        else {
            return false;
        };
        let Some(tag) = header("x-slack-signature").and_then(|value| bytes(value.strip_prefix("v0=")?))
        else {
            return false;
        };
        let signed = [b"v0:", moment.as_bytes(), b":", body].concat();
        let is_signed = hmac::verify(&self.0, &signed, &tag).is_ok();
        is_signed && age <= MAX_AGE
    }
}

/// Decodes hexadecimal digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let values = digits.chars().map(|digit| digit.to_digit(16)).collect::<Option<Vec<u32>>>()?;
    let byte = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    values.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Slack's documentation.
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V\
        &channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=\
        &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
        &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const TAG: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const MOMENT: Millis = 1_531_420_618;

    fn is_genuine(moment: &str, tag: &str, body: &str, now: Millis) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert("x-slack-request-timestamp", moment.parse().unwrap());
        headers.insert("x-slack-signature", tag.parse().unwrap());
        Signature::new(&Secret::new(SECRET)).is_genuine(&headers, body.as_bytes(), now)
    }

    #[test]
    fn slacks_own_example_is_genuine() {
        assert!(is_genuine("1531420618", TAG, BODY, MOMENT * 1_000));
    }

    #[test]
    fn a_forged_old_or_incomplete_call_is_not_genuine() {
        let now = MOMENT * 1_000;
        assert!(!is_genuine("1531420618", TAG, "other", now));
        assert!(!is_genuine("1531420619", TAG, BODY, now));
        assert!(!is_genuine("1531420618", &TAG.replace("v0", "v1"), BODY, now));
        assert!(!is_genuine("1531420618", &TAG.replace("a2", "a3"), BODY, now));
        assert!(!is_genuine("1531420618", "v0=a2114", BODY, now));
        assert!(!is_genuine("1531420618", "v0=", BODY, now));
        assert!(!is_genuine("1531420618", TAG, BODY, now + 300_001));
        assert!(!is_genuine("1531420618", TAG, BODY, now - 300_001));
        assert!(!is_genuine("soon", TAG, BODY, now));
        let headers = HeaderMap::new();
        assert!(!Signature::new(&Secret::new(SECRET)).is_genuine(&headers, BODY.as_bytes(), now));
    }
}
