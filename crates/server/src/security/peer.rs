//! The other end of a connection, and whose it is.

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

/// How long the kernel may take to say who holds a socket. Afterwards the holder counts as unknown.
const LOOK_UP: Duration = Duration::from_secs(2);
/// The part of an IPv6 address that one customer of a network gets: the rest is theirs to choose.
const IPV6_NETWORK: u128 = u128::MAX << 64;

/// The other end of a connection. The server puts it into every call of the connection. The user behind it is
/// looked up once per connection.
#[derive(Debug, Clone)]
pub struct Peer(Arc<Ends>);

#[derive(Debug)]
struct Ends {
    remote: SocketAddr,
    local: SocketAddr,
    uid: OnceCell<Option<u32>>,
    /// The connection's last password was right.
    proved: AtomicBool,
}

/// What connections and wrong passwords are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A user of this machine.
    User(u32),
    /// A user of this machine whom the kernel does not name.
    Unknown,
    /// An address of another machine; of IPv6 only the network.
    Network(IpAddr),
}

impl Peer {
    /// The two ends of a connection, seen from here.
    pub fn new(remote: SocketAddr, local: SocketAddr) -> Self {
        let (uid, proved) = (OnceCell::new(), AtomicBool::new(false));
        Self(Arc::new(Ends { remote, local, uid, proved }))
    }

    /// The other end.
    pub fn remote(&self) -> SocketAddr {
        self.0.remote
    }

    /// The address it came to.
    pub fn local(&self) -> SocketAddr {
        self.0.local
    }

    /// Whether the other end belongs to the user this server runs as. Only the kernel can say so, and only
    /// about this machine; in doubt the answer is no.
    pub(crate) async fn is_own_user(&self) -> bool {
        self.user().await == Some(rustix::process::geteuid().as_raw())
    }

    /// The user or the machine at the other end.
    pub(crate) async fn source(&self) -> Source {
        if self.is_local() {
            return self.user().await.map_or(Source::Unknown, Source::User);
        }
        Source::Network(match self.0.remote.ip().to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) & IPV6_NETWORK).into(),
            ip @ IpAddr::V4(_) => ip,
        })
    }

    /// Whether no process of this machine holds the other end any more. False if the kernel does not say.
    pub(crate) fn has_left(&self) -> bool {
        self.is_local() && sockets::is_abandoned(self.0.remote, self.0.local)
    }

    /// Whether the last password that came over this connection was right.
    pub(super) fn has_proved(&self) -> bool {
        self.0.proved.load(Ordering::Relaxed)
    }

    /// Remembers whether a password that came over this connection was right.
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
