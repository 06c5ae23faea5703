//! The remote end of a connection and its owner.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::OnceCell, time::timeout};

use super::sockets;

/// Timeout for the kernel to report a socket's owner. After that the owner counts as unknown.
const LOOK_UP: Duration = Duration::from_secs(2);
/// Network part of an IPv6 address. Providers assign whole networks, so a client can choose the rest freely.
const IPV6_NETWORK: u128 = u128::MAX << 64;

/// The remote end of a connection. The server attaches it to every call of the connection. The user behind it
/// is looked up once per connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer(Arc<Ends>);

#[derive(Debug)]
struct Ends {
    remote: SocketAddr,
    local: SocketAddr,
    uid: OnceCell<Option<u32>>,
    /// True if the last password on this connection was right.
    proved: AtomicBool,
}

/// Key by which connections and wrong passwords are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A user of this machine.
    User(u32),
    /// A user of this machine whom the kernel does not report.
    Unknown,
    /// Address of another machine; for IPv6 only its network.
    Network(IpAddr),
}

impl Peer {
    pub(crate) fn new(remote: SocketAddr, local: SocketAddr) -> Self {
        let (uid, proved) = (OnceCell::new(), AtomicBool::new(false));
        Self(Arc::new(Ends { remote, local, uid, proved }))
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.0.remote
    }

    /// Address of this server that the client connected to.
    pub(crate) fn local(&self) -> SocketAddr {
        self.0.local
    }

    /// Returns true if the remote end belongs to the user this server runs as. Only the kernel can tell, and
    /// only for this machine; if it cannot, the result is false.
    pub(crate) async fn is_own_user(&self) -> bool {
        self.user().await == Some(rustix::process::geteuid().as_raw())
    }

    /// The user or machine at the remote end.
    pub(crate) async fn source(&self) -> Source {
        if self.is_local() {
            return self.user().await.map_or(Source::Unknown, Source::User);
        }
        Source::Network(match self.0.remote.ip().to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) & IPV6_NETWORK).into(),
            ip @ IpAddr::V4(_) => ip,
        })
    }

    /// Returns true if no process of this machine holds the remote end any more. False if the kernel does not
    /// tell.
    pub(crate) fn has_left(&self) -> bool {
        self.is_local() && sockets::is_abandoned(self.0.remote, self.0.local)
    }

    /// Returns true if the last password on this connection was right.
    pub(super) fn has_proved(&self) -> bool {
        self.0.proved.load(Ordering::Relaxed)
    }

    /// Records the result of a password check on this connection.
    pub(super) fn prove(&self, right: bool) {
        self.0.proved.store(right, Ordering::Relaxed);
    }

    fn is_local(&self) -> bool {
        self.0.remote.ip().to_canonical().is_loopback()
    }

    async fn user(&self) -> Option<u32> {
        if !self.is_local() {
            return None;
        }
        let Ends { remote, local, uid, .. } = &*self.0;
        let look_up = || async { timeout(LOOK_UP, sockets::owner(*remote, *local)).await.ok().flatten() };
        *uid.get_or_init(look_up).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_of_one_ipv6_network_are_one_source() {
        let source = |remote: &str| {
            let peer =
                Peer::new(SocketAddr::new(remote.parse().unwrap(), 1), "10.0.0.1:4096".parse().unwrap());
            async move { peer.source().await }
        };
        assert_eq!(source("2001:db8::1").await, source("2001:db8::ffff:1").await);
        assert_ne!(source("2001:db8::1").await, source("2001:db8:0:1::1").await);
        assert_eq!(source("::ffff:10.0.0.2").await, source("10.0.0.2").await);
        assert_ne!(source("10.0.0.3").await, source("10.0.0.2").await);
    }
}
