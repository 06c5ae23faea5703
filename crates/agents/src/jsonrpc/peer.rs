//! Our end of a conversation: who waits for which answer, and what the other side wants.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, Stream, StreamExt};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use super::message::{Dialect, Fault, INTERNAL_ERROR, Id, Malformed, Message};

/// How many messages may wait in the inbox, and how many for the transport.
pub const QUEUE: usize = 1024;

/// How many requests of ours may wait for their answers at once.
pub const MAX_PENDING: usize = 256;

/// How many requests of theirs may wait for ours.
pub const MAX_ASKED: usize = 256;

/// How a conversation is held.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Which dialect we write; both are read.
    pub dialect: Dialect,
    /// What the other side may ask of us.
    pub methods: &'static [&'static str],
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The other side refused.
    #[error("{method} was refused: {fault}")]
    Refused {
        /// What was asked.
        method: String,
        /// Why.
        fault: Box<Fault>,
    },
    /// The other side took too long.
    #[error("{method} was not answered within {after:?}")]
    Late {
        /// What was asked.
        method: String,
        /// The deadline.
        after: Duration,
    },
    /// Too many requests wait already.
    #[error("{method} was not sent, because {MAX_PENDING} requests wait for an answer already")]
    Crowded {
        /// What was to be asked.
        method: String,
    },
    /// The conversation is over.
    #[error("{method} was not answered before the conversation ended")]
    Ended {
        /// What was asked.
        method: String,
    },
}

/// Asks and tells. Cheap to clone; a clone does not keep the conversation alive, the [`Inbox`] does.
#[derive(Debug, Clone)]
pub struct Peer {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Outgoing>,
}

/// What the other side asks and tells, in order. Dropping it ends the conversation.
#[derive(Debug)]
pub struct Inbox {
    incoming: mpsc::Receiver<Incoming>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

/// Something the other side wants known.
#[derive(Debug)]
pub enum Incoming {
    /// It wants an answer.
    Asked(Asked),
    /// It does not.
    Told {
        /// What it says.
        method: String,
        /// With what.
        params: Value,
    },
    /// It said something that cannot be read.
    Malformed(Malformed),
}

/// A request of the other side. If it is dropped, the answer is [`INTERNAL_ERROR`].
#[derive(Debug)]
pub struct Asked {
    /// Its name, by which the other side may take it back.
    pub id: Id,
    /// What it asks.
    pub method: String,
    /// With what.
    pub params: Value,
    reply: oneshot::Sender<Result<Value, Fault>>,
}

impl Asked {
    /// Answers. An answer that comes after the end of the conversation is dropped.
    pub fn answer(self, result: Result<Value, Fault>) {
        let _ = self.reply.send(result);
    }
}

#[derive(Debug)]
struct Shared {
    options: Options,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ended: bool,
    last: i64,
    /// Ours.
    pending: HashMap<Id, oneshot::Sender<Result<Value, Fault>>>,
    /// Theirs.
    asked: HashSet<Id>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
enum Outgoing {
    Message(Message),
    /// The answer is to be sent as soon as there is one.
    Answer(Id, oneshot::Receiver<Result<Value, Fault>>),
}

/// A request of ours that waits. Forgotten when nobody waits any more.
struct Pending<'a> {
    shared: &'a Shared,
    id: Id,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.shared.state().pending.remove(&self.id);
    }
}

impl Peer {
    /// Begins a conversation over any transport of lines: what arrives, and where what is said goes. The conversation
    /// is over when nothing more arrives.
    pub fn start(
        options: Options,
        arriving: impl Stream<Item = Result<Message, Malformed>> + Send + Unpin + 'static,
        transport: mpsc::Sender<Value>,
    ) -> (Self, Inbox) {
        let shared = Arc::new(Shared { options, state: Mutex::default() });
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let (deliver, incoming) = mpsc::channel(QUEUE);
        let reader = Reader { shared: Arc::clone(&shared), deliver, queue: queue.clone() };
        let writer = Writer { shared: Arc::clone(&shared), outgoing, transport };
        let tasks = [
            AbortOnDropHandle::new(tokio::spawn(reader.run(arriving))),
            AbortOnDropHandle::new(tokio::spawn(writer.run())),
        ];
        (Self { shared, queue }, Inbox { incoming, _tasks: tasks })
    }

    /// Asks and waits. Dropping the future is how to stop waiting; the other side is not told.
    pub async fn request(&self, method: &str, params: Value, deadline: Duration) -> Result<Value, Error> {
        let (pending, answer) = self.enrol(method)?;
        let message = Message::Request { id: pending.id.clone(), method: method.into(), params };
        let exchange = async {
            self.write(message).await.then_some(())?;
            answer.await.ok()
        };
        match timeout(deadline, exchange).await {
            Ok(Some(Ok(result))) => Ok(result),
            Ok(Some(Err(fault))) => Err(Error::Refused { method: method.into(), fault: fault.into() }),
            Ok(None) => Err(Error::Ended { method: method.into() }),
            Err(_) => Err(Error::Late { method: method.into(), after: deadline }),
        }
    }

    /// Tells something, at the latest when the deadline has passed.
    pub async fn notify(&self, method: &str, params: Value, deadline: Duration) -> Result<(), Error> {
        let message = Message::Notification { method: method.into(), params };
        match timeout(deadline, self.write(message)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Ended { method: method.into() }),
            Err(_) => Err(Error::Late { method: method.into(), after: deadline }),
        }
    }

    async fn write(&self, message: Message) -> bool {
        self.queue.send(Outgoing::Message(message)).await.is_ok()
    }

    fn enrol(&self, method: &str) -> Result<(Pending<'_>, oneshot::Receiver<Result<Value, Fault>>), Error> {
        let mut state = self.shared.state();
        if state.ended {
            return Err(Error::Ended { method: method.into() });
        }
        if state.pending.len() >= MAX_PENDING {
            return Err(Error::Crowded { method: method.into() });
        }
        state.last += 1;
        let id = Id::Number(state.last);
        let (reply, answer) = oneshot::channel();
        state.pending.insert(id.clone(), reply);
        Ok((Pending { shared: &self.shared, id }, answer))
    }
}

impl Inbox {
    /// What comes next; none when the conversation is over. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Incoming> {
        self.incoming.recv().await
    }

    /// What has arrived already and was not looked at.
    pub fn waiting(&mut self) -> Option<Incoming> {
        self.incoming.try_recv().ok()
    }
}

struct Reader {
    shared: Arc<Shared>,
    deliver: mpsc::Sender<Incoming>,
    queue: mpsc::Sender<Outgoing>,
}

/// However the reading ends, whoever waits for an answer is told.
impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ended = true;
        state.pending.clear();
    }
}

impl Reader {
    async fn run(self, mut arriving: impl Stream<Item = Result<Message, Malformed>> + Send + Unpin) {
        while let Some(message) = arriving.next().await {
            let delivered = match message {
                Ok(Message::Response { id, result }) => {
                    self.settle(id, result);
                    true
                }
                Ok(Message::Notification { method, params }) => {
                    self.deliver(Incoming::Told { method, params }).await
                }
                Ok(Message::Request { id, method, params }) => self.asked(id, method, params).await,
                Err(malformed) => self.deliver(Incoming::Malformed(malformed)).await,
            };
            if !delivered {
                break;
            }
        }
    }

    async fn deliver(&self, incoming: Incoming) -> bool {
        self.deliver.send(incoming).await.is_ok()
    }

    fn settle(&self, id: Option<Id>, result: Result<Value, Fault>) {
        let waiting = id.as_ref().and_then(|id| self.shared.state().pending.remove(id));
        match (waiting, id) {
            // Whoever asked may have gone this very moment.
            (Some(reply), _) => drop(reply.send(result)),
            (None, Some(id)) => debug!(%id, "an answer to a request that nobody waits for was ignored"),
            (None, None) => {
                let code = result.err().map(|fault| fault.code);
                warn!(code, "the other side could not read a message");
            }
        }
    }

    async fn asked(&self, id: Id, method: String, params: Value) -> bool {
        if let Err(fault) = self.admit(&id, &method) {
            return match fault {
                Some(fault) => self.refuse(id, fault).await,
                None => true,
            };
        }
        let (reply, answer) = oneshot::channel();
        // A writer that has ended cannot answer; the reading goes on, to hear how it ends.
        let _ = self.queue.send(Outgoing::Answer(id.clone(), answer)).await;
        self.deliver(Incoming::Asked(Asked { id, method, params, reply })).await
    }

    /// Whether a request is to be answered, or refused, or, as the same one is open already, ignored.
    fn admit(&self, id: &Id, method: &str) -> Result<(), Option<Fault>> {
        if !self.shared.options.methods.contains(&method) {
            warn!(method, "the other side asks for a method that is not offered");
            return Err(Some(Fault::unknown(method)));
        }
        let mut state = self.shared.state();
        if state.asked.contains(id) {
            warn!(%id, method, "a request reuses the id of an open one and was ignored");
            return Err(None);
        }
        if state.asked.len() >= MAX_ASKED {
            let message = format!("{MAX_ASKED} requests are open already");
            return Err(Some(Fault::new(INTERNAL_ERROR, message)));
        }
        state.asked.insert(id.clone());
        Ok(())
    }

    async fn refuse(&self, id: Id, fault: Fault) -> bool {
        let message = Message::Response { id: Some(id), result: Err(fault) };
        let _ = self.queue.send(Outgoing::Message(message)).await;
        true
    }
}

struct Writer {
    shared: Arc<Shared>,
    outgoing: mpsc::Receiver<Outgoing>,
    transport: mpsc::Sender<Value>,
}

impl Writer {
    async fn run(mut self) {
        let mut answers: FuturesUnordered<BoxFuture<'static, (Id, Result<Value, Fault>)>> =
            FuturesUnordered::new();
        loop {
            let message = tokio::select! {
                outgoing = self.outgoing.recv() => match outgoing {
                    Some(Outgoing::Message(message)) => message,
                    Some(Outgoing::Answer(id, answer)) => {
                        answers.push(Box::pin(async move { (id, settled(answer).await) }));
                        continue;
                    }
                    None => return,
                },
                Some((id, result)) = answers.next() => {
                    self.shared.state().asked.remove(&id);
                    Message::Response { id: Some(id), result }
                }
            };
            if self.transport.send(message.value(self.shared.options.dialect)).await.is_err() {
                return;
            }
        }
    }
}

async fn settled(answer: oneshot::Receiver<Result<Value, Fault>>) -> Result<Value, Fault> {
    answer.await.unwrap_or_else(|_| Err(Fault::new(INTERNAL_ERROR, "nobody answered")))
}
