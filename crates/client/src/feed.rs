//! Shares one event stream among many subscribers.
//!
//! A process that runs hundreds of prompts at once should not open hundreds of connections that each carry all
//! events. A feed has one connection and gives each watcher the events of its session and of the sessions below it;
//! an event that belongs to no known session goes to all. Each watcher's events begin with `server.connected`, as
//! on a connection of its own. A watcher that falls behind gets another `server.connected`, so that it reads the
//! state again instead of receiving old events late.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{StreamExt, stream, stream::BoxStream};
use protocol::{EventBody, SessionId};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    task::AbortHandle,
};

use crate::{Client, Error, Received, Scope};

/// Limit of events that wait for one watcher.
const WAITING: usize = 1_024;

/// Distributes the events of one connection. Clones share it; it ends with the last of them.
#[derive(Clone)]
pub struct Feed(Arc<Source>);

struct Source {
    client: Client,
    scope: Scope,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    watchers: HashMap<SessionId, Vec<Watcher>>,
    /// Watchers of the requests of all sessions.
    askers: Vec<Watcher>,
    /// Sessions below a watched one, with the watched one.
    roots: HashMap<SessionId, SessionId>,
    /// The server's `server.connected` event; `None` while disconnected.
    connected: Option<Arc<Received>>,
    reading: Option<AbortHandle>,
}

struct Watcher {
    events: mpsc::Sender<Arc<Received>>,
    /// True if the watcher missed an event and has to read the state again.
    is_behind: bool,
}

impl fmt::Debug for Feed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Feed")
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(reading) = &lock(&self.state).reading {
            reading.abort();
        }
    }
}

impl Feed {
    /// Creates a feed of a server's events. It connects with its first watcher.
    pub fn new(client: Client, scope: Scope) -> Self {
        Self(Arc::new(Source { client, scope, state: Arc::default() }))
    }

    /// The events of a session and of those below it, and events without a session. The stream ends when the server
    /// cannot be reached any more.
    pub fn watch(&self, session: &SessionId) -> BoxStream<'static, Result<Received, Error>> {
        self.join(|state, watcher| state.watchers.entry(session.clone()).or_default().push(watcher))
    }

    /// Requests and their outcomes, in all sessions. After each `server.connected`, events may have been missed.
    pub fn watch_requests(&self) -> BoxStream<'static, Result<Received, Error>> {
        self.join(|state, watcher| state.askers.push(watcher))
    }

    fn join(&self, enlist: impl FnOnce(&mut State, Watcher)) -> BoxStream<'static, Result<Received, Error>> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let mut state = lock(&self.0.state);
        if let Some(connected) = &state.connected {
            // The channel is new, so it has room.
            let _ = sender.try_send(Arc::clone(connected));
        }
        enlist(&mut state, Watcher { events: sender, is_behind: false });
        if state.reading.as_ref().is_none_or(AbortHandle::is_finished) {
            let events = self.0.client.events(self.0.scope, None);
            state.reading = Some(tokio::spawn(read(events, Arc::clone(&self.0.state))).abort_handle());
        }
        drop(state);
        stream::unfold(receiver, async |mut receiver| {
            Some((Ok(Arc::unwrap_or_clone(receiver.recv().await?)), receiver))
        })
        .boxed()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read(mut events: crate::EventStream, state: Arc<Mutex<State>>) {
    while let Some(received) = events.next().await {
        match received {
            Ok(received) => lock(&state).hand_out(&Arc::new(received)),
            // An unreadable frame does not end the stream.
            Err(error) => tracing::debug!(%error, "cannot parse an event"),
        }
    }
    let mut state = lock(&state);
    state.connected = None;
    state.watchers.clear();
    state.askers.clear();
    state.roots.clear();
    // The next watcher opens a new connection.
    state.reading = None;
}

impl State {
    fn hand_out(&mut self, received: &Arc<Received>) {
        let body = &received.event.body;
        match body {
            EventBody::ServerConnected(_) => self.connected = Some(Arc::clone(received)),
            // A heartbeat is not forwarded, but lets watchers that fell behind know, even if no event follows.
            EventBody::ServerHeartbeat(_) => {
                self.tell_askers(None);
                return self.tell_all(None);
            }
            EventBody::SessionCreated(it) | EventBody::SessionUpdated(it) => {
                let root = it.info.parent_id.as_ref().and_then(|parent| self.root(parent));
                if let Some(root) = root.cloned() {
                    self.roots.insert(it.info.id.clone(), root);
                }
            }
            _ => {}
        }
        if is_request(body) || matches!(body, EventBody::ServerConnected(_)) {
            self.tell_askers(Some(received));
        }
        match body.session_id() {
            None => self.tell_all(Some(received)),
            Some(session) => match self.root(session).or_else(|| self.named_root(body)).cloned() {
                Some(root) => self.tell(&root, received),
                // Its watcher has to find out whose child the session is.
                None if is_request(body) => self.tell_all(Some(received)),
                None => {}
            },
        }
    }

    /// The watched session that this session is, or is below.
    fn root<'a>(&'a self, session: &'a SessionId) -> Option<&'a SessionId> {
        if self.watchers.contains_key(session) { Some(session) } else { self.roots.get(session) }
    }

    /// The watched session that a request names as its root.
    fn named_root<'a>(&'a self, body: &'a EventBody) -> Option<&'a SessionId> {
        let root = match body {
            EventBody::PermissionAsked(request) => request.root_id.as_ref(),
            EventBody::QuestionAsked(request) => request.root_id.as_ref(),
            _ => None,
        };
        root.filter(|root| self.watchers.contains_key(root))
    }

    fn tell(&mut self, session: &SessionId, received: &Arc<Received>) {
        let Some(watchers) = self.watchers.get_mut(session) else { return };
        watchers.retain_mut(|watcher| watcher.take(self.connected.as_ref(), Some(received)));
        if watchers.is_empty() {
            self.forget(session);
        }
    }

    /// Sends an event to all watchers; without one, only notifies those that fell behind.
    fn tell_all(&mut self, received: Option<&Arc<Received>>) {
        for watchers in self.watchers.values_mut() {
            watchers.retain_mut(|watcher| watcher.take(self.connected.as_ref(), received));
        }
        let gone: Vec<_> = self
            .watchers
            .iter()
            .filter(|(_, watchers)| watchers.is_empty())
            .map(|(it, _)| it.clone())
            .collect();
        for session in gone {
            self.forget(&session);
        }
    }

    fn tell_askers(&mut self, received: Option<&Arc<Received>>) {
        self.askers.retain_mut(|asker| asker.take(self.connected.as_ref(), received));
    }

    fn forget(&mut self, session: &SessionId) {
        self.watchers.remove(session);
        self.roots.retain(|_, root| root != session);
    }
}

impl Watcher {
    /// Sends an event to the watcher; returns false if it was dropped. A watcher that missed an event first gets
    /// `server.connected`, after which every client reads the state again.
    fn take(&mut self, connected: Option<&Arc<Received>>, received: Option<&Arc<Received>>) -> bool {
        let mut next = connected.filter(|_| self.is_behind).into_iter().chain(received);
        let told = next.try_for_each(|event| self.events.try_send(Arc::clone(event)));
        self.is_behind = matches!(told, Err(TrySendError::Full(_)));
        !self.events.is_closed()
    }
}

/// True for requests and their outcomes, which must reach a watcher.
fn is_request(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::PermissionAsked(_)
            | EventBody::PermissionReplied(_)
            | EventBody::QuestionAsked(_)
            | EventBody::QuestionReplied(_)
            | EventBody::QuestionRejected(_)
    )
}

#[cfg(test)]
mod tests {
    use protocol::Event;
    use serde_json::{Value, json};

    use super::*;

    fn received(kind: &str, properties: &Value) -> Arc<Received> {
        let event: Event =
            serde_json::from_value(json!({"id": "evt_1", "type": kind, "properties": properties})).unwrap();
        Arc::new(Received { cursor: None, directory: None, event })
    }

    fn busy(session: &str) -> Arc<Received> {
        received("session.status", &json!({"sessionID": session, "status": {"type": "busy"}}))
    }

    fn asked(session: &str) -> Arc<Received> {
        let request = json!({
            "id": "per_1", "sessionID": session, "permission": "bash", "patterns": [], "metadata": {}, "always": [],
        });
        received("permission.asked", &request)
    }

    fn created(session: &str, parent: &str) -> Arc<Received> {
        let info = json!({
            "id": session, "parentID": parent, "slug": "s", "projectID": "p", "directory": "/", "title": "t",
            "version": "1", "time": {"created": 1, "updated": 1},
        });
        received("session.created", &json!({"sessionID": session, "info": info}))
    }

    fn watch(state: &mut State, session: &str, room: usize) -> mpsc::Receiver<Arc<Received>> {
        let (events, receiver) = mpsc::channel(room);
        let watcher = Watcher { events, is_behind: false };
        state.watchers.entry(session.parse().unwrap()).or_default().push(watcher);
        receiver
    }

    fn kinds(receiver: &mut mpsc::Receiver<Arc<Received>>) -> Vec<String> {
        std::iter::from_fn(|| receiver.try_recv().ok()).map(|it| it.event.body.kind().to_owned()).collect()
    }

    #[test]
    fn each_subscriber_gets_its_session_and_its_children() {
        let mut state = State::default();
        let mut one = watch(&mut state, "ses_1", 8);
        let mut two = watch(&mut state, "ses_2", 8);
        for event in [busy("ses_1"), created("ses_3", "ses_1"), created("ses_4", "ses_3"), busy("ses_4")] {
            state.hand_out(&event);
        }
        state.hand_out(&busy("ses_9"));
        assert_eq!(
            kinds(&mut one),
            ["session.status", "session.created", "session.created", "session.status"]
        );
        assert!(kinds(&mut two).is_empty());
    }

    #[test]
    fn a_request_of_an_unknown_session_goes_to_all_subscribers() {
        let mut state = State::default();
        let mut one = watch(&mut state, "ses_1", 8);
        let mut two = watch(&mut state, "ses_2", 8);
        state.hand_out(&asked("ses_9"));
        assert_eq!((kinds(&mut one).len(), kinds(&mut two).len()), (1, 1));
    }

    #[test]
    fn a_subscriber_of_requests_gets_those_of_every_session() {
        let mut state = State::default();
        let (events, mut receiver) = mpsc::channel(2);
        state.askers.push(Watcher { events, is_behind: false });
        let mut one = watch(&mut state, "ses_1", 8);
        state.hand_out(&received("server.connected", &json!({})));
        for event in [busy("ses_1"), asked("ses_1"), asked("ses_1")] {
            state.hand_out(&event);
        }
        assert_eq!(kinds(&mut receiver), ["server.connected", "permission.asked"]);
        assert_eq!(kinds(&mut one).len(), 4, "watchers of the session still get everything");
        state.hand_out(&received("server.heartbeat", &json!({})));
        assert_eq!(kinds(&mut receiver), ["server.connected"], "an event was missed");
        drop(receiver);
        state.hand_out(&asked("ses_9"));
        assert!(state.askers.is_empty());
    }

    #[test]
    fn a_slow_subscriber_gets_a_resync_even_if_no_event_follows() {
        let mut state = State::default();
        state.hand_out(&received("server.connected", &json!({})));
        let mut one = watch(&mut state, "ses_1", 2);
        for _ in 0..5 {
            state.hand_out(&busy("ses_1"));
        }
        assert_eq!(kinds(&mut one).len(), 2);
        state.hand_out(&received("server.heartbeat", &json!({})));
        assert_eq!(kinds(&mut one), ["server.connected"]);
    }

    #[test]
    fn a_dropped_subscriber_is_forgotten_with_its_children() {
        let mut state = State::default();
        let one = watch(&mut state, "ses_1", 8);
        state.hand_out(&created("ses_3", "ses_1"));
        drop(one);
        state.hand_out(&busy("ses_3"));
        assert!(state.watchers.is_empty() && state.roots.is_empty());
    }
}
