//! The clock campaign: the wall clock jumps back and forth by up to a year, between and during turns.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use protocol::{Message, MessageWithParts};
use serde_json::json;
use testkit::{dice::Dice, process::Home};

use crate::{
    campaign::{Campaign, Round},
    follow::Follower,
    judge::{Promise, Violation},
    load,
    script::Script,
    site::{LogRange, Site},
};

/// Locations of the library from Debian's package `faketime`, for the architectures Baton is built for.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// Jumps of the clock in seconds: within the log's retention, and beyond.
const DAYS: [i64; 8] = [-172_800, -86_400, -3_600, -1, 1, 3_600, 86_400, 172_800];
const YEARS: [i64; 8] = [-31_536_000, -2_592_000, -3_600, -1, 1, 3_600, 2_592_000, 31_536_000];
/// Jumps in a round; every fourth one restarts the server.
const JUMPS_PER_ROUND: u64 = 12;
/// Number of sessions that get a prompt after every jump.
const SESSIONS: usize = 3;
/// Size of the newest page, which is compared with the whole list.
const PAGE: usize = 5;
/// Time after which a follower, or the wait for one turn, gives up.
const PATIENCE: Duration = Duration::from_mins(2);

/// The library that shifts the clock, if it is installed.
pub(crate) fn library() -> Option<PathBuf> {
    LIBRARIES.iter().map(PathBuf::from).find(|path| path.exists())
}

/// Makes the servers of a home read the offset of their clock from a file, and returns that file.
pub(crate) fn control(home: &mut Home, library: &Path) -> Result<PathBuf> {
    let offset = home.root().join("clock");
    fs::write(&offset, "+0")?;
    home.set_variable("LD_PRELOAD", library);
    home.set_variable("FAKETIME_TIMESTAMP_FILE", &offset);
    // Every read of the clock reads the file, and only the wall clock jumps.
    home.set_variable("FAKETIME_NO_CACHE", "1");
    home.set_variable("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Ok(offset)
}

/// Moves the clock of a home's server. The file is replaced atomically, because the server reads it all the time.
pub(crate) fn shift(offset: &Path, seconds: i64) -> Result<()> {
    let next = offset.with_extension("next");
    fs::write(&next, format!("{seconds:+}"))?;
    Ok(fs::rename(next, offset)?)
}

/// Runs one round on a fresh database.
pub(crate) async fn round(campaign: &Campaign, round: &mut Round) -> Result<()> {
    let Some(library) = library() else {
        round.skipped = Some("libfaketime is not installed (Debian's package is called faketime)".to_owned());
        return Ok(());
    };
    let mut home = Home::new(&campaign.program)?.with_errors_kept();
    let offset = control(&mut home, &library)?;
    let mut site = Site::open(home).await?;
    if let Err(error) = run(campaign, &mut site, &offset, round).await {
        round.broken(&error);
    }
    round.starts.append(&mut site.starts);
    round.prompts += site.ledger.accepted();
    if round.has_failed() {
        round.kept.push(site.keep());
    }
    Ok(())
}

async fn run(campaign: &Campaign, site: &mut Site, offset: &Path, round: &mut Round) -> Result<()> {
    let (mut dice, mut scripts) = (Dice::new(round.seed), Dice::new(round.seed ^ 1));
    site.start().await?;
    // A jump of a year ages the log, and old events are removed from it. So odd rounds jump by days and compare the
    // whole log.
    let (jumps, kept) =
        if round.seed.is_multiple_of(2) { (YEARS, LogRange::Recent) } else { (DAYS, LogRange::Everything) };
    let mut pick =
        move || usize::try_from(dice.roll(jumps.len() as u64)).ok().and_then(|at| jumps.get(at).copied());
    let mut follower = Follower::new(site.line(), PATIENCE).telling(&site.ledger);
    follower.may_resync = kept == LogRange::Recent;
    let follower = tokio::spawn(follower.follow());
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let created = site.line().post("/session", &json!({ "title": "clock" })).await.ok();
        sessions
            .push((created.and_then(|answer| answer.id()).context("no session was created")?, Vec::new()));
    }
    for jump in 0..JUMPS_PER_ROUND {
        if campaign.is_over() {
            break;
        }
        shift(offset, pick().unwrap_or(0))?;
        round.cuts += 1;
        if jump % 4 == 3 {
            site.kill().await?;
            site.start().await?;
        }
        for (session, prompts) in &mut sessions {
            prompts.push(prompt(site, session, &mut scripts, prompts.len()).await?);
        }
        // The clock moves again while turns run.
        shift(offset, pick().unwrap_or(0))?;
        round.violations.extend(site.drain().await);
    }
    site.say_last().await?;
    let mut heard = follower.await.context("the follower failed")?;
    round.events += heard.frames.len();
    round.violations.append(&mut heard.violations);
    round.violations.extend(compare(site, &sessions).await?);
    round.violations.extend(site.inspect(&heard, kept).await?);
    // Compares once more, after a restart with the clock in the past.
    shift(offset, YEARS.first().copied().unwrap_or(0))?;
    site.start().await?;
    round.violations.extend(compare(site, &sessions).await?);
    site.kill().await
}

/// Sends a prompt with an id that the client chose; returns the id.
async fn prompt(site: &Site, session: &str, dice: &mut Dice, number: usize) -> Result<String> {
    let script = match dice.roll(3) {
        0 => Script::Plain,
        1 => Script::Slow,
        _ => Script::Bash,
    };
    let id = format!("msg_z{session}n{number}");
    let status =
        load::submit(&site.line(), &site.ledger, session, &id, script, &load::prompt(&id, script)).await;
    ensure!(status == Some(204), "prompt {id} was answered with {status:?}");
    Ok(id)
}

/// Checks that every session has its prompts in the order in which they were sent, each before its answers; that
/// the newest page is the end of the list; and that the list of sessions is complete.
async fn compare(site: &Site, sessions: &[(String, Vec<String>)]) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    let ids: BTreeSet<String> = sessions.iter().map(|(session, _)| session.clone()).collect();
    let messages = site.sessions(&ids).await?;
    for (session, prompts) in sessions {
        let list = messages.get(session).map(Vec::as_slice).unwrap_or_default();
        let listed: Vec<&str> =
            list.iter().filter(|it| is_user(it)).map(|it| it.info.id().as_str()).collect();
        if listed != *prompts {
            let detail = format!("{session} lists its prompts as {listed:?} and was sent {prompts:?}");
            found.push(Violation::new(Promise::Order, detail));
        }
        let page = site.line().get(&format!("/session/{session}/message?limit={PAGE}")).await.ok();
        let page: Vec<MessageWithParts> = serde_json::from_value(page.context("no newest page")?.body)?;
        let ids = |messages: &[MessageWithParts]| {
            messages.iter().map(|it| it.info.id().to_string()).collect::<Vec<_>>()
        };
        let tail = list.get(list.len().saturating_sub(PAGE)..).unwrap_or_default();
        if ids(&page) != ids(tail) {
            let detail = format!("the newest page of {session} is {:?} and not {:?}", ids(&page), ids(tail));
            found.push(Violation::new(Promise::Order, detail));
        }
    }
    let listed = site.line().get("/session").await.ok().context("no list of sessions")?;
    let listed: BTreeSet<String> =
        listed.list().iter().filter_map(|it| Some(it.get("id")?.as_str()?.to_owned())).collect();
    for session in ids.difference(&listed) {
        found.push(Violation::new(Promise::Order, format!("{session} is missing in the list of sessions")));
    }
    Ok(found)
}

fn is_user(message: &MessageWithParts) -> bool {
    matches!(message.info, Message::User(_))
}
