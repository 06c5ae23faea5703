//! One turn of Claude Code.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use engine::session::Turn;
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use protocol::message::Origin;
use protocol::{AgentEvent, Message, MessageError, MessageWithParts, Part, PartBody, TurnEnd};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::live::{Live, Manner};
use super::permit::{self, Reply};
use super::translate::Signal;
use super::wire::{self, Permit, Segment, State};
use super::{Inner, NAME, content};
use crate::external::{Failure, Family, Heard, Kept as _, family};
use crate::native::is_default;

/// Characters of a prompt that make a title.
const TITLE: usize = 50;

/// What it says of a conversation that it does not know.
const FORGOTTEN: &str = "No conversation found";

/// What people are told who want to go on with a subagent.
const SUBAGENT: &str = "This session shows what a subagent of Claude Code did, and cannot go on; ask in the session that started it.";

/// Why a process cannot be used any more.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{0}")]
    Lost(#[from] Failure),
    #[error("`{program}` {what}, so it was ended{words}")]
    Stuck { program: String, what: String, words: crate::external::child::Words },
    #[error("the conversation could not be found")]
    Forgotten,
}

/// Works on a prompt until the agent is idle.
pub(super) async fn run(inner: &Inner, turn: &Turn) -> TurnEnd {
    let (nursery, agent) = (&inner.nursery, &inner.about.id);
    if let Some(adopted) = nursery.take(&turn.session).await {
        return family::follow(nursery, turn, &inner.options.rules, agent, adopted).await;
    }
    if family::is_subagent(&turn.session, agent) {
        return failed(SUBAGENT);
    }
    let prompt = match turn.message(&turn.prompt).await {
        Ok(Some(prompt)) => prompt,
        Ok(None) => return TurnEnd::Cancelled,
        Err(error) => return TurnEnd::Error(MessageError::unknown(error.to_string())),
    };
    match origin(&prompt) {
        Some(Origin::Shell { .. }) => {
            return failed("Claude Code runs no command lines for people; send it as a prompt.");
        }
        Some(Origin::Wake) => return wake(inner, turn).await,
        Some(Origin::Command { .. }) | None => {}
    }
    title(turn, &prompt).await;
    if let Some(live) = inner.keeper.take(&turn.session.id).await {
        match answer(inner, turn, live, Some(&prompt)).await {
            // It died while nobody looked: another one takes its place.
            Err((Trouble::Lost(_), false)) => {}
            ended => return settle(inner, turn, ended),
        }
    }
    if let Some(end) = pause(inner, turn).await {
        return end;
    }
    let known = turn.session.note(NAME);
    let ended = Box::pin(begin(inner, turn, known, &prompt)).await;
    match ended {
        Err((Trouble::Forgotten | Trouble::Lost(Failure::Exited { .. }), false)) if known.is_some() => {
            let message = "Claude Code could not go on with the conversation, so it began another one.";
            turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
            settle(inner, turn, Box::pin(begin(inner, turn, None, &prompt)).await)
        }
        ended => settle(inner, turn, ended),
    }
}

/// Names a session that has no name yet after its first prompt: it has no model to ask for a better one.
async fn title(turn: &Turn, prompt: &MessageWithParts) {
    if turn.session.parent_id.is_some() || !is_default(&turn.session.title) {
        return;
    }
    let is_said = |part: &&Part| !matches!(&part.body, PartBody::Text(it) if it.synthetic == Some(true));
    let mut lines = prompt.parts.iter().filter(is_said).filter_map(Part::text).flat_map(str::lines);
    let line = lines.find(|line| !line.trim().is_empty());
    if let Some(line) = line {
        let title: String = line.trim().chars().take(TITLE).collect();
        turn.emit(AgentEvent::Titled(title)).await;
    }
}

/// How a process ended a turn; with trouble, whether it had begun to work.
type Ended = Result<TurnEnd, (Trouble, bool)>;

/// Something that it began by itself. What another turn has heard of it needs no turn of its own.
async fn wake(inner: &Inner, turn: &Turn) -> TurnEnd {
    match inner.keeper.take(&turn.session.id).await {
        Some(live) if live.has_news() => settle(inner, turn, answer(inner, turn, live, None).await),
        Some(live) => {
            inner.keeper.keep(turn.session.id.clone(), live);
            TurnEnd::Completed
        }
        None => TurnEnd::Completed,
    }
}

fn settle(inner: &Inner, turn: &Turn, ended: Ended) -> TurnEnd {
    ended.unwrap_or_else(|(trouble, _)| {
        inner.keeper.failed(&turn.session.id);
        failed(&trouble.to_string())
    })
}

fn failed(message: &str) -> TurnEnd {
    TurnEnd::Error(MessageError::unknown(message))
}

fn origin(prompt: &MessageWithParts) -> Option<Origin> {
    match &prompt.info {
        Message::User(user) => user.origin(),
        Message::Assistant(_) => None,
    }
}

/// Waits before another start, if the last ones have failed.
async fn pause(inner: &Inner, turn: &Turn) -> Option<TurnEnd> {
    let pause = inner.keeper.pause(&turn.session.id)?;
    let next = inner.clock.now() + i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
    let message = "Claude Code failed the last time; it is started again in a moment".to_owned();
    turn.emit(AgentEvent::Retrying { attempt: 1, message, next }).await;
    tokio::select! {
        biased;
        () = turn.cancelled() => return Some(TurnEnd::Cancelled),
        () = sleep(pause) => {}
    }
    turn.emit(AgentEvent::Resumed).await;
    None
}

async fn begin(inner: &Inner, turn: &Turn, resume: Option<&str>, prompt: &MessageWithParts) -> Ended {
    match Live::start(&inner.options, turn, Manner::of(&inner.options, turn), resume).await {
        Ok(mut live) => {
            if resume.is_some() {
                live.translator.remember(turn.todos().await.unwrap_or_default());
            }
            answer(inner, turn, live, Some(prompt)).await
        }
        Err(failure) => Err((failure.into(), true)),
    }
}

/// Has a process answer a prompt, or go on by itself, and keeps it if it can be used again.
async fn answer(inner: &Inner, turn: &Turn, mut live: Live, prompt: Option<&MessageWithParts>) -> Ended {
    live.adopt(Manner::of(&inner.options, turn)).await;
    if let Some(prompt) = prompt {
        // After a restart it knows the prompt, and waits for the answer that a person has given meanwhile.
        let blocks = if turn.resumed().is_some() { content::go_on() } else { content::blocks(prompt) };
        live.child.say(&wire::prompt(&blocks)).await;
    }
    let mut answering = Answering::new(inner, turn, live);
    let ended = answering.drive().await;
    answering.family.settle().await;
    let Answering { mut live, begun, usable, .. } = answering;
    live.translator.reset();
    if usable && ended.is_ok() {
        inner.keeper.keep(turn.session.id.clone(), live);
    } else {
        live.stop().await;
    }
    ended.map_err(|trouble| (trouble, begun))
}

struct Answering<'a> {
    inner: &'a Inner,
    turn: &'a Turn,
    live: Live,
    /// The session and its subagents.
    family: Family<'a>,
    asks: FuturesUnordered<BoxFuture<'a, (Option<String>, Option<Reply>)>>,
    /// How to take back what is asked, by its name for the request.
    takes_back: HashMap<String, CancellationToken>,
    /// It said something about this turn.
    begun: bool,
    /// The segment that ended last, if none has begun since.
    segment: Option<Segment>,
    /// It says that it is idle.
    idle: bool,
    /// When a person said no.
    refused: Option<Instant>,
    /// Subagents to whom a person said no.
    refused_children: HashSet<String>,
    heard: Instant,
    /// It can answer another prompt.
    usable: bool,
}

impl<'a> Answering<'a> {
    fn new(inner: &'a Inner, turn: &'a Turn, live: Live) -> Self {
        Self {
            inner,
            turn,
            live,
            family: Family::new(&inner.nursery, turn, &inner.options.rules),
            asks: FuturesUnordered::new(),
            takes_back: HashMap::new(),
            begun: false,
            segment: None,
            idle: false,
            refused: None,
            refused_children: HashSet::new(),
            heard: Instant::now(),
            usable: true,
        }
    }

    async fn drive(&mut self) -> Result<TurnEnd, Trouble> {
        loop {
            if let Some(end) = self.end()? {
                return Ok(end);
            }
            let (deadline, what) = self.deadline();
            tokio::select! {
                biased;
                () = self.turn.cancelled() => {
                    self.interrupt().await;
                    return Ok(TurnEnd::Cancelled);
                }
                Some((child, reply)) = self.asks.next() => self.tell(child, reply).await,
                heard = self.live.next() => self.hear(heard?).await,
                () = self.turn.prompted(), if self.live.states => self.join().await,
                child = self.family.stopped() => self.stop(&child).await,
                () = sleep_until(deadline), if self.asks.is_empty() => {
                    if let Some(end) = self.overdue() {
                        return Ok(end);
                    }
                    let program = self.inner.options.program.to_string_lossy().into_owned();
                    return Err(Trouble::Stuck { program, what, words: self.live.child.words() });
                }
            }
        }
    }

    /// How the turn ended, if it did.
    fn end(&mut self) -> Result<Option<TurnEnd>, Trouble> {
        let said = if self.live.states { self.idle } else { self.segment.is_some() };
        if said && !self.live.translator.has_children() { self.closing().map(Some) } else { Ok(None) }
    }

    fn closing(&mut self) -> Result<TurnEnd, Trouble> {
        let segment = self.segment.take().unwrap_or_default();
        if self.refused.is_some() {
            return Ok(TurnEnd::Blocked);
        }
        if !segment.is_error {
            return Ok(TurnEnd::Completed);
        }
        if segment.was_aborted() {
            let refused = !self.refused_children.is_empty();
            return Ok(if refused { TurnEnd::Blocked } else { TurnEnd::Cancelled });
        }
        let message = segment.complaint();
        if message.contains(FORGOTTEN) {
            self.begun = false;
            return Err(Trouble::Forgotten);
        }
        Ok(match segment.subtype.as_deref() {
            Some("error_max_turns" | "error_max_budget_usd") => TurnEnd::Budget { message },
            _ => failed(&message),
        })
    }

    /// When the next word is due, and what it means if it does not come.
    fn deadline(&self) -> (Instant, String) {
        let patience = &self.inner.options.patience;
        if let Some(refused) = self.refused {
            return (refused + patience.settle, "went on after a person had said no".into());
        }
        let (wait, what) = match (&self.segment, self.begun) {
            (Some(_), _) if !self.live.translator.has_busy_children() => {
                (patience.settle, "did not become idle")
            }
            (None, false) => (patience.start, "did not begin"),
            _ => (patience.silence, "said nothing more"),
        };
        (self.heard + wait, format!("{what} within {wait:?}"))
    }

    /// What a passed deadline means: a segment without an idle is still the end, but the process is not trusted.
    fn overdue(&mut self) -> Option<TurnEnd> {
        let working = self.segment.is_none() || self.live.translator.has_busy_children();
        if working && self.refused.is_none() {
            return None;
        }
        self.usable = self.idle;
        self.closing().ok()
    }

    async fn hear(&mut self, heard: Heard) {
        self.heard = Instant::now();
        let line = match heard {
            Heard::Json(line) => line,
            Heard::Noise { text, why } => {
                tracing::debug!(session = %self.turn.session.id, text, why, "a line of Claude Code makes no sense");
                return;
            }
        };
        let now = self.inner.clock.now();
        for signal in self.live.translator.hear(line, now) {
            self.signal(signal).await;
        }
    }

    async fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::Say(child, event) => self.family.say(child.as_deref(), event).await,
            Signal::Born { parent, birth } => self.family.begin(parent.as_deref(), birth).await,
            Signal::Ended { child, end } => {
                let end = if self.refused_children.contains(&child) { TurnEnd::Blocked } else { end };
                self.family.end(&child, end).await;
            }
            Signal::Named(note) => self.turn.emit(AgentEvent::Noted { name: NAME.to_owned(), note }).await,
            Signal::State(state) => self.state(state),
            Signal::Working => (self.begun, self.segment) = (true, None),
            Signal::Segment(segment) => (self.begun, self.segment) = (true, Some(segment)),
            Signal::Permit { id, permit, child } => self.permit(id, permit, child),
            Signal::Dropped { id } => {
                if let Some(taken_back) = self.takes_back.remove(&id) {
                    taken_back.cancel();
                }
            }
            Signal::Unable { id } => self.live.child.say(&wire::refusal(&id)).await,
            Signal::Answered { id, error: Some(error) } => {
                tracing::warn!(session = %self.turn.session.id, id, error, "Claude Code refused a request");
            }
            Signal::Strange(why) => {
                tracing::debug!(session = %self.turn.session.id, why, "a line of Claude Code makes no sense");
            }
            Signal::Answered { .. } | Signal::Notified(_) => {}
        }
    }

    fn permit(&mut self, id: String, permit: Permit, child: Option<String>) {
        self.begun = true;
        let taken_back = CancellationToken::new();
        self.takes_back.insert(id.clone(), taken_back.clone());
        let ask = permit::ask(&permit, Path::new(&self.turn.session.directory));
        let answer = self.family.ask(child.as_deref(), ask);
        let decided = async move { permit::reply(id, &permit, answer.await) };
        self.asks.push(async move { (child, taken_back.run_until_cancelled(decided).await) }.boxed());
    }

    /// An idle that came too late belongs to the turn before this one.
    fn state(&mut self, state: State) {
        self.live.states = true;
        match state {
            State::Idle => self.idle = self.begun,
            State::Running => (self.begun, self.idle, self.segment) = (true, false, None),
            State::RequiresAction | State::Unknown => {}
        }
    }

    async fn tell(&mut self, child: Option<String>, reply: Option<Reply>) {
        self.heard = Instant::now();
        let Some(reply) = reply else { return };
        self.takes_back.remove(&reply.id);
        match child {
            Some(child) if reply.refused => drop(self.refused_children.insert(child)),
            None if reply.refused => drop(self.refused.get_or_insert_with(Instant::now)),
            _ => {}
        }
        self.live.child.say(&wire::answer(&reply.id, &reply.response)).await;
    }

    /// Prompts that arrived meanwhile: it takes them up when it can.
    async fn join(&mut self) {
        for id in self.turn.join().await {
            if let Ok(Some(prompt)) = self.turn.message(&id).await {
                self.live.child.say(&wire::prompt(&content::blocks(&prompt))).await;
                (self.segment, self.idle, self.heard) = (None, false, Instant::now());
            }
        }
    }

    /// Somebody has stopped a subagent.
    async fn stop(&mut self, child: &str) {
        if let Some(task) = self.live.translator.task_of(child) {
            let request = json!({ "subtype": "stop_task", "task_id": task });
            self.live.request(&request).await;
        }
    }

    /// Somebody stops the turn. One that does not stop in time is ended, and so is what it started in the background.
    async fn interrupt(&mut self) {
        let deadline = Instant::now() + self.inner.options.patience.interrupt;
        self.family.end_all(&TurnEnd::Cancelled).await;
        self.live.request(&json!({ "subtype": "interrupt" })).await;
        while let Ok(Ok(heard)) = timeout_at(deadline, self.live.next()).await {
            self.hear(heard).await;
            if self.idle || self.segment.is_some() && !self.live.states {
                self.usable = !self.live.translator.has_background();
                return;
            }
        }
        self.usable = false;
    }
}
