//! Subagents of an external agent as child sessions.
//!
//! The turn that reads an agent's messages also reads those of its subagents: its [`Children`] identify each subagent by
//! the agent's own id and pass on its events. The turn of the child session ([`follow`]) publishes them, asks the user,
//! and starts its own children. A child's turn ends when the parent ends it, when the user stops it, and at the latest with
//! the parent's turn. A parent waits for its children before its turn ends ([`Children::settle`]), because the engine
//! aborts children that are still at work then.

use std::collections::HashMap;
use std::time::Duration;

use engine::session::{Child, Turn};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use protocol::agent_event::{Answer, Ask};
use protocol::{AgentEvent, Extra, MessageError, Session, SessionId, TurnEnd};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::ChildRegistry;

/// Most events that wait for a child.
const MAX_BEHIND: usize = 1_024;

/// Most stopped children that wait to be reported to the agent.
const MAX_STOPPED: usize = 64;

/// Timeout for children to publish the events that were sent to them before they ended.
const SETTLE: Duration = Duration::from_secs(5);

/// The error of a child that is still at work when the agent's turn ends.
const LEFT: &str = "the agent ended before its subagent did";

/// The note that marks the session of a subagent with the agent's id.
const NOTE: &str = "subagent";

/// A subagent that begins to work.
#[derive(Debug, Clone, PartialEq)]
pub struct Subagent {
    /// The agent's id of it.
    pub name: String,
    /// The title of its session.
    pub title: String,
    pub prompt: String,
    /// The tool call that started it. Its metadata names the session of the subagent.
    pub call: String,
    /// The current state of that call, if it is still open.
    pub shown: Option<AgentEvent>,
}

/// An event for the turn of a child.
#[derive(Debug)]
enum ChildEvent {
    Emit(AgentEvent),
    Ask(Ask, oneshot::Sender<Answer>),
    Started(Subagent, ChildLink),
    Ended(TurnEnd),
}

/// The connection of a child's turn to the turn that reads the agent's messages.
#[derive(Debug)]
pub struct ChildLink {
    name: String,
    events: mpsc::Receiver<ChildEvent>,
    stopped: mpsc::Sender<String>,
}

/// A session and its subagents at all levels.
#[derive(Debug)]
pub struct Children<'a> {
    root: Publisher<'a>,
    senders: HashMap<String, mpsc::Sender<ChildEvent>>,
    stop: mpsc::Sender<String>,
    stopped: mpsc::Receiver<String>,
}

impl<'a> Children<'a> {
    /// A session without children.
    pub fn new(registry: &'a ChildRegistry, turn: &'a Turn) -> Self {
        let (stop, stopped) = mpsc::channel(MAX_STOPPED);
        Self { root: Publisher::new(registry, turn), senders: HashMap::new(), stop, stopped }
    }

    /// Publishes an event in the session, or in the session of a child.
    pub async fn emit(&self, child: Option<&str>, event: AgentEvent) {
        match child {
            None => self.root.emit(event).await,
            Some(child) => self.send(child, ChildEvent::Emit(event)).await,
        }
    }

    /// Gets an answer in the session, or in the session of a child.
    pub fn ask(&self, child: Option<&str>, ask: Ask) -> BoxFuture<'a, Answer> {
        let Some(child) = child else {
            return self.root.turn.ask(ask).boxed();
        };
        let (reply, answer) = oneshot::channel();
        let to = self.senders.get(child).cloned();
        async move {
            if let Some(to) = to {
                let _ = to.send(ChildEvent::Ask(ask, reply)).await;
            }
            answer.await.unwrap_or(Answer::Withdrawn)
        }
        .boxed()
    }

    /// Creates a session for a subagent of the agent itself, or of a child.
    pub async fn begin(&mut self, parent: Option<&str>, subagent: Subagent) {
        let (to, events) = mpsc::channel(MAX_BEHIND);
        let link = ChildLink { name: subagent.name.clone(), events, stopped: self.stop.clone() };
        self.senders.insert(subagent.name.clone(), to);
        match parent {
            None => self.root.start(subagent, link).await,
            Some(parent) => self.send(parent, ChildEvent::Started(subagent, link)).await,
        }
    }

    /// Ends a child's turn.
    pub async fn end(&mut self, child: &str, end: TurnEnd) {
        self.send(child, ChildEvent::Ended(end)).await;
        self.senders.remove(child);
    }

    /// Ends the turns of all children.
    pub async fn end_all(&mut self, end: &TurnEnd) {
        for (_, child) in self.senders.drain() {
            let _ = child.send(ChildEvent::Ended(end.clone())).await;
        }
    }

    /// Ends all children and waits for their turns.
    pub async fn settle(&mut self) {
        self.end_all(&TurnEnd::Error(MessageError::unknown(LEFT))).await;
        self.root.settle().await;
    }

    /// The next child that the user stops.
    pub async fn stopped(&mut self) -> String {
        match self.stopped.recv().await {
            Some(child) => child,
            None => std::future::pending().await,
        }
    }

    /// Events for a child whose turn has ended are dropped.
    async fn send(&self, child: &str, event: ChildEvent) {
        if let Some(to) = self.senders.get(child) {
            let _ = to.send(event).await;
        }
    }
}

/// Returns true if a session shows the work of a subagent of this agent. Such a session takes no prompts.
pub fn is_subagent(session: &Session, agent: &str) -> bool {
    session.note(NOTE) == Some(agent)
}

/// The turn of a child: publishes the events that its parent's turn sends.
pub async fn follow(registry: &ChildRegistry, turn: &Turn, agent: &str, link: ChildLink) -> TurnEnd {
    let ChildLink { name, mut events, stopped } = link;
    turn.emit(AgentEvent::Noted { name: NOTE.to_owned(), note: agent.to_owned() }).await;
    let mut publisher = Publisher::new(registry, turn);
    let mut asks = FuturesUnordered::new();
    let end = loop {
        tokio::select! {
            biased;
            () = turn.cancelled() => {
                // With a full queue the report is lost, and the child ends with its parent's turn.
                let _ = stopped.try_send(name);
                return TurnEnd::Cancelled;
            }
            Some(()) = asks.next() => {}
            event = events.recv() => match event {
                Some(ChildEvent::Emit(event)) => publisher.emit(event).await,
                Some(ChildEvent::Ask(ask, reply)) => asks.push(put(turn, ask, reply)),
                Some(ChildEvent::Started(subagent, link)) => publisher.start(subagent, link).await,
                Some(ChildEvent::Ended(end)) => break end,
                None => break TurnEnd::Error(MessageError::unknown(LEFT)),
            },
        }
    };
    publisher.settle().await;
    end
}

/// Gets an answer, unless the agent withdraws the request.
async fn put(turn: &Turn, ask: Ask, mut reply: oneshot::Sender<Answer>) {
    tokio::select! {
        biased;
        () = reply.closed() => {}
        answer = turn.ask(ask) => drop(reply.send(answer)),
    }
}

/// Publishes events in a session and starts its children.
#[derive(Debug)]
struct Publisher<'a> {
    registry: &'a ChildRegistry,
    turn: &'a Turn,
    /// Metadata that names the session of each child, by the call that started it.
    children: HashMap<String, Extra>,
    /// The session of each child, by the agent's id.
    sessions: HashMap<String, SessionId>,
    /// Children whose turns have not been waited for.
    started: Vec<Child>,
}

impl<'a> Publisher<'a> {
    fn new(registry: &'a ChildRegistry, turn: &'a Turn) -> Self {
        let (children, sessions) = (HashMap::new(), HashMap::new());
        Self { registry, turn, children, sessions, started: Vec::new() }
    }

    async fn start(&mut self, subagent: Subagent, link: ChildLink) {
        let Subagent { name, title, prompt, call, shown } = subagent;
        // A subagent that gets a second prompt continues in its session, after its first turn.
        let resume = self.sessions.get(&name).cloned();
        for child in self.started.extract_if(.., |child| Some(child.session()) == resume.as_ref()) {
            let _ = timeout(SETTLE, child.wait()).await;
        }
        match self.registry.start(self.turn, title, prompt, resume, link).await {
            Ok(child) => {
                self.sessions.insert(name, child.session().clone());
                let model = &self.turn.model;
                let found = json!({
                    "parentSessionId": self.turn.session.id,
                    "sessionId": child.session(),
                    "model": { "modelID": model.model_id, "providerID": model.provider_id },
                });
                self.children.insert(call, supervision::object(found));
                self.started.push(child);
                if let Some(shown) = shown {
                    self.emit(shown).await;
                }
            }
            Err(error) => {
                let parent = &self.turn.session.id;
                tracing::debug!(session = %parent, error, "a subagent gets no session");
            }
        }
    }

    /// Waits until the turns of the children have ended.
    async fn settle(&mut self) {
        let settled = async {
            for child in std::mem::take(&mut self.started) {
                child.wait().await;
            }
        };
        tokio::select! {
            biased;
            () = self.turn.cancelled() => {}
            _ = timeout(SETTLE, settled) => {}
        }
    }

    /// Publishes an event. A call that started a child names its session.
    async fn emit(&self, mut event: AgentEvent) {
        let found = match &event {
            AgentEvent::ToolRunning { call, .. }
            | AgentEvent::ToolCompleted { call, .. }
            | AgentEvent::ToolFailed { call, .. } => self.children.get(call),
            _ => None,
        };
        if let Some(found) = found {
            match &mut event {
                AgentEvent::ToolCompleted { metadata, .. } => metadata.extend(found.clone()),
                AgentEvent::ToolRunning { metadata, .. } | AgentEvent::ToolFailed { metadata, .. } => {
                    metadata.get_or_insert_default().extend(found.clone());
                }
                _ => {}
            }
        }
        self.turn.emit(event).await;
    }
}
