//! Sign-in of browsers: the cookie, and the part of a call that the routes below `/web` need.

use std::{convert::Infallible, io, sync::Arc};

use axum::{
    extract::FromRequestParts,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, Method, header, request::Parts};

use super::{AccessPolicy, Browsers, HEALTH, Peer, READY, browsers::LIFETIME, origin, password, verify};
use crate::Error;

/// Name of the cookie.
const COOKIE: &str = "baton_session";
/// Routes that answer without a password.
const OPEN_ROUTES: [&str; 2] = ["/web/login", "/web/me"];
/// Longest path of the page that a cookie is limited to.
const MAX_PATH: usize = 200;

/// The result of the access check, for the handler.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) policy: Arc<AccessPolicy>,
    pub(super) is_signed_in: bool,
}

/// The calling browser and the server's access rules.
#[derive(Debug)]
pub struct Caller {
    access: Option<Access>,
    peer: Option<Peer>,
    headers: HeaderMap,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let access = parts.extensions.get::<Access>().cloned();
        let peer = parts.extensions.get::<Peer>().cloned();
        Ok(Self { access, peer, headers: parts.headers.clone() })
    }
}

pub(super) fn needs_no_password(call: &Parts) -> bool {
    OPEN_ROUTES.contains(&call.uri.path()) || is_probe(call)
}

/// Returns true for a load balancer or a monitor that asks without a password whether the server is up. A wrong password
/// is refused, so that a client can check its own.
fn is_probe(call: &Parts) -> bool {
    matches!(call.method, Method::GET | Method::HEAD)
        && [HEALTH, READY].contains(&call.uri.path())
        && password::given(call).is_none()
}

/// The token in the cookie of a call.
pub(super) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

impl Caller {
    /// Returns true if the server has a password.
    pub(crate) fn needs_password(&self) -> bool {
        self.access.as_ref().is_some_and(|access| access.policy.credentials.is_some())
    }

    /// Returns true if the call may use every route.
    pub(crate) fn is_signed_in(&self) -> bool {
        self.access.as_ref().is_none_or(|access| access.is_signed_in)
    }

    pub(crate) fn browsers(&self) -> Option<&Browsers> {
        self.access.as_ref().map(|access| &access.policy.browsers)
    }

    /// Checks the password and signs the browser in. Returns the cookie, or the refusal.
    pub(crate) async fn sign_in(
        &self,
        user: Option<&str>,
        password: &str,
        path: Option<&str>,
    ) -> Result<Option<HeaderValue>, Response> {
        const WRONG: &str = "the user name or the password is wrong";
        let Some(policy) = self.access.as_ref().map(|access| &access.policy) else { return Ok(None) };
        let Some(credentials) = &policy.credentials else { return Ok(None) };
        verify(policy, self.peer.as_ref(), || credentials.match_pair(user, password), WRONG)
            .await
            .map_err(|refusal| refusal.answer(&self.headers, self.peer.as_ref()))?;
        let agent = self.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let token = policy
            .browsers
            .sign_in(credentials.key(), agent.unwrap_or_default())
            .await
            .map_err(|error| Error::broken(&error).into_response())?;
        Ok(self.set_cookie(&token, LIFETIME / 1_000, path))
    }

    /// The cookie of this browser with a new term; `None` if it has none.
    pub(crate) fn renewed(&self, path: Option<&str>) -> Option<HeaderValue> {
        let token = cookie(&self.headers).filter(|_| self.needs_password() && self.is_signed_in())?;
        self.set_cookie(token, LIFETIME / 1_000, path)
    }

    /// Signs this browser out and returns the header that removes its cookie.
    pub(crate) async fn sign_out(&self, path: Option<&str>) -> io::Result<Option<HeaderValue>> {
        if let (Some(access), Some(token)) = (&self.access, cookie(&self.headers))
            && let Some(credentials) = &access.policy.credentials
        {
            access.policy.browsers.sign_out(credentials.key(), token).await?;
        }
        Ok(self.set_cookie("", 0, path))
    }

    fn set_cookie(&self, token: &str, seconds: i64, path: Option<&str>) -> Option<HeaderValue> {
        let path = path.filter(|path| is_path(path)).unwrap_or("/");
        let secure = if self.is_secure() { "; Secure" } else { "" };
        let cookie =
            format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path={path}; Max-Age={seconds}{secure}");
        HeaderValue::try_from(cookie).ok()
    }

    /// Returns true if the page was loaded with https. Only its origin shows that, because a proxy adds the encryption.
    fn is_secure(&self) -> bool {
        origin::of(&self.headers).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
    }
}

/// Returns true if a page's path can be written into a cookie as it is.
fn is_path(path: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '~' | '%');
    path.starts_with('/') && path.len() <= MAX_PATH && path.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others() {
        let headers = |value| HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static(value))]);
        assert_eq!(cookie(&headers("a=b; baton_session=token; c=d")), Some("token"));
        assert_eq!(cookie(&headers("baton_session_old=x; notbaton_session=y")), None);
        assert_eq!(cookie(&HeaderMap::new()), None);
    }

    #[test]
    fn a_cookie_is_limited_to_the_pages_path_and_to_plain_paths() {
        let caller = |origin: &'static str| {
            let headers = HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static(origin))]);
            Caller { access: None, peer: None, headers }
        };
        let plain = caller("http://localhost:4096").set_cookie("t", 60, Some("/baton/")).unwrap();
        assert_eq!(plain, "baton_session=t; HttpOnly; SameSite=Strict; Path=/baton/; Max-Age=60");
        let odd = caller("https://a.example").set_cookie("t", 60, Some("/; Domain=evil.example")).unwrap();
        assert_eq!(odd, "baton_session=t; HttpOnly; SameSite=Strict; Path=/; Max-Age=60; Secure");
    }
}
