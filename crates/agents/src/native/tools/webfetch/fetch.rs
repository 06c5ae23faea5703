//! Getting a page without being sent where nobody meant to go.
//!
//! A model may be talked into fetching an address of this machine or its network, and a page may redirect there. So
//! every hop is looked up here, refused unless all its addresses are public, and connected to by the very addresses
//! that were checked: a name that means something else a moment later changes nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};

use encoding_rs::{Encoding, UTF_8};
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response, Url, redirect};

use super::super::Failure;
use super::address;
use crate::native::{limits, tls};

/// How often a page may send us elsewhere.
const MAX_HOPS: usize = 10;

/// Who is asking.
const USER_AGENT: &str = concat!("Mozilla/5.0 (compatible; baton/", env!("CARGO_PKG_VERSION"), ")");

/// Finds the addresses of a name.
pub(super) trait Lookup: Send + Sync {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// Asks whom the system asks.
struct System;

impl Lookup for System {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }.boxed()
    }
}

/// Gets pages.
pub(super) struct Fetcher {
    pub(super) lookup: Box<dyn Lookup>,
    /// Which addresses may be reached.
    pub(super) allows: fn(IpAddr) -> bool,
}

/// A page.
#[derive(Debug)]
pub(super) struct Fetched {
    /// What the server says it is.
    pub(super) kind: String,
    pub(super) body: Vec<u8>,
}

impl Fetcher {
    pub(super) fn new(private: bool) -> Self {
        Self { lookup: Box::new(System), allows: if private { |_| true } else { address::is_public } }
    }

    pub(super) async fn get(&self, url: &str, accept: &str) -> Result<Fetched, Failure> {
        let mut url = Url::parse(url).map_err(|error| failed(format!("{url} is not an address: {error}")))?;
        for _ in 0..=MAX_HOPS {
            let response = self.hop(&url, accept).await?;
            if !response.status().is_redirection() {
                return read(response).await;
            }
            let next = response.headers().get(LOCATION).and_then(|next| next.to_str().ok());
            let next = next.ok_or_else(|| failed(format!("{url} redirects to nowhere")))?;
            url = url.join(next).map_err(|error| failed(format!("{url} redirects to {next}: {error}")))?;
        }
        Err(failed(format!("{url} redirects too often")))
    }

    async fn hop(&self, url: &Url, accept: &str) -> Result<Response, Failure> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(failed(format!("only http and https can be fetched, not {}", url.scheme())));
        }
        let host = url.host_str().unwrap_or_default();
        let addresses = self.addresses(url, host).await?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls::config().map_err(failed)?)
            .user_agent(USER_AGENT)
            // A proxy would look names up by itself, after they were checked here.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .resolve_to_addrs(host, &addresses)
            .build()
            .map_err(|error| failed(chain(&error)))?;
        let call = client.get(url.clone()).header(ACCEPT, accept).header(ACCEPT_LANGUAGE, "en-US,en;q=0.9");
        call.send().await.map_err(|error| failed(chain(&error)))
    }

    /// The addresses of a host, all of which may be reached.
    async fn addresses(&self, url: &Url, host: &str) -> Result<Vec<SocketAddr>, Failure> {
        let port = url.port_or_known_default().unwrap_or(80);
        let found = if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            vec![SocketAddr::new(address, port)]
        } else {
            let found = self.lookup.lookup(host, port).await;
            found.map_err(|error| failed(format!("{host} cannot be found: {error}")))?
        };
        if found.is_empty() {
            return Err(failed(format!("{host} has no address")));
        }
        match found.iter().find(|address| !(self.allows)(address.ip())) {
            Some(address) => Err(failed(format!(
                "{host} is {}, which is not a public address and may not be fetched",
                address.ip()
            ))),
            None => Ok(found),
        }
    }
}

async fn read(response: Response) -> Result<Fetched, Failure> {
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
    /// What it is, without parameters.
    pub(super) fn mime(&self) -> &str {
        self.kind.split(';').next().unwrap_or_default().trim()
    }

    /// The page as text, in whatever encoding the server says.
    pub(super) fn text(&self) -> Result<String, Failure> {
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

fn failed(message: impl Into<String>) -> Failure {
    Failure::Error(message.into())
}

/// An error with its reasons; the outermost alone says little.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(reason) = source {
        text.push_str(": ");
        text.push_str(&reason.to_string());
        source = reason.source();
    }
    text
}
