//! HTTP Basic, in the header or, for event streams in browsers, in the query.

use std::{borrow::Cow, fmt, hint::black_box};

use axum::extract::Query;
use base64::{Engine, engine::GeneralPurpose, engine::general_purpose};
use http::{header, request::Parts};

/// OpenCode's default user name.
const DEFAULT_USER: &str = "opencode";

/// User name and password that clients must send.
#[derive(Clone)]
pub struct Credentials {
    /// `user:password`, as sent by clients.
    expected: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Credentials")
    }
}

impl Credentials {
    /// Credentials with a user name and a password. An empty password means none, as in OpenCode.
    pub fn new(user: Option<&str>, password: &str) -> Option<Self> {
        let user = user.filter(|user| !user.is_empty()).unwrap_or(DEFAULT_USER);
        (!password.is_empty()).then(|| Self { expected: format!("{user}:{password}") })
    }

    /// Value of the `Authorization` header with these credentials.
    pub fn header(&self) -> String {
        format!("Basic {}", general_purpose::STANDARD.encode(&self.expected))
    }

    /// Returns true if these are the user name and the password. A sign-in without a name means the configured one.
    pub(super) fn match_pair(&self, user: Option<&str>, password: &str) -> bool {
        let user = user.filter(|user| !user.is_empty());
        let user = user.or_else(|| self.expected.split_once(':').map(|(user, _)| user)).unwrap_or_default();
        same(format!("{user}:{password}").as_bytes(), self.expected.as_bytes())
    }

    /// The key with which the tokens of browsers are hashed.
    pub(super) fn key(&self) -> &[u8] {
        self.expected.as_bytes()
    }

    /// Returns true if a token found by [`given`] matches.
    pub(super) fn match_token(&self, token: &str) -> bool {
        decode(token).is_some_and(|given| same(&given, self.expected.as_bytes()))
    }
}

/// The encoded credentials of a call. The query takes precedence, so that a link can override those that a
/// browser remembers.
pub(super) fn given(call: &Parts) -> Option<Cow<'_, str>> {
    from_query(call).map(Cow::Owned).or_else(|| from_header(call).map(Cow::Borrowed))
}

fn from_query(call: &Parts) -> Option<String> {
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&call.uri).ok()?;
    pairs.into_iter().find_map(|(name, value)| (name == "auth_token").then_some(value))
}

fn from_header(call: &Parts) -> Option<&str> {
    let value = call.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then(|| token.trim())
}

fn decode(token: &str) -> Option<Vec<u8>> {
    // An unescaped plus sign arrives from a query as a space.
    let token = token.replace(' ', "+");
    let alphabets: [&GeneralPurpose; 3] =
        [&general_purpose::STANDARD, &general_purpose::STANDARD_NO_PAD, &general_purpose::URL_SAFE];
    alphabets.iter().find_map(|alphabet| alphabet.decode(&token).ok())
}

/// Compares in a time that depends on the given value and not on the expected one, so that a caller cannot find
/// a password letter by letter.
fn same(given: &[u8], expected: &[u8]) -> bool {
    let differences = given
        .iter()
        .zip(expected.iter().cycle())
        .fold(u8::from(given.len() != expected.len()), |seen, (left, right)| {
            black_box(seen | (left ^ right))
        });
    black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Credentials {
        fn are_in(&self, call: &Parts) -> bool {
            given(call).is_some_and(|token| self.match_token(&token))
        }
    }

    fn call(uri: &str, authorization: Option<&str>) -> Parts {
        let mut request = http::Request::builder().uri(uri);
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn basic(text: &str) -> String {
        format!("Basic {}", general_purpose::STANDARD.encode(text))
    }

    #[test]
    fn right_credentials_are_accepted_in_header_and_query() {
        let credentials = Credentials::new(None, "s3cret: with?colon").unwrap();
        let right = "opencode:s3cret: with?colon";
        assert!(credentials.are_in(&call("/", Some(&basic(right)))));
        assert!(credentials.are_in(&call("/", Some(&basic(right).replace("Basic", "bAsIc")))));
        let token = general_purpose::STANDARD.encode(right);
        let escaped = token.replace('+', "%2B").replace('=', "%3D");
        assert!(credentials.are_in(&call(&format!("/event?a=b&auth_token={escaped}"), None)));
        assert!(credentials.are_in(&call(&format!("/event?auth_token={token}"), None)));
    }

    #[test]
    fn wrong_credentials_are_refused() {
        let credentials = Credentials::new(Some("me"), "secret").unwrap();
        for wrong in
            ["me:Secret", "me:secre", "me:secret2", "opencode:secret", "me", "", "me:secretme:secret"]
        {
            assert!(!credentials.are_in(&call("/", Some(&basic(wrong)))), "{wrong}");
        }
        for wrong in ["Basic", "Basic ???", "Bearer secret", ""] {
            assert!(!credentials.are_in(&call("/", Some(wrong))), "{wrong}");
        }
        assert_eq!(given(&call("/", None)), None);
        assert_eq!(given(&call("/", Some("Bearer secret"))), None);
        assert!(given(&call("/", Some("Basic ???"))).is_some());
    }

    #[test]
    fn the_query_wins_over_the_header() {
        let credentials = Credentials::new(Some("me"), "secret").unwrap();
        let wrong = general_purpose::STANDARD.encode("me:wrong");
        let request = call(&format!("/?auth_token={wrong}"), Some(&basic("me:secret")));
        assert!(!credentials.are_in(&request));
    }

    #[test]
    fn an_empty_password_is_none_and_none_is_shown() {
        assert!(Credentials::new(Some("me"), "").is_none());
        let shown = format!("{:?}", Credentials::new(Some("me"), "secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
