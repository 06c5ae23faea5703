//! A proxy in front of the server's socket that loses answers or requests on demand.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::watch,
};

/// The name of a socket in its directory.
const SOCKET: &str = ".s.PGSQL.5432";

/// The state of all connections through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Whole,
    /// The server's answers do not arrive.
    Mute,
    /// The client's requests do not arrive.
    Deaf,
}

pub(super) struct Proxy {
    directory: TempDir,
    /// The state, and the number of times that all connections were cut.
    line: watch::Sender<(Line, u64)>,
    refusing: Arc<AtomicBool>,
}

impl Proxy {
    pub(super) fn start(server: &Path) -> Self {
        let directory = TempDir::with_prefix("baton-pg-proxy-").unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let (line, state) = watch::channel((Line::Whole, 0));
        let server = Arc::new(server.join(SOCKET));
        let refusing = Arc::new(AtomicBool::new(false));
        let refuses = Arc::clone(&refusing);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if refuses.load(Ordering::SeqCst) {
                    continue;
                }
                let (server, state) = (Arc::clone(&server), state.clone());
                tokio::spawn(async move {
                    let Ok(server) = UnixStream::connect(&*server).await else { return };
                    let ((from_client, to_client), (from_server, to_server)) =
                        (client.into_split(), server.into_split());
                    tokio::select! {
                        () = pass(from_client, to_server, state.clone(), Line::Deaf) => {}
                        () = pass(from_server, to_client, state, Line::Mute) => {}
                    }
                });
            }
        });
        Self { directory, line, refusing }
    }

    /// The URL of a database through the proxy.
    pub(super) fn url(&self, database: &str) -> String {
        let directory = self.directory.path().to_string_lossy().replace('/', "%2F");
        format!("postgres://baton@{directory}/{database}")
    }

    /// Closes new connections at once, or passes them on.
    pub(super) fn refuse(&self, refusing: bool) {
        self.refusing.store(refusing, Ordering::SeqCst);
    }

    pub(super) fn set(&self, line: Line) {
        self.line.send_modify(|state| state.0 = line);
    }

    /// Closes all connections; new ones are whole.
    pub(super) fn cut(&self) {
        self.line.send_modify(|state| *state = (Line::Whole, state.1 + 1));
    }
}

/// Passes bytes on until the line is cut; swallows them while it is in the state `loses`.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<(Line, u64)>,
    loses: Line,
) {
    let mut buffer = vec![0; 64 * 1024];
    let cuts = state.borrow().1;
    loop {
        tokio::select! {
            read = from.read(&mut buffer) => match read {
                Ok(count) if count > 0 => {
                    let (line, now) = *state.borrow();
                    if now != cuts {
                        return;
                    }
                    if line != loses && to.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            changed = state.changed() => {
                if changed.is_err() || state.borrow().1 != cuts {
                    return;
                }
            }
        }
    }
}
