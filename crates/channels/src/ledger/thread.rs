//! The thread that uses the file. What is asked for at the same time shares a commit.

use std::{io, sync::mpsc, thread};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::Error;

/// So many may share a commit.
const SHARED: usize = 128;

/// Something to do with the tables, unless it is known that nothing can be done; what it returns is called with what
/// became of the commit.
pub(super) type Job = Box<dyn FnOnce(Result<&Connection, Error>) -> After + Send>;
type After = Box<dyn FnOnce(Result<(), Error>)>;

/// Work whose result is told after the commit.
pub(super) fn job<T: Send + 'static>(
    work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    reply: oneshot::Sender<Result<T, Error>>,
) -> Job {
    Box::new(move |connection| {
        let result = connection.and_then(|connection| apart(connection, work));
        // Whoever asked may have gone.
        Box::new(move |committed| drop(reply.send(result.and_then(|result| committed.map(|()| result)))))
    })
}

/// Undoes what one job did if it fails, and nothing of the others'.
fn apart<T>(connection: &Connection, work: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
    connection.execute_batch("SAVEPOINT job")?;
    let result = work(connection);
    let end = if result.is_ok() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" };
    let ended = connection.execute_batch(end);
    if ended.is_err() && !connection.is_autocommit() {
        // What cannot be undone alone is undone with the rest.
        let _ = connection.execute_batch("ROLLBACK");
    }
    // Why it failed matters more than that there was nothing left to undo.
    result.and_then(|result| Ok(ended.map(|()| result)?))
}

/// Starts the thread. It ends when nobody can ask any more.
pub(super) fn start(connection: Connection) -> io::Result<mpsc::Sender<Job>> {
    let (jobs, waiting) = mpsc::channel::<Job>();
    thread::Builder::new().name("channels-ledger".to_owned()).spawn(move || {
        while let Ok(first) = waiting.recv() {
            share(&connection, std::iter::once(first).chain(waiting.try_iter()).take(SHARED));
        }
    })?;
    Ok(jobs)
}

/// Does jobs in one transaction. A failure such as a full disk undoes all of it at once, and then what comes after must
/// not be done at all: outside of the transaction it would stay although its failure is told.
fn share(connection: &Connection, jobs: impl Iterator<Item = Job>) {
    let mut begun = connection.execute_batch("BEGIN IMMEDIATE").map_err(Error::from);
    let mut after = Vec::new();
    for job in jobs {
        after.push(job(begun.clone().map(|()| connection)));
        if begun.is_ok() && connection.is_autocommit() {
            begun = Err(Error::Undone);
        }
    }
    let committed = begun.and_then(|()| Ok(connection.execute_batch("COMMIT")?));
    if committed.is_err() && !connection.is_autocommit() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    for tell in after {
        tell(committed.clone());
    }
}
