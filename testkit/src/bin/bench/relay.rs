//! A relay process that only copies bytes from one socket to another.

use std::{net::SocketAddr, process::Stdio, time::Duration};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    time::timeout,
};

/// The argument that makes this program a relay.
pub(crate) const ARGUMENT: &str = "relay";

const START: Duration = Duration::from_secs(20);

/// A relay in a process of its own, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    _process: Child,
}

impl Relay {
    /// Starts a relay to `target`.
    pub(crate) async fn start(target: SocketAddr) -> Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "a plain child of the benchmark")]
        let mut process = Command::new(std::env::current_exe()?)
            .args([ARGUMENT, &target.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let out = process.stdout.take().context("the relay has no standard output")?;
        let line = timeout(START, BufReader::new(out).lines().next_line()).await??;
        let address = line.context("the relay did not say where it listens")?.parse()?;
        Ok(Self { address, _process: process })
    }
}

/// Runs as a relay: prints its address, and connects every client to `target`.
pub(crate) async fn run(target: &str) -> Result<()> {
    let target: SocketAddr = target.parse()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (mut client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        tokio::spawn(async move {
            let mut provider = TcpStream::connect(target).await?;
            provider.set_nodelay(true)?;
            copy_bidirectional(&mut client, &mut provider).await
        });
    }
}
