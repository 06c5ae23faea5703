//! The part of `baton serve` that only a node of a fleet needs.

use std::{future::pending, net::IpAddr, time::Duration};

use engine::{Sessions, member::Member};
use server::fleet::{Key, Options};
use tokio::{net::TcpSocket, time::interval};

use crate::{
    args::Serve,
    environment,
    exit::Failure,
    signals::Signals,
    wiring::{
        Engine,
        node::{Identity, check_name},
    },
};

/// Interval at which a draining node looks if a turn still runs.
const LOOK: Duration = Duration::from_millis(100);

/// Refuses options that a node cannot have.
pub(super) fn check(options: &Serve) -> Result<(), Failure> {
    let Some(name) = &options.node.name else { return Ok(()) };
    check_name(name)?;
    key()?;
    if options.channels {
        return Err(Failure::usage(
            "a node cannot run the chat gateway, because only one gateway may answer a chat",
        )
        .hint("run `baton channels --attach URL` as a program of its own, with the URL of the fleet"));
    }
    if let Some(address) = &options.node.address
        && !is_base(address)
    {
        return Err(Failure::usage(format!("\"{address}\" is not the address of a node"))
            .hint("--address takes an http URL without a path, such as http://10.0.0.5:4096"));
    }
    Ok(())
}

fn is_base(address: &str) -> bool {
    // Nodes call each other without TLS.
    address
        .strip_prefix("http://")
        .is_some_and(|it| !it.is_empty() && !it.contains(['/', '?', '#', '@', ' ']))
}

/// The name and the address of this node; `None` without `--node`.
pub(super) fn identity(options: &Serve, socket: &TcpSocket, host: &str) -> Result<Option<Identity>, Failure> {
    let Some(name) = &options.node.name else { return Ok(None) };
    let local = socket
        .local_addr()
        .map_err(|error| Failure::error(format!("cannot find out the address to listen on: {error}")))?;
    let address = match &options.node.address {
        Some(address) => address.clone(),
        None if local.ip().is_unspecified() => {
            return Err(Failure::usage(format!("the other nodes cannot reach this one at {host}"))
                .hint("--address URL names an address of this machine that they can reach"));
        }
        None => format!("http://{host}:{}", local.port()),
    };
    let is_local = local.ip().to_canonical().is_loopback() && is_loopback(&address);
    if !is_local && key()?.is_none() {
        return Err(Failure::usage("a node that other machines can reach needs the key of its fleet")
            .hint("set BATON_FLEET_KEY to the same long random text on all nodes, such as the output of `openssl rand -hex 32`"));
    }
    Ok(Some(Identity { name: name.clone(), address }))
}

/// The key that all nodes of the fleet share.
fn key() -> Result<Option<Key>, Failure> {
    let text = environment::read(environment::FLEET_KEY);
    let key = text.map(|text| Key::new(&text)).transpose();
    key.map_err(|weak| Failure::usage(format!("{} cannot be used: {weak}", environment::FLEET_KEY)))
}

/// The part of the server that passes calls on to other nodes; `None` for a server that is no node.
pub(super) fn forwarding(engine: &Engine) -> Option<Options> {
    let identity = engine.node.as_ref()?.member.identity()?;
    // The key was checked before the node joined.
    let key = key().ok().flatten();
    if key.is_none() {
        tracing::warn!("this node has no BATON_FLEET_KEY: it passes no call on to other nodes");
    }
    Some(Options { node: identity.node, incarnation: identity.incarnation, key })
}

/// Returns true if the host of a URL is this machine for sure.
fn is_loopback(address: &str) -> bool {
    let authority = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => authority.split(':').next(),
    };
    let ip = |host: &str| host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback());
    host.is_some_and(|host| host == "localhost" || ip(host))
}

/// Lets the turns of a node end by themselves, until the time is over or a second signal comes. New work is refused
/// meanwhile, and load balancers see that this node is not ready.
pub(super) async fn drain(sessions: &Sessions, member: &Member, time: Duration, signals: &mut Signals) {
    tracing::info!(node = member.name(), seconds = time.as_secs(), "draining");
    let idle = async {
        member.leave().await;
        let mut looks = interval(LOOK);
        while sessions.stats().live > 0 {
            looks.tick().await;
        }
    };
    tokio::select! {
        () = idle => {}
        () = tokio::time::sleep(time) => tracing::warn!("turns still run; ending them as interrupted"),
        _ = signals.next() => {}
    }
}

/// Waits until the other nodes have declared this one dead; for ever on a server that is no node.
pub(super) async fn lost(engine: &Engine) -> Failure {
    match &engine.node {
        Some(node) => node.lost().await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_need_no_key() {
        for local in ["http://127.0.0.1:4096", "http://localhost:1", "http://[::1]:9", "http://127.9.9.9"] {
            assert!(is_base(local) && is_loopback(local), "{local}");
        }
        for far in
            ["http://10.0.0.5:4096", "http://node-a:1", "http://[fd00::1]:9", "http://127.0.0.1.example"]
        {
            assert!(is_base(far) && !is_loopback(far), "{far}");
        }
        for bad in [
            "",
            "10.0.0.5:4096",
            "https://a",
            "ftp://a",
            "http://",
            "http://a/b",
            "http://me@a:1",
            "http://a b",
        ] {
            assert!(!is_base(bad), "{bad}");
        }
    }
}
