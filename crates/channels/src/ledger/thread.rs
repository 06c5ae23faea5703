//! The thread that uses the SQLite file. Concurrent jobs share a commit.

use std::{io, sync::mpsc, thread};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::Error;

/// Maximum number of jobs in one commit.
const SHARED: usize = 128;

/// A job on the tables. It receives an error instead of the connection if its transaction has already failed, and
/// returns a callback that receives the result of the commit.
pub(super) type Job = Box<dyn FnOnce(Result<&Connection, Error>) -> After + Send>;
type After = Box<dyn FnOnce(Result<(), Error>)>;

/// Makes a job that sends its result after the commit.
pub(super) fn job<T: Send + 'static>(
    work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    reply: oneshot::Sender<Result<T, Error>>,
) -> Job {
    Box::new(move |connection| {
        let result = connection.and_then(|connection| apart(connection, work));
        // The caller may have gone.
        Box::new(move |committed| drop(reply.send(result.and_then(|result| committed.map(|()| result)))))
    })
}

/// Runs one job in a savepoint: if it fails, only its own changes are rolled back.
fn apart<T>(connection: &Connection, work: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
    connection.execute_batch("SAVEPOINT job")?;
    let result = work(connection);
    let end = if result.is_ok() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" };
    let ended = connection.execute_batch(end);
    if ended.is_err() && !connection.is_autocommit() {
        // If the job cannot be rolled back alone, the whole transaction is.
        let _ = connection.execute_batch("ROLLBACK");
    }
    // The job's own error matters more than a failed rollback.
    result.and_then(|result| Ok(ended.map(|()| result)?))
}

/// Starts the thread. It ends when the last sender is dropped.
pub(super) fn start(connection: Connection) -> io::Result<mpsc::Sender<Job>> {
    let (jobs, waiting) = mpsc::channel::<Job>();
    thread::Builder::new().name("channels-ledger".to_owned()).spawn(move || {
        while let Ok(first) = waiting.recv() {
            share(&connection, std::iter::once(first).chain(waiting.try_iter()).take(SHARED));
        }
    })?;
    Ok(jobs)
}

/// Runs jobs in one transaction. A failure such as a full disk rolls back all of it at once; the remaining jobs
/// must then not run, because outside of the transaction their changes would persist although they are reported as
/// failed.
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
