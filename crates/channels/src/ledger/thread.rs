//! The thread that uses the file. What is asked for at the same time shares a commit.

use std::{io, sync::mpsc, thread};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::Error;

/// So many may share a commit.
const SHARED: usize = 128;

/// Something to do with the tables; what it returns is called with what became of the commit.
pub(super) type Job = Box<dyn FnOnce(&Connection) -> After + Send>;
type After = Box<dyn FnOnce(Result<(), Error>)>;

/// Work whose result is told after the commit.
pub(super) fn job<T: Send + 'static>(
    work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    reply: oneshot::Sender<Result<T, Error>>,
) -> Job {
    Box::new(move |connection| {
        let result = apart(connection, work);
        // Whoever asked may have gone.
        Box::new(move |committed| drop(reply.send(committed.and(result))))
    })
}

/// Undoes what one job did if it fails, and nothing of the others'.
fn apart<T>(connection: &Connection, work: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
    connection.execute_batch("SAVEPOINT job")?;
    let result = work(connection);
    let end = if result.is_ok() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" };
    connection.execute_batch(end)?;
    result
}

/// Starts the thread. It ends when nobody can ask any more.
pub(super) fn start(connection: Connection) -> io::Result<mpsc::Sender<Job>> {
    let (jobs, waiting) = mpsc::channel::<Job>();
    thread::Builder::new().name("channels-ledger".to_owned()).spawn(move || {
        while let Ok(first) = waiting.recv() {
            let begun = connection.execute_batch("BEGIN IMMEDIATE").map_err(Error::from);
            let jobs = std::iter::once(first).chain(waiting.try_iter()).take(SHARED);
            let after: Vec<After> = jobs.map(|job| job(&connection)).collect();
            let committed = begun.and_then(|()| Ok(connection.execute_batch("COMMIT")?));
            if committed.is_err() {
                // There may be nothing to undo.
                let _ = connection.execute_batch("ROLLBACK");
            }
            for tell in after {
                tell(committed.clone());
            }
        }
    })?;
    Ok(jobs)
}
