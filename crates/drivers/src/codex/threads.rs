//! Subagents of Codex: each works in its own thread on the same connection, and is a child session in Baton.
//!
//! A thread gets a session when the call that started it names it, or with its first message, and keeps that session when
//! it gets more work in the same turn. Its messages are translated like those of the session's own thread. Its turn ends
//! when Codex reports it and all threads that it has started have ended. The turn of the session ends after all threads,
//! because Codex waits for none of them.

use std::collections::BTreeMap;

use protocol::{AgentEvent, MessageError, Millis, TurnEnd};
use serde_json::json;

use super::ask::Reply;
use super::failure::failure;
use super::process::{Call, CodexProcess};
use super::translate::{SubagentTask, Translation};
use super::turn::Signals;
use super::wire::{self, Body, CodexNotification, Item, Notice, Progress, ReportedError, TurnStatus};
use crate::external::{Signal, Subagent};

/// Threads that can have a session at once.
const MAX_THREADS: usize = 64;

/// A thread at work.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) translation: Translation,
    /// The thread that has started it; none for the session's own.
    parent: Option<String>,
    /// The id of its turn.
    turn: Option<String>,
    /// The end of its turn while threads that it has started are at work.
    held: Option<TurnEnd>,
}

impl CodexProcess {
    /// Interprets a message about a thread that is not the session's own.
    pub(super) fn thread_notification(
        &mut self,
        thread: &str,
        notification: CodexNotification,
        now: Millis,
        out: &mut Signals,
    ) {
        let begins = match notification.notice {
            Notice::TurnStarted => true,
            // An item of a thread that has ended does not begin it again.
            Notice::ItemStarted(_) => !self.turn.known.contains(thread),
            _ => false,
        };
        if begins {
            self.start_thread(thread, out);
        }
        self.expect_threads(Some(thread), &notification.notice, out);
        let Some(it) = self.turn.threads.get_mut(thread) else { return };
        if notification.notice == Notice::TurnStarted {
            it.turn.clone_from(&notification.turn);
            it.held = None;
        }
        let ended = match &notification.notice {
            Notice::TurnCompleted(ended) => Some(ended.clone()),
            Notice::Closed => Some(wire::Turn { status: TurnStatus::Interrupted, ..wire::Turn::default() }),
            _ => None,
        };
        let events = match &ended {
            Some(ended) => it.translation.end(ended),
            None => it.translation.translate(notification, now),
        };
        if let Some(ended) = ended {
            let trouble = it.translation.trouble.as_ref();
            it.held.get_or_insert_with(|| end(&ended, trouble));
        }
        out.extend(events.into_iter().map(|event| Signal::Emit(Some(thread.to_owned()), event)));
        self.release_threads(out);
        self.release(out);
    }

    /// Ends the threads whose turns have ended and that wait for no other thread.
    fn release_threads(&mut self, out: &mut Signals) {
        let waited_for = |threads: &BTreeMap<String, Thread>, name: &String| {
            threads.values().any(|thread| thread.parent.as_ref() == Some(name))
        };
        while let Some(thread) = self
            .turn
            .threads
            .iter()
            .find(|(name, thread)| thread.held.is_some() && !waited_for(&self.turn.threads, name))
            .map(|(name, _)| name.clone())
        {
            let Some(Thread { translation, held: Some(end), .. }) = self.turn.threads.remove(&thread) else {
                return;
            };
            self.translation.counted.absorb(translation.counted);
            out.push(Signal::ChildEnded(thread, end));
        }
    }

    /// Gives the threads that a call names their sessions before the call ends, so that its metadata can name them.
    pub(super) fn expect_threads(&mut self, parent: Option<&str>, notice: &Notice, out: &mut Signals) {
        let Notice::ItemCompleted(Item { id, body: Body::Agents(agents) }) = notice else { return };
        let translation = match parent {
            None => &mut self.translation,
            Some(parent) => match self.turn.threads.get_mut(parent) {
                Some(thread) => &mut thread.translation,
                None => return,
            },
        };
        translation.note_task(id, agents);
        if agents.status != Progress::Completed || !agents.is_start() {
            return;
        }
        for thread in &agents.receiver_thread_ids {
            if !self.turn.known.contains(thread) {
                self.start_thread(thread, out);
            }
        }
    }

    /// Gives a thread its session, if a call has named the task of the thread.
    fn start_thread(&mut self, thread: &str, out: &mut Signals) {
        if self.turn.threads.contains_key(thread) || self.turn.threads.len() >= MAX_THREADS {
            return;
        }
        let Some((parent, task, shown)) = self.task(thread) else { return };
        let SubagentTask { call, title, prompt } = task;
        let counted = self.translation.counted.of(thread);
        let translation = Translation::new(thread, &self.directory, counted);
        let it = Thread { translation, parent: parent.clone(), turn: None, held: None };
        self.turn.threads.insert(thread.to_owned(), it);
        self.turn.known.insert(thread.to_owned());
        let title = format!("{title} (@codex subagent)");
        let subagent = Subagent { name: thread.to_owned(), title, prompt, call, shown };
        out.push(Signal::ChildStarted(parent, subagent));
    }

    /// The parent of a thread, its work, and the current state of the call that started it if that is still open.
    fn task(&mut self, thread: &str) -> Option<(Option<String>, SubagentTask, Option<AgentEvent>)> {
        let mut found = self.translation.task(thread).map(|it| (None, it));
        if found.is_none() {
            found = self
                .turn
                .threads
                .iter_mut()
                .find_map(|(name, it)| Some((Some(name.clone()), it.translation.task(thread)?)));
        }
        let (parent, task) = found?;
        let translation = match &parent {
            None => Some(&self.translation),
            Some(parent) => self.turn.threads.get(parent).map(|it| &it.translation),
        };
        let shown = translation.and_then(|translation| translation.shown(&task.call));
        Some((parent, task, shown))
    }

    /// Continues or stops a thread whose request was answered.
    pub(super) fn answered_in_thread(&mut self, thread: &str, reply: &Reply, is_question: bool) {
        let Some(it) = self.turn.threads.get(thread) else { return };
        if reply.refused && is_question {
            // No answer to a question means no, so the thread is interrupted.
            self.stop_thread(thread);
        } else if let Some(correction) = &reply.correction {
            let input = json!([{ "type": "text", "text": correction }]);
            let params = json!({ "threadId": thread, "expectedTurnId": it.turn, "input": input });
            self.call(Call::Other, "turn/steer", params);
        }
    }

    /// Interrupts the turn of a thread. Codex reports its end later.
    pub(super) fn stop_thread(&mut self, thread: &str) {
        if let Some(it) = self.turn.threads.get(thread) {
            let params = json!({ "threadId": thread, "turnId": it.turn });
            self.call(Call::Other, "turn/interrupt", params);
        }
    }
}

/// The end of a thread's turn.
fn end(ended: &wire::Turn, trouble: Option<&ReportedError>) -> TurnEnd {
    match ended.status {
        TurnStatus::Completed => TurnEnd::Completed,
        TurnStatus::Failed => TurnEnd::Error(failure(ended.error.as_ref().or(trouble))),
        TurnStatus::Interrupted => TurnEnd::Cancelled,
        TurnStatus::InProgress | TurnStatus::Other => {
            TurnEnd::Error(MessageError::unknown("Codex ended the turn without saying how"))
        }
    }
}
