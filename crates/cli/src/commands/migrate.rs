//! `baton migrate`: copies the sessions of a data directory into a Postgres database.

use store::migrate::Copied;

use crate::{
    args::Migrate,
    environment,
    exit::{Exit, Failure, chain},
    terminal, wiring,
};

pub(crate) async fn migrate(options: Migrate) -> Result<Exit, Failure> {
    let from = match options.from {
        Some(from) => from,
        None => wiring::places_in(options.data_dir.as_deref())?.database(),
    };
    let url = options.store.map(|url| url.0).or_else(|| environment::read(environment::STORE));
    let url = url.ok_or_else(|| {
        Failure::usage("no database is named")
            .hint("set --store or BATON_STORE to postgres://USER@HOST/DATABASE")
    })?;
    let copied = store::migrate::migrate(&from, &url).await;
    let Copied { sessions, messages, events } = copied.map_err(|error| Failure::usage(chain(&error)))?;
    terminal::line(&format!("copied sessions: {sessions}, messages: {messages}, events: {events}"))
        .map_err(|error| Failure::error(error.to_string()))?;
    Ok(Exit::Completed)
}
