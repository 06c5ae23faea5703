//! `baton completions`: prints a script that completes commands and options in a shell.

use clap::CommandFactory as _;

use crate::{
    args::{Args, Completions},
    exit::{Exit, Failure},
    terminal,
};

pub(crate) fn completions(options: Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Args::command(), "baton", &mut script);
    let script = String::from_utf8_lossy(&script);
    terminal::write(&script).map_err(|error| Failure::error(format!("cannot print the script: {error}")))?;
    Ok(Exit::Completed)
}
