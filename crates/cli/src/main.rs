//! The program `baton`: its commands, and the composition of the engine.

mod age;
mod args;
mod commands;
mod environment;
mod exit;
#[cfg(target_os = "linux")]
mod handover;
mod logging;
mod signals;
mod terminal;
mod wiring;

use std::{process::ExitCode, time::Duration};

use clap::Parser;

use args::{Args, Command};
use exit::{Exit, Failure};

/// Longest time that threads blocked on a file or a terminal may delay the exit.
const LINGER: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(failure) = secure(&args.command) {
        terminal::complain(&failure);
        return failure.exit.into();
    }
    let ended = run(args).unwrap_or_else(|failure| {
        terminal::complain(&failure);
        failure.exit
    });
    ended.into()
}

/// Protects the keys of commands that hold them for a long time or run other programs.
#[cfg(target_os = "linux")]
fn secure(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Serve(_) | Command::Run(_) | Command::Channels(_) => handover::secure(),
        Command::Check(_)
        | Command::Agents(_)
        | Command::Models(_)
        | Command::Sessions(_)
        | Command::Trust(_)
        | Command::Nodes(_)
        | Command::Migrate(_)
        | Command::Completions(_)
        | Command::Openapi => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn secure(_: &Command) -> Result<(), Failure> {
    Ok(())
}

fn run(args: Args) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::error(format!("cannot start the async runtime: {error}")))?;
    let ended = runtime.block_on(async {
        match args.command {
            Command::Serve(options) => Box::pin(commands::serve::serve(options)).await,
            Command::Run(options) => Box::pin(commands::run::run(options)).await,
            Command::Check(options) => Box::pin(commands::check::check(options)).await,
            Command::Channels(options) => Box::pin(commands::channels::channels(options)).await,
            Command::Agents(options) => commands::agents::agents(options).await,
            Command::Trust(options) => commands::trust::trust(&options).await,
            Command::Models(options) => Box::pin(commands::models::models(options)).await,
            Command::Sessions(options) => Box::pin(commands::sessions::sessions(options)).await,
            Command::Nodes(options) => commands::nodes::nodes(options).await,
            Command::Migrate(options) => Box::pin(commands::migrate::migrate(options)).await,
            Command::Completions(options) => commands::completions::completions(options),
            Command::Openapi => commands::openapi::openapi(),
        }
    });
    runtime.shutdown_timeout(LINGER);
    ended
}
