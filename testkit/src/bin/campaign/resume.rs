//! The resume campaign: followers that drop and reconnect, readers that lag, and cursors that the log does not
//! have.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use protocol::EventBody;
use serde_json::json;
use testkit::{dice::Dice, process::Home, watch::Watch};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    campaign::{Campaign, Round},
    clock,
    follow::{Follower, Heard},
    judge::{self, Promise, Violation},
    line::Line,
    load::{self, CLIENTS, Client},
    script::Script,
    site::{LogRange, Site},
};

/// Number of followers that drop their connection at random, beside one that does not.
const FOLLOWERS: u64 = 5;
/// Duration of the mixed load in a round.
const LOAD: Duration = Duration::from_secs(8);
/// Number of concurrent prompts with a very long answer: together about the limit for a lagging reader.
const FLOODS: usize = 4;
/// Maximum number of times that these prompts are sent. Buffers of the operating system, which differ between
/// machines, take a part of the events before the server's own queue fills.
const WAVES: usize = 8;
/// Counter of the readers that the server disconnected because they lagged.
const CUT_OFF: &str = "baton_subscribers_cut_off_total";
/// Time after which a follower or a reader gives up.
const PATIENCE: Duration = Duration::from_mins(5);
/// Time in which a cursor that the log does not have must be answered.
const RESYNC: Duration = Duration::from_secs(20);
/// More than the week for which the log keeps events, in seconds.
const NEXT_WEEK: i64 = 8 * 24 * 3600;
/// The end of a chunked body that was not cut off.
const CLEAN_END: &[u8] = b"0\r\n\r\n";

/// Runs one round on a fresh database.
pub(crate) async fn round(campaign: &Campaign, round: &mut Round) -> Result<()> {
    let mut site = Site::open(Home::new(&campaign.program)?.with_errors_kept()).await?;
    if let Err(error) = run(&mut site, round).await {
        round.broken(&error);
    }
    round.starts.append(&mut site.starts);
    round.prompts += site.ledger.accepted();
    if round.has_failed() {
        round.kept.push(site.keep());
    }
    Ok(())
}

async fn run(site: &mut Site, round: &mut Round) -> Result<()> {
    site.start().await?;
    let lagging = lag(site).await?;
    round.cuts += 1;
    round.violations.extend(lagging.violations);
    let mut resumed = Follower::new(site.line(), PATIENCE);
    resumed.after = lagging.cursor;
    let resumed = tokio::spawn(resumed.follow());
    let heard = follow_load(site, round).await?;
    let late = resumed.await.context("the follower after a cut failed")?;
    let replayed = site.replay().await?.context("the beginning of the log is missing")?;
    let rest: Vec<_> = replayed.into_iter().filter(|frame| frame.cursor > lagging.cursor).collect();
    round.violations.extend(judge::log(&late.frames, &rest, &heard.deleted));
    round.events += late.frames.len();
    round.violations.extend(resyncs(&site.line(), heard.cursor() + 1_000, "of the future").await?);
    round.violations.extend(site.inspect(&heard, LogRange::Everything).await?);
    if let Some(library) = clock::library() {
        return age(site, &library, round).await;
    }
    println!("resume: SKIPPED: cursors older than the log, because libfaketime is not installed");
    Ok(())
}

/// Runs mixed load with many followers, and returns what the steady one received.
async fn follow_load(site: &Site, round: &mut Round) -> Result<Heard> {
    let steady = tokio::spawn(Follower::new(site.line(), PATIENCE).telling(&site.ledger).follow());
    let dropping: Vec<_> = (0..FOLLOWERS)
        .map(|number| {
            let mut follower = Follower::new(site.line(), PATIENCE);
            follower.drops = Some(Dice::new(round.seed.wrapping_add(number)));
            tokio::spawn(follower.follow())
        })
        .collect();
    talk(site, round.seed).await?;
    round.violations.extend(site.drain().await);
    site.say_last().await?;
    let replayed = site.replay().await?.context("the beginning of the log is missing")?;
    for follower in dropping {
        let mut heard = follower.await.context("a follower failed")?;
        round.cuts += heard.connections.saturating_sub(1);
        round.events += heard.frames.len();
        round.violations.append(&mut heard.violations);
        round.violations.extend(judge::log(&heard.frames, &replayed, &heard.deleted));
    }
    let mut heard = steady.await.context("the steady follower failed")?;
    round.events += heard.frames.len();
    round.violations.append(&mut heard.violations);
    Ok(heard)
}

/// Runs mixed load for a while, without a crash.
async fn talk(site: &Site, seed: u64) -> Result<()> {
    let ledger = || Arc::clone(&site.ledger);
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(Client::new(site.line(), ledger(), seed, number).talk()))
        .collect();
    clients.push(tokio::spawn(load::answer_requests(site.line(), ledger(), Dice::new(seed ^ 1))));
    sleep(LOAD).await;
    site.ledger.close();
    for client in clients {
        client.await.context("a client failed")?;
    }
    Ok(())
}

/// The result of a reader that did not keep up.
#[derive(Debug)]
struct Lagging {
    /// The last durable event it received.
    cursor: u64,
    violations: Vec<Violation>,
}

/// Opens a stream and does not read it during a flood of events; then checks how the stream ended.
async fn lag(site: &Site) -> Result<Lagging> {
    let line = site.line();
    let mut reader = connect(&line.url()).await?;
    let mut violations = Vec::new();
    let mut is_cut_off = false;
    for wave in 0..WAVES {
        violations.extend(flood(site, wave).await?);
        is_cut_off = line.counter(CUT_OFF).await.ok().context("the server has no metrics")? > 0;
        if is_cut_off {
            break;
        }
    }
    let mut received = Vec::new();
    let violation = if is_cut_off {
        match timeout(PATIENCE, reader.read_to_end(&mut received)).await {
            Err(_) => Some("the connection of a lagging reader did not end"),
            // A client treats a clean end as final and does not reconnect.
            Ok(Ok(_)) if received.ends_with(CLEAN_END) => {
                Some("the stream of a lagging reader ended cleanly")
            }
            Ok(_) => None,
        }
    } else {
        Some("a reader that lagged was not cut off")
    };
    violations.extend(violation.map(|detail| Violation::new(Promise::Resume, detail)));
    Ok(Lagging { cursor: last_id(&received), violations })
}

/// Runs one wave of prompts with very long answers to its end, and deletes their sessions.
async fn flood(site: &Site, wave: usize) -> Result<Vec<Violation>> {
    let line = site.line();
    let mut sessions = Vec::new();
    for number in 0..FLOODS {
        let created = line.post("/session", &json!({ "title": "flood" })).await.ok();
        let session = created.and_then(|answer| answer.id()).context("no session was created")?;
        let (id, script) = (format!("msg_zflood{wave}x{number}"), Script::Flood);
        load::submit(&line, &site.ledger, &session, &id, script, &load::prompt(&id, script)).await;
        site.ledger.may_be_gone(&id);
        sessions.push(session);
    }
    let violations = site.drain().await;
    // Their long texts would slow down every later follower.
    for session in sessions {
        line.delete(&format!("/session/{session}")).await.ok().context("a session could not be deleted")?;
    }
    Ok(violations)
}

async fn connect(url: &str) -> Result<TcpStream> {
    let address = url.strip_prefix("http://").context("the server speaks plain HTTP")?;
    // The receive buffer keeps the system's size: with one of 4 KiB, Linux delivers the rest of 1 connection in 15 too
    // slowly to see its end, without Baton, too.
    let mut stream = TcpStream::connect(address).await?;
    let call = format!("GET /global/event HTTP/1.1\r\nHost: {address}\r\nLast-Event-ID: 0\r\n\r\n");
    stream.write_all(call.as_bytes()).await?;
    Ok(stream)
}

/// The last `id:` line in the bytes of a stream.
fn last_id(received: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(received);
    let ids = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    ids.filter_map(|line| line.trim().strip_prefix("id:")?.trim().parse().ok()).next_back().unwrap_or(0)
}

/// Checks that a cursor that the log does not have is answered with `server.resync`.
async fn resyncs(line: &Line, cursor: u64, what: &str) -> Result<Option<Violation>> {
    let mut watch = Watch::connect(&line.url(), "/global/event", Some(cursor)).await?;
    let resynced = timeout(RESYNC, async {
        while let Ok(Some(seen)) = watch.next().await {
            if matches!(seen.event.body, EventBody::ServerResync(_)) {
                return true;
            }
        }
        false
    });
    let detail = format!("cursor {cursor}, {what}, was not answered with server.resync");
    Ok((resynced.await != Ok(true)).then(|| Violation::new(Promise::Resume, detail)))
}

/// Moves the clock by a week, so that the log's beginning is removed, and resumes from there.
async fn age(site: &mut Site, library: &Path, round: &mut Round) -> Result<()> {
    let offset = clock::control(&mut site.home, library)?;
    clock::shift(&offset, NEXT_WEEK)?;
    site.start().await?;
    // Old events are removed together with new ones, a batch at a time.
    for _ in 0..2 {
        site.say_last().await?;
    }
    let mut old = None;
    for _ in 0..100 {
        old = resyncs_soon(&site.line()).await?;
        if old.is_none() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    round.violations.extend(old);
    site.kill().await
}

async fn resyncs_soon(line: &Line) -> Result<Option<Violation>> {
    let mut watch = Watch::connect(&line.url(), "/global/event", Some(1)).await?;
    // The first frames after the greeting decide: a replay or a resync.
    for _ in 0..2 {
        match timeout(RESYNC, watch.next()).await {
            Ok(Ok(Some(seen))) if matches!(seen.event.body, EventBody::ServerResync(_)) => return Ok(None),
            Ok(Ok(Some(_))) => {}
            _ => break,
        }
    }
    Ok(Some(Violation::new(Promise::Resume, "cursor 1 of a week ago was not answered with server.resync")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_complete_id_counts() {
        assert_eq!(last_id(b"id: 7\ndata: x\n\nid: 8\ndata: y\n\nid: 9"), 8);
        assert_eq!(last_id(b"data: x\n\n"), 0);
    }
}
