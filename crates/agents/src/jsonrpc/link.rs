//! A conversation with a program over its standard input and output.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::message::{Malformed, Message};
use super::peer::{Inbox, Incoming, Options, Peer};
use crate::external::{Child, Failure, Heard, Launch};

/// Lines that may wait between the program and the peer, which has queues of its own.
const WAITING: usize = 16;

/// How long whoever asks why a conversation has ended waits for the program to end as well.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A program, and our end of the conversation with it. Dropping it kills the program and everything it has started.
#[derive(Debug)]
pub struct Link {
    peer: Peer,
    inbox: Inbox,
    process: Option<u32>,
    stop: CancellationToken,
    /// Until it has ended.
    pump: Option<AbortOnDropHandle<Option<Failure>>>,
    /// Why it has ended, for people.
    failure: Option<String>,
}

impl Link {
    /// Starts a program.
    pub fn open(launch: &Launch, options: Options) -> Result<Self, Failure> {
        let child = Child::start(launch)?;
        let process = child.id();
        let (deliver, mut arriving) = mpsc::channel(WAITING);
        let (transport, saying) = mpsc::channel(WAITING);
        let stop = CancellationToken::new();
        let pump = AbortOnDropHandle::new(tokio::spawn(pump(child, deliver, saying, stop.clone())));
        let arriving = futures::stream::poll_fn(move |context| arriving.poll_recv(context));
        let (peer, inbox) = Peer::start(options, arriving, transport);
        Ok(Self { peer, inbox, process, stop, pump: Some(pump), failure: None })
    }

    /// Our end of it.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The process it began with.
    pub fn process(&self) -> Option<u32> {
        self.process
    }

    /// What comes next; none when the conversation is over. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Incoming> {
        self.inbox.next().await
    }

    /// What has arrived already and was not looked at.
    pub fn waiting(&mut self) -> Option<Incoming> {
        self.inbox.waiting()
    }

    /// Why the conversation is over, for people.
    pub async fn failure(&mut self) -> String {
        if let Some(pump) = &mut self.pump {
            self.failure = match timeout(LAST_WORDS, pump).await {
                Ok(ended) => {
                    self.pump = None;
                    ended.ok().flatten().map(|failure| failure.to_string())
                }
                Err(_) => Some("the program does not end".to_owned()),
            };
        }
        self.failure.clone().unwrap_or_else(|| "the program was stopped".to_owned())
    }

    /// Ends the program and everything it has started: asks, then makes it.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Some(pump) = self.pump {
            let _ = pump.await;
        }
    }
}

/// Carries lines until the program ends or is to end.
async fn pump(
    mut child: Child,
    deliver: mpsc::Sender<Result<Message, Malformed>>,
    saying: mpsc::Receiver<Value>,
    stop: CancellationToken,
) -> Option<Failure> {
    let failure = {
        // Whatever is read, what is said must get through: a program may wait for it before it goes on.
        let _saying = AbortOnDropHandle::new(tokio::spawn(say(child.input().clone(), saying)));
        stop.run_until_cancelled(listen(&mut child, deliver)).await
    };
    child.stop().await;
    failure.flatten()
}

async fn listen(child: &mut Child, deliver: mpsc::Sender<Result<Message, Malformed>>) -> Option<Failure> {
    loop {
        let message = match child.next().await {
            Ok(Heard::Json(value)) => Message::read(value),
            Ok(Heard::Noise { why, .. }) => Err(Malformed(why)),
            Err(failure) => return Some(failure),
        };
        if deliver.send(message).await.is_err() {
            return None;
        }
    }
}

async fn say(input: crate::external::Input, mut saying: mpsc::Receiver<Value>) {
    while let Some(line) = saying.recv().await {
        input.say(&line).await;
    }
}
