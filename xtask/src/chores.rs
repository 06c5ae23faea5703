//! The chores that are one or two commands each.

use anyhow::{Result, ensure};

use crate::command::{cargo, present, run};
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

/// Clippy with every warning an error.
pub(crate) fn lint(repo: &Repo) -> Result<()> {
    run(cargo(repo.root()).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Unit and integration tests. Nextest runs each test in its own process and kills the ones that hang, but
/// a fresh machine need not have it.
pub(crate) fn tests(repo: &Repo) -> Result<()> {
    if present(cargo(repo.root()).args(["nextest", "--version"])) {
        return run(cargo(repo.root()).args(["nextest", "run", "--workspace", "--profile", "ci"]));
    }
    println!("    cargo-nextest is not installed: using `cargo test`");
    run(cargo(repo.root()).args(["test", "--workspace", "--all-targets", "--no-fail-fast"]))
}

/// Examples in documentation, which nextest does not run.
pub(crate) fn doctests(repo: &Repo) -> Result<()> {
    run(cargo(repo.root()).args(["test", "--workspace", "--doc"]))
}

/// The documentation builds without a broken link.
pub(crate) fn docs(repo: &Repo) -> Result<()> {
    run(cargo(repo.root())
        .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}

/// Benchmarks the optimised binary; a debug build would measure the compiler's mood.
pub(crate) fn bench(repo: &Repo, args: &[String]) -> Result<()> {
    let baton = repo.build_release()?;
    run(cargo(repo.root())
        .args(["run", "--release", "-p", "testkit", "--bin", "bench", "--"])
        .args(args)
        .env("BATON_BIN", baton))
}

/// Whether `cargo deny` can be run here.
pub(crate) fn has_deny(repo: &Repo) -> bool {
    present(cargo(repo.root()).args(["deny", "--version"]))
}

/// Bans, licences and sources. Advisories are left out: they need a database from the network, so the same
/// commit could pass today and fail tomorrow.
pub(crate) fn deny(repo: &Repo) -> Result<()> {
    ensure!(has_deny(repo), "cargo-deny is not installed; get it with `cargo install --locked cargo-deny`");
    run(cargo(repo.root()).args(["deny", "check", "bans", "licenses", "sources"]))
}
