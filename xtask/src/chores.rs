//! The chores that are one or two commands each.

use anyhow::{Result, ensure};

use crate::command::{cargo, present, run};
use crate::peers;
use crate::repo::Repo;

/// Formats the code, or only checks that it is formatted.
pub(crate) fn fmt(repo: &Repo, check: bool) -> Result<()> {
    let mut command = cargo(repo.root());
    command.args(["fmt", "--all"]);
    if check {
        command.arg("--check");
    }
    run(&mut command)
}

/// Runs Clippy with every warning as an error.
pub(crate) fn lint(repo: &Repo) -> Result<()> {
    run(cargo(repo.root()).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Runs unit and integration tests, with nextest if it is installed. Nextest runs each test in its own process and
/// kills tests that hang.
pub(crate) fn tests(repo: &Repo) -> Result<()> {
    if present(cargo(repo.root()).args(["nextest", "--version"])) {
        return run(cargo(repo.root()).args(["nextest", "run", "--workspace", "--profile", "ci"]));
    }
    println!("    cargo-nextest is not installed: using `cargo test`");
    run(cargo(repo.root()).args(["test", "--workspace", "--all-targets", "--no-fail-fast"]))
}

/// Runs the examples in documentation, which nextest does not run.
pub(crate) fn doctests(repo: &Repo) -> Result<()> {
    run(cargo(repo.root()).args(["test", "--workspace", "--doc"]))
}

/// Builds the documentation and fails on a broken link.
pub(crate) fn docs(repo: &Repo) -> Result<()> {
    run(cargo(repo.root())
        .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
        // Private items are documented, too, so links to them work.
        .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))
}

/// Benchmarks in `e2e/peers/bench`, which share the world of the peers.
const PEER_BENCHES: [&str; 3] = ["web", "compare", "growth"];

/// Benchmarks the optimised binary; the figures of a debug build would mean nothing.
pub(crate) fn bench(repo: &Repo, args: &[String]) -> Result<()> {
    if let [name, rest @ ..] = args
        && PEER_BENCHES.contains(&name.as_str())
    {
        return peers::bench(repo, name, rest);
    }
    let baton = repo.build_release()?;
    run(cargo(repo.root())
        .args(["run", "--release", "-p", "testkit", "--bin", "bench", "--"])
        .args(args)
        .env("BATON_BIN", baton))
}

/// Returns true if `cargo deny` is installed.
pub(crate) fn has_deny(repo: &Repo) -> bool {
    present(cargo(repo.root()).args(["deny", "--version"]))
}

/// Checks bans, licences and sources. Advisories are left out: they need a database from the network, so the same
/// commit could pass today and fail tomorrow.
pub(crate) fn deny(repo: &Repo) -> Result<()> {
    ensure!(has_deny(repo), "cargo-deny is not installed; get it with `cargo install --locked cargo-deny`");
    run(cargo(repo.root()).args(["deny", "check", "bans", "licenses", "sources"]))
}
