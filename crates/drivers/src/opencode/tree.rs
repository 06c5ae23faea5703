//! The sessions of one turn at OpenCode: the turn's own session and those of its subagents at all levels. Pure: events,
//! states and times in, [`Signal`]s out.
//!
//! A session has ended when OpenCode reports it and all its subagents have ended. If OpenCode sends nothing, Baton asks for
//! its status; [`StatusChecks`] is the schedule of these checks.

use std::collections::{BTreeMap, HashMap, HashSet};

use protocol::request::{PermissionRequest, QuestionRequest};
use protocol::{
    AgentEvent, EventBody, MessageId, MessageWithParts, Millis, SessionId, SessionStatus, Todo, TurnEnd,
};
use tokio::time::Instant;

use super::status_checks::{Pace, StatusChecks};
use super::translate::{Child, Consequence, Request, Translator};
use crate::external::{Signal, Subagent};

pub(super) type Signals = Vec<Signal<Request>>;

/// The state that was read after an interruption of the event stream, because OpenCode does not repeat events.
#[derive(Debug)]
pub(super) struct State {
    pub(super) messages: Vec<MessageWithParts>,
    pub(super) todos: Vec<Todo>,
    pub(super) permissions: Vec<PermissionRequest>,
    pub(super) questions: Vec<QuestionRequest>,
}

#[derive(Debug)]
pub(super) struct Tree {
    root: SessionId,
    /// The turn's session and every subagent's session that has not ended.
    nodes: HashMap<SessionId, Node>,
    pace: Pace,
    /// The ids of requests that wait for an answer.
    waiting: HashSet<String>,
}

#[derive(Debug)]
struct Node {
    /// The session that started this one; none for the turn's own.
    parent: Option<SessionId>,
    translator: Translator,
    pulse: StatusChecks,
    /// False after OpenCode has reported the session as idle.
    is_busy: bool,
    /// The end of the session, while its subagents still work.
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    end: TurnEnd,
    /// OpenCode may continue with the results of subagents, so that its status is checked once more.
    may_go_on: bool,
}

impl Node {
    fn new(parent: Option<SessionId>, translator: Translator, pulse: StatusChecks) -> Self {
        Self { parent, translator, pulse, is_busy: true, held: None }
    }
}

impl Tree {
    pub(super) fn new(root: SessionId, pace: Pace, now: Instant) -> Self {
        let node = Node::new(None, Translator::new(root.clone()), StatusChecks::new(pace, now));
        let nodes = HashMap::from([(root.clone(), node)]);
        Self { root, nodes, pace, waiting: HashSet::new() }
    }

    pub(super) fn root(&self) -> &SessionId {
        &self.root
    }

    /// The sessions that have not ended.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        self.nodes.keys()
    }

    /// Records a prompt before it is sent.
    pub(super) fn sent(&mut self, prompt: MessageId) {
        if let Some(node) = self.nodes.get_mut(&self.root) {
            node.translator.sent(prompt);
            node.pulse.prompted();
            node.held = None;
        }
    }

    /// Records the answer to a request before it is sent, because the next events are consequences of it.
    pub(super) fn answered(&mut self, child: Option<&str>, request: &str, is_refused: bool) {
        self.waiting.remove(request);
        let session = child.and_then(|child| child.parse().ok()).unwrap_or_else(|| self.root.clone());
        if let Some(node) = self.nodes.get_mut(&session).filter(|_| is_refused) {
            node.translator.refused();
        }
    }

    /// Translates an event. The stream also carries the events of other sessions.
    pub(super) fn hear(&mut self, body: EventBody, at: Instant) -> Signals {
        let Some(session) = body.session_id().cloned() else { return Vec::new() };
        let Some(node) = self.nodes.get_mut(&session) else { return Vec::new() };
        node.is_busy &= !is_idle(&body);
        let had_told = node.pulse.heard(at);
        let said = node.translator.translate(body);
        let resumed = had_told.then(|| Signal::Emit(self.name(&session), AgentEvent::Resumed));
        resumed.into_iter().chain(self.act(&session, said, at)).collect()
    }

    /// Records that events may have been lost.
    pub(super) fn missed(&mut self) {
        self.nodes.values_mut().for_each(|node| node.translator.missed());
    }

    /// Translates the state that was read after that. Its end, if it has one, is found by a status check.
    pub(super) fn catch_up(&mut self, state: State, at: Instant) -> Signals {
        let State { messages, todos, permissions, questions } = state;
        let root = self.root.clone();
        let Some(node) = self.nodes.get_mut(&root) else { return Vec::new() };
        let permission_ids = permissions.iter().map(|request| request.id.to_string());
        let open = permission_ids.chain(questions.iter().map(|request| request.id.to_string())).collect();
        let mut said = node.translator.settled(&open);
        said.extend(node.translator.catch_up(messages));
        said.extend((!todos.is_empty()).then_some(Consequence::Agent(AgentEvent::Todos(todos))));
        said.extend(permissions.into_iter().flat_map(|request| node.translator.permission(request)));
        said.extend(questions.into_iter().flat_map(|request| node.translator.question(request)));
        node.pulse.hurry(at);
        self.act(&root, said, at)
    }

    /// Schedules a status check of the turn's session.
    pub(super) fn unsure(&mut self, at: Instant) {
        if let Some(node) = self.nodes.get_mut(&self.root) {
            node.pulse.unsure(at);
        }
    }

    /// The time of the next status check.
    pub(super) fn due(&self) -> Option<Instant> {
        self.nodes.values().map(|node| node.pulse.due()).min()
    }

    /// Records a status check, and returns the sessions that it is for.
    pub(super) fn asked(&mut self, now: Instant) -> Vec<SessionId> {
        let due = self.nodes.iter_mut().filter(|(_, node)| node.pulse.due() <= now);
        due.map(|(session, node)| {
            node.pulse.asked(now);
            session.clone()
        })
        .collect()
    }

    /// Applies the result of a status check; none if it has failed.
    pub(super) fn checked(
        &mut self,
        sessions: Vec<SessionId>,
        statuses: Option<&BTreeMap<SessionId, SessionStatus>>,
        at: Instant,
        now: Millis,
    ) -> Signals {
        let mut signals = Vec::new();
        for session in sessions {
            let Some(node) = self.nodes.get_mut(&session) else { continue };
            match statuses.map(|statuses| statuses.get(&session)) {
                Some(None | Some(SessionStatus::Idle { .. })) if !node.pulse.has_news() => {
                    signals.extend(self.rest(&session, at));
                }
                Some(Some(SessionStatus::Busy { .. } | SessionStatus::Retry { .. })) => {
                    signals.extend(self.remark(&session, at, now));
                }
                // The status is unknown. If the server has ended, the event stream reports it.
                _ => node.pulse.unsure(at),
            }
        }
        signals
    }

    /// Handles the status idle.
    fn rest(&mut self, session: &SessionId, at: Instant) -> Signals {
        let has_children = self.has_children(session);
        let Some(node) = self.nodes.get_mut(session) else { return Vec::new() };
        match &node.held {
            Some(_) if has_children => Vec::new(),
            Some(held) => {
                let end = held.end.clone();
                self.end(session, end, at)
            }
            None => {
                let said = node.translator.settle();
                self.act(session, said, at)
            }
        }
    }

    /// Handles the status busy. After a long silence the user sees a retry status with an explanation, unless the session
    /// waits for a tool, a subagent or the user.
    fn remark(&mut self, session: &SessionId, at: Instant, now: Millis) -> Option<Signal<Request>> {
        let is_waiting = !self.waiting.is_empty() || self.has_children(session);
        let node = self.nodes.get_mut(session)?;
        if is_waiting || node.translator.is_acting() {
            return None;
        }
        let minutes = node.pulse.silence(at)?.as_secs() / 60;
        let message = format!(
            "OpenCode reports that it is busy, but has sent nothing for {minutes} minutes. Its model may not be answering. \
             The turn continues until OpenCode ends it or you abort it."
        );
        let retrying = AgentEvent::Retrying { attempt: 1, limit: None, message, next: now };
        Some(Signal::Emit(self.name(session), retrying))
    }

    fn act(&mut self, session: &SessionId, said: Vec<Consequence>, at: Instant) -> Signals {
        let mut signals = Vec::new();
        for said in said {
            let Some(node) = self.nodes.get_mut(session) else { break };
            match said {
                Consequence::Agent(event) => {
                    if matches!(event, AgentEvent::StepStarted { .. }) {
                        node.held = None;
                    }
                    signals.push(Signal::Emit(self.name(session), event));
                }
                Consequence::Asked(ask, request) => {
                    let id = request.to_string();
                    self.waiting.insert(id.clone());
                    signals.push(Signal::Asked { id, child: self.name(session), ask, request });
                }
                Consequence::Settled(request) => {
                    self.waiting.remove(&request);
                    signals.push(Signal::Withdrawn(request));
                }
                Consequence::Child(child) => signals.extend(self.adopt(session, child, at)),
                Consequence::Unsure => node.pulse.unsure(at),
                Consequence::Ended(end) => signals.extend(self.hold(session, end, at)),
            }
        }
        signals
    }

    /// Takes in a subagent that is at work already.
    fn adopt(&mut self, parent: &SessionId, child: Child, at: Instant) -> Option<Signal<Request>> {
        let Child { session, call, title, prompt } = child;
        if self.nodes.contains_key(&session) {
            return None;
        }
        let subagent = Subagent { name: session.to_string(), title, prompt, call, shown: None };
        let translator = Translator::of_child(session.clone());
        let node = Node::new(Some(parent.clone()), translator, StatusChecks::new(self.pace, at));
        self.nodes.insert(session, node);
        Some(Signal::ChildStarted(self.name(parent), subagent))
    }

    /// Takes in the end of a session at OpenCode. It is the end here when its subagents have ended too. Subagents in the
    /// background may make OpenCode continue.
    fn hold(&mut self, session: &SessionId, end: TurnEnd, at: Instant) -> Signals {
        let has_children = self.has_children(session);
        let may_go_on = self.children(session).any(|child| child.is_busy);
        let Some(node) = self.nodes.get_mut(session) else { return Vec::new() };
        if !has_children && node.held.is_none() {
            return self.end(session, end, at);
        }
        node.translator.reopen();
        // OpenCode reports idle more than once, and only the first report determines the end.
        node.held.get_or_insert(Held { end, may_go_on });
        Vec::new()
    }

    /// Ends a session, and its parent if that has only waited for it.
    fn end(&mut self, session: &SessionId, end: TurnEnd, at: Instant) -> Signals {
        if *session == self.root {
            return vec![Signal::Ended(end)];
        }
        let parent = self.nodes.remove(session).and_then(|node| node.parent);
        let mut signals = vec![Signal::ChildEnded(session.to_string(), end)];
        if let Some(parent) = parent.filter(|parent| !self.has_children(parent))
            && let Some(node) = self.nodes.get_mut(&parent)
        {
            match &node.held {
                Some(Held { end, may_go_on: false }) => {
                    let end = end.clone();
                    signals.extend(self.end(&parent, end, at));
                }
                Some(_) => node.pulse.unsure(at),
                None => {}
            }
        }
        signals
    }

    fn children<'a>(&'a self, session: &'a SessionId) -> impl Iterator<Item = &'a Node> {
        self.nodes.values().filter(move |node| node.parent.as_ref() == Some(session))
    }

    fn has_children(&self, session: &SessionId) -> bool {
        self.children(session).next().is_some()
    }

    /// The name of a subagent; none for the turn's own session.
    fn name(&self, session: &SessionId) -> Option<String> {
        (*session != self.root).then(|| session.to_string())
    }
}

fn is_idle(body: &EventBody) -> bool {
    match body {
        EventBody::SessionStatus(it) => matches!(it.status, SessionStatus::Idle { .. }),
        body => matches!(body, EventBody::SessionIdle(_)),
    }
}

#[cfg(test)]
mod tests;
