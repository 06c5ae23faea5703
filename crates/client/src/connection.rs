//! The connection to a server: address, directory, password, and one way to send a request.

use std::{fmt::Write, sync::Arc, time::Duration};

use protocol::wire_error::WireError;
use reqwest::{
    Method, RequestBuilder, Response, Url,
    header::{self, HeaderValue},
    redirect,
};
use serde::de::DeserializeOwned;

use crate::{Error, Password};

/// Timeout of a call, except a blocking prompt, which takes as long as its turn.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum length of an answer in bytes.
pub const MAX_BODY: usize = 256 << 20;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Detects a dead peer while a connection is idle.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Header with the percent-encoded directory of a request.
const DIRECTORY: &str = "x-opencode-directory";

/// Header with the name of the client.
const NAME: &str = "x-baton-client";

/// Maximum length of an unexpected answer in an error, in characters.
const EXCERPT: usize = 200;

/// A server, for one user and one directory. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Arc<Url>,
    directory: Option<Arc<str>>,
    login: Option<Arc<(String, Password)>>,
    name: Option<HeaderValue>,
}

impl Client {
    /// A client for the server at this address, such as `http://127.0.0.1:4096`.
    pub fn new(address: &str) -> Result<Self, Error> {
        let invalid = || Error::Address { address: address.to_owned() };
        let base = Url::parse(address).map_err(|_| invalid())?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(invalid());
        }
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(net::tls::config_for(&base)?)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(KEEPALIVE)
            // A redirect must not carry the password to another host, and a local server is not behind a proxy.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .build()?;
        Ok(Self { http, base: Arc::new(base), directory: None, login: None, name: None })
    }

    /// The same server in this directory. Without one the server uses its own.
    #[must_use]
    pub fn in_directory(mut self, directory: &str) -> Self {
        self.directory = Some(encode(directory).into());
        self
    }

    /// The same server as this user.
    #[must_use]
    pub fn with_login(mut self, user: impl Into<String>, password: Password) -> Self {
        self.login = Some(Arc::new((user.into(), password)));
        self
    }

    /// The same server with a name for this client, such as `telegram`, which other clients see beside its answers to
    /// requests. A name that a header cannot hold is ignored.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = HeaderValue::from_str(name).ok();
        self
    }

    /// A request to the path of these segments.
    pub(crate) fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.request_with(method, path, &[])
    }

    /// A request to the path of these segments with a query.
    pub(crate) fn request_with(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
    ) -> RequestBuilder {
        let mut url = Url::clone(&self.base);
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.http.request(method, url);
        if let Some(directory) = &self.directory {
            request = request.header(DIRECTORY, &**directory);
        }
        if let Some(name) = &self.name {
            request = request.header(NAME, name);
        }
        if let Some(login) = &self.login {
            request = request.basic_auth(&login.0, Some(login.1.reveal()));
        }
        request
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Error> {
        answer(self.request(Method::GET, path).timeout(CALL_TIMEOUT)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl serde::Serialize,
    ) -> Result<T, Error> {
        answer(self.request(Method::POST, path).json(body).timeout(CALL_TIMEOUT)).await
    }
}

/// Sends a request and parses its answer.
pub(crate) async fn answer<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, Error> {
    let mut response = accepted(request).await?;
    let status = response.status().as_u16();
    let is_json = response.headers().get(header::CONTENT_TYPE).is_none_or(|kind| {
        // OpenCode answers unknown paths with its web page and a 200.
        kind.to_str().is_ok_and(|kind| !kind.starts_with("text/html"))
    });
    let body = body(&mut response).await?;
    if is_json { Ok(serde_json::from_slice(&body)?) } else { Err(unexpected(status, &body)) }
}

/// Sends a request and ignores the body of its answer.
pub(crate) async fn done(request: RequestBuilder) -> Result<(), Error> {
    let mut response = accepted(request).await?;
    body(&mut response).await.map(drop)
}

/// Sends a request and turns a refusal into an error.
pub(crate) async fn accepted(request: RequestBuilder) -> Result<Response, Error> {
    let mut response = request.send().await?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let status = status.as_u16();
    let body = body(&mut response).await?;
    Err(match serde_json::from_slice::<WireError>(&body) {
        Ok(error) => Error::Refused { status, error: Box::new(error) },
        Err(_) => unexpected(status, &body),
    })
}

fn unexpected(status: u16, body: &[u8]) -> Error {
    let excerpt = String::from_utf8_lossy(body).chars().take(EXCERPT).collect();
    Error::Unexpected { status, excerpt }
}

async fn body(response: &mut Response) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(Error::TooLong { limit: MAX_BODY });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Percent-encodes like JavaScript's `encodeURIComponent`, which servers decode.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_encoded_as_javascript_does() {
        assert_eq!(encode("/home/zoë/a b"), "%2Fhome%2Fzo%C3%AB%2Fa%20b");
    }

    #[test]
    fn only_http_addresses_are_accepted() {
        assert!(Client::new("http://127.0.0.1:4096").is_ok());
        for address in ["", "127.0.0.1:4096", "file:///etc", "mailto:a@b"] {
            assert!(matches!(Client::new(address), Err(Error::Address { .. })), "{address}");
        }
    }

    #[test]
    fn a_path_in_the_address_is_kept() {
        for address in ["http://host/baton", "http://host/baton/"] {
            let request =
                Client::new(address).unwrap().request(Method::GET, &["session", "ses_1"]).build().unwrap();
            assert_eq!(request.url().path(), "/baton/session/ses_1");
        }
    }

    #[test]
    fn a_query_is_encoded() {
        let query = [("a", "1".to_owned()), ("b", "x y".to_owned())];
        let client = Client::new("http://host").unwrap();
        let request = client.request_with(Method::GET, &["session"], &query).build().unwrap();
        assert_eq!(request.url().as_str(), "http://host/session?a=1&b=x+y");
    }

    #[test]
    fn a_client_does_not_show_its_password() {
        let client = Client::new("http://host").unwrap().with_login("ada", Password::new("hunter2"));
        assert!(!format!("{client:?}").contains("hunter2"));
    }
}
