//! Signatures as in the Standard Webhooks specification, for which receivers find libraries.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;

/// Prefix of a base64-encoded secret.
const ENCODED: &str = "whsec_";

/// A signing key. Never shown in output.
#[derive(Clone)]
pub struct Key(hmac::Key);

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key(…)")
    }
}

impl Key {
    /// A key from a secret: base64-encoded bytes after `whsec_`, otherwise the text itself.
    pub fn new(secret: &str) -> Result<Self, &'static str> {
        let bytes = match secret.strip_prefix(ENCODED) {
            Some(encoded) => BASE64_STANDARD
                .decode(encoded)
                .map_err(|_| "begins with `whsec_`, but the rest is not base64")?,
            None => secret.as_bytes().to_vec(),
        };
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// The header `webhook-signature` for a body sent at this time.
    pub(super) fn sign(&self, id: &str, seconds: i64, body: &str) -> String {
        let mut signing = hmac::Context::with_key(&self.0);
        for piece in [id, ".", &seconds.to_string(), ".", body] {
            signing.update(piece.as_bytes());
        }
        format!("v1,{}", BASE64_STANDARD.encode(signing.sign()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_of_the_specification() {
        // The example of the specification's reference libraries.
        let key = Key::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = r#"{"test": 2432232314}"#;
        assert_eq!(
            key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn a_secret_is_bytes_or_text_and_is_never_shown() {
        let text = Key::new("plain").unwrap();
        let bytes = Key::new("whsec_cGxhaW4=").unwrap();
        assert_eq!(text.sign("a", 1, "b"), bytes.sign("a", 1, "b"));
        assert_ne!(text.sign("a", 1, "b"), text.sign("a", 2, "b"));
        assert!(Key::new("whsec_???").is_err());
        assert!(!format!("{text:?}").contains("plain"));
    }
}
