//! `baton sessions`: lists sessions, and deletes those that were not used for a while.

use std::time::Duration;

use engine::ports::{Clock as _, SystemClock};
use protocol::{Millis, Session};

use super::{
    host::Host,
    models::{close, open},
};
use crate::{
    age,
    args::{Prune, Sessions, SessionsAction},
    environment,
    exit::{Exit, Failure},
    terminal,
};

/// Sessions that one call of a prune reads.
const PAGE: usize = 200;

/// Lists or deletes sessions.
pub(crate) async fn sessions(options: Sessions) -> Result<Exit, Failure> {
    let here = environment::here()?;
    let (host, engine) = open(&options.target, &here).await?;
    let directory = (!options.all).then_some(here.as_str());
    let done = match &options.action {
        None => list(&options, &host, directory).await,
        Some(SessionsAction::Prune(prune)) => remove(*prune, &host, directory).await,
    };
    close(engine).await;
    done.map(|()| Exit::Completed)
}

async fn list(options: &Sessions, host: &Host, directory: Option<&str>) -> Result<(), Failure> {
    let sessions = host.sessions(directory, None, options.limit).await?;
    if options.json {
        let json = serde_json::to_string_pretty(&sessions);
        return print(&json.map_err(|error| Failure::error(error.to_string()))?);
    }
    if sessions.is_empty() {
        terminal::note(if options.all {
            "there are no sessions"
        } else {
            "there are no sessions in this directory; --all lists those of all directories"
        });
    }
    show(&sessions, directory.is_none())
}

/// Deletes idle sessions that were not used for a while, the least recently used last.
async fn remove(prune: Prune, host: &Host, directory: Option<&str>) -> Result<(), Failure> {
    let age = Millis::try_from(prune.older_than.as_millis()).unwrap_or(Millis::MAX);
    let since = SystemClock.now().saturating_sub(age);
    let mut before = since;
    let (mut found, mut skipped) = (0_usize, 0_usize);
    loop {
        let page = host.sessions(directory, Some(before), PAGE).await?;
        let Some(last) = page.last() else { break };
        // The next page begins before the last session of this one. Those updated in the same millisecond are left
        // for the next prune.
        before = last.time.updated;
        for session in page {
            let host = host.clone().at(&session.directory);
            // A server of another make ignores the condition of the deletion, so the status is checked as well.
            let is_free = session.share.is_none() && host.is_idle(&session.id).await?;
            if !is_free || !(prune.dry_run || host.delete_unused(&session.id, since).await?) {
                skipped += 1;
                continue;
            }
            found += 1;
            show(&[session], directory.is_none())?;
        }
    }
    let verb = if prune.dry_run { "would delete" } else { "deleted" };
    terminal::note(&format!("{verb} {}", count(found)));
    if skipped > 0 {
        terminal::note(&format!("skipped {}: in use or shared", count(skipped)));
    }
    Ok(())
}

fn count(sessions: usize) -> String {
    if sessions == 1 { "1 session".to_owned() } else { format!("{sessions} sessions") }
}

/// Prints one session per line: id, age, cost, directory and title.
fn show(sessions: &[Session], with_directory: bool) -> Result<(), Failure> {
    let now = SystemClock.now();
    let line = |session: &Session| {
        let age = u64::try_from(now.saturating_sub(session.time.updated)).unwrap_or_default();
        let age = age::short(Duration::from_millis(age));
        let cost = session.cost.map_or(0.0, |cost| cost.0);
        let title: String = session.title.chars().map(terminal::harmless).collect();
        let place = if with_directory { format!("{}  ", session.directory) } else { String::new() };
        let line = format!("{}  {age:>4}  ${cost:<7.4}  {place}{title}", session.id);
        let room = if terminal::is_read_live() { terminal::width() } else { usize::MAX };
        line.chars().take(room).chain(['\n']).collect::<String>()
    };
    print(&sessions.iter().map(line).collect::<String>())
}

fn print(text: &str) -> Result<(), Failure> {
    let text = if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
    terminal::write(&text).map_err(|error| Failure::error(format!("cannot print the list: {error}")))
}
