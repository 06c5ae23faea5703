//! The judge: compares the clients' knowledge with the server's answers, and reports every broken promise.
//!
//! It is pure: evidence in, violations out. All evidence was observed from outside.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use protocol::{EndReason, Message, MessageWithParts, Part};

use crate::{
    follow::{Frame, Moment},
    ledger::{Fate, Prompt},
    model::Ask,
};

/// A promise of Baton.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    /// An accepted prompt exists exactly once and is run.
    Accepted,
    /// Every busy ends in exactly one idle.
    OneIdle,
    /// A client that resumes with its cursor misses nothing.
    Resume,
    /// Nothing is open or busy at the end.
    Closed,
    /// No step, tool or answer runs twice.
    Once,
    /// Messages are listed in the order of the conversation.
    Order,
    /// The database is intact, and a damaged one is refused with a clear error.
    Sound,
    /// A full disk is reported as such and causes no lasting damage.
    FullDisk,
    /// The server starts, stops and answers without a panic.
    Alive,
}

impl fmt::Display for Promise {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Accepted => "an accepted prompt exists once and is run",
            Self::OneIdle => "every busy ends in exactly one idle",
            Self::Resume => "a cursor misses nothing",
            Self::Closed => "nothing is open or busy at the end",
            Self::Once => "no step and no tool runs twice",
            Self::Order => "messages are in order",
            Self::Sound => "the database is sound",
            Self::FullDisk => "a full disk is reported and survived",
            Self::Alive => "the server starts, answers and does not panic",
        })
    }
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) promise: Promise,
    pub(crate) detail: String,
}

impl Violation {
    pub(crate) fn new(promise: Promise, detail: impl Into<String>) -> Self {
        Self { promise, detail: detail.into() }
    }
}

/// Compares the events that a follower received with one replay of the whole log. The log drops the events of a
/// deleted session, so the follower may have more of those.
pub(crate) fn log(followed: &[Frame], replayed: &[Frame], deleted: &BTreeSet<String>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (who, frames) in [("the follower", followed), ("the replay", replayed)] {
        for pair in frames.windows(2) {
            if let [before, after] = pair
                && after.cursor <= before.cursor
            {
                let detail = format!("{who} received {} after {}", after.cursor, before.cursor);
                found.push(Violation::new(Promise::Resume, detail));
            }
        }
    }
    let known: BTreeMap<u64, &Frame> = followed.iter().map(|frame| (frame.cursor, frame)).collect();
    for frame in replayed {
        match known.get(&frame.cursor) {
            None => {
                let detail =
                    format!("event {} is in the log, and the follower never received it", frame.cursor);
                found.push(Violation::new(Promise::Resume, detail));
            }
            Some(seen) if seen.digest != frame.digest => {
                let detail = format!("event {} differs between the follower and the replay", frame.cursor);
                found.push(Violation::new(Promise::Resume, detail));
            }
            Some(_) => {}
        }
    }
    let logged: BTreeSet<u64> = replayed.iter().map(|frame| frame.cursor).collect();
    // An event that names no session (`file.edited`) is deleted with the session that caused it, which only the log
    // knows.
    let of_deleted = |frame: &Frame| match &frame.session {
        Some(session) => deleted.contains(session),
        None => !deleted.is_empty(),
    };
    for frame in followed.iter().filter(|frame| !logged.contains(&frame.cursor) && !of_deleted(frame)) {
        let detail = format!("the follower received event {}, which is not in the log", frame.cursor);
        found.push(Violation::new(Promise::Resume, detail));
    }
    found
}

/// Checks the events of every prompt.
pub(crate) fn prompts(
    sent: &BTreeMap<String, Prompt>,
    told: &BTreeMap<String, Vec<Moment>>,
    heard_by_model: &BTreeSet<String>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (id, prompt) in sent {
        let moments = told.get(id).map(Vec::as_slice).unwrap_or_default();
        if let Some(detail) = objection(prompt, moments, heard_by_model.contains(id)) {
            found
                .push(Violation::new(Promise::Accepted, format!("{id}, {}: {detail}", prompt.script.name())));
        }
    }
    found
}

fn objection(prompt: &Prompt, moments: &[Moment], heard_by_model: bool) -> Option<String> {
    let rounds = moments.iter().filter(|moment| matches!(moment, Moment::Ended(_))).count();
    match prompt.fate {
        Fate::Refused(status) if !moments.is_empty() && !prompt.may_be_gone => {
            return Some(format!("refused with {status}, and yet {moments:?}"));
        }
        Fate::Refused(_) => return None,
        Fate::Unsure => return Some("never answered, although it was sent again".to_owned()),
        Fate::Accepted => {}
    }
    if let Some(detail) = disorder(moments) {
        return Some(format!("{detail}: {moments:?}"));
    }
    if rounds > 1 && !prompt.script.waits_for_user() {
        return Some(format!("ended {rounds} times: {moments:?}"));
    }
    match moments.last() {
        None if prompt.may_be_gone => None,
        None => Some("accepted, and no event ever mentioned it".to_owned()),
        Some(Moment::Queued | Moment::Started) if !prompt.may_be_gone => {
            Some(format!("accepted and never ended: {moments:?}"))
        }
        Some(Moment::Ended(EndReason::Interrupted)) if !moments.contains(&Moment::Started) => {
            Some(format!("accepted before the server stopped, and never run after it: {moments:?}"))
        }
        Some(Moment::Ended(EndReason::Completed)) if !heard_by_model => {
            Some("completed, and the model never saw it".to_owned())
        }
        Some(_) => None,
    }
}

/// A prompt is queued, started and ended, in this order; it may join a turn without waiting, or end without
/// starting.
fn disorder(moments: &[Moment]) -> Option<&'static str> {
    let rank = |moment: &Moment| match moment {
        Moment::Queued => 0,
        Moment::Started => 1,
        Moment::Ended(_) => 2,
    };
    moments.windows(2).find_map(|pair| match pair {
        [Moment::Ended(_), Moment::Ended(_)] => Some("ended twice"),
        [Moment::Ended(_), Moment::Queued] => None,
        [before, after] if rank(after) <= rank(before) => Some("events in an impossible order"),
        _ => None,
    })
}

/// Checks the messages of all sessions after the last restart.
pub(crate) fn sessions(
    sent: &BTreeMap<String, Prompt>,
    sessions: &BTreeMap<String, Vec<MessageWithParts>>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for (session, messages) in sessions {
        for message in messages {
            *count.entry(message.info.id().as_str()).or_default() += 1;
        }
        found.extend(open(session, messages));
        found.extend(order(session, messages));
    }
    for (id, prompt) in sent {
        let times = count.get(id.as_str()).copied().unwrap_or(0);
        let detail = match prompt.fate {
            Fate::Accepted if times == 0 && !prompt.may_be_gone => {
                format!("{id} was accepted and is not in {}", prompt.session)
            }
            Fate::Refused(status) if times > 0 => format!("{id} was refused with {status} and is there"),
            _ if times > 1 => format!("{id} is there {times} times"),
            _ => continue,
        };
        found.push(Violation::new(Promise::Accepted, detail));
    }
    found
}

fn open(session: &str, messages: &[MessageWithParts]) -> Vec<Violation> {
    let mut found = Vec::new();
    for message in messages {
        let id = message.info.id();
        if matches!(&message.info, Message::Assistant(info) if info.time.completed.is_none()) {
            found.push(Violation::new(Promise::Closed, format!("message {id} of {session} is open")));
        }
        for part in message.parts.iter().filter(|part| Part::is_open(part)) {
            found.push(Violation::new(
                Promise::Closed,
                format!("part {} of {id} in {session} is open", part.id),
            ));
        }
    }
    found
}

fn order(session: &str, messages: &[MessageWithParts]) -> Vec<Violation> {
    let mut seen = BTreeSet::new();
    let all: BTreeSet<&str> = messages.iter().map(|message| message.info.id().as_str()).collect();
    let mut found = Vec::new();
    for message in messages {
        let id = message.info.id().as_str();
        if let Message::Assistant(info) = &message.info {
            let parent = info.parent_id.as_str();
            if all.contains(parent) && !seen.contains(parent) {
                let detail = format!("{id} is listed before {parent}, which it answers, in {session}");
                found.push(Violation::new(Promise::Order, detail));
            }
        }
        if !seen.insert(id) {
            found.push(Violation::new(Promise::Order, format!("{id} is listed twice in {session}")));
        }
    }
    found
}

/// Checks the steps that the model was asked for: within the lifetime of a server each one once, in order. A prompt
/// that a crash has interrupted stays in the conversation, so the next server's model may see it as the newest one
/// again.
pub(crate) fn steps(asks: &[Ask]) -> Vec<Violation> {
    let mut newest: BTreeMap<&str, &Ask> = BTreeMap::new();
    let mut found = Vec::new();
    for ask in asks {
        let Some(before) = newest.insert(&ask.prompt, ask) else { continue };
        if before.life == ask.life && ask.step <= before.step {
            let Ask { prompt, step, life, messages } = ask;
            let detail = format!(
                "server {life} asked the model for step {step} of {prompt} (a call of {messages} messages) after step {} \
                 (a call of {} messages)",
                before.step, before.messages
            );
            found.push(Violation::new(Promise::Once, detail));
        }
    }
    found
}

/// Checks the lines that commands have added to a file: at most one for each prompt.
pub(crate) fn effects(lines: &str) -> Vec<Violation> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines.lines() {
        *count.entry(line).or_default() += 1;
    }
    let twice = count.into_iter().filter(|(_, times)| *times > 1);
    twice
        .map(|(id, times)| Violation::new(Promise::Once, format!("the command of {id} ran {times} times")))
        .collect()
}
