//! Subagents of somebody else's agent as child sessions.
//!
//! One run hears what an agent says, for the session and for all that is below it: a [`Family`]. It has a name for each
//! child (whatever the agent calls it) and tells it what is its own; the run of the child session, [`follow`], says that
//! in its session, asks its people, and starts children of its own. A child's turn ends when the family says so, when
//! somebody stops it, and at the latest when the family is gone. Whoever has children waits for them before its own turn
//! ends ([`Family::settle`]): what the engine finds at work then, it aborts.

use std::collections::HashMap;
use std::time::Duration;

use engine::session::{Child, Turn};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use protocol::agent_event::{Answer, Ask};
use protocol::request::Rule;
use protocol::{AgentEvent, Extra, MessageError, Session, SessionId, TurnEnd};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{Nursery, permission};

/// What a child may be behind.
const MAX_BEHIND: usize = 1_024;

/// Children that were stopped and that nobody has heard of yet.
const MAX_STOPPED: usize = 64;

/// How long it may take until children have said what they were told, after the last word.
const SETTLE: Duration = Duration::from_secs(5);

/// Why a child ends that the agent has forgotten.
const LEFT: &str = "the agent ended before its subagent did";

/// The note that says whose subagent a session is.
const NOTE: &str = "subagent";

/// A subagent that begins to work.
#[derive(Debug, Clone, PartialEq)]
pub struct Birth {
    /// What the agent calls it.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// What it was told.
    pub prompt: String,
    /// The call that started it, which says which session it is.
    pub call: String,
    /// That call as it is, if it is still open.
    pub shown: Option<AgentEvent>,
}

/// What a child is told.
#[derive(Debug)]
enum News {
    Say(AgentEvent),
    Ask(Ask, oneshot::Sender<Answer>),
    Born(Birth, Adopted),
    Ended(TurnEnd),
}

/// What a child's run needs to know.
#[derive(Debug)]
pub struct Adopted {
    name: String,
    news: mpsc::Receiver<News>,
    stopped: mpsc::Sender<String>,
}

/// A session and all that is below it.
#[derive(Debug)]
pub struct Family<'a> {
    root: Speaker<'a>,
    rules: &'a [Rule],
    children: HashMap<String, mpsc::Sender<News>>,
    stop: mpsc::Sender<String>,
    stopped: mpsc::Receiver<String>,
}

impl<'a> Family<'a> {
    /// A session that has no children yet.
    pub fn new(nursery: &'a Nursery<Adopted>, turn: &'a Turn, rules: &'a [Rule]) -> Self {
        let (stop, stopped) = mpsc::channel(MAX_STOPPED);
        Self { root: Speaker::new(nursery, turn), rules, children: HashMap::new(), stop, stopped }
    }

    /// Says something in the session, or in that of a child.
    pub async fn say(&self, child: Option<&str>, event: AgentEvent) {
        match child {
            None => self.root.say(event).await,
            Some(child) => self.tell(child, News::Say(event)).await,
        }
    }

    /// Gets an answer from the rules, or from people in the session or in that of a child.
    pub fn ask(&self, child: Option<&str>, ask: Ask) -> BoxFuture<'a, Answer> {
        let Some(child) = child else {
            return permission::ask(self.root.turn, self.rules, ask).boxed();
        };
        let (reply, answer) = oneshot::channel();
        let to = self.children.get(child).cloned();
        async move {
            if let Some(to) = to {
                let _ = to.send(News::Ask(ask, reply)).await;
            }
            answer.await.unwrap_or(Answer::Withdrawn)
        }
        .boxed()
    }

    /// Gives a subagent of the session's, or of a child's, a session.
    pub async fn begin(&mut self, parent: Option<&str>, birth: Birth) {
        let (to, news) = mpsc::channel(MAX_BEHIND);
        let adopted = Adopted { name: birth.name.clone(), news, stopped: self.stop.clone() };
        self.children.insert(birth.name.clone(), to);
        match parent {
            None => self.root.adopt(birth, adopted).await,
            Some(parent) => self.tell(parent, News::Born(birth, adopted)).await,
        }
    }

    /// Ends a child's turn.
    pub async fn end(&mut self, child: &str, end: TurnEnd) {
        self.tell(child, News::Ended(end)).await;
        self.children.remove(child);
    }

    /// Ends the turns of all children.
    pub async fn end_all(&mut self, end: &TurnEnd) {
        for (_, child) in self.children.drain() {
            let _ = child.send(News::Ended(end.clone())).await;
        }
    }

    /// Ends all that is below the session, and waits until it has ended.
    pub async fn settle(&mut self) {
        self.end_all(&TurnEnd::Error(MessageError::unknown(LEFT))).await;
        self.root.settle().await;
    }

    /// The next child that somebody has stopped.
    pub async fn stopped(&mut self) -> String {
        match self.stopped.recv().await {
            Some(child) => child,
            None => std::future::pending().await,
        }
    }

    /// A child whose turn is over hears nothing more.
    async fn tell(&self, child: &str, news: News) {
        if let Some(to) = self.children.get(child) {
            let _ = to.send(news).await;
        }
    }
}

/// Whether a session shows what a subagent did: nobody can go on with it.
pub fn is_subagent(session: &Session, agent: &str) -> bool {
    session.note(NOTE) == Some(agent)
}

/// A child's turn: says in its session what the family tells it.
pub async fn follow(
    nursery: &Nursery<Adopted>,
    turn: &Turn,
    rules: &[Rule],
    agent: &str,
    adopted: Adopted,
) -> TurnEnd {
    let Adopted { name, mut news, stopped } = adopted;
    turn.emit(AgentEvent::Noted { name: NOTE.to_owned(), note: agent.to_owned() }).await;
    let mut speaker = Speaker::new(nursery, turn);
    let mut asks = FuturesUnordered::new();
    let end = loop {
        tokio::select! {
            biased;
            () = turn.cancelled() => {
                // If there are so many that nobody hears of this one, the turn above ends soon enough.
                let _ = stopped.try_send(name);
                return TurnEnd::Cancelled;
            }
            Some(()) = asks.next() => {}
            told = news.recv() => match told {
                Some(News::Say(event)) => speaker.say(event).await,
                Some(News::Ask(ask, reply)) => asks.push(put(turn, rules, ask, reply)),
                Some(News::Born(birth, adopted)) => speaker.adopt(birth, adopted).await,
                Some(News::Ended(end)) => break end,
                None => break TurnEnd::Error(MessageError::unknown(LEFT)),
            },
        }
    };
    speaker.settle().await;
    end
}

/// Gets an answer, unless nobody wants to know any more.
async fn put(turn: &Turn, rules: &[Rule], ask: Ask, mut reply: oneshot::Sender<Answer>) {
    tokio::select! {
        biased;
        () = reply.closed() => {}
        answer = permission::ask(turn, rules, ask) => drop(reply.send(answer)),
    }
}

/// Somebody who speaks in a session and starts children.
#[derive(Debug)]
struct Speaker<'a> {
    nursery: &'a Nursery<Adopted>,
    turn: &'a Turn,
    /// What clients need to find the children, by the calls that started them.
    children: HashMap<String, Extra>,
    /// Which session each has, by what the agent calls it.
    sessions: HashMap<String, SessionId>,
    /// All that were started.
    started: Vec<Child>,
}

impl<'a> Speaker<'a> {
    fn new(nursery: &'a Nursery<Adopted>, turn: &'a Turn) -> Self {
        let (children, sessions) = (HashMap::new(), HashMap::new());
        Self { nursery, turn, children, sessions, started: Vec::new() }
    }

    async fn adopt(&mut self, birth: Birth, adopted: Adopted) {
        let Birth { name, title, prompt, call, shown } = birth;
        // One that gets more to do goes on in its session, after what it was told before.
        let resume = self.sessions.get(&name).cloned();
        for child in self.started.extract_if(.., |child| Some(child.session()) == resume.as_ref()) {
            let _ = timeout(SETTLE, child.wait()).await;
        }
        match self.nursery.adopt(self.turn, title, prompt, resume, adopted).await {
            Ok(child) => {
                self.sessions.insert(name, child.session().clone());
                let model = &self.turn.model;
                let found = json!({
                    "parentSessionId": self.turn.session.id,
                    "sessionId": child.session(),
                    "model": { "modelID": model.model_id, "providerID": model.provider_id },
                });
                self.children.insert(call, crate::native::object(found));
                self.started.push(child);
                if let Some(shown) = shown {
                    self.say(shown).await;
                }
            }
            Err(error) => {
                let parent = &self.turn.session.id;
                tracing::debug!(session = %parent, error, "a subagent has no session");
            }
        }
    }

    /// Waits until the children have ended, which were told to.
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

    /// Says something; calls that started a child say which.
    async fn say(&self, mut event: AgentEvent) {
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
