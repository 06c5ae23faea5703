//! Fetches a page. The guard of `net` checks the address of every redirect before it is followed.

use encoding_rs::{Encoding, UTF_8};
use futures::StreamExt;
use net::{AddressGuard, chain};
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response, Url};

use super::super::ToolFailure;
use crate::limits;

/// The most redirects that are followed.
const MAX_HOPS: usize = 10;

const USER_AGENT: &str = concat!("Mozilla/5.0 (compatible; baton/", env!("CARGO_PKG_VERSION"), ")");

/// Fetches pages from addresses that the guard allows.
pub(super) struct Fetcher(pub(super) AddressGuard);

#[derive(Debug)]
pub(super) struct Fetched {
    /// The content type that the server declares.
    pub(super) kind: String,
    pub(super) body: Vec<u8>,
}

impl Fetcher {
    pub(super) fn new(private: bool) -> Self {
        Self(AddressGuard::new(private))
    }

    pub(super) async fn get(&self, url: &str, accept: &str) -> Result<Fetched, ToolFailure> {
        let mut url =
            Url::parse(url).map_err(|error| failed(format!("{url} is not a valid URL: {error}")))?;
        for _ in 0..=MAX_HOPS {
            let response = self.hop(&url, accept).await?;
            if !response.status().is_redirection() {
                return read(response).await;
            }
            let next = response.headers().get(LOCATION).and_then(|next| next.to_str().ok());
            let next = next.ok_or_else(|| failed(format!("{url} redirects without naming a target")))?;
            url = url.join(next).map_err(|error| failed(format!("{url} redirects to {next}: {error}")))?;
        }
        Err(failed(format!("{url} redirects too often")))
    }

    async fn hop(&self, url: &Url, accept: &str) -> Result<Response, ToolFailure> {
        let client = self.0.client(url, Client::builder().user_agent(USER_AGENT)).await;
        let client = client.map_err(|refused| failed(refused.to_string()))?;
        let call = client.get(url.clone()).header(ACCEPT, accept).header(ACCEPT_LANGUAGE, "en-US,en;q=0.9");
        call.send().await.map_err(|error| failed(chain(&error)))
    }
}

async fn read(response: Response) -> Result<Fetched, ToolFailure> {
    let status = response.status();
    if !status.is_success() {
        return Err(failed(format!("{} answered {status}", response.url())));
    }
    let too_large = || failed(format!("the page is too large (at most {} bytes)", limits::FETCH_BYTES));
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
    if announced.is_some_and(|length| length > limits::FETCH_BYTES) {
        return Err(too_large());
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or("text/plain").to_owned();
    let mut body = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| failed(chain(&error)))?;
        if body.len() + chunk.len() > limits::FETCH_BYTES {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Fetched { kind, body })
}

impl Fetched {
    /// Returns the content type without parameters.
    pub(super) fn mime(&self) -> &str {
        self.kind.split(';').next().unwrap_or_default().trim()
    }

    /// Decodes the page as text, in the encoding that the server declares.
    pub(super) fn text(&self) -> Result<String, ToolFailure> {
        let parameters = self.kind.split(';').skip(1);
        let named = parameters.filter_map(|parameter| parameter.trim().strip_prefix("charset="));
        let label = named.map(|label| label.trim_matches('"')).next();
        let encoding = label.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8);
        let (text, _, _) = encoding.decode(&self.body);
        if text.contains('\0') {
            return Err(failed(format!("the page is not text ({})", self.mime())));
        }
        Ok(text.into_owned())
    }
}

fn failed(message: impl Into<String>) -> ToolFailure {
    ToolFailure::Error(message.into())
}
