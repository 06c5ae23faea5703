//! Calls over HTTP: one connection pool, one TLS stack, and a timeout for every wait.
//!
//! TLS is rustls on `ring` with the system's root certificates: a company's own certificates work, and revoked
//! ones disappear, without a new release. Calls to this machine never use a proxy, which could not reach it.

mod carry;
mod deadlines;
mod inflate;
mod listen;
mod send;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::{Url, redirect};

pub use carry::{Carried, Carrier, Reply};
pub use deadlines::Deadlines;
pub use listen::MAX_ANSWER;
pub use send::{Endpoint, KeyHeader, MAX_REFUSAL};

use crate::Error;

/// Interval of TCP and HTTP/2 keep-alive probes, which detect a dead connection during silence.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Time that an unused connection is kept for a next step.
const KEEP_IDLE: Duration = Duration::from_secs(90);

/// Value of the `User-Agent` header.
const USER_AGENT: &str = concat!("baton/", env!("CARGO_PKG_VERSION"));

/// An HTTP client. Clones share their connections; one is enough for a whole program.
///
/// Nothing is set up before the first call: a program that never makes one reads no certificates.
#[derive(Clone, Default)]
pub struct Client {
    inner: Arc<Inner>,
    /// Makes the calls in place of the own connections, if set.
    carrier: Option<Arc<dyn Carrier>>,
}

#[derive(Default)]
struct Inner {
    connect: Option<Duration>,
    /// Pool for this machine, without a proxy.
    near: OnceLock<Result<reqwest::Client, Error>>,
    /// Pool for all other addresses.
    far: OnceLock<Result<reqwest::Client, Error>>,
}

impl Client {
    /// A client with this connection timeout instead of the default in [`Deadlines`].
    pub fn with_connect_deadline(connect: Duration) -> Self {
        Self { inner: Arc::new(Inner { connect: Some(connect), ..Inner::default() }), carrier: None }
    }

    /// A client whose calls are made by a carrier.
    #[must_use]
    pub fn through(self, carrier: Arc<dyn Carrier>) -> Self {
        Self { carrier: Some(carrier), ..self }
    }

    fn connect_deadline(&self) -> Duration {
        self.inner.connect.unwrap_or(deadlines::CONNECT)
    }

    /// The pool for an address.
    fn pool(&self, url: &Url) -> Result<&reqwest::Client, Error> {
        let near = is_near(url);
        let pool = if near { &self.inner.near } else { &self.inner.far };
        pool.get_or_init(|| self.build(near)).as_ref().map_err(Clone::clone)
    }

    fn build(&self, near: bool) -> Result<reqwest::Client, Error> {
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(net::tls::config().map_err(|error| Error::Other(error.to_string()))?)
            .user_agent(USER_AGENT)
            .connect_timeout(self.connect_deadline())
            .tcp_keepalive(KEEPALIVE)
            .http2_keep_alive_interval(KEEPALIVE)
            .pool_idle_timeout(KEEP_IDLE)
            // A key must not follow a redirect to another server.
            .redirect(redirect::Policy::none());
        let builder = if near { builder.no_proxy() } else { builder };
        builder.build().map_err(|error| Error::Other(format!("cannot set up HTTP: {}", net::chain(&error))))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Returns true for a loopback address.
pub(crate) fn is_near(url: &Url) -> bool {
    match url.host_str().map(|host| host.trim_matches(['[', ']'])) {
        Some("localhost") => true,
        Some(host) => host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_local() {
        let near = |url: &str| is_near(&url.parse().unwrap());
        for url in ["http://localhost:11434/v1", "http://127.0.0.1", "http://127.9.9.9/x", "http://[::1]:1"] {
            assert!(near(url), "{url}");
        }
        for url in ["http://10.0.0.1", "https://api.anthropic.com", "http://localhost.evil.test"] {
            assert!(!near(url), "{url}");
        }
    }

    #[test]
    fn pools_can_be_built_and_are_built_once() {
        let client = Client::default();
        let url = "https://example.test".parse().unwrap();
        let first = std::ptr::from_ref(client.pool(&url).unwrap());
        assert_eq!(first, std::ptr::from_ref(client.clone().pool(&url).unwrap()));
    }
}
