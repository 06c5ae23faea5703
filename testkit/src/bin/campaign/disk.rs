//! The disk campaign: the data directory is on a small disk that fills up, and then has space again.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use testkit::{dice::Dice, process::Home};
use tokio::time::sleep;

use crate::{
    campaign::{Campaign, Round},
    follow::Follower,
    judge::{Promise, Violation},
    line::Line,
    load,
    script::Script,
    site::{LogRange, Site},
};

/// Size of the disk, and of the reserve that is freed later.
const DISK: &str = "12m";
const RESERVE: usize = 2 * 1024 * 1024;
const SESSIONS: usize = 6;
/// Maximum number of prompts in a round, and the number of consecutive refusals that count as a full disk.
const PROMPTS: usize = 2_000;
const REFUSALS: usize = 20;
/// Size of the text beside a prompt, so that the disk fills up quickly.
const PADDING: usize = 8 * 1024;
/// Time that the disk stays full; sessions give up meanwhile.
const FULL: Duration = Duration::from_secs(3);
/// Time after which the follower gives up.
const FOLLOW: Duration = Duration::from_mins(5);
/// The status of an answer when the disk is full.
const INSUFFICIENT_STORAGE: u16 = 507;

/// A small disk; unmounted when dropped.
#[derive(Debug)]
struct Disk(PathBuf);

impl Disk {
    fn mount(path: &Path) -> Result<Self> {
        fs::create_dir_all(path)?;
        let options = format!("size={DISK},mode=0700");
        run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", &path.to_string_lossy()])?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, because a server that is being killed may still have files open.
        let _ = run("umount", &["--lazy", &self.0.to_string_lossy()]);
    }
}

#[expect(clippy::disallowed_methods, reason = "a campaign mounts its own disk")]
fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let mut command = std::process::Command::new(program);
    let status = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} {} failed ({status})", arguments.join(" "));
    Ok(())
}

/// Runs one round on a disk of its own.
pub(crate) async fn round(campaign: &Campaign, round: &mut Round) -> Result<()> {
    let home = Home::new(&campaign.program)?.with_errors_kept();
    let data = home.root().join("disk");
    let disk = match Disk::mount(&data) {
        Ok(disk) => disk,
        Err(error) => {
            round.skipped = Some(format!("a small disk cannot be mounted, which needs root: {error:#}"));
            return Ok(());
        }
    };
    let mut site = Site::open(home.with_data(&data)).await?;
    if let Err(error) = fill(&mut site, round).await {
        round.broken(&error);
    }
    round.starts.append(&mut site.starts);
    round.prompts += site.ledger.accepted();
    if round.has_failed() {
        // The disk is unmounted with the round, so its files are copied.
        let copy = site.home.root().join("data");
        for entry in fs::read_dir(&data)?.flatten().filter(|entry| entry.path().is_file()) {
            let _ = fs::copy(entry.path(), copy.join(entry.file_name()));
        }
        drop(disk);
        round.kept.push(site.keep());
    }
    Ok(())
}

async fn fill(site: &mut Site, round: &mut Round) -> Result<()> {
    let mut dice = Dice::new(round.seed);
    let reserve = site.home.data().join("reserve");
    fs::write(&reserve, vec![1; RESERVE])?;
    site.start().await?;
    let follower = tokio::spawn(Follower::new(site.line(), FOLLOW).telling(&site.ledger).follow());
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let created = site.line().post("/session", &json!({ "title": "disk" })).await.ok();
        sessions.push(created.and_then(|answer| answer.id()).context("no session was created")?);
    }
    round.violations.extend(prompt_until_full(site, &sessions, &mut dice).await?);
    round.cuts += 1;
    sleep(FULL).await;
    round.violations.extend(reads_work(&site.line(), &sessions).await);
    // In every second round the server dies on the full disk and starts on it.
    if round.seed.is_multiple_of(2) {
        site.kill().await?;
        site.start().await.context("a server must start on a full disk, to serve reads")?;
        round.violations.extend(reads_work(&site.line(), &sessions).await);
    }
    fs::remove_file(&reserve)?;
    // One session is aborted; the others have to continue without a call.
    if let Some(session) = sessions.first() {
        round.violations.extend(abort(&site.line(), session).await);
    }
    round.violations.extend(site.drain().await);
    site.say_last().await?;
    let mut heard = follower.await.context("the follower failed")?;
    round.events += heard.frames.len();
    round.violations.append(&mut heard.violations);
    let ids: BTreeSet<String> = sessions.into_iter().collect();
    ensure!(ids.is_subset(&heard.sessions), "the follower did not hear of every session");
    round.violations.extend(site.inspect(&heard, LogRange::Everything).await?);
    Ok(())
}

/// Sends prompts until all of them are refused. Every refusal must be a 507.
async fn prompt_until_full(site: &Site, sessions: &[String], dice: &mut Dice) -> Result<Vec<Violation>> {
    let (line, mut found, mut refusals) = (site.line(), Vec::new(), 0);
    for number in 0..PROMPTS {
        if refusals >= REFUSALS {
            return Ok(found);
        }
        let session =
            sessions.get(usize::try_from(dice.roll(SESSIONS as u64))?).context("no such session")?;
        let (id, script) = (format!("msg_zdisk{number}"), Script::Plain);
        let mut body = load::prompt(&id, script);
        if let Some(parts) = body.get_mut("parts").and_then(|parts| parts.as_array_mut()) {
            parts.insert(0, json!({ "type": "text", "text": "x".repeat(PADDING) }));
        }
        match load::submit(&line, &site.ledger, session, &id, script, &body).await {
            Some(204) => refusals = 0,
            Some(INSUFFICIENT_STORAGE) => refusals += 1,
            // Too many prompts wait in this session; another one has room.
            Some(429) => sleep(Duration::from_millis(20)).await,
            status => {
                refusals += 1;
                let detail = format!("on a full disk {id} was answered with {status:?} and not 507");
                found.push(Violation::new(Promise::FullDisk, detail));
            }
        }
    }
    anyhow::bail!("the disk did not fill up with {PROMPTS} prompts")
}

/// Checks that reads work on a full disk.
async fn reads_work(line: &Line, sessions: &[String]) -> Vec<Violation> {
    let lists = sessions.iter().map(|session| format!("/session/{session}/message?limit=5"));
    let paths = ["/global/health", "/session", "/session/status"].map(ToOwned::to_owned);
    let mut found = Vec::new();
    for path in paths.into_iter().chain(lists) {
        let status = line.get(&path).await.ok().map(|answer| answer.status);
        if status != Some(200) {
            let detail = format!("on a full disk {path} was answered with {status:?}");
            found.push(Violation::new(Promise::FullDisk, detail));
        }
    }
    found
}

/// Checks that an abort leaves its session idle.
async fn abort(line: &Line, session: &str) -> Option<Violation> {
    let answer = line.post(&format!("/session/{session}/abort"), &json!({})).await.ok();
    let answered = answer.map(|answer| answer.status);
    let status = line.get("/session/status").await.ok().map(|answer| answer.body);
    let is_busy = status.as_ref().is_none_or(|status| status.get(session).is_some());
    (answered != Some(200) || is_busy).then(|| {
        let detail =
            format!("the abort of {session} was answered with {answered:?}, and the status is {status:?}");
        Violation::new(Promise::FullDisk, detail)
    })
}
