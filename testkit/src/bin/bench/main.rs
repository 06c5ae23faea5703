//! `cargo xtask bench`: measures Baton's performance and prints a table.
//!
//! Every figure is measured from outside, against the release binary over loopback, with durability on. Figures are
//! for comparison; nothing here passes or fails.

#![allow(clippy::print_stdout, reason = "the table is the product")]

mod accept;
mod chats;
mod fan_out;
mod latency;
mod long_session;
mod plugins;
mod relay;
mod start;
mod table;
mod turns;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use table::Table;

#[tokio::main]
async fn main() -> Result<()> {
    if let (Some(relay::ARGUMENT), Some(target)) =
        (std::env::args().nth(1).as_deref(), std::env::args().nth(2))
    {
        return relay::run(&target).await;
    }
    #[expect(clippy::disallowed_methods, reason = "set by `cargo xtask bench`")]
    let program = std::env::var_os("BATON_BIN")
        .map(PathBuf::from)
        .context("BATON_BIN names no program; run `cargo xtask bench`, which builds one and sets it")?;
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let mut table = Table::default();
    if wanted("start") {
        start::measure(&program, &mut table).await?;
    }
    if wanted("accept") {
        accept::measure(&program, &mut table).await?;
    }
    if wanted("deltas") {
        fan_out::measure(&program, &mut table).await?;
    }
    if wanted("latency") {
        latency::measure(&program, &mut table).await?;
    }
    if wanted("turns") {
        turns::measure(&program, &mut table).await?;
    }
    if wanted("plugins") {
        let turns = std::env::args().nth(2).map_or(Ok(plugins::TURNS), |count| count.parse());
        plugins::measure(&program, &mut table, turns.context("the number of turns must be an integer")?)
            .await?;
    }
    if wanted("chats") {
        let chats = std::env::args().nth(2).map_or(Ok(chats::CHATS), |count| count.parse())?;
        chats::measure(&program, &mut table, chats).await?;
    }
    // It takes minutes and gigabytes, so it only runs when it is named.
    if only.as_deref() == Some("long-session") {
        let messages = std::env::args().nth(2).map_or(Ok(long_session::MESSAGES), |count| count.parse())?;
        long_session::measure(&program, &mut table, messages).await?;
    }
    print!("{table}");
    Ok(())
}
