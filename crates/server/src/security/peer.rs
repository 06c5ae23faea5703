//! The other end of a connection, and whose it is.

use std::{net::SocketAddr, sync::Arc};

use tokio::sync::OnceCell;

use super::sockets;

/// The other end of a connection. The server puts it into every call of the connection; what is found out
/// about it is found out once, so a connection that carries a million deltas is looked up as often as one
/// that carries none.
#[derive(Debug, Clone)]
pub struct Peer(Arc<Ends>);

#[derive(Debug)]
struct Ends {
    remote: SocketAddr,
    local: SocketAddr,
    uid: OnceCell<Option<u32>>,
}

impl Peer {
    /// The two ends of a connection, seen from here.
    pub fn new(remote: SocketAddr, local: SocketAddr) -> Self {
        Self(Arc::new(Ends { remote, local, uid: OnceCell::new() }))
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
    pub(super) async fn is_own_user(&self) -> bool {
        let Ends { remote, local, uid } = &*self.0;
        if !remote.ip().to_canonical().is_loopback() {
            return false;
        }
        let (remote, local) = (*remote, *local);
        *uid.get_or_init(|| sockets::owner(remote, local)).await == Some(rustix::process::geteuid().as_raw())
    }
}
