//! Finds the user at the other end of a loopback connection, by a direct query to the kernel or from its table
//! of sockets.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

/// The kernel's tables. A program may reach an IPv4 address through an IPv6 socket, so both are searched for
/// both.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// Id that the kernel reports for users without a number in this container. It does not identify a user.
const OVERFLOW_UID: u32 = 65_534;

/// The user who holds the socket from `client` to `server`; `None` if the platform does not tell.
pub(super) async fn owner(client: SocketAddr, server: SocketAddr) -> Option<u32> {
    #[cfg(target_os = "linux")]
    if let Ok(found) = super::diagnosis::find(client, server) {
        return found.and_then(|socket| holder(socket.uid, socket.inode.into()));
    }
    // On a busy machine the table is long, so it is read on a blocking thread.
    tokio::task::spawn_blocking(move || owner_by_table(client, server)).await.ok().flatten()
}

/// Returns true if no process holds the socket from `client` to `server` any more. False where the kernel does
/// not answer the direct query.
pub(super) fn is_abandoned(client: SocketAddr, server: SocketAddr) -> bool {
    #[cfg(target_os = "linux")]
    return super::diagnosis::find(client, server).is_ok_and(|found| found.is_none_or(|it| it.inode == 0));
    #[cfg(not(target_os = "linux"))]
    false
}

fn owner_by_table(client: SocketAddr, server: SocketAddr) -> Option<u32> {
    TABLES.iter().find_map(|table| {
        let text = std::fs::read_to_string(Path::new(table)).ok()?;
        owner_in(&text, client, server)
    })
}

fn owner_in(table: &str, client: SocketAddr, server: SocketAddr) -> Option<u32> {
    let (client, server) = (canonical(client), canonical(server));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        // sl, local and remote address, state, queues, timer, retransmits, uid, timeout, inode
        let local = address(fields.nth(1)?)?;
        let remote = address(fields.next()?)?;
        if (local, remote) != (client, server) {
            return None;
        }
        let uid: u32 = fields.nth(4)?.parse().ok()?;
        let inode: u64 = fields.nth(1)?.parse().ok()?;
        holder(uid, inode)
    })
}

/// The kernel lists a socket without a process as root's, regardless of its former owner.
fn holder(uid: u32, inode: u64) -> Option<u32> {
    (inode != 0 && uid != OVERFLOW_UID).then_some(uid)
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Parses `0100007F:1F90`, or four such words for IPv6: each word in native byte order, the port as a plain
/// number.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let digits = host.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match host.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let mut bytes = [0; 16];
            for (byte, from) in bytes.iter_mut().zip(words.as_flattened()) {
                *byte = *from;
            }
            IpAddr::from(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use super::*;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn find(rows: &str, client: &str, server: &str) -> Option<u32> {
        owner_in(&format!("{HEAD}{rows}"), client.parse().unwrap(), server.parse().unwrap())
    }

    #[test]
    fn both_ends_must_match_in_this_direction() {
        let rows = "\
   0: 0100007F:1000 00000000:0000 0A 00000000:00000000 00:00000000 00000000   700        0 11 1 0 100 0 0 10 0
   1: 0100007F:1000 0100007F:C350 01 00000000:00000000 00:00000000 00000000   700        0 12 1 0 20 4 30 10 -1
   2: 0100007F:C350 0100007F:1000 01 00000000:00000000 00:00000000 00000000  1000        0 13 1 0 20 4 30 10 -1
   3: 0100007F:C351 0100007F:1000 01 00000000:00000000 00:00000000 00000000  1001        0 14 1 0 20 4 30 10 -1
";
        assert_eq!(find(rows, "127.0.0.1:50000", "127.0.0.1:4096"), Some(1000));
        assert_eq!(find(rows, "127.0.0.1:50001", "127.0.0.1:4096"), Some(1001));
        assert_eq!(find(rows, "127.0.0.1:50002", "127.0.0.1:4096"), None);
        assert_eq!(find(rows, "127.0.0.1:50000", "127.0.0.1:4097"), None);
        assert_eq!(find(rows, "[::ffff:127.0.0.1]:50000", "[::ffff:127.0.0.1]:4096"), Some(1000));
    }

    #[test]
    fn ipv6_and_ipv4_through_ipv6_are_understood() {
        let rows = "\
   0: 00000000000000000000000001000000:C350 00000000000000000000000001000000:1000 01 00000000:00000000 00:00000000 00000000  1000        0 13 1 0
   1: 0000000000000000FFFF00000100007F:C350 0000000000000000FFFF00000100007F:1000 01 00000000:00000000 00:00000000 00000000  1001        0 14 1 0
";
        assert_eq!(find(rows, "[::1]:50000", "[::1]:4096"), Some(1000));
        assert_eq!(find(rows, "127.0.0.1:50000", "127.0.0.1:4096"), Some(1001));
    }

    #[test]
    fn a_closed_socket_has_no_owner_and_is_not_roots() {
        let rows = "   0: 0100007F:C350 0100007F:1000 06 00000000:00000000 03:00000A5C 00000000     0        0 0 3 0\n";
        assert_eq!(find(rows, "127.0.0.1:50000", "127.0.0.1:4096"), None);
        let rows = "   0: 0100007F:C350 0100007F:1000 01 00000000:00000000 00:00000000 00000000 65534        0 9 1 0\n";
        assert_eq!(find(rows, "127.0.0.1:50000", "127.0.0.1:4096"), None);
    }

    #[test]
    fn invalid_rows_are_skipped() {
        for rows in
            ["", "\n\n", "x y z", "0: 0100007F:C350", "0: é100007:C350 0100007F:1000 01", "0: :1 :2 01"]
        {
            assert_eq!(find(rows, "127.0.0.1:50000", "127.0.0.1:4096"), None, "{rows}");
        }
    }
}
