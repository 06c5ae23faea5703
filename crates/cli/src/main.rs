//! The program `baton`: its commands, and the one place where concrete types are put together.

mod args;
mod commands;
mod environment;
mod exit;
mod logging;
mod signals;
mod terminal;
mod wiring;

use std::{process::ExitCode, time::Duration};

use clap::Parser;

use args::{Args, Command};
use exit::{Exit, Failure};

/// How long threads that still wait for a file or a terminal may hold up the end of the program.
const LINGER: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let args = Args::parse();
    let ended = run(args).unwrap_or_else(|failure| {
        terminal::complain(&failure);
        failure.exit
    });
    ended.into()
}

fn run(args: Args) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::error(format!("the program could not start: {error}")))?;
    let ended = runtime.block_on(async {
        match args.command {
            Command::Serve(options) => Box::pin(commands::serve::serve(options)).await,
            Command::Run(options) => Box::pin(commands::run::run(options)).await,
            Command::Check(options) => Box::pin(commands::check::check(options)).await,
            Command::Channels(options) => Box::pin(commands::channels::channels(options)).await,
            Command::Agents(options) => commands::agents::agents(options).await,
            Command::Trust(options) => commands::trust::trust(&options).await,
            Command::Openapi => commands::openapi::openapi(),
        }
    });
    runtime.shutdown_timeout(LINGER);
    ended
}
