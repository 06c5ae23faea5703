//! The OpenCode server: one that already runs, or a process that Baton starts on demand, shares between all sessions
//! and stops when no turn has used it for a while.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::{Client, Password};
use engine::ports::Random;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::ChildStdout;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Companion, Exit, Spec};

use crate::external::pool::{Idle, IdlePool};
use crate::roster::Program;

/// Default timeout for a server to start listening.
const START: Duration = Duration::from_secs(45);
/// Most lines of output to read until the server reports its address.
const MAX_LINES: usize = 200;
/// Longest of these lines, in bytes.
const MAX_LINE: u64 = 16 * 1024;
/// The first delay before another start after a failure. It doubles with every failure.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Time for a process that reports no address to exit by itself before it is stopped.
const LAST_GRACE: Duration = Duration::from_millis(500);
/// Most characters of its error output in an error message.
const LAST_WORDS: usize = 2_000;
/// Length of the generated password, in random bytes.
const PASSWORD: usize = 24;
/// The user name for the password.
const USER: &str = "opencode";

/// A server that runs already.
#[derive(Debug, Clone)]
pub struct Remote {
    pub address: String,
    /// The user name. None for OpenCode's default.
    pub user: Option<String>,
    pub password: Option<Password>,
}

/// A server to start.
#[derive(Debug, Clone)]
pub struct Start {
    command: Vec<String>,
    environment: BTreeMap<String, String>,
    hidden: Vec<String>,
    idle: Duration,
    pool: IdlePool,
    /// Timeout for the server to start listening.
    pub patience: Duration,
}

impl Start {
    /// Settings from the configured program.
    pub fn new(program: &Program, pool: IdlePool) -> Self {
        Self {
            command: program.command.clone(),
            environment: program.environment.clone(),
            hidden: program.hidden.clone(),
            idle: program.idle,
            pool,
            patience: START,
        }
    }
}

/// The server of an agent.
pub(super) enum Server {
    There(Remote),
    ToStart(Box<Starter>),
}

/// Starts the server process and holds the running one.
pub(super) struct Starter {
    start: Start,
    random: Arc<dyn Random>,
    /// Locked during a start, so that concurrent callers share one process.
    running: tokio::sync::Mutex<Option<Arc<Live>>>,
    /// The number of consecutive failed starts and unexpected exits.
    failures: Arc<Mutex<u32>>,
    closed: CancellationToken,
}

/// A running server.
struct Live {
    client: Client,
    /// The reason of its end; none while it runs.
    gone: watch::Receiver<Option<String>>,
    uses: Mutex<Uses>,
    /// Notified when the last turn that uses the server has ended.
    released: Notify,
    pool: IdlePool,
    stop: CancellationToken,
}

struct Uses {
    count: usize,
    since: Instant,
    /// The server's entry among the idle processes of all agents; none while a turn uses it.
    idle: Option<Idle>,
    /// True while the server is being stopped. No turn may begin to use it.
    is_closing: bool,
}

/// Keeps the server running until the lease is dropped.
pub(super) struct Lease {
    pub(super) client: Client,
    live: Option<Arc<Live>>,
}

impl Lease {
    /// Resolves with the reason when the server has ended. Never resolves for a server that Baton did not start.
    pub(super) async fn gone(&self) -> String {
        let Some(live) = &self.live else { return std::future::pending().await };
        let mut gone = live.gone.clone();
        match gone.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "the OpenCode server has ended".to_owned(),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            let mut uses = live.uses();
            uses.count = uses.count.saturating_sub(1);
            if uses.count == 0 {
                uses.since = Instant::now();
                uses.idle = Some(live.pool.enter());
                live.released.notify_one();
            }
        }
    }
}

impl Live {
    fn uses(&self) -> MutexGuard<'_, Uses> {
        // Every change is complete in itself, so a poisoned lock holds no broken state.
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a lease, unless the server has ended or is being stopped.
    fn lease(self: &Arc<Self>) -> Option<Lease> {
        if self.gone.borrow().is_some() {
            return None;
        }
        let mut uses = self.uses();
        if uses.is_closing {
            return None;
        }
        uses.count += 1;
        uses.idle = None;
        Some(Lease { client: self.client.clone(), live: Some(Arc::clone(self)) })
    }
}

impl Live {
    /// Returns the time at which an unused server has to stop, and a token that is cancelled if it has to stop earlier.
    /// Returns none, and refuses further leases, if it has to stop now.
    fn rest(&self, patience: Duration) -> Option<(Option<Instant>, CancellationToken)> {
        let mut uses = self.uses();
        if uses.count > 0 {
            return Some((None, CancellationToken::new()));
        }
        let due = uses.since.checked_add(patience);
        let evicted = uses.idle.as_ref().map(|idle| idle.evicted().clone()).unwrap_or_default();
        if evicted.is_cancelled() || due.is_some_and(|due| due <= Instant::now()) {
            uses.is_closing = true;
            uses.idle = None;
            return None;
        }
        Some((due, evicted))
    }
}

impl Server {
    pub(super) fn there(remote: Remote) -> Self {
        Self::There(remote)
    }

    pub(super) fn to_start(start: Start, random: Arc<dyn Random>) -> Self {
        Self::ToStart(Box::new(Starter {
            start,
            random,
            running: tokio::sync::Mutex::default(),
            failures: Arc::default(),
            closed: CancellationToken::new(),
        }))
    }

    /// Takes a lease on the server. Starts the server in this directory if none runs.
    pub(super) async fn lease(&self, directory: &str) -> Result<Lease, String> {
        match self {
            Self::There(remote) => {
                let client = Client::new(&remote.address).map_err(|error| error.to_string())?;
                let user = remote.user.clone().unwrap_or_else(|| USER.to_owned());
                let client = match remote.password.clone() {
                    Some(password) => client.with_login(user, password),
                    None => client,
                };
                Ok(Lease { client, live: None })
            }
            Self::ToStart(starter) => starter.lease(directory).await,
        }
    }

    /// Ends the process that Baton has started.
    pub(super) async fn close(&self) {
        let Self::ToStart(starter) = self else { return };
        starter.closed.cancel();
        let live = starter.running.lock().await.take();
        if let Some(live) = live {
            live.stop.cancel();
            // The keeper reports the end of the process; it has its own deadline.
            let _ = live.gone.clone().wait_for(Option::is_some).await;
        }
    }
}

impl Starter {
    async fn lease(&self, directory: &str) -> Result<Lease, String> {
        let mut running = self.running.lock().await;
        if let Some(lease) = running.as_ref().and_then(Live::lease) {
            return Ok(lease);
        }
        if self.closed.is_cancelled() {
            return Err("the server is shutting down".to_owned());
        }
        sleep(self.pause()).await;
        let started = timeout(self.start.patience, self.start(directory)).await;
        let late =
            || format!("OpenCode did not listen within {} s of its start", self.start.patience.as_secs());
        match started.unwrap_or_else(|_| Err(late())) {
            Ok(live) => {
                let lease = live.lease().ok_or("the OpenCode server ended at once")?;
                *running = Some(live);
                Ok(lease)
            }
            Err(error) => {
                count(&self.failures, |failures| failures.saturating_add(1));
                Err(error)
            }
        }
    }

    /// The delay before the next start.
    fn pause(&self) -> Duration {
        match *self.failures.lock().unwrap_or_else(PoisonError::into_inner) {
            0 => Duration::ZERO,
            failures => FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(8)).min(LONGEST_PAUSE),
        }
    }

    async fn start(&self, directory: &str) -> Result<Arc<Live>, String> {
        let (program, args) =
            self.start.command.split_first().ok_or("no command is configured for OpenCode")?;
        let password = self.password();
        let mut spec = Spec::new(program, directory, Duration::MAX)
            .args(args)
            .args(["serve", "--hostname", "127.0.0.1", "--port", "0"])
            .hide(&self.start.hidden);
        let own = [("OPENCODE_SERVER_PASSWORD", password.as_str()), ("OPENCODE_SERVER_USERNAME", USER)];
        let written = self.start.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        spec.environment = written.chain(own).map(|(name, value)| (name.into(), value.into())).collect();
        let (mut companion, pipes) = process::start(&spec).map_err(|error| error.to_string())?;
        let mut output = BufReader::new(pipes.output);
        let address = tokio::select! {
            biased;
            address = address(&mut output) => address,
            // A child process may still hold the output open.
            _ = companion.exited() => None,
        };
        let Some(address) = address else { return Err(silent(companion).await) };
        let client = Client::new(&address)
            .map_err(|error| format!("OpenCode reported an invalid address: {error}"))?
            .with_login(USER, Password::new(password));
        let (tell, gone) = watch::channel(None);
        let uses = Mutex::new(Uses { count: 0, since: Instant::now(), idle: None, is_closing: false });
        let (released, pool, stop) = (Notify::new(), self.start.pool.clone(), CancellationToken::new());
        let live = Arc::new(Live { client, gone, uses, released, pool, stop });
        let keeper = IdleWatch {
            live: Arc::clone(&live),
            idle: self.start.idle,
            tell,
            failures: Arc::clone(&self.failures),
            closed: self.closed.clone(),
        };
        tokio::spawn(keeper.keep(companion, output));
        Ok(live)
    }

    fn password(&self) -> String {
        let mut bytes = [0; PASSWORD];
        self.random.fill(&mut bytes);
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

fn count(failures: &Mutex<u32>, change: impl FnOnce(u32) -> u32) {
    let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
    *failures = change(*failures);
}

/// Waits until the process exits or has been unused for a while, and then cleans up.
struct IdleWatch {
    live: Arc<Live>,
    idle: Duration,
    tell: watch::Sender<Option<String>>,
    failures: Arc<Mutex<u32>>,
    closed: CancellationToken,
}

impl IdleWatch {
    async fn keep(self, mut companion: Companion, output: BufReader<ChildStdout>) {
        let drain = tokio::spawn(drain(output));
        let why = tokio::select! {
            exit = companion.wait() => {
                let exit = exit_text(exit);
                count(&self.failures, |failures| failures.saturating_add(1));
                Some(format!("the OpenCode server ended ({exit}): {}", last_words(&companion)))
            }
            () = self.useless() => None,
            () = self.live.stop.cancelled() => None,
            () = self.closed.cancelled() => None,
        };
        let why = if let Some(why) = why {
            why
        } else {
            count(&self.failures, |_| 0);
            companion.stop().await;
            "the OpenCode server was stopped".to_owned()
        };
        drain.abort();
        self.tell.send_replace(Some(why));
    }

    /// Resolves when the server has been unused for the idle time, or has to make room for a process of another agent. No
    /// turn can take a lease afterwards.
    async fn useless(&self) {
        loop {
            let Some((due, evicted)) = self.live.rest(self.idle) else { return };
            tokio::select! {
                biased;
                () = self.live.released.notified() => {}
                () = evicted.cancelled() => {}
                () = until(due) => {}
            }
        }
    }
}

/// Waits for a time, or for ever if there is none.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Reads the server's address from its output. None if the output ends first or is too long.
async fn address(output: &mut BufReader<ChildStdout>) -> Option<String> {
    for _ in 0..MAX_LINES {
        let mut line = Vec::new();
        let read = (&mut *output).take(MAX_LINE).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            return None;
        }
        let line = String::from_utf8_lossy(&line);
        if let Some(found) = line.split_whitespace().find(|word| word.starts_with("http://")) {
            return Some(found.to_owned());
        }
    }
    None
}

/// The error for a server that did not report its address.
async fn silent(mut companion: Companion) -> String {
    let why = match timeout(LAST_GRACE, companion.wait()).await {
        Ok(exit) => format!("OpenCode ended before it listened ({})", exit_text(exit)),
        Err(_) => "OpenCode did not report its address".to_owned(),
    };
    let words = last_words(&companion);
    companion.stop().await;
    format!("{why}: {words}")
}

fn exit_text(exit: Result<Exit, process::Error>) -> String {
    match exit {
        Ok(Exit::Code(code)) => format!("code {code}"),
        Ok(exit) => format!("{exit:?}"),
        Err(error) => error.to_string(),
    }
}

async fn drain(mut output: BufReader<ChildStdout>) {
    let mut buffer = vec![0; 4096];
    while matches!(output.read(&mut buffer).await, Ok(1..)) {}
}

fn last_words(companion: &Companion) -> String {
    let text = companion.errors().text();
    let text = text.trim();
    let skip = text.chars().count().saturating_sub(LAST_WORDS);
    if text.is_empty() { "it wrote nothing".to_owned() } else { text.chars().skip(skip).collect() }
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::There(remote) => out.debug_tuple("There").field(remote).finish(),
            Self::ToStart(starter) => out.debug_tuple("ToStart").field(&starter.start.command).finish(),
        }
    }
}
