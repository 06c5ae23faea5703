//! Sends a call and waits for the response headers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures::StreamExt as _;
use net::chain;
use reqwest::Url;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, timeout_at};

use super::carry::{self, Carried, Response};
use super::inflate::Inflate;
use super::listen::{Answer, MAX_ANSWER, Shape, listen};
use super::{Client, Deadlines, USER_AGENT};
use crate::dialect::{Dialect, HttpCall};
use crate::{Deadline, Error, EventStream, Headers, Secret, complaint};

/// Most bytes of an error response that are read.
pub const MAX_REFUSAL: usize = 64 << 10;

/// Timeout for the body of an error response.
const REFUSAL: Duration = Duration::from_secs(10);

/// Headers of an error response that are dropped.
const PRIVATE: [HeaderName; 1] = [header::SET_COOKIE];

/// Address and key of a provider.
#[derive(Clone)]
pub struct Endpoint {
    pub url: String,
    /// Query parameters of every call.
    pub query: BTreeMap<String, String>,
    /// The key and its header, for providers that need one.
    pub key: Option<(KeyHeader, Secret)>,
    pub deadlines: Deadlines,
}

/// Header of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyHeader {
    /// `authorization: Bearer ...`
    Bearer,
    /// `x-api-key`, used by Anthropic.
    XApiKey,
    /// `x-goog-api-key`, used by Google.
    XGoogApiKey,
    /// `api-key`, used by Azure.
    ApiKey,
}

impl KeyHeader {
    fn header(self, key: &Secret) -> Option<(HeaderName, HeaderValue)> {
        let (name, value) = match self {
            Self::Bearer => (header::AUTHORIZATION, format!("Bearer {}", key.reveal())),
            Self::XApiKey => (HeaderName::from_static("x-api-key"), key.reveal().to_owned()),
            Self::XGoogApiKey => (HeaderName::from_static("x-goog-api-key"), key.reveal().to_owned()),
            Self::ApiKey => (HeaderName::from_static("api-key"), key.reveal().to_owned()),
        };
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }
}

impl Endpoint {
    fn address(&self, path: &str) -> Result<Url, Error> {
        let mut url = Url::parse(&format!("{}{path}", self.url.trim_end_matches('/')))
            .map_err(|error| Error::Other(format!("invalid address of the provider: {error}")))?;
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok(url)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An address may contain a password.
        let host = Url::parse(&self.url).ok().and_then(|url| url.host_str().map(str::to_owned));
        f.debug_struct("Endpoint").field("host", &host).field("key", &self.key).finish_non_exhaustive()
    }
}

impl Client {
    /// Makes a call and returns its events. Dropping the stream ends the call.
    pub async fn stream(
        &self,
        endpoint: &Endpoint,
        dialect: Dialect,
        call: &HttpCall,
        step: usize,
    ) -> Result<EventStream, Error> {
        let started = Instant::now();
        let total = started + endpoint.deadlines.total;
        let secret = endpoint.key.as_ref().map(|(_, key)| key.clone());
        let redact = move |error: Error| match &secret {
            Some(secret) => error.redacted(secret),
            None => error,
        };
        let headers = started + endpoint.deadlines.headers;
        let sent = timeout_at(headers.min(total), self.send(endpoint, call)).await;
        let response = match sent {
            Ok(sent) => sent.map_err(&redact)?,
            Err(_) if total <= headers => return Err(stalled(Deadline::Total, endpoint.deadlines.total)),
            Err(_) => return Err(stalled(Deadline::Headers, endpoint.deadlines.headers)),
        };
        if !(200..300).contains(&response.status) {
            return Err(redact(refused(response).await));
        }
        let inflate = Inflate::of(text(&response.headers, &header::CONTENT_ENCODING))?;
        let answer = Answer {
            inflate,
            shape: Shape::of(text(&response.headers, &header::CONTENT_TYPE)),
            decoder: dialect.decoder(step),
            deadlines: endpoint.deadlines,
            total,
            limit: MAX_ANSWER,
        };
        Ok(listen(response.body, answer).map(move |event| event.map_err(&redact)).boxed())
    }

    async fn send(&self, endpoint: &Endpoint, call: &HttpCall) -> Result<Response, Error> {
        let url = endpoint.address(&call.path)?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some((name, value)) = endpoint.key.as_ref().and_then(|(how, key)| how.header(key)) {
            headers.insert(name, value);
        }
        // Set after the key, so that a configured header of the same name overrides it.
        for (name, value) in call.headers.iter() {
            let invalid = || Error::Other(format!("invalid header `{name}`"));
            let name = HeaderName::try_from(name).map_err(|_| invalid())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let body = call.body.to_string();
        if let Some(carrier) = &self.carrier {
            headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
            let call = Carried { url: url.into(), headers: carry::call_headers(&headers), body };
            return Ok(carrier.carry(call).await?.into());
        }
        let request = self.pool(&url)?.post(url).headers(headers).body(body);
        Ok(request.send().await.map_err(|error| self.failed(error))?.into())
    }

    /// Lists the models of an `OpenAI`-compatible server. Local servers have those that the user installed.
    pub async fn list(&self, endpoint: &Endpoint) -> Result<Vec<String>, Error> {
        let url = endpoint.address("/models")?;
        let mut headers = HeaderMap::new();
        headers.extend(endpoint.key.as_ref().and_then(|(how, key)| how.header(key)));
        let asked = async {
            let request = self.pool(&url)?.get(url.clone()).headers(headers);
            let response = request.send().await.map_err(|error| self.failed(error))?;
            if !response.status().is_success() {
                return Err(refused(response.into()).await);
            }
            response.json().await.map_err(|error| Error::Garbled(chain(&error.without_url())))
        };
        let wait = endpoint.deadlines.headers;
        let listed: serde_json::Value = match tokio::time::timeout(wait, asked).await {
            Ok(listed) => listed?,
            Err(_) => return Err(stalled(Deadline::Headers, wait)),
        };
        let models = crate::json::list(&listed, "data").iter();
        Ok(models.filter_map(|model| crate::json::maybe(model, "id")).map(str::to_owned).collect())
    }

    fn failed(&self, error: reqwest::Error) -> Error {
        let error = error.without_url();
        if error.is_connect() && error.is_timeout() {
            stalled(Deadline::Connect, self.connect_deadline())
        } else if error.is_builder() {
            Error::Other(chain(&error))
        } else {
            Error::Connect(chain(&error))
        }
    }
}

fn stalled(deadline: Deadline, after: Duration) -> Error {
    Error::Stalled { deadline, after }
}

/// Reads an error response up to its limits.
async fn refused(response: Response) -> Error {
    let Response { status, headers, body: mut pieces } = response;
    let inflate = Inflate::of(text(&headers, &header::CONTENT_ENCODING));
    let headers = response_headers(&headers);
    let mut inflate = inflate.unwrap_or(Inflate::Plain);
    let mut body = Vec::new();
    let read = async {
        while let Some(Ok(piece)) = pieces.next().await {
            body.extend(inflate.push(piece).unwrap_or_default());
            if body.len() >= MAX_REFUSAL {
                break;
            }
        }
    };
    // A partial error response is used, too.
    let _ = tokio::time::timeout(REFUSAL, read).await;
    body.truncate(MAX_REFUSAL);
    complaint::refusal(status, headers, String::from_utf8_lossy(&body).into_owned())
}

fn response_headers(headers: &HeaderMap) -> Headers {
    let known = headers.iter().filter(|(name, _)| !PRIVATE.contains(name));
    known
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect()
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
