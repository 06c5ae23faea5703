//! Terminals that clients have opened. Each belongs to a directory and lives until it is removed or the server
//! stops. One whose program has ended may be replaced by a new one.

mod tickets;

use std::sync::Arc;

use engine::{
    Sessions,
    bus::Place,
    ports::{Clock, Random, SystemClock, SystemRandom},
};
use parking_lot::Mutex;
use protocol::{
    EventBody, Extra, PtyId, Rest,
    id::{Ids, RANDOM_BYTES},
    pty::{Pty, PtyStatus},
    wire_error::{TaggedError, WireError},
};
use serde_json::json;
use tokio::sync::Semaphore;
use workspace::{process::Exit, pty::Terminal};

use crate::{Error, error::Fault};

pub use tickets::{MAX_TICKETS, TICKET, Tickets};

/// Most terminals in all directories together.
pub const MAX_TERMINALS: usize = 32;
/// Most connections to one terminal.
pub const MAX_VIEWERS: usize = 16;

/// Added to the number of a signal to form the exit code of a program that the signal ended, as in shells.
const BY_SIGNAL: i32 = 128;
/// SIGHUP, for a terminal that was closed.
const HANG_UP: i32 = 1;

/// Registry of all terminals. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Terminals {
    inner: Arc<Mutex<Inner>>,
    tickets: Tickets,
}

#[derive(Debug, Default)]
struct Inner {
    entries: Vec<Entry>,
    ids: Ids,
    closing: bool,
}

/// A terminal with its description.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    pub(crate) terminal: Arc<Terminal>,
    /// One permit per connection.
    pub(crate) viewers: Arc<Semaphore>,
    /// Description as of the opening or last renaming.
    info: Pty,
}

impl Entry {
    /// Current description, with status and exit code.
    pub(crate) fn info(&self) -> Pty {
        let exit_code = self.terminal.screen().exit().map(code);
        let status = if exit_code.is_some() { PtyStatus::Exited } else { PtyStatus::Running };
        Pty { status, exit_code, ..self.info.clone() }
    }
}

/// Title and command of a new terminal.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) title: Option<String>,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) cwd: String,
}

impl Terminals {
    /// Tickets for WebSockets of terminals.
    pub fn tickets(&self) -> Tickets {
        self.tickets.clone()
    }

    /// Opens a terminal and publishes an event.
    pub(crate) fn open(
        &self,
        sessions: &Sessions,
        place: Place,
        order: Order,
        start: impl FnOnce() -> Result<Terminal, Error>,
    ) -> Result<Pty, Error> {
        let mut inner = self.inner.lock();
        let retired = inner.make_room()?;
        let terminal = start()?;
        let id = inner.id();
        let title = order.title.unwrap_or_else(|| format!("Terminal {}", tail(&id)));
        let info = Pty {
            id,
            title,
            command: order.command,
            args: order.args,
            cwd: order.cwd,
            status: PtyStatus::Running,
            pid: terminal.id(),
            exit_code: None,
        };
        let entry = Entry {
            place,
            terminal: Arc::new(terminal),
            viewers: Arc::new(Semaphore::new(MAX_VIEWERS)),
            info: info.clone(),
        };
        inner.entries.push(entry.clone());
        drop(inner);
        if let Some(retired) = retired {
            announce_removal(sessions, &retired);
        }
        sessions.publish(Some(&entry.place), EventBody::PtyCreated(with_info(&info)));
        follow(sessions.clone(), &entry);
        Ok(info)
    }

    /// Terminals of a directory, oldest first.
    pub(crate) fn list(&self, directory: &str) -> Vec<Pty> {
        let inner = self.inner.lock();
        inner.entries.iter().filter(|entry| *entry.place.directory == *directory).map(Entry::info).collect()
    }

    pub(crate) fn find(&self, directory: &str, id: &PtyId) -> Result<Entry, Error> {
        let inner = self.inner.lock();
        inner.position(directory, id).and_then(|at| inner.entries.get(at).cloned()).ok_or_else(|| gone(id))
    }

    /// Renames a terminal and publishes an event.
    pub(crate) fn rename(
        &self,
        sessions: &Sessions,
        directory: &str,
        id: &PtyId,
        title: Option<String>,
    ) -> Result<Pty, Error> {
        let mut inner = self.inner.lock();
        let at = inner.position(directory, id);
        let entry = at.and_then(|at| inner.entries.get_mut(at)).ok_or_else(|| gone(id))?;
        entry.info.title = title.unwrap_or_else(|| entry.info.title.clone());
        let (info, place) = (entry.info(), entry.place.clone());
        drop(inner);
        sessions.publish(Some(&place), EventBody::PtyUpdated(with_info(&info)));
        Ok(info)
    }

    /// Ends a terminal's program with all its descendants, and removes the terminal.
    pub(crate) async fn remove(&self, sessions: &Sessions, directory: &str, id: &PtyId) -> Result<(), Error> {
        let removed = {
            let mut inner = self.inner.lock();
            inner.position(directory, id).map(|at| inner.entries.remove(at))
        };
        let entry = removed.ok_or_else(|| gone(id))?;
        entry.terminal.stop().await;
        announce_removal(sessions, &entry);
        Ok(())
    }

    /// Ends all terminals; no new one can be opened.
    pub async fn close(&self) {
        let entries = {
            let mut inner = self.inner.lock();
            inner.closing = true;
            std::mem::take(&mut inner.entries)
        };
        futures::future::join_all(entries.iter().map(|entry| entry.terminal.stop())).await;
    }
}

impl Inner {
    fn id(&mut self) -> PtyId {
        let mut random = [0; RANDOM_BYTES];
        SystemRandom.fill(&mut random);
        self.ids.next(SystemClock.now(), random)
    }

    fn position(&self, directory: &str, id: &PtyId) -> Option<usize> {
        self.entries.iter().position(|entry| *entry.place.directory == *directory && entry.info.id == *id)
    }

    /// Ensures room for one more terminal, if need be by removing the oldest whose program has ended.
    fn make_room(&mut self) -> Result<Option<Entry>, Error> {
        if self.closing {
            return Err(engine::Error::Closing.into());
        }
        if self.entries.len() < MAX_TERMINALS {
            return Ok(None);
        }
        let ended = self.entries.iter().position(|entry| entry.terminal.screen().exit().is_some());
        let Some(at) = ended else {
            let message = format!("{MAX_TERMINALS} terminals are open, which is the limit; close one first.");
            return Err(Error::plain(Fault::Overloaded, message));
        };
        Ok(Some(self.entries.remove(at)))
    }
}

/// Publishes an event when a terminal's program ends. Holds only the screen, so that the terminal can be
/// dropped earlier.
fn follow(sessions: Sessions, entry: &Entry) {
    let (mut screen, id, place) = (entry.terminal.screen(), entry.info.id.clone(), entry.place.clone());
    tokio::spawn(async move {
        if let Some(exit) = screen.ended().await {
            let properties = fields([("id", json!(id)), ("exitCode", json!(code(exit)))]);
            sessions.publish(Some(&place), EventBody::PtyExited(properties));
        }
    });
}

fn announce_removal(sessions: &Sessions, entry: &Entry) {
    let properties = fields([("id", json!(entry.info.id))]);
    sessions.publish(Some(&entry.place), EventBody::PtyDeleted(properties));
}

fn with_info(info: &Pty) -> Extra {
    fields([("info", json!(info))])
}

fn fields<const N: usize>(fields: [(&str, serde_json::Value); N]) -> Extra {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn code(exit: Exit) -> u32 {
    let code = match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => BY_SIGNAL + signal,
        Exit::Cancelled | Exit::DeadlinePassed => BY_SIGNAL + HANG_UP,
    };
    u32::try_from(code).unwrap_or_default()
}

/// The last four characters, which differ between terminals.
fn tail(id: &PtyId) -> &str {
    let text = id.as_str();
    text.get(text.len().saturating_sub(4)..).unwrap_or(text)
}

fn gone(id: &PtyId) -> Error {
    let message = format!("There is no terminal {id} in this directory.");
    let body = TaggedError::PtyNotFound { pty_id: id.to_string(), message, extra: Rest::NONE };
    Error::new(Fault::PtyGone, WireError::Tagged(body))
}
