//! The line to an agent's program: what it says becomes messages, what it is told becomes lines, and how it ended is
//! kept.

use std::time::Duration;

use agent_client_protocol_schema::v1::ClientRequest;
use futures::{FutureExt, stream};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{limits, outgoing, wire};
use crate::external::{Child, Failure, Heard, Launch};
use crate::jsonrpc::{Dialect, Error, Inbox, Malformed, Message, Options, Peer};

/// Lines that may wait in each direction.
const LINES: usize = 256;

/// What one line says.
type Arrived = Result<Message, Malformed>;

/// A conversation with a program. Dropping it kills the program and everything that it has started.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: Peer,
    pub(super) inbox: Inbox,
    ended: watch::Receiver<Option<String>>,
    stop: CancellationToken,
    pump: AbortOnDropHandle<()>,
}

impl Link {
    /// Starts a program.
    pub(super) fn start(launch: &Launch) -> Result<Self, Failure> {
        let child = Child::start(launch)?;
        let (lines, heard) = mpsc::channel(LINES);
        let (transport, told) = mpsc::channel(LINES);
        let (report, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let pump = Pump { child, lines, told, report, stop: stop.clone() };
        let pump = AbortOnDropHandle::new(tokio::spawn(pump.run()));
        let (peer, inbox) = converse(heard, transport);
        Ok(Self { peer, inbox, ended, stop, pump })
    }

    /// Asks for something while nothing else is expected; whatever else is said meanwhile is ignored.
    pub(super) async fn ask(&mut self, request: &ClientRequest, deadline: Duration) -> Result<Value, Error> {
        let peer = self.peer.clone();
        let asking = peer.request(request.method(), outgoing::value(request), deadline);
        tokio::pin!(asking);
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut asking => break answer,
                Some(_) = self.inbox.next() => {}
            }
        };
        // What came before the answer is in the inbox by now.
        while let Some(Some(_)) = self.inbox.next().now_or_never() {}
        answer
    }

    /// Why the program has nothing more to say.
    pub(super) async fn failure(&mut self) -> String {
        let how = timeout(limits::LAST_WORDS, self.ended.wait_for(Option::is_some)).await;
        let how = how.ok().and_then(Result::ok).and_then(|how| how.clone());
        how.unwrap_or_else(|| "the agent's program went away".to_owned())
    }

    /// Ends the program and everything it has started.
    pub(super) async fn stop(self) {
        let Self { stop, pump, inbox, .. } = self;
        stop.cancel();
        drop(inbox);
        if timeout(limits::STOP, pump).await.is_err() {
            tracing::warn!("an agent took too long to end and was dropped");
        }
    }
}

fn converse(mut heard: mpsc::Receiver<Arrived>, transport: mpsc::Sender<Value>) -> (Peer, Inbox) {
    let options = Options { dialect: Dialect::default(), methods: wire::METHODS };
    Peer::start(options, stream::poll_fn(move |context| heard.poll_recv(context)), transport)
}

struct Pump {
    child: Child,
    lines: mpsc::Sender<Arrived>,
    told: mpsc::Receiver<Value>,
    report: watch::Sender<Option<String>>,
    stop: CancellationToken,
}

impl Pump {
    async fn run(mut self) {
        let input = self.child.input().clone();
        let told = &mut self.told;
        let writing = async {
            while let Some(line) = told.recv().await {
                input.say(&line).await;
            }
            std::future::pending::<()>().await;
        };
        let how = tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            how = read(&mut self.child, &self.lines) => how,
            () = writing => None,
        };
        self.report.send_replace(how);
        // Whoever hears that it is over may rely on nothing being left of it.
        self.child.stop().await;
    }
}

/// Passes on what it says until it is over; how it ended, unless nobody wants to know.
async fn read(child: &mut Child, lines: &mpsc::Sender<Arrived>) -> Option<String> {
    loop {
        match child.next().await {
            Ok(Heard::Json(message)) => lines.send(Message::read(message)).await.ok()?,
            Ok(Heard::Noise { text, why }) => {
                tracing::debug!(text, why, "an agent said something unreadable");
            }
            Err(failure) => return Some(failure.to_string()),
        }
    }
}
