//! Every recurring chore of this repository, by name: `cargo xtask <chore>`.
//!
//! Continuous integration and developers use the same names, so there is no second list of commands to keep in
//! step.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool: it starts programs, reads the environment and talks to the terminal, \
              and none of it is part of the server"
)]

mod campaign;
mod chores;
mod command;
mod e2e;
mod openapi;
mod peers;
mod repo;
mod share;
mod spelling;
mod stages;
mod tidy;
mod web;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand};

use crate::repo::Repo;
use crate::stages::Stage;

/// Chores of the Baton repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Run all stages of `test`, then check spelling, documentation, `OpenAPI` drift and dependency policy
    Ci(Selection),
    /// Check formatting, run lints, tests, doctests, tidy and the end-to-end tests
    Test(Selection),
    /// Format all Rust code
    Fmt {
        /// Fail on unformatted code instead of rewriting it
        #[arg(long)]
        check: bool,
    },
    /// Run Clippy on the whole workspace, with warnings denied
    Lint,
    /// Check rules that no compiler checks: the arrows between rooms, file sizes, leftovers
    Tidy,
    /// Build the release binary and measure it; `bench compare` and `bench web` measure OpenCode beside it
    Bench {
        /// Passed on to the benchmark program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Repeat crashes, power cuts, full disks, clock jumps and lost connections against the server
    Campaign {
        /// Passed on to the campaigns: names, `--seed N`, `--long`, `--minutes N`; `--release` tests a release build
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Check the types of the web page and run the tests of its core (the browser tests are in `e2e/`)
    Web,
    /// Run the tests in `e2e/` against a freshly built binary
    E2e {
        /// Passed on to `node --test`, for instance a file name
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run the tests in `e2e/peers/` with OpenCode itself, sealed off from the network (Linux)
    Peers {
        /// Passed on to `node --test`, for instance a file name
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Write `docs/openapi.json` from the server's route table
    Openapi {
        /// Fail when the committed document differs instead of rewriting it
        #[arg(long)]
        check: bool,
        /// Only print how many of OpenCode's operations the committed document contains
        #[arg(long, conflicts_with = "check")]
        share: bool,
    },
    /// Check the spelling of sources and documents with `typos`
    Spelling,
    /// Check dependencies against `deny.toml` (needs cargo-deny)
    Deny,
}

#[derive(Debug, Args)]
struct Selection {
    /// Leave out everything that needs Node
    #[arg(long)]
    rust_only: bool,
    /// Leave out a stage; may be repeated or given as a comma-separated list
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STAGE")]
    skip: Vec<Stage>,
    /// Run the remaining stages after one has failed
    #[arg(long)]
    keep_going: bool,
}

impl Selection {
    fn pick(&self, from: &[Stage]) -> Vec<Stage> {
        from.iter()
            .copied()
            .filter(|stage| !self.skip.contains(stage))
            .filter(|stage| !(self.rust_only && stage.needs_node()))
            .collect()
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    let repo = Repo::open()?;
    match chore {
        Chore::Ci(selection) => stages::run("ci", &repo, &selection.pick(stages::CI), selection.keep_going),
        Chore::Test(selection) => {
            stages::run("test", &repo, &selection.pick(stages::TEST), selection.keep_going)
        }
        Chore::Fmt { check } => chores::fmt(&repo, check),
        Chore::Lint => chores::lint(&repo),
        Chore::Tidy => tidy::run(&repo),
        Chore::Bench { args } => chores::bench(&repo, &args),
        Chore::Campaign { args } => campaign::run(&repo, &args),
        Chore::Web => web::check(&repo),
        Chore::E2e { args } => e2e::run(&repo, &args),
        Chore::Openapi { share: true, .. } => share::print(&repo),
        Chore::Openapi { check, .. } => openapi::run(&repo, check),
        Chore::Peers { args } => peers::run(&repo, &args),
        Chore::Spelling => {
            ensure!(spelling::check(&repo)?, "typos is not installed; get it with `cargo install typos-cli`");
            Ok(())
        }
        Chore::Deny => chores::deny(&repo),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn selection(args: &[&str]) -> Selection {
        let cli = Cli::try_parse_from([&["xtask", "test"], args].concat()).unwrap();
        match cli.chore {
            Chore::Test(selection) => selection,
            other => panic!("parsed as {other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn rust_only_leaves_out_the_stages_that_need_node_and_nothing_else() {
        let picked = selection(&["--rust-only"]).pick(stages::TEST);
        assert!(!picked.contains(&Stage::E2e) && !picked.contains(&Stage::Web));
        assert_eq!(picked.len(), stages::TEST.len() - 2);
    }

    #[test]
    fn skip_takes_a_list() {
        let picked = selection(&["--skip", "lint,web,e2e"]).pick(stages::TEST);
        assert_eq!(picked, [Stage::Fmt, Stage::Tests, Stage::Doctests, Stage::Tidy]);
    }

    #[test]
    fn ci_contains_everything_test_does() {
        assert!(stages::TEST.iter().all(|stage| stages::CI.contains(stage)));
    }
}
