//! Other agents of Codex: each works in a thread of its own on the same wire, and is a child session here.
//!
//! A thread gets a session when the call that started it names it, or with the first word of it, and goes on in it when it
//! gets more to do in the same turn. What happens in it is translated like the session's own thread. Its turn ends when
//! Codex says so and all threads that it has started have ended, and the turn of the session does not end before those of
//! all its threads: Codex waits for none of them.

use std::collections::BTreeMap;

use protocol::{AgentEvent, MessageError, TurnEnd};
use serde_json::json;
use tokio::time::Instant;

use super::ask::Reply;
use super::failure::failure;
use super::run::{Ended, Work};
use super::translate::{Errand, Translation};
use super::wire::{self, Body, Item, Notice, Progress, Told, Trouble, TurnStatus};
use crate::external::Birth;

/// Threads at a time that get a session.
const MAX_THREADS: usize = 64;

/// A thread that works.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) translation: Translation,
    /// The thread that has started it, if that is not the session's own.
    parent: Option<String>,
    /// What Codex calls its turn.
    turn: Option<String>,
    /// A person said no.
    refused: bool,
    /// How its turn ended, while those that it has started work on.
    held: Option<TurnEnd>,
}

impl Work<'_> {
    /// The thread a request is about, if it is not the session's own.
    pub(super) fn thread_of(&self, thread: Option<&str>) -> Option<String> {
        thread.filter(|thread| self.threads.contains_key(*thread)).map(str::to_owned)
    }

    /// What happens in a thread that is not the session's own.
    pub(super) async fn told_elsewhere(&mut self, thread: String, told: Told) -> Option<Ended> {
        let begins = match told.notice {
            Notice::TurnStarted => true,
            // What is told of a thread that has ended does not begin it again.
            Notice::ItemStarted(_) => !self.known.contains(&thread),
            _ => false,
        };
        if begins {
            self.bear(&thread).await;
        }
        self.expect_threads(Some(&thread), &told.notice).await;
        let now = self.inner.clock.now();
        let it = self.threads.get_mut(&thread)?;
        if told.notice == Notice::TurnStarted {
            it.turn.clone_from(&told.turn);
            it.held = None;
        }
        let ended = match &told.notice {
            Notice::TurnCompleted(ended) => Some(ended.clone()),
            Notice::Closed => Some(wire::Turn { status: TurnStatus::Interrupted, ..wire::Turn::default() }),
            _ => None,
        };
        let events = match &ended {
            Some(ended) => it.translation.end(ended),
            None => it.translation.hear(told, now),
        };
        if let Some(ended) = ended {
            let trouble = it.translation.trouble.as_ref();
            it.held.get_or_insert_with(|| if it.refused { TurnEnd::Blocked } else { end(&ended, trouble) });
        }
        for event in events {
            self.family.say(Some(&thread), event).await;
        }
        self.release_threads().await;
        self.released()
    }

    /// Ends the threads whose turns have ended and that wait for no other.
    async fn release_threads(&mut self) {
        let waited_for = |threads: &BTreeMap<String, Thread>, name: &String| {
            threads.values().any(|thread| thread.parent.as_ref() == Some(name))
        };
        while let Some(thread) = self
            .threads
            .iter()
            .find(|(name, thread)| thread.held.is_some() && !waited_for(&self.threads, name))
            .map(|(name, _)| name.clone())
        {
            let Some(Thread { translation, held: Some(end), .. }) = self.threads.remove(&thread) else {
                return;
            };
            self.translation.counted.absorb(translation.counted);
            self.family.end(&thread, end).await;
        }
    }

    /// The turn of the session has ended: it is over when all threads are, and Codex does not begin another by itself.
    pub(super) fn hold(&mut self, ended: Ended) -> Option<Ended> {
        (self.held, self.heard) = (Some(ended), Instant::now());
        self.released()
    }

    pub(super) fn released(&mut self) -> Option<Ended> {
        if self.threads.is_empty() && self.next.is_none() { self.held.take() } else { None }
    }

    /// Threads that a call names get their sessions before the call is over, so that it can say which.
    pub(super) async fn expect_threads(&mut self, parent: Option<&str>, notice: &Notice) {
        let Notice::ItemCompleted(Item { id, body: Body::Agents(agents) }) = notice else { return };
        let translation = match parent {
            None => &mut self.translation,
            Some(parent) => match self.threads.get_mut(parent) {
                Some(thread) => &mut thread.translation,
                None => return,
            },
        };
        translation.note_errand(id, agents);
        if agents.status != Progress::Completed || !agents.is_start() {
            return;
        }
        for thread in &agents.receiver_thread_ids {
            if !self.known.contains(thread) {
                self.bear(thread).await;
            }
        }
    }

    /// Gives a thread its session, if somebody knows what it is for.
    async fn bear(&mut self, thread: &str) {
        if self.threads.contains_key(thread) || self.threads.len() >= MAX_THREADS {
            return;
        }
        let Some((parent, errand, shown)) = self.errand(thread) else { return };
        let Errand { call, title, prompt } = errand;
        let counted = self.translation.counted.of(thread);
        let translation = Translation::new(thread, &self.turn.session.directory, counted);
        let it = Thread { translation, parent: parent.clone(), turn: None, refused: false, held: None };
        self.threads.insert(thread.to_owned(), it);
        self.known.insert(thread.to_owned());
        let title = format!("{title} (@codex subagent)");
        let birth = Birth { name: thread.to_owned(), title, prompt, call, shown };
        self.family.begin(parent.as_deref(), birth).await;
    }

    /// Who has started a thread, what for, and the call as it is shown if it is still open.
    fn errand(&mut self, thread: &str) -> Option<(Option<String>, Errand, Option<AgentEvent>)> {
        let mut found = self.translation.errand(thread).map(|it| (None, it));
        if found.is_none() {
            found = self
                .threads
                .iter_mut()
                .find_map(|(name, it)| Some((Some(name.clone()), it.translation.errand(thread)?)));
        }
        let (parent, errand) = found?;
        let translation = match &parent {
            None => Some(&self.translation),
            Some(parent) => self.threads.get(parent).map(|it| &it.translation),
        };
        let shown = translation.and_then(|translation| translation.shown(&errand.call));
        Some((parent, errand, shown))
    }

    /// A request of a thread was answered.
    pub(super) fn answered_elsewhere(&mut self, thread: &str, reply: &Reply, question: bool) {
        let Some(it) = self.threads.get_mut(thread) else { return };
        it.refused |= reply.refused;
        if reply.refused && question {
            // There is no answer that means no.
            self.stop_thread(thread);
        } else if let Some(correction) = &reply.correction {
            let input = json!([{ "type": "text", "text": correction }]);
            let params = json!({ "threadId": thread, "expectedTurnId": it.turn, "input": input });
            self.send("turn/steer", params);
        }
    }

    /// Tells Codex to end the turn of a thread; its end is still to come.
    pub(super) fn stop_thread(&mut self, thread: &str) {
        if let Some(it) = self.threads.get(thread) {
            let params = json!({ "threadId": thread, "turnId": it.turn });
            self.send("turn/interrupt", params);
        }
    }
}

/// How the turn of a thread ended.
fn end(ended: &wire::Turn, trouble: Option<&Trouble>) -> TurnEnd {
    match ended.status {
        TurnStatus::Completed => TurnEnd::Completed,
        TurnStatus::Failed => TurnEnd::Error(failure(ended.error.as_ref().or(trouble))),
        TurnStatus::Interrupted => TurnEnd::Cancelled,
        TurnStatus::InProgress | TurnStatus::Other => {
            TurnEnd::Error(MessageError::unknown("Codex ended the turn without saying how"))
        }
    }
}
