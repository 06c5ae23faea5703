//! The newest messages of sessions, decoded, so that neither the next step of a turn nor a turn soon after it reads and
//! decodes the whole conversation again.
//!
//! An entry is what the store holds at one *head* of its session. The actor, which makes every commit of an active
//! session, applies each of them to the entry. If a head or an epoch is not the expected one, another writer has been at
//! work, and the entry is dropped. Text that streams is an exception: it is in the entry once its part is complete.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use protocol::{EventBody, Message, MessageId, MessageWithParts, Part, PartId, SessionId};
use tokio::time::Instant;

use crate::{
    limits::{HISTORY_CACHE_BYTES, HISTORY_CACHE_IDLE, HISTORY_CACHE_SESSIONS},
    ports::Record,
};

/// Memory of a message or a part beside its text, in bytes.
const OVERHEAD: usize = 512;

/// A state of a session: the number of its events, and the epoch of the writer that stored them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) epoch: u64,
    pub(crate) head: u64,
}

/// The newest messages of a session at one version, oldest first.
#[derive(Debug)]
pub(crate) struct Newest {
    pub(crate) version: Version,
    pub(crate) messages: Vec<Arc<MessageWithParts>>,
    /// True if there are no older messages.
    pub(crate) is_whole: bool,
}

/// A decoded message and the size of its JSON.
#[derive(Debug)]
pub(crate) struct Cached {
    message: Arc<MessageWithParts>,
    info: usize,
    /// In the order of the parts.
    parts: Vec<usize>,
}

/// The newest messages of the sessions that were active last.
#[derive(Debug, Default)]
pub(crate) struct HistoryCache {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<SessionId, Entry>,
    /// True while a task waits to drop entries that are not used any more.
    expiring: bool,
}

#[derive(Debug)]
struct Entry {
    version: Version,
    /// Oldest first.
    messages: Vec<Cached>,
    is_whole: bool,
    bytes: usize,
    used: Instant,
}

/// An entry cannot be changed in the way in which the store changes.
struct Unknown;

impl HistoryCache {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest messages at this version, as far as they are known. From now on, the entry follows the session.
    pub(crate) fn newest(self: &Arc<Self>, session: &SessionId, version: Version) -> Newest {
        let mut state = self.lock();
        if state.entries.get(session).is_none_or(|entry| entry.version != version) {
            self.insert(&mut state, session, Entry::new(version, false));
        }
        let Some(entry) = state.entries.get_mut(session) else {
            return Newest { version, messages: Vec::new(), is_whole: false };
        };
        entry.used = Instant::now();
        let messages = entry.messages.iter().map(|cached| Arc::clone(&cached.message)).collect();
        Newest { version, messages, is_whole: entry.is_whole }
    }

    /// Follows a session that has no messages yet.
    pub(crate) fn begin(self: &Arc<Self>, session: &SessionId, version: Version) {
        self.insert(&mut self.lock(), session, Entry::new(version, true));
    }

    fn insert(self: &Arc<Self>, state: &mut State, session: &SessionId, entry: Entry) {
        state.entries.insert(session.clone(), entry);
        state.shrink(session);
        if !mem::replace(&mut state.expiring, true) {
            tokio::spawn(expire(Arc::downgrade(self)));
        }
    }

    /// Adds the messages before `newest`, which were read from the store, newest first. Does nothing if the entry has
    /// changed meanwhile.
    pub(crate) fn extend(
        &self,
        session: &SessionId,
        newest: &Newest,
        older: impl IntoIterator<Item = Cached, IntoIter: DoubleEndedIterator>,
        is_whole: bool,
    ) {
        let mut state = self.lock();
        let is_same = |entry: &&mut Entry| {
            entry.version == newest.version && entry.messages.len() == newest.messages.len()
        };
        let Some(entry) = state.entries.get_mut(session).filter(is_same) else { return };
        entry.messages.splice(..0, older.into_iter().rev());
        entry.bytes = entry.messages.iter().map(Cached::bytes).sum();
        entry.is_whole = is_whole;
        state.shrink(session);
    }

    /// Applies a commit, with the encoded size of each event, that led from one version to another.
    pub(crate) fn committed(
        &self,
        session: &SessionId,
        (before, after): (Version, Version),
        events: impl IntoIterator<Item = (EventBody, usize)>,
    ) {
        let mut state = self.lock();
        let Some(entry) = state.entries.get_mut(session) else { return };
        let applied = entry.version == before
            && events.into_iter().try_for_each(|(body, bytes)| entry.apply(body, bytes)).is_ok();
        if applied {
            entry.version = after;
            state.shrink(session);
        } else {
            state.entries.remove(session);
        }
    }

    pub(crate) fn forget(&self, session: &SessionId) {
        self.lock().entries.remove(session);
    }
}

/// Drops entries that no turn has read for a while. Ends when none is left.
async fn expire(cache: Weak<HistoryCache>) {
    loop {
        tokio::time::sleep(HISTORY_CACHE_IDLE).await;
        let Some(cache) = cache.upgrade() else { return };
        let (mut state, now) = (cache.lock(), Instant::now());
        state.entries.retain(|_, entry| now.saturating_duration_since(entry.used) < HISTORY_CACHE_IDLE);
        if state.entries.is_empty() {
            *state = State::default();
            return;
        }
    }
}

impl State {
    /// Drops the entries that were used longest ago until the rest is within the limits, and this session's own if it is
    /// above them by itself.
    fn shrink(&mut self, current: &SessionId) {
        if self.entries.get(current).is_some_and(|entry| entry.bytes > HISTORY_CACHE_BYTES) {
            self.entries.remove(current);
        }
        let mut bytes: usize = self.entries.values().map(|entry| entry.bytes).sum();
        while bytes > HISTORY_CACHE_BYTES || self.entries.len() > HISTORY_CACHE_SESSIONS {
            let others = self.entries.iter().filter(|(session, _)| *session != current);
            let Some(oldest) = others.min_by_key(|(_, entry)| entry.used).map(|(session, _)| session.clone())
            else {
                return;
            };
            bytes -= self.entries.remove(&oldest).map_or(0, |entry| entry.bytes);
        }
    }
}

impl Entry {
    fn new(version: Version, is_whole: bool) -> Self {
        Self { version, messages: Vec::new(), is_whole, bytes: 0, used: Instant::now() }
    }

    /// Changes the messages as the store changes its rows.
    fn apply(&mut self, body: EventBody, bytes: usize) -> Result<(), Unknown> {
        match body {
            EventBody::MessageUpdated(it) => self.put(it.info, bytes),
            EventBody::MessageRemoved(it) => drop(self.take(&it.message_id)),
            EventBody::PartUpdated(it) => return self.put_part(it.part, bytes),
            EventBody::PartRemoved(it) => self.remove_part(&it.message_id, &it.part_id),
            EventBody::SessionDeleted(_) => return Err(Unknown),
            _ => {}
        }
        Ok(())
    }

    /// Almost every change concerns the newest message.
    fn position(&self, message: &MessageId) -> Option<usize> {
        self.messages.iter().rposition(|cached| cached.message.info.id() == message)
    }

    fn take(&mut self, message: &MessageId) -> Option<Cached> {
        let cached = self.messages.remove(self.position(message)?);
        self.bytes -= cached.bytes();
        Some(cached)
    }

    fn put(&mut self, info: Message, bytes: usize) {
        let known = self.take(info.id());
        let at = self.messages.partition_point(|cached| cached.message.info.order() < info.order());
        let stays = known.as_ref().is_some_and(|known| known.message.info.order() <= info.order());
        // Before the oldest known message there may be others that are not known.
        if at == 0 && !self.is_whole && !stays {
            return;
        }
        let mut cached = known.unwrap_or_else(|| Cached {
            message: Arc::new(MessageWithParts::new(info.clone(), Vec::new())),
            info: 0,
            parts: Vec::new(),
        });
        Arc::make_mut(&mut cached.message).info = info;
        cached.info = bytes;
        self.bytes += cached.bytes();
        self.messages.insert(at, cached);
    }

    /// Fails if the part's message is not known: it may become known later, and would then show the part.
    fn put_part(&mut self, part: Part, bytes: usize) -> Result<(), Unknown> {
        let at = self.position(&part.message_id).ok_or(Unknown)?;
        let cached = self.messages.get_mut(at).ok_or(Unknown)?;
        self.bytes -= cached.bytes();
        let parts = &mut Arc::make_mut(&mut cached.message).parts;
        match parts.binary_search_by(|other| other.id.cmp(&part.id)) {
            Ok(at) => {
                parts.splice(at..=at, [part]);
                cached.parts.splice(at..=at, [bytes]);
            }
            Err(at) => {
                parts.insert(at, part);
                cached.parts.insert(at, bytes);
            }
        }
        self.bytes += cached.bytes();
        Ok(())
    }

    fn remove_part(&mut self, message: &MessageId, part: &PartId) {
        let Some(cached) = self.position(message).and_then(|at| self.messages.get_mut(at)) else { return };
        let Some(at) = cached.message.parts.iter().position(|other| other.id == *part) else { return };
        self.bytes -= cached.bytes();
        Arc::make_mut(&mut cached.message).parts.remove(at);
        cached.parts.remove(at);
        self.bytes += cached.bytes();
    }
}

impl Cached {
    /// A message that was read from a record.
    pub(crate) fn new(message: Arc<MessageWithParts>, record: &Record) -> Self {
        let parts = record.parts.iter().map(|part| part.json.len()).collect();
        Self { message, info: record.info.len(), parts }
    }

    fn bytes(&self) -> usize {
        let parts = self.parts.iter().map(|bytes| bytes + OVERHEAD);
        self.info + OVERHEAD + parts.sum::<usize>()
    }
}
