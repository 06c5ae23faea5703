//! Resolves the host of a URL and builds a client that connects only to the addresses it has checked.

use std::io;
use std::net::{IpAddr, SocketAddr};

use futures::future::{BoxFuture, FutureExt};
use reqwest::{Client, ClientBuilder, Url, redirect};

use crate::{address, chain, tls};

/// Resolves host names.
pub trait Lookup: Send + Sync {
    /// Returns every address of a host.
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// The resolver of the system.
struct System;

impl Lookup for System {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }.boxed()
    }
}

/// Reasons to refuse a URL. They quote only its host, because the rest may contain a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    #[error("only http and https can be reached, not {0}")]
    Scheme(String),
    /// The host has no address.
    #[error("{host} cannot be found: {reason}")]
    Unknown { host: String, reason: String },
    /// The address belongs to this machine or to a private network.
    #[error("{host} is {address}, which is not a public address and may not be reached")]
    Private { host: String, address: IpAddr },
    /// The HTTP client cannot be built.
    #[error("{0}")]
    Client(String),
}

/// Decides which addresses may be reached.
pub struct AddressGuard {
    lookup: Box<dyn Lookup>,
    allows: fn(IpAddr) -> bool,
}

impl std::fmt::Debug for AddressGuard {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("AddressGuard")
    }
}

impl AddressGuard {
    /// A guard that allows public addresses, and with `private` also this machine and private networks.
    pub fn new(private: bool) -> Self {
        let allows: fn(IpAddr) -> bool = if private { |_| true } else { address::is_public };
        Self::with(Box::new(System), allows)
    }

    /// A guard with its own resolver and its own rule for addresses.
    pub fn with(lookup: Box<dyn Lookup>, allows: fn(IpAddr) -> bool) -> Self {
        Self { lookup, allows }
    }

    /// Builds a client that connects to the checked addresses of this URL's host and follows no redirects.
    pub async fn client(&self, url: &Url, builder: ClientBuilder) -> Result<Client, Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme(url.scheme().to_owned()));
        }
        let host = url.host_str().unwrap_or_default();
        let addresses = self.addresses(url, host).await?;
        builder
            .tls_backend_preconfigured(tls::config().map_err(|error| Refused::Client(error.to_string()))?)
            // A proxy would resolve the name again, after this check.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .resolve_to_addrs(host, &addresses)
            .build()
            .map_err(|error| Refused::Client(chain(&error.without_url())))
    }

    /// Resolves a host; fails if any of its addresses is not allowed.
    async fn addresses(&self, url: &Url, host: &str) -> Result<Vec<SocketAddr>, Refused> {
        let unknown = |reason: String| Refused::Unknown { host: host.to_owned(), reason };
        let port = url.port_or_known_default().unwrap_or(80);
        let found = if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            vec![SocketAddr::new(address, port)]
        } else {
            self.lookup.lookup(host, port).await.map_err(|error| unknown(error.to_string()))?
        };
        if found.is_empty() {
            return Err(unknown("the host has no address".to_owned()));
        }
        match found.iter().find(|address| !(self.allows)(address.ip())) {
            Some(address) => Err(Refused::Private { host: host.to_owned(), address: address.ip() }),
            None => Ok(found),
        }
    }
}
