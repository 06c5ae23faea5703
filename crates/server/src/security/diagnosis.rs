//! Asks the kernel for the owner of a socket, by its two ends (`sock_diag`).
//!
//! The table in `/proc` has the same information, but reading it takes longer the more sockets the machine has.
//! This query takes microseconds regardless of their number. Where it is not allowed (a container may forbid
//! it), [`super::sockets`] reads the table.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use rustix::{
    io,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
        netlink::{self, SocketAddrNetlink},
        recv, sendto, socket_with, sockopt,
    },
};

/// `SOCK_DIAG_BY_FAMILY`, the type of both request and response.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` alone: one socket, not a dump.
const REQUEST: u16 = 1;
const TCP: u8 = 6;
const ANY_STATE: u32 = u32::MAX;
const HEAD: usize = 16;
const QUESTION: usize = HEAD + 56;
/// Offsets of user and inode in the response: header, four bytes, the socket's 48, three counters.
const UID: usize = HEAD + 4 + 48 + 12;
const INODE: usize = UID + 4;
/// The kernel answers at once; the timeout only guards against one that does not.
const PATIENCE: Duration = Duration::from_millis(250);

/// Owner and inode of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) uid: u32,
    pub(super) inode: u32,
}

/// Finds the socket from `client` to `server`. `None` if there is none; an error if the query is not allowed.
pub(super) fn find(client: SocketAddr, server: SocketAddr) -> io::Result<Option<Socket>> {
    let kind = SocketType::DGRAM;
    let kernel = socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    sockopt::set_socket_timeout(&kernel, sockopt::Timeout::Recv, Some(PATIENCE))?;
    sendto(&kernel, &question(client, server), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 1024];
    let (read, _) = recv(&kernel, &mut answer, RecvFlags::empty())?;
    Ok(understand(answer.get(..read).unwrap_or_default()))
}

/// A netlink header followed by `inet_diag_req_v2`. Numbers are in native byte order, except addresses and
/// ports.
fn question(client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let (client, server) = (canonical(client), canonical(server));
    let mut bytes = Vec::with_capacity(QUESTION);
    bytes.extend(u32::try_from(QUESTION).unwrap_or(0).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend([0; 8]); // sequence and sender, unused with a single exchange
    let family = if client.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    bytes.extend([u8::try_from(family.as_raw()).unwrap_or(0), TCP, 0, 0]);
    bytes.extend(ANY_STATE.to_ne_bytes());
    bytes.extend(client.port().to_be_bytes());
    bytes.extend(server.port().to_be_bytes());
    bytes.extend(address(client.ip()));
    bytes.extend(address(server.ip()));
    bytes.extend([0; 4]); // any interface
    bytes.extend([0xff; 8]); // no cookie
    bytes
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// An address in sixteen bytes, of which IPv4 uses the first four.
fn address(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Parses the response. Anything but a socket (an error, a short response) means that there is none.
fn understand(answer: &[u8]) -> Option<Socket> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let word = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    if kind != BY_FAMILY {
        return None;
    }
    Some(Socket { uid: word(UID)?, inode: word(INODE)? })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_reports_the_owner_of_a_connection() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (ours, theirs) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let Ok(found) = find(ours, theirs) else { return };
            assert_eq!(found.map(|socket| socket.uid), Some(rustix::process::geteuid().as_raw()), "{host}");
            assert!(found.is_some_and(|socket| socket.inode != 0));
            let nobody = SocketAddr::new(ours.ip(), 1);
            assert_eq!(find(nobody, theirs).unwrap(), None);
        }
    }

    #[test]
    fn a_short_or_invalid_response_is_no_socket() {
        for length in 0..INODE + 3 {
            assert_eq!(understand(&vec![20; length]), None);
        }
    }
}
