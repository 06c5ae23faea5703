//! The clock campaign: the wall clock jumps back and forth by up to a year, between and during turns.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use protocol::{Message, MessageWithParts};
use serde_json::json;
use testkit::{dice::Dice, process::Home};
use tokio::time::Instant;

use crate::{
    campaign::{Campaign, Round},
    follow::{Follower, Heard},
    judge::{Promise, Violation},
    ledger::Fate,
    load,
    script::Script,
    site::Site,
};

/// The library that Debian's package `faketime` brings, for the architectures Baton is built for.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// How far the clock jumps, in seconds.
const JUMPS: [i64; 9] = [-31_536_000, -86_400, -3_600, -1, 0, 1, 3_600, 86_400, 31_536_000];
/// Jumps of a round; every fourth one restarts the server.
const JUMPS_PER_ROUND: u64 = 12;
/// Sessions that get a prompt after every jump.
const SESSIONS: usize = 3;
/// The newest page that is compared with the whole list.
const PAGE: usize = 5;
/// A follower, or the wait for one turn, gives up after this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// The library that shifts the clock, if it is installed.
pub(crate) fn library() -> Option<PathBuf> {
    LIBRARIES.iter().map(PathBuf::from).find(|path| path.exists())
}

/// A home whose server reads its clock's offset from a file.
pub(crate) fn home(program: &Path, library: &Path) -> Result<(Home, PathBuf)> {
    let home = Home::new(program)?.with_errors_kept();
    let offset = home.root().join("clock");
    fs::write(&offset, "+0")?;
    let home = home
        .with_variable("LD_PRELOAD", library)
        .with_variable("FAKETIME_TIMESTAMP_FILE", &offset)
        .with_variable("FAKETIME_NO_CACHE", "1")
        .with_variable("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .with_variable("DONT_FAKE_MONOTONIC", "1");
    Ok((home, offset))
}

/// Moves the clock of a home's server. The file is replaced whole, since the server reads it all the time.
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
    let (home, offset) = home(&campaign.program, &library)?;
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
    let mut dice = Dice::new(round.seed);
    site.start().await?;
    let follower = Follower {
        line: site.line(),
        ledger: Some(Arc::clone(&site.ledger)),
        drops: None,
        deadline: Instant::now() + PATIENCE,
    };
    let follower = tokio::spawn(follower.follow());
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let created = site.line().post("/session", &json!({ "title": "clock" })).await.ok();
        sessions.push((created.and_then(|answer| answer.id()).context("no session was created")?, Vec::new()));
    }
    for jump in 0..JUMPS_PER_ROUND {
        if campaign.is_over() {
            break;
        }
        shift(offset, pick(&mut dice))?;
        round.cuts += 1;
        if jump % 4 == 3 {
            site.kill().await?;
            site.start().await?;
        }
        for (session, prompts) in &mut sessions {
            prompts.push(prompt(site, session, &mut dice, prompts.len()).await?);
        }
        // The clock moves again while turns run.
        shift(offset, pick(&mut dice))?;
        round.violations.extend(site.drain().await);
    }
    site.say_last().await?;
    let mut heard = follower.await.context("the follower failed")?;
    round.events += heard.frames.len();
    round.violations.append(&mut heard.violations);
    round.violations.extend(compare(site, &sessions).await?);
    inspect(site, &heard, &sessions, round).await
}

fn pick(dice: &mut Dice) -> i64 {
    usize::try_from(dice.roll(JUMPS.len() as u64)).ok().and_then(|at| JUMPS.get(at)).copied().unwrap_or(0)
}

/// Sends a prompt, half of them with an id that its client chose; its text tells them apart.
async fn prompt(site: &Site, session: &str, dice: &mut Dice, number: usize) -> Result<String> {
    let script = [Script::Plain, Script::Slow, Script::Bash][usize::try_from(dice.roll(3))?];
    let id = format!("msg_z{session}n{number}");
    let status = load::submit(&site.line(), &site.ledger, session, &id, script, &load::prompt(&id, script)).await;
    ensure!(status == Some(204), "prompt {id} was answered with {status:?}");
    Ok(id)
}

/// Restarts with the clock in the past and compares again.
async fn inspect(site: &mut Site, heard: &Heard, sessions: &[(String, Vec<String>)], round: &mut Round) -> Result<()> {
    round.violations.extend(site.inspect(heard).await?);
    site.start().await?;
    round.violations.extend(compare(site, sessions).await?);
    site.kill().await
}

/// Every session has its prompts in the order in which they were sent, each before its answers; the newest page is
/// the end of the list; and the list of sessions has all of them.
async fn compare(site: &Site, sessions: &[(String, Vec<String>)]) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    let ids: BTreeSet<String> = sessions.iter().map(|(session, _)| session.clone()).collect();
    let messages = site.sessions(&ids).await?;
    for (session, prompts) in sessions {
        let list = messages.get(session).map(Vec::as_slice).unwrap_or_default();
        let listed: Vec<&str> = list.iter().filter(|it| is_user(it)).map(|it| it.info.id().as_str()).collect();
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
