//! `baton agents`: lists external agents with their versions and logins.

mod login;

use std::{path::Path, time::Duration};

use futures::future::join_all;
use owo_colors::OwoColorize;
use project::{
    external::{self, Candidate},
    settings::site,
    trust::{self, DirectoryTrust},
};
use protocol::agent::Abilities;
use serde::Serialize;
use store::files::{Environment, load};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Exit as Ended, Spec};

use crate::{
    args::Agents,
    environment,
    exit::{Exit, Failure},
    terminal, wiring,
};

/// Timeout for a program to print its version.
const VERSION: Duration = Duration::from_secs(5);

/// Longest version that is shown, in characters.
const LONGEST_VERSION: usize = 40;

/// One agent of the list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    name: String,
    /// True if the program, or a server in its place, exists.
    found: bool,
    /// True if the program exists, but is not executable.
    #[serde(skip)]
    is_blocked: bool,
    /// False if the configuration switches the agent off.
    enabled: bool,
    /// Path or address of the agent; for a missing program, the name that was searched for.
    place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The reason why the version is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Evidence of a login: the name of a variable or of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    login: Option<String>,
    /// None if there is no way to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    logged_in: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    abilities: Abilities,
}

/// Prints the list.
pub(crate) async fn agents(options: Agents) -> Result<Exit, Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::usage(format!("cannot use the current directory: {error}")))?;
    let environment = Environment::capture();
    let unusable = |message: String| Failure::usage(format!("invalid configuration\n{message}"));
    let (places, site) = (wiring::places_in(None)?, site(here.clone()).await);
    let guard = DirectoryTrust::read(&places.data, &site, [].iter()).guard;
    let loaded = load(&environment, &site, &guard).map_err(|error| unusable(error.to_string()))?;
    if let Some(warning) = trust::warning(&site.directory, &loaded.withheld) {
        terminal::note(&format!("{} {warning}", "warning:".yellow().bold()));
    }
    let candidates =
        external::candidates(&environment, &loaded.config).map_err(|invalid| unusable(invalid.message))?;
    for candidate in candidates.iter().filter(|candidate| candidate.is_there && candidate.is_enabled()) {
        if let Some(warning) = external::unenforced(&environment, &loaded.config, candidate) {
            terminal::note(&format!("{} {warning}", "warning:".yellow().bold()));
        }
    }
    let rows = join_all(candidates.iter().map(|candidate| row(&environment, &here, candidate))).await;
    let shown = if options.json { json(&rows)? } else { table(&rows) };
    terminal::write(&shown).map_err(|error| Failure::error(format!("cannot print the list: {error}")))?;
    Ok(Exit::Completed)
}

async fn row(environment: &Environment, here: &Path, candidate: &Candidate) -> Row {
    let is_remote = candidate.written.url.is_some();
    let version = match &candidate.written.url {
        _ if !candidate.is_there || !candidate.is_enabled() => Ok(None),
        Some(url) => Ok(remote_version(url).await),
        None => version(here, candidate).await,
    };
    let (version, problem) = match version {
        Ok(version) => (version, None),
        Err(Slow) => (None, Some(format!("did not answer within {} s", VERSION.as_secs()))),
    };
    let logins = candidate.known.filter(|_| !is_remote).map(|known| known.logins);
    let login = logins.and_then(|logins| login::find(environment, &candidate.written.environment.0, logins));
    let logged_in = logins.map(|_| login.is_some());
    let place = candidate.written.url.clone().or_else(|| candidate.command.first().cloned());
    let mut row = Row {
        id: candidate.id.clone(),
        name: candidate.name.clone(),
        found: candidate.is_there,
        is_blocked: candidate.not_executable.is_some(),
        enabled: candidate.is_enabled(),
        place: place.unwrap_or_default(),
        version,
        problem,
        login,
        logged_in,
        hint: None,
        abilities: candidate.kind.abilities(),
    };
    row.hint = hint(candidate, &row);
    row
}

/// Advice for an agent that cannot be used.
fn hint(candidate: &Candidate, row: &Row) -> Option<String> {
    if !row.enabled {
        return Some("the configuration switches it off".to_owned());
    }
    if let Some(file) = &candidate.not_executable {
        return Some(format!("`{}` is not executable; run `chmod +x` on it", file.display()));
    }
    if !row.found {
        return Some(format!("`{}` is not on PATH", row.place));
    }
    if candidate.written.url.is_some() && row.version.is_none() {
        return Some("no server answers at this address".to_owned());
    }
    let known = candidate.known.filter(|_| row.logged_in == Some(false))?;
    Some(format!("no login found: {}", known.hint))
}

/// A program that did not print its version in time.
struct Slow;

/// Runs the program with `--version` and returns its version.
async fn version(here: &Path, candidate: &Candidate) -> Result<Option<String>, Slow> {
    let Some(program) = candidate.command.first() else { return Ok(None) };
    let mut spec = Spec::new(program, here, VERSION)
        .args(["--version"])
        .hide(environment::PASSWORDS.into_iter().chain([environment::STORE, environment::FLEET_KEY]));
    spec.environment =
        candidate.written.environment.0.iter().map(|(name, value)| (name.into(), value.into())).collect();
    spec.mute_errors = true;
    let Ok(done) = process::run(spec, &CancellationToken::new(), |_| {}).await else { return Ok(None) };
    match done.exit {
        Ended::Code(0) => Ok(number(&done.output.text())),
        Ended::DeadlinePassed => Err(Slow),
        _ => Ok(None),
    }
}

async fn remote_version(url: &str) -> Option<String> {
    let client = client::Client::new(url).ok()?;
    let health = timeout(VERSION, client.health()).await.ok()?.ok()?;
    number(&health.version)
}

/// The first word that looks like a version. Only such words are shown, because a program may print anything.
fn number(text: &str) -> Option<String> {
    let plain = |it: char| it.is_ascii_alphanumeric() || "._-+".contains(it);
    let looks = |word: &&str| {
        word.starts_with(|it: char| it.is_ascii_digit()) && word.contains('.') && word.chars().all(plain)
    };
    let mut words = text.split_whitespace().map(|word| word.trim_start_matches('v'));
    words.find(looks).map(|word| word.chars().take(LONGEST_VERSION).collect())
}

fn json(rows: &[Row]) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(rows);
    text.map(|text| text + "\n").map_err(|error| Failure::error(format!("cannot encode the list: {error}")))
}

/// The list as text: found agents first, then the names of the missing ones.
fn table(rows: &[Row]) -> String {
    let (there, missing): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.found);
    let width = |of: fn(&Row) -> usize| there.iter().map(|row| of(row)).max().unwrap_or(0);
    let ids = width(|row| row.id.len());
    let versions = width(|row| shown_version(row).len());
    let mut lines: Vec<String> = there.iter().flat_map(|row| entry(row, ids, versions)).collect();
    if there.is_empty() {
        lines.push("No external agent found. The built-in agent needs none.".to_owned());
    }
    if !missing.is_empty() {
        let blocked = missing.iter().filter(|row| row.is_blocked);
        lines.extend(blocked.filter_map(|row| Some(format!("{}  {}", row.id.bold(), row.hint.as_ref()?))));
        let missing = missing.iter().filter(|row| !row.is_blocked);
        let names: Vec<String> = missing.map(|row| format!("{} ({})", row.id, row.place)).collect();
        lines.push(format!("\n{} {}", "Not found:".dimmed(), names.join(", ")));
    }
    lines.join("\n") + "\n"
}

/// The lines of one agent.
fn entry(row: &Row, ids: usize, versions: usize) -> Vec<String> {
    let state = match row.logged_in {
        _ if !row.enabled => "off".yellow().to_string(),
        Some(true) => format!("{} ({})", "logged in".green(), row.login.as_deref().unwrap_or_default()),
        Some(false) => "not logged in".yellow().to_string(),
        None => "login unknown".dimmed().to_string(),
    };
    let (id, version) = (format!("{:ids$}", row.id), shown_version(row));
    let line = format!("{}  {version:versions$}  {state}  {}", id.bold(), row.place.dimmed());
    let hint = row.hint.as_ref().map(|hint| format!("{:ids$}  {} {hint}", "", "hint:".cyan()));
    let lacks = lacks(row.abilities);
    let lacks = (!lacks.is_empty()).then(|| {
        let without = format!("without {}", lacks.join(", "));
        format!("{:ids$}  {}", "", without.dimmed())
    });
    [line].into_iter().chain(lacks).chain(hint).collect()
}

/// Names of the abilities that the agent lacks.
fn lacks(abilities: Abilities) -> Vec<String> {
    let named = serde_json::to_value(abilities).unwrap_or_default();
    let all = named.as_object().into_iter().flatten();
    all.filter(|(_, able)| **able == false).map(|(name, _)| name.clone()).collect()
}

fn shown_version(row: &Row) -> &str {
    row.version.as_deref().or(row.problem.as_deref()).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_abilities_are_named() {
        let some = Abilities { steer: true, resume: true, continuation: true, ..Abilities::LEAST };
        let lacks = lacks(some);
        assert!(lacks.contains(&"children".to_owned()) && !lacks.contains(&"steer".to_owned()), "{lacks:?}");
    }

    fn candidate(directory: &Path, script: &str) -> Candidate {
        use std::os::unix::fs::PermissionsExt;
        let file = directory.join("codex");
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let environment = Environment::of([("PATH", directory.as_os_str())]);
        let found = external::candidates(&environment, &protocol::config::Config::default()).unwrap();
        found.into_iter().find(|candidate| candidate.id == "codex").unwrap()
    }

    #[tokio::test]
    async fn a_program_that_does_not_print_its_version_in_time_is_called_slow() {
        let directory = tempfile::TempDir::new().unwrap();
        let (here, environment) = (directory.path(), Environment::default());
        let slow = row(&environment, here, &candidate(here, "exec sleep 600")).await;
        assert_eq!(shown_version(&slow), "did not answer within 5 s");
        let quick = row(&environment, here, &candidate(here, "echo codex-cli 0.166.0")).await;
        assert_eq!(shown_version(&quick), "0.166.0");
    }

    #[test]
    fn a_version_is_found_in_program_output() {
        for (text, version) in [
            ("2.1.197 (Claude Code)\n", Some("2.1.197")),
            ("codex-cli 0.166.0", Some("0.166.0")),
            ("v1.18.33", Some("1.18.33")),
            ("1.0.0-beta+7", Some("1.0.0-beta+7")),
            ("no version here. 12", None),
            ("1.\u{1b}[31m", None),
            ("", None),
        ] {
            assert_eq!(number(text).as_deref(), version, "{text}");
        }
        assert_eq!(number(&format!("1.{}", "2".repeat(500))).unwrap().len(), LONGEST_VERSION);
    }
}
