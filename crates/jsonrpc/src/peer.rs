//! The local end of a connection: matches responses to requests and delivers what the remote side sends.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, Stream, StreamExt};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use crate::{Dialect, ErrorObject, INTERNAL_ERROR, Id, Line, Malformed, Message, Payload};

/// Messages that may wait in the inbox, and messages that may wait for the transport.
pub const QUEUE: usize = 1024;

/// Local requests that may wait for a response at once.
pub const MAX_PENDING: usize = 1024;

/// Remote requests that may wait for a response at once.
pub const MAX_ASKED: usize = 256;

/// Settings of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The dialect to write; both are read.
    pub dialect: Dialect,
    /// The methods that the remote side may request.
    pub methods: &'static [&'static str],
    /// The notification that withdraws a local request whose caller no longer waits; none if the remote side has none.
    /// Its parameter `id` names the request.
    pub cancel: Option<&'static str>,
}

/// The content of a response.
type Answer<P> = Result<P, ErrorObject>;

/// Reasons why a request has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The remote side answered with an error.
    #[error("{method} was refused: {fault}")]
    Refused { method: String, fault: Box<ErrorObject> },
    /// The deadline passed.
    #[error("{method} was not answered within {after:?}")]
    Late { method: String, after: Duration },
    /// Too many requests are pending.
    #[error("{method} was not sent, because {MAX_PENDING} requests wait for an answer already")]
    Crowded { method: String },
    /// The connection ended.
    #[error("{method} was not answered before the conversation ended")]
    Ended { method: String },
}

/// Sends requests and notifications. Cheap to clone; the [`Inbox`] keeps the connection alive, a clone does not.
#[derive(Debug)]
pub struct Peer<P = Value> {
    shared: Arc<Shared<P>>,
    queue: mpsc::Sender<Outgoing<P>>,
}

impl<P> Clone for Peer<P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), queue: self.queue.clone() }
    }
}

/// Requests and notifications of the remote side, in order. Dropping it ends the connection.
#[derive(Debug)]
pub struct Inbox<P = Value> {
    incoming: mpsc::Receiver<Incoming<P>>,
    tasks: Vec<AbortOnDropHandle<()>>,
}

/// A message of the remote side.
#[derive(Debug)]
pub enum Incoming<P = Value> {
    Asked(Asked<P>),
    Told {
        method: String,
        params: P,
    },
    /// A line that cannot be parsed.
    Malformed(Malformed),
}

/// A remote request. If it is dropped, the response is [`INTERNAL_ERROR`].
#[derive(Debug)]
pub struct Asked<P = Value> {
    /// The remote side may withdraw the request by this id.
    pub id: Id,
    pub method: String,
    pub params: P,
    reply: oneshot::Sender<Answer<P>>,
}

impl<P> Asked<P> {
    /// Sends the response. After the end of the connection it is dropped.
    pub fn answer(self, result: Result<P, ErrorObject>) {
        let _ = self.reply.send(result);
    }
}

#[derive(Debug)]
struct Shared<P> {
    options: Options,
    state: Mutex<State<P>>,
    /// Cancelled when nothing more can be read.
    ended: CancellationToken,
}

#[derive(Debug)]
struct State<P> {
    last: i64,
    /// Local requests.
    pending: HashMap<Id, oneshot::Sender<Answer<P>>>,
    /// Remote requests.
    asked: HashSet<Id>,
}

impl<P> Shared<P> {
    fn new(options: Options) -> Self {
        let state = State { last: 0, pending: HashMap::new(), asked: HashSet::new() };
        Self { options, state: Mutex::new(state), ended: CancellationToken::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
enum Outgoing<P> {
    Message(Message<P>),
    /// A response that is sent as soon as it is known.
    Answer(Id, oneshot::Receiver<Answer<P>>),
}

/// A local request that waits for its response. Dropping it forgets the request, and withdraws it if it was sent and
/// has no response.
struct Pending<'a, P: Payload> {
    peer: &'a Peer<P>,
    id: Id,
    is_sent: bool,
}

impl<P: Payload> Drop for Pending<'_, P> {
    fn drop(&mut self) {
        let is_open = self.peer.shared.state().pending.remove(&self.id).is_some();
        if let Some(cancel) = self.peer.shared.options.cancel
            && is_open
            && self.is_sent
        {
            self.peer.post(cancel, &serde_json::json!({ "id": self.id }));
        }
    }
}

impl<P: Payload> Peer<P> {
    /// Starts a connection over any transport of messages. It ends when `arriving` ends.
    pub fn start(
        options: Options,
        arriving: impl Stream<Item = Result<Message<P>, Malformed>> + Send + Unpin + 'static,
        transport: mpsc::Sender<Line<P>>,
    ) -> (Self, Inbox<P>) {
        let shared = Arc::new(Shared::new(options));
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let (deliver, incoming) = mpsc::channel(QUEUE);
        let reader = Reader { shared: Arc::clone(&shared), deliver, queue: queue.clone() };
        let writer = Writer { shared: Arc::clone(&shared), outgoing, transport };
        let mut inbox = Inbox { incoming, tasks: Vec::new() };
        inbox.attach(tokio::spawn(reader.run(arriving)));
        inbox.attach(tokio::spawn(writer.run()));
        (Self { shared, queue }, inbox)
    }

    /// Sends a request and waits for the response. Dropping the future stops the waiting; the remote side learns of it
    /// only through [`Options::cancel`].
    pub async fn request(&self, method: &str, params: P, deadline: Duration) -> Result<P, Error> {
        let late = |_| Error::Late { method: method.into(), after: deadline };
        timeout(deadline, self.call(method, params)).await.map_err(late)?
    }

    /// The same without a deadline: the caller has one.
    pub async fn call(&self, method: &str, params: P) -> Result<P, Error> {
        let ended = || Error::Ended { method: method.into() };
        let (mut pending, answer) = self.enrol(method)?;
        let message = Message::Request { id: pending.id.clone(), method: method.into(), params };
        if !self.write(message).await {
            return Err(ended());
        }
        pending.is_sent = true;
        match answer.await {
            Ok(result) => {
                result.map_err(|fault| Error::Refused { method: method.into(), fault: fault.into() })
            }
            Err(_) => Err(ended()),
        }
    }

    /// Waits until nothing more can be read.
    pub async fn ended(&self) {
        self.shared.ended.cancelled().await;
    }

    /// Sends a notification if the queue has room, for callers that cannot wait.
    pub fn post(&self, method: &str, params: &impl Serialize) {
        if let Ok(params) = P::encode(params) {
            let message = Message::Notification { method: method.into(), params };
            // A full queue means that the remote side does not read, which a notification cannot change.
            let _ = self.queue.try_send(Outgoing::Message(message));
        }
    }

    /// Sends a notification; waits for room in the queue until the deadline.
    pub async fn notify(&self, method: &str, params: P, deadline: Duration) -> Result<(), Error> {
        let message = Message::Notification { method: method.into(), params };
        match timeout(deadline, self.write(message)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Ended { method: method.into() }),
            Err(_) => Err(Error::Late { method: method.into(), after: deadline }),
        }
    }

    async fn write(&self, message: Message<P>) -> bool {
        self.queue.send(Outgoing::Message(message)).await.is_ok()
    }

    fn enrol(&self, method: &str) -> Result<(Pending<'_, P>, oneshot::Receiver<Answer<P>>), Error> {
        let mut state = self.shared.state();
        if self.shared.ended.is_cancelled() {
            return Err(Error::Ended { method: method.into() });
        }
        if state.pending.len() >= MAX_PENDING {
            return Err(Error::Crowded { method: method.into() });
        }
        state.last += 1;
        let id = Id::Number(state.last);
        let (reply, answer) = oneshot::channel();
        state.pending.insert(id.clone(), reply);
        Ok((Pending { peer: self, id, is_sent: false }, answer))
    }
}

impl<P> Inbox<P> {
    /// Returns the next message; none after the end of the connection. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Incoming<P>> {
        self.incoming.recv().await
    }

    /// Returns the next message that has already arrived.
    pub fn waiting(&mut self) -> Option<Incoming<P>> {
        self.incoming.try_recv().ok()
    }

    /// Aborts a task when the connection ends.
    pub(crate) fn attach(&mut self, task: JoinHandle<()>) {
        self.tasks.push(AbortOnDropHandle::new(task));
    }
}

struct Reader<P> {
    shared: Arc<Shared<P>>,
    deliver: mpsc::Sender<Incoming<P>>,
    queue: mpsc::Sender<Outgoing<P>>,
}

/// Fails every pending request, also when the task is aborted.
impl<P> Drop for Reader<P> {
    fn drop(&mut self) {
        // Under the lock, so that no request is added after the others have failed.
        let mut state = self.shared.state();
        self.shared.ended.cancel();
        state.pending.clear();
    }
}

impl<P: Payload> Reader<P> {
    async fn run(self, mut arriving: impl Stream<Item = Result<Message<P>, Malformed>> + Send + Unpin) {
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

    async fn deliver(&self, incoming: Incoming<P>) -> bool {
        self.deliver.send(incoming).await.is_ok()
    }

    fn settle(&self, id: Option<Id>, result: Result<P, ErrorObject>) {
        let waiting = id.as_ref().and_then(|id| self.shared.state().pending.remove(id));
        match (waiting, id) {
            // The caller may have stopped waiting at this moment.
            (Some(reply), _) => drop(reply.send(result)),
            (None, Some(id)) => debug!(%id, "ignored a response without a waiting request"),
            (None, None) => {
                let code = result.err().map(|fault| fault.code);
                warn!(code, "the remote side could not parse a message");
            }
        }
    }

    async fn asked(&self, id: Id, method: String, params: P) -> bool {
        if let Err(fault) = self.admit(&id, &method) {
            return match fault {
                Some(fault) => self.refuse(id, fault).await,
                None => true,
            };
        }
        let (reply, answer) = oneshot::channel();
        // The writer may have ended. Reading goes on, to learn how the connection ends.
        let _ = self.queue.send(Outgoing::Answer(id.clone(), answer)).await;
        self.deliver(Incoming::Asked(Asked { id, method, params, reply })).await
    }

    /// Admits a request. Fails with a fault to refuse it, or without one to ignore it because its id is in use.
    fn admit(&self, id: &Id, method: &str) -> Result<(), Option<ErrorObject>> {
        if !self.shared.options.methods.contains(&method) {
            warn!(method, "the remote side requested a method that is not offered");
            return Err(Some(ErrorObject::unknown(method)));
        }
        let mut state = self.shared.state();
        if state.asked.contains(id) {
            warn!(%id, method, "ignored a request that reuses the id of an open one");
            return Err(None);
        }
        if state.asked.len() >= MAX_ASKED {
            let message = format!("{MAX_ASKED} requests are open already");
            return Err(Some(ErrorObject::new(INTERNAL_ERROR, message)));
        }
        state.asked.insert(id.clone());
        Ok(())
    }

    async fn refuse(&self, id: Id, fault: ErrorObject) -> bool {
        let message = Message::Response { id: Some(id), result: Err(fault) };
        let _ = self.queue.send(Outgoing::Message(message)).await;
        true
    }
}

struct Writer<P> {
    shared: Arc<Shared<P>>,
    outgoing: mpsc::Receiver<Outgoing<P>>,
    transport: mpsc::Sender<Line<P>>,
}

impl<P: Payload> Writer<P> {
    async fn run(mut self) {
        let mut answers: FuturesUnordered<BoxFuture<'static, (Id, Answer<P>)>> = FuturesUnordered::new();
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
            if self.transport.send(message.line(self.shared.options.dialect)).await.is_err() {
                return;
            }
        }
    }
}

async fn settled<P>(answer: oneshot::Receiver<Answer<P>>) -> Result<P, ErrorObject> {
    answer.await.unwrap_or_else(|_| Err(ErrorObject::new(INTERNAL_ERROR, "the request was dropped")))
}
