//! Who looks an address up and says whether it may be reached.

use std::io;
use std::net::{IpAddr, SocketAddr};

use futures::future::{BoxFuture, FutureExt};
use reqwest::{Client, ClientBuilder, Url, redirect};

use crate::{address, chain, tls};

/// Finds the addresses of a name.
pub trait Lookup: Send + Sync {
    /// All of them.
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// Asks whom the system asks.
struct System;

impl Lookup for System {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }.boxed()
    }
}

/// Why an address is not called. Nothing of it but the host is told: the rest may hold a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Neither http nor https.
    #[error("only http and https can be reached, not {0}")]
    Scheme(String),
    /// Nobody knows the name.
    #[error("{host} cannot be found: {reason}")]
    Unknown {
        /// The name.
        host: String,
        /// What the system said.
        reason: String,
    },
    /// It belongs to this machine or its network.
    #[error("{host} is {address}, which is not a public address and may not be reached")]
    Private {
        /// The name.
        host: String,
        /// What it stands for.
        address: IpAddr,
    },
    /// There is no client.
    #[error("{0}")]
    Client(String),
}

/// Decides which addresses may be reached.
pub struct Guard {
    lookup: Box<dyn Lookup>,
    allows: fn(IpAddr) -> bool,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Guard")
    }
}

impl Guard {
    /// One that lets calls through to everybody, or also to this machine and private networks.
    pub fn new(private: bool) -> Self {
        let allows: fn(IpAddr) -> bool = if private { |_| true } else { address::is_public };
        Self::with(Box::new(System), allows)
    }

    /// One that looks names up and judges addresses in another way.
    pub fn with(lookup: Box<dyn Lookup>, allows: fn(IpAddr) -> bool) -> Self {
        Self { lookup, allows }
    }

    /// A client that reaches the host of this address, by what was checked, and follows no redirect.
    pub async fn client(&self, url: &Url, builder: ClientBuilder) -> Result<Client, Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme(url.scheme().to_owned()));
        }
        let host = url.host_str().unwrap_or_default();
        let addresses = self.addresses(url, host).await?;
        builder
            .tls_backend_preconfigured(tls::config().map_err(Refused::Client)?)
            // A proxy would look names up by itself, after they were checked here.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .resolve_to_addrs(host, &addresses)
            .build()
            .map_err(|error| Refused::Client(chain(&error.without_url())))
    }

    /// The addresses of a host, all of which may be reached.
    async fn addresses(&self, url: &Url, host: &str) -> Result<Vec<SocketAddr>, Refused> {
        let unknown = |reason: String| Refused::Unknown { host: host.to_owned(), reason };
        let port = url.port_or_known_default().unwrap_or(80);
        let found = if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            vec![SocketAddr::new(address, port)]
        } else {
            self.lookup.lookup(host, port).await.map_err(|error| unknown(error.to_string()))?
        };
        if found.is_empty() {
            return Err(unknown("it has no address".to_owned()));
        }
        match found.iter().find(|address| !(self.allows)(address.ip())) {
            Some(address) => Err(Refused::Private { host: host.to_owned(), address: address.ip() }),
            None => Ok(found),
        }
    }
}
