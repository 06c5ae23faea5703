//! Runs several chores in a row: prints a header and the duration of each, and a summary at the end.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::repo::Repo;
use crate::{chores, e2e, openapi, spelling, tidy, web};

/// One part of `test` or `ci`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    Fmt,
    Lint,
    Tests,
    Doctests,
    Tidy,
    Web,
    E2e,
    Spelling,
    Docs,
    Openapi,
    Deny,
}

/// The stages of `cargo xtask test`.
pub(crate) const TEST: &[Stage] =
    &[Stage::Fmt, Stage::Lint, Stage::Tests, Stage::Doctests, Stage::Tidy, Stage::Web, Stage::E2e];

/// The stages of `cargo xtask ci`.
pub(crate) const CI: &[Stage] = &[
    Stage::Fmt,
    Stage::Lint,
    Stage::Tests,
    Stage::Doctests,
    Stage::Tidy,
    Stage::Web,
    Stage::E2e,
    Stage::Spelling,
    Stage::Docs,
    Stage::Openapi,
    Stage::Deny,
];

/// The result of a stage that did not fail.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Skipped(&'static str),
}

impl Stage {
    pub(crate) fn needs_node(self) -> bool {
        matches!(self, Self::Web | Self::E2e)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Lint => "lint",
            Self::Tests => "tests",
            Self::Doctests => "doctests",
            Self::Tidy => "tidy",
            Self::Web => "web",
            Self::E2e => "e2e",
            Self::Spelling => "spelling",
            Self::Docs => "docs",
            Self::Openapi => "openapi",
            Self::Deny => "deny",
        }
    }

    fn perform(self, repo: &Repo) -> Result<Outcome> {
        match self {
            Self::Fmt => chores::fmt(repo, true)?,
            Self::Lint => chores::lint(repo)?,
            Self::Tests => chores::tests(repo)?,
            Self::Doctests => chores::doctests(repo)?,
            Self::Tidy => tidy::run(repo)?,
            Self::Web => web::check(repo)?,
            Self::E2e => e2e::run(repo, &[])?,
            Self::Spelling if !spelling::check(repo)? => {
                return Ok(Outcome::Skipped("typos is not installed, and neither is Python with pip"));
            }
            Self::Spelling => {}
            Self::Docs => chores::docs(repo)?,
            Self::Openapi => openapi::run(repo, true)?,
            // Compiling cargo-deny takes longer than all other stages together, so a missing one is reported and
            // not fatal; `cargo xtask deny` on its own requires it.
            Self::Deny if !chores::has_deny(repo) => {
                return Ok(Outcome::Skipped("cargo-deny is not installed"));
            }
            Self::Deny => chores::deny(repo)?,
        }
        Ok(Outcome::Passed)
    }
}

/// Runs the stages in order and prints the summary; fails if any stage failed.
pub(crate) fn run(chore: &str, repo: &Repo, stages: &[Stage], keep_going: bool) -> Result<()> {
    let summary = run_each(chore, stages, keep_going, |stage| stage.perform(repo));
    if summary.failed.is_empty() {
        println!("{summary}");
        return Ok(());
    }
    bail!("{summary}");
}

fn run_each(
    chore: &str,
    stages: &[Stage],
    keep_going: bool,
    perform: impl Fn(Stage) -> Result<Outcome>,
) -> Summary {
    let started = Instant::now();
    let mut summary = Summary { chore: chore.to_owned(), ..Summary::default() };
    for &stage in stages {
        let name = stage.name();
        if !keep_going && !summary.failed.is_empty() {
            summary.not_run.push(name);
            continue;
        }
        println!("==> {name}");
        let stage_started = Instant::now();
        let result = perform(stage);
        let took = Seconds(stage_started.elapsed());
        match result {
            Ok(Outcome::Passed) => {
                println!("    {name} passed in {took}");
                summary.passed.push(name);
            }
            Ok(Outcome::Skipped(why)) => {
                println!("    {name} SKIPPED: {why}");
                summary.skipped.push(name);
            }
            Err(error) => {
                println!("    {name} failed in {took}: {error:#}");
                summary.failed.push(name);
            }
        }
    }
    summary.took = started.elapsed();
    summary
}

/// The stages by result.
#[derive(Debug, Default)]
struct Summary {
    chore: String,
    passed: Vec<&'static str>,
    skipped: Vec<&'static str>,
    failed: Vec<&'static str>,
    not_run: Vec<&'static str>,
    took: Duration,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = [
            ("passed", &self.passed),
            ("skipped", &self.skipped),
            ("FAILED", &self.failed),
            ("not run", &self.not_run),
        ];
        write!(f, "{}:", self.chore)?;
        let mut separator = "";
        for (label, names) in groups.into_iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, "{separator} {label} {}", names.join(", "))?;
            separator = ";";
        }
        write!(f, " ({})", Seconds(self.took))
    }
}

/// A readable duration: tenths below a minute, whole seconds above.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.as_secs();
        if whole < 60 {
            return write!(f, "{:.1}s", self.0.as_secs_f64());
        }
        write!(f, "{}m{:02}s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn lint_fails(stage: Stage) -> Result<Outcome> {
        match stage {
            Stage::Lint => Err(anyhow!("a warning")),
            Stage::Deny => Ok(Outcome::Skipped("absent")),
            _ => Ok(Outcome::Passed),
        }
    }

    fn text(mut summary: Summary) -> String {
        summary.took = Duration::from_millis(1500);
        summary.to_string()
    }

    #[test]
    fn the_first_failure_stops_the_run_and_the_rest_is_named() {
        let summary = run_each("test", &[Stage::Fmt, Stage::Lint, Stage::Tests], false, lint_fails);
        assert_eq!(text(summary), "test: passed fmt; FAILED lint; not run tests (1.5s)");
    }

    #[test]
    fn keep_going_runs_the_stages_after_a_failure() {
        let summary = run_each("test", &[Stage::Fmt, Stage::Lint, Stage::Tests], true, lint_fails);
        assert_eq!(text(summary), "test: passed fmt, tests; FAILED lint (1.5s)");
    }

    #[test]
    fn a_skipped_stage_is_reported_and_does_not_fail() {
        let summary = run_each("ci", &[Stage::Fmt, Stage::Deny], false, lint_fails);
        assert!(summary.failed.is_empty());
        assert_eq!(text(summary), "ci: passed fmt; skipped deny (1.5s)");
    }

    #[test]
    fn long_durations_are_in_minutes() {
        assert_eq!(Seconds(Duration::from_secs(125)).to_string(), "2m05s");
        assert_eq!(Seconds(Duration::from_millis(340)).to_string(), "0.3s");
    }
}
