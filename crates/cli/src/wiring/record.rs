//! The store that keeps the sessions: a file in the data directory, or a Postgres database.

use std::sync::Arc;

use engine::{
    fleet::Identity,
    ports::{Error, Log, Observer, Outbox, Reads},
};
use store::{
    files::Places,
    postgres::{self, Postgres},
    sqlite::{self, OpenError, Reservation, Sqlite},
    stats::Stats,
};

use super::{Unavailable, address, node::Joined};
use crate::{
    args::Engine as Options,
    environment,
    exit::{Failure, chain},
};

/// An open store.
#[derive(Debug)]
pub(crate) enum Record {
    File(Arc<Sqlite>),
    /// The reservation keeps a second server out of the data directory.
    Database(Arc<Postgres>, #[expect(dead_code, reason = "held until the store is dropped")] Reservation),
}

impl Record {
    /// Opens the database of `--store` or `BATON_STORE`, or the file in the data directory.
    pub(super) async fn open(
        options: &Options,
        places: &Places,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, Unavailable> {
        let Some(url) = url(options) else {
            let opened = Sqlite::open(&places.database(), sqlite::Options::default(), observer);
            return opened.map(Self::File).map_err(|error| unavailable(places, &error));
        };
        let reservation = reserve(places)?;
        let opened = Box::pin(Postgres::open(&url, postgres::Options::default(), observer)).await;
        let opened = opened.map_err(|error| Failure::usage(chain(&error)))?;
        tracing::info!(server = %opened.server(), "the sessions are in a Postgres database");
        Ok(Self::Database(opened, reservation))
    }

    /// Opens the database for this process as a node.
    pub(super) async fn open_node(joined: Joined, observer: Arc<dyn Observer>) -> Result<Self, Failure> {
        let Joined { member, url, reservation } = joined;
        let Some(identity) = member.identity() else {
            return Err(Failure::lost("the other nodes have declared this node dead while it started"));
        };
        let options = postgres::Options::default();
        let opened = Box::pin(Postgres::open_node(&url, &identity, options, observer)).await;
        let opened = opened.map_err(|error| Failure::usage(chain(&error)))?;
        let Identity { node, incarnation } = identity;
        tracing::info!(server = %opened.server(), node, incarnation, "this server is a node of a fleet");
        Ok(Self::Database(opened, reservation))
    }

    /// The position after which the log publishes commits; only of interest to a node.
    pub(super) fn first(&self) -> u64 {
        match self {
            Self::File(_) => 0,
            Self::Database(store, _) => store.first(),
        }
    }

    pub(super) fn log(&self) -> Arc<dyn Log> {
        match self {
            Self::File(store) => Arc::clone(store) as _,
            Self::Database(store, _) => Arc::clone(store) as _,
        }
    }

    pub(super) fn reads(&self) -> Arc<dyn Reads> {
        match self {
            Self::File(store) => Arc::clone(store) as _,
            Self::Database(store, _) => Arc::clone(store) as _,
        }
    }

    pub(super) fn outbox(&self) -> Arc<dyn Outbox> {
        match self {
            Self::File(store) => Arc::clone(store) as _,
            Self::Database(store, _) => Arc::clone(store) as _,
        }
    }

    pub(super) fn stats(&self) -> Arc<Stats> {
        match self {
            Self::File(store) => store.stats(),
            Self::Database(store, _) => store.stats(),
        }
    }

    pub(super) async fn close(&self) -> Result<(), Error> {
        match self {
            Self::File(store) => store.close().await,
            Self::Database(store, _) => store.close().await,
        }
    }
}

/// The database of `--store` or `BATON_STORE`.
pub(super) fn url(options: &Options) -> Option<String> {
    let url = options.store.as_ref().map(|url| url.0.clone());
    url.or_else(|| environment::read(environment::STORE))
}

/// Keeps a second server out of the data directory.
pub(super) fn reserve(places: &Places) -> Result<Reservation, Unavailable> {
    Reservation::take(&places.database()).map_err(|error| unavailable(places, &error))
}

fn unavailable(places: &Places, error: &OpenError) -> Unavailable {
    let failure = Failure::usage(chain(error)).hint("--data-dir DIR keeps another set of sessions");
    match error {
        OpenError::Locked { .. } => Unavailable::Owned { address: address(places), failure },
        _ => Unavailable::Broken(failure),
    }
}
