//! External programs as peers of a freshly built Baton: OpenCode's terminal interface, its `run` and its server
//! beside it, Claude Code and Codex behind it.
//!
//! The packages come from the npm registry, are kept under the target directory, and run in a namespace without any
//! network but loopback, so that third-party programs cannot call anything outside.

mod install;
mod sealed;

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::{self, program};
use crate::repo::Repo;
use crate::{e2e, peers::sealed::Sealed};

/// Required programs, each with the argument that checks for it and the reason why it is needed.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("tmux", "-V", "the tests read the terminal interface through it"),
    ("ip", "-V", "it switches loopback on; it is in the package iproute2"),
    ("unshare", "--version", "it takes the network away; it is in the package util-linux"),
    ("git", "--version", "the test project is a repository"),
];

/// Installs the peers, builds the server and runs the tests in `e2e/peers` without a network.
pub(crate) fn run(repo: &Repo, args: &[String]) -> Result<()> {
    let tests = repo.root().join("e2e/peers");
    let mut node = prepare(repo)?;
    let (baton, platforms) = repo.build_for_tests("platforms")?;
    // One file at a time: a terminal interface that shares a core with three others draws slowly.
    node.args(["--test", "--test-concurrency=1", "--test-reporter=spec"]);
    node.args(e2e::chosen(&tests, args)?);
    node.env("BATON_BIN", baton).env("PLATFORMS_BIN", platforms);
    command::run(&mut node).context("see the screens and streams above")
}

/// Runs a benchmark of `e2e/peers/bench` with the release binary, without a network. With `--alone` it needs no peers.
pub(crate) fn bench(repo: &Repo, name: &str, args: &[String]) -> Result<()> {
    let alone = args.iter().any(|arg| arg == "--alone");
    let mut node = if alone { seal(repo)?.0 } else { prepare(repo)? };
    let baton = repo.build_release()?;
    command::run(node.arg(format!("bench/{name}.mjs")).args(args).env("BATON_BIN", baton))
}

/// Checks the programs and installs the packages of the tests. Returns the command of a Node without a network.
fn seal(repo: &Repo) -> Result<(Command, Sealed)> {
    for (name, question, reason) in PROGRAMS {
        let present = command::present(program(name, repo.root()).arg(question));
        ensure!(present, "{name} is not installed: {reason}");
    }
    let sealed = Sealed::find(repo.root())?;
    e2e::install(&repo.root().join("e2e"))?;
    Ok((sealed.program("node", &repo.root().join("e2e/peers")), sealed))
}

/// Installs the peers. Returns the command of a Node without a network that knows where they are.
fn prepare(repo: &Repo) -> Result<Command> {
    let tests = repo.root().join("e2e/peers");
    let (mut node, sealed) = seal(repo)?;
    let find = |package| install::find(package, &tests, &repo.target().join("peers"), &sealed);
    let (peer, claude) = (find(&install::OPENCODE)?, find(&install::CLAUDE)?);
    let codex = find(&install::CODEX)?;
    println!(
        "    opencode {}, claude {} and codex {} are installed",
        peer.version, claude.version, codex.version
    );
    node.env("OPENCODE_BIN", &peer.program).env("OPENCODE_VERSION", &peer.version);
    node.env("CLAUDE_BIN", &claude.program).env("CODEX_BIN", &codex.program);
    Ok(node)
}
