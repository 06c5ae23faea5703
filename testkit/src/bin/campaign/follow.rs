//! A follower: one client that reads the events of all directories and resumes with its cursor.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use client::check::{Checker, End, Kind as FindingKind, Severity};
use protocol::{EndReason, EventBody};
use testkit::{
    dice::Dice,
    watch::{Seen, Watch},
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    judge::{Promise, Violation},
    ledger::Ledger,
    line::Line,
};

/// The title of the session that is created last: a follower that has received it has received everything.
pub(crate) const LAST: &str = "the last session";

/// Time without a frame that counts as a fault: heartbeats come every ten seconds.
const SILENCE: Duration = Duration::from_secs(45);
/// Pause between attempts to reach a server that is down.
const RETRY: Duration = Duration::from_millis(20);

/// A durable event that a follower received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) cursor: u64,
    /// A hash of the whole event.
    pub(crate) digest: u64,
    pub(crate) session: Option<String>,
}

/// An event in the life of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Queued,
    Started,
    Ended(EndReason),
}

/// A turn that ended while children seemed to work.
#[derive(Debug)]
struct Early {
    violation: Violation,
    children: BTreeSet<String>,
}

/// Everything that a follower received.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) frames: Vec<Frame>,
    pub(crate) prompts: BTreeMap<String, Vec<Moment>>,
    /// Sessions that exist according to the events.
    pub(crate) sessions: BTreeSet<String>,
    pub(crate) deleted: BTreeSet<String>,
    pub(crate) connections: usize,
    pub(crate) turns: usize,
    pub(crate) violations: Vec<Violation>,
    /// Turns that ended before their children, as seen over several connections. A turn is excused if its children
    /// were deleted, because the log then lacks their idle.
    early: Vec<Early>,
    /// The cursor before the first frame.
    after: u64,
    may_resync: bool,
    /// Sessions that had a turn.
    begun: BTreeSet<String>,
    /// Number of violations that the checker has found.
    findings: usize,
}

impl Heard {
    pub(crate) fn cursor(&self) -> u64 {
        self.frames.last().map_or(self.after, |frame| frame.cursor)
    }

    /// Processes a frame; returns true if it was the last.
    fn take(&mut self, checker: &mut Checker, seen: &Seen) -> bool {
        if let EventBody::SessionStatus(change) = &seen.event.body {
            self.begun.insert(change.session_id.to_string());
        }
        let findings = checker.observe(None, &seen.event).iter();
        for finding in findings.filter(|finding| finding.severity == Severity::Violation) {
            self.findings += 1;
            let violation = Violation::new(Promise::OneIdle, finding.to_string());
            if finding.kind == FindingKind::IdleBeforeChild && self.connections > 1 {
                let children = sessions_in(&finding.sentence);
                self.early.push(Early { violation, children });
                continue;
            }
            let is_excused = match finding.kind {
                // A fork gets its copied messages before its first turn.
                FindingKind::OutsideTurn => !self.begun.contains(finding.session.as_str()),
                // The log drops the events of a deleted session, including its idle, before a client reconnects.
                FindingKind::BusyNeverReleased => self.connections > 1,
                // The same for a client that was disconnected between the two events of the idle.
                FindingKind::HalfIdle => {
                    self.connections > 1 && matches!(seen.event.body, EventBody::SessionDeleted(_))
                }
                _ => false,
            };
            if !is_excused {
                self.violations.push(violation);
            }
        }
        if matches!(seen.event.body, EventBody::ServerResync(_)) && !self.may_resync {
            let detail =
                format!("a cursor that is in the log ({}) was answered with server.resync", self.cursor());
            self.violations.push(Violation::new(Promise::Resume, detail));
        }
        let Some(cursor) = seen.cursor else { return false };
        self.frames.push(frame(cursor, seen));
        self.note(&seen.event.body)
    }

    /// Reports the turns that ended before a child that still exists.
    fn judge_early(&mut self) {
        for early in std::mem::take(&mut self.early) {
            if early.children.is_empty() || !early.children.is_subset(&self.deleted) {
                self.violations.push(early.violation);
            }
        }
    }

    fn note(&mut self, body: &EventBody) -> bool {
        let (message, moment) = match body {
            EventBody::SessionCreated(it) => {
                self.sessions.insert(it.info.id.to_string());
                return it.info.title == LAST;
            }
            EventBody::SessionDeleted(it) => {
                self.sessions.remove(it.info.id.as_str());
                self.deleted.insert(it.info.id.to_string());
                return false;
            }
            EventBody::PromptQueued(it) => (&it.message_id, Moment::Queued),
            EventBody::PromptStarted(it) => (&it.message_id, Moment::Started),
            EventBody::PromptEnded(it) => (&it.message_id, Moment::Ended(it.reason)),
            _ => return false,
        };
        self.prompts.entry(message.to_string()).or_default().push(moment);
        false
    }
}

/// The ids of sessions in a sentence.
fn sessions_in(sentence: &str) -> BTreeSet<String> {
    let words = sentence.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("ses_")).map(ToOwned::to_owned).collect()
}

fn frame(cursor: u64, seen: &Seen) -> Frame {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(&seen.event).unwrap_or_default().hash(&mut hasher);
    let session = seen.event.body.session_id().map(ToString::to_string);
    Frame { cursor, digest: hasher.finish(), session }
}

/// The behaviour of a follower.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) line: Line,
    /// Receives the ends of prompts; set for one follower of a round.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// The cursor to start with.
    pub(crate) after: u64,
    /// Drops the connection after a random number of frames.
    pub(crate) drops: Option<Dice>,
    /// True if the log may no longer contain its cursor.
    pub(crate) may_resync: bool,
    /// Time at which it gives up.
    pub(crate) deadline: Instant,
}

impl Follower {
    /// A follower that never drops its connection by itself and reads the whole log.
    pub(crate) fn new(line: Line, patience: Duration) -> Self {
        let deadline = Instant::now() + patience;
        Self { line, ledger: None, after: 0, drops: None, may_resync: false, deadline }
    }

    /// Reports the ends of prompts to a ledger.
    pub(crate) fn telling(mut self, ledger: &Arc<Ledger>) -> Self {
        self.ledger = Some(Arc::clone(ledger));
        self
    }

    /// Follows until the last session is created, across all restarts of the server.
    pub(crate) async fn follow(mut self) -> Heard {
        let mut heard = Heard { after: self.after, may_resync: self.may_resync, ..Heard::default() };
        let mut checker = Checker::new();
        while !self.follow_once(&mut heard, &mut checker).await {
            if Instant::now() >= self.deadline {
                let detail = format!(
                    "did not hear of the last session before its deadline; it is at {}",
                    heard.cursor()
                );
                heard.violations.push(Violation::new(Promise::Resume, detail));
                break;
            }
            sleep(RETRY).await;
        }
        let report = checker.finish(End::Complete);
        heard.turns = report.sessions.values().map(|session| session.turns).sum();
        let open = report
            .violations()
            .skip(heard.findings)
            .map(|it| Violation::new(Promise::OneIdle, it.to_string()));
        heard.violations.extend(open);
        heard.judge_early();
        heard
    }

    /// Follows over one connection; returns true once the last session was created.
    async fn follow_once(&mut self, heard: &mut Heard, checker: &mut Checker) -> bool {
        let url = self.line.url();
        let connect = Watch::connect(&url, "/global/event", Some(heard.cursor()));
        let Ok(Ok(mut watch)) = timeout_at(self.deadline, connect).await else { return false };
        heard.connections += 1;
        let mut left = self.drops.as_mut().map(|dice| 1 + dice.roll(400));
        loop {
            let patience = self.deadline.min(Instant::now() + SILENCE);
            let seen = match timeout_at(patience, watch.next()).await {
                Ok(Ok(Some(seen))) => seen,
                Ok(Ok(None)) => return false,
                Ok(Err(error)) => {
                    let detail = format!("a frame could not be read: {error:#}");
                    heard.violations.push(Violation::new(Promise::Resume, detail));
                    return false;
                }
                Err(_) => {
                    let detail = format!("no frame and no heartbeat within {SILENCE:?}");
                    heard.violations.push(Violation::new(Promise::Resume, detail));
                    return false;
                }
            };
            if let (Some(ledger), EventBody::PromptEnded(_)) = (&self.ledger, &seen.event.body) {
                ledger.ended.fetch_add(1, Relaxed);
            }
            if heard.take(checker, &seen) {
                return true;
            }
            if let Some(left) = &mut left {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    return false;
                }
            }
        }
    }
}

/// Reads the whole log as a new client does: every durable event up to the last session. `None` if its beginning
/// was removed.
pub(crate) async fn replay(url: &str, deadline: Instant) -> anyhow::Result<Option<Vec<Frame>>> {
    let mut frames = Vec::new();
    let mut watch = timeout_at(deadline, Watch::connect(url, "/global/event", Some(0))).await??;
    while let Some(seen) = timeout_at(deadline, watch.next()).await?? {
        if let Some(cursor) = seen.cursor {
            frames.push(frame(cursor, &seen));
        }
        if matches!(seen.event.body, EventBody::ServerResync(_)) {
            return Ok(None);
        }
        if matches!(&seen.event.body, EventBody::SessionCreated(it) if it.info.title == LAST) {
            return Ok(Some(frames));
        }
    }
    anyhow::bail!("the replay ended before the last session")
}

/// The violations in a stream of events, for tests of the judge.
#[cfg(test)]
pub(crate) fn violations(events: &[serde_json::Value]) -> Vec<Violation> {
    let mut heard = Heard::default();
    let mut checker = Checker::new();
    for (number, event) in events.iter().enumerate() {
        let mut event = event.clone();
        event["id"] = format!("evt_{number}").into();
        let seen = Seen { cursor: Some(number as u64 + 1), event: serde_json::from_value(event).unwrap() };
        heard.take(&mut checker, &seen);
    }
    heard.violations
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(cursor: u64, kind: &str, properties: &Value) -> Seen {
        let event = json!({ "id": format!("evt_{cursor}"), "type": kind, "properties": properties });
        Seen { cursor: Some(cursor), event: serde_json::from_value(event).unwrap() }
    }

    fn about(kind: &str, session: &str, parent: Option<&str>) -> (String, Value) {
        let info = json!({
            "id": session, "slug": "s", "projectID": "p", "directory": "/", "parentID": parent, "title": "t",
            "version": "1", "time": { "created": 1, "updated": 1 },
        });
        (kind.to_owned(), json!({ "sessionID": session, "info": info }))
    }

    fn status(session: &str, kind: &str) -> (String, Value) {
        ("session.status".to_owned(), json!({ "sessionID": session, "status": { "type": kind } }))
    }

    /// The follower loses its connection after it has heard that the child is busy.
    fn follow(missed: &[(String, Value)]) -> Vec<Violation> {
        let mut heard = Heard { connections: 1, ..Heard::default() };
        let mut checker = Checker::new();
        let before = [
            about("session.created", "ses_parent", None),
            status("ses_parent", "busy"),
            about("session.created", "ses_child", Some("ses_parent")),
            status("ses_child", "busy"),
        ];
        for (cursor, (kind, properties)) in (1..).zip(before.iter().chain(missed)) {
            if cursor == 5 {
                heard.connections += 1;
            }
            heard.take(&mut checker, &seen(cursor, kind, properties));
        }
        heard.judge_early();
        heard.violations
    }

    #[test]
    fn a_deleted_child_may_lack_its_idle_after_a_reconnection() {
        let idle = ("session.idle".to_owned(), json!({ "sessionID": "ses_parent" }));
        let mut missed = vec![status("ses_parent", "idle"), idle];
        assert_eq!(follow(&missed).len(), 1, "a child that exists has no excuse");
        missed.push(about("session.deleted", "ses_child", Some("ses_parent")));
        assert_eq!(follow(&missed), []);
    }
}
