//! Calls over HTTP: one connection pool, one TLS stack, and a deadline on every wait.
//!
//! TLS is rustls on `ring`, and whom to trust is asked of the system: a company's own certificates work, and
//! revoked ones disappear, without a new release. Calls to this very machine never go through a proxy, which
//! could not reach it.

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

/// Finds out that the other side is gone while nothing is being said.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// How long an unused connection is kept, in the hope of a next step.
const KEEP_IDLE: Duration = Duration::from_secs(90);

/// What providers are told about who calls.
const USER_AGENT: &str = concat!("baton/", env!("CARGO_PKG_VERSION"));

/// Makes calls. Clones share their connections; one is enough for a whole program.
///
/// Nothing is set up before the first call: a program that never makes one does not read any certificates.
#[derive(Clone, Default)]
pub struct Client {
    inner: Arc<Inner>,
    /// Whoever makes its calls, if not itself.
    carrier: Option<Arc<dyn Carrier>>,
}

#[derive(Default)]
struct Inner {
    connect: Option<Duration>,
    /// For this machine.
    near: OnceLock<Result<reqwest::Client, Error>>,
    /// For all others.
    far: OnceLock<Result<reqwest::Client, Error>>,
}

impl Client {
    /// A client that gives up on connecting after this time, instead of the default in [`Deadlines`].
    pub fn with_connect_deadline(connect: Duration) -> Self {
        Self { inner: Arc::new(Inner { connect: Some(connect), ..Inner::default() }), carrier: None }
    }

    /// A client whose calls somebody else makes.
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
            // A key must not follow a redirect to somebody else.
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

/// Whether an address is this machine's own.
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
    fn only_loopback_is_near() {
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
