//! Tests of the Postgres store on a real server.

mod deaths;
mod fleet;
mod nodes;
mod opening;
mod order;
mod outages;
mod proxy;
mod tail;

use std::sync::Arc;

use tokio_postgres::{Client, NoTls};

use super::{Options, Postgres};
use crate::contract::{Databases, Seen};

/// A store in the database at `url`, with the events that its observer sees.
async fn open(url: &str, options: Options) -> (Arc<Postgres>, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    (Postgres::open(url, options, seen.clone()).await.unwrap(), seen)
}

/// A plain connection to the database at `url`.
async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}
