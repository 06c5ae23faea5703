//! Connections for reading: a few, opened when they are needed and kept for the next query.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use engine::ports::Error;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};
use tokio_postgres::Client;

use super::{
    connect::Target,
    failure::{self, Fault},
};

/// Number of connections.
const CONNECTIONS: usize = 4;

/// Number of connections that page reads of long listings may use at once.
const BULK: usize = CONNECTIONS / 2;

/// Time for a query; the server cancels it earlier.
const QUERY: Duration = Duration::from_secs(35);

/// Time that a query waits for a connection.
const WAIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Readers {
    target: Target,
    idle: Mutex<Vec<Client>>,
    places: Semaphore,
    /// Long listings take turns, so that a short query finds a free connection.
    bulk: Semaphore,
}

/// A connection for one query.
pub(super) struct Lease<'a> {
    readers: &'a Readers,
    pub(super) client: Client,
    _place: SemaphorePermit<'a>,
    _turn: Option<SemaphorePermit<'a>>,
}

impl Readers {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            idle: Mutex::default(),
            places: Semaphore::new(CONNECTIONS),
            bulk: Semaphore::new(BULK),
        }
    }

    /// Takes a connection; `bulk` is true for one of many reads of a long listing.
    pub(super) async fn take(&self, bulk: bool) -> Result<Lease<'_>, Error> {
        let turn = if bulk { Some(self.wait(&self.bulk).await?) } else { None };
        let place = self.wait(&self.places).await?;
        let known = self.pop();
        let client = match known {
            Some(client) => client,
            None => self.target.reader().await.map_err(|fault| self.failed(&fault))?,
        };
        Ok(Lease { readers: self, client, _place: place, _turn: turn })
    }

    async fn wait<'a>(&'a self, places: &'a Semaphore) -> Result<SemaphorePermit<'a>, Error> {
        match timeout(WAIT, places.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(failure::closed(&self.target.server)),
            Err(_) => Err(self.failed(&Fault::Late)),
        }
    }

    /// A connection that the server has not closed.
    fn pop(&self) -> Option<Client> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|client| !client.is_closed());
        idle.pop()
    }

    fn failed(&self, fault: &Fault) -> Error {
        failure::failed(&self.target.server, "reading from", fault)
    }

    /// Closes the connections; later queries fail.
    pub(super) fn close(&self) {
        self.bulk.close();
        self.places.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Lease<'_> {
    /// Waits for the answer of a query on this connection, which is closed if the query is still running.
    pub(super) async fn answer<T>(&self, query: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        timeout(QUERY, query).await.unwrap_or(Err(Fault::Late))
    }

    /// Gives the connection back, unless it has failed.
    pub(super) fn finish<T>(self, answer: Result<T, Fault>) -> Result<T, Error> {
        let readers = self.readers;
        match answer {
            Err(fault) if fault.is_lost() => Err(readers.failed(&fault)),
            answer => {
                if !readers.places.is_closed() {
                    readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(self.client);
                }
                answer.map_err(|fault| readers.failed(&fault))
            }
        }
    }
}
