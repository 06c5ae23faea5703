//! A JSON-RPC connection to a program over its standard input and output.

use std::time::Duration;

use jsonrpc::{Line, Malformed, Message};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{Inbox, Incoming, Options, Peer};
use crate::external::{Child, Input, Launch, OutputLine, ProgramFailure};

/// Most lines that wait between the program and the peer, which has its own queues.
const WAITING: usize = 16;

/// Time that [`RpcProcess::failure`] waits for the program to end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Time that [`RpcProcess::stop`] waits for the program and its processes to end.
const STOP: Duration = Duration::from_secs(5);

/// A running program and the local end of the connection to it. Dropping it kills the program and every process that
/// the program has started.
#[derive(Debug)]
pub struct RpcProcess {
    pub(crate) peer: Peer,
    pub(crate) inbox: Inbox,
    ended: watch::Receiver<Option<String>>,
    stop: CancellationToken,
    pump: AbortOnDropHandle<()>,
}

impl RpcProcess {
    /// Starts a program.
    pub fn open(launch: &Launch, options: Options) -> Result<Self, ProgramFailure> {
        let child = Child::start(launch)?;
        let (deliver, mut arriving) = mpsc::channel(WAITING);
        let (transport, lines) = mpsc::channel(WAITING);
        let (report, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let pump = Pump { child, deliver, report, stop: stop.clone() };
        let pump = AbortOnDropHandle::new(tokio::spawn(pump.run(lines)));
        let arriving = futures::stream::poll_fn(move |context| arriving.poll_recv(context));
        let (peer, inbox) = Peer::start(options, arriving, transport);
        Ok(Self { peer, inbox, ended, stop, pump })
    }

    /// The sending half.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns the next message; none after the program has ended. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Incoming> {
        self.inbox.next().await
    }

    /// Returns the next message that has already arrived.
    pub fn waiting(&mut self) -> Option<Incoming> {
        self.inbox.waiting()
    }

    /// Describes for the user how the program ended.
    pub async fn failure(&mut self) -> String {
        match timeout(LAST_WORDS, self.ended.wait_for(Option::is_some)).await {
            Ok(Ok(failure)) => failure.clone().unwrap_or_default(),
            Ok(Err(_)) => "the program was stopped".to_owned(),
            Err(_) => "the program does not end".to_owned(),
        }
    }

    /// Ends the program and every process that it has started: first with a request to exit, then by force.
    pub async fn stop(self) {
        let Self { stop, pump, .. } = self;
        stop.cancel();
        if timeout(STOP, pump).await.is_err() {
            tracing::warn!("an agent's program did not end in time and was killed");
        }
    }
}

/// Carries lines until the program ends or the link stops it.
struct Pump {
    child: Child,
    deliver: mpsc::Sender<Result<Message, Malformed>>,
    report: watch::Sender<Option<String>>,
    stop: CancellationToken,
}

impl Pump {
    async fn run(mut self, lines: mpsc::Receiver<Line>) {
        let failure = {
            // Writing has its own task, because a program may read its input while its own output is unread.
            let _writing = AbortOnDropHandle::new(tokio::spawn(write(self.child.input().clone(), lines)));
            let stop = self.stop.clone();
            stop.run_until_cancelled(self.read()).await.flatten()
        };
        self.report.send_replace(failure.map(|failure| failure.to_string()));
        // The inbox ends when `deliver` is dropped, so after its end no process of the program is left.
        self.child.stop().await;
    }

    async fn read(&mut self) -> Option<ProgramFailure> {
        loop {
            let message = match self.child.next().await {
                Ok(OutputLine::Json(value)) => Message::read(value),
                Ok(OutputLine::Noise { why, .. }) => Err(Malformed(why)),
                Err(failure) => return Some(failure),
            };
            if self.deliver.send(message).await.is_err() {
                return None;
            }
        }
    }
}

async fn write(input: Input, mut lines: mpsc::Receiver<Line>) {
    while let Some(line) = lines.recv().await {
        input.say(&line.value()).await;
    }
}
