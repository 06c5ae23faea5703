//! The crash campaign: servers die, stop and freeze under mixed load, and nothing may be lost.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use testkit::{dice::Dice, process::Home};
use tokio::time::sleep;

use crate::{
    campaign::{Campaign, Round},
    follow::Follower,
    load::{self, CLIENTS, Client},
    site::{LogRange, Site},
    waiting,
};

/// Restarts in one round; the log of a round stays far below the retention limits.
const LIVES: u64 = 12;
/// Longest lifetime of a server, in milliseconds.
const LIFE: u64 = 1_200;
/// Time after which a follower gives up.
const FOLLOW: Duration = Duration::from_mins(10);

/// Runs one round on a fresh database.
pub(crate) async fn round(campaign: &Campaign, round: &mut Round) -> Result<()> {
    let home = Home::new(&campaign.program)?.with_errors_kept();
    let mut site = Site::open(home).await?;
    let outcome = run(campaign, &mut site, round).await;
    round.starts.append(&mut site.starts);
    round.prompts += site.ledger.accepted();
    if let Err(error) = outcome {
        round.broken(&error);
    }
    if round.has_failed() {
        round.kept.push(site.keep());
    }
    Ok(())
}

async fn run(campaign: &Campaign, site: &mut Site, round: &mut Round) -> Result<()> {
    let mut dice = Dice::new(round.seed);
    site.start().await?;
    let follower = tokio::spawn(Follower::new(site.line(), FOLLOW).telling(&site.ledger).follow());
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            tokio::spawn(Client::new(site.line(), Arc::clone(&site.ledger), round.seed, number).talk())
        })
        .collect();
    let answers = load::answer_requests(site.line(), Arc::clone(&site.ledger), Dice::new(round.seed ^ 1));
    clients.push(tokio::spawn(answers));
    for _ in 0..LIVES {
        if campaign.is_over() {
            break;
        }
        live(site, &mut dice, round).await?;
        site.start().await?;
    }
    site.ledger.close();
    for client in clients {
        client.await.context("a client failed")?;
    }
    round.violations.extend(site.drain().await);
    let (waiting, found) = waiting::survive(site).await?;
    round.cuts += 1;
    round.violations.extend(found);
    site.say_last().await?;
    let mut heard = follower.await.context("the follower failed")?;
    round.events += heard.frames.len();
    round.violations.append(&mut heard.violations);
    round.violations.extend(waiting.judge(site, &heard));
    round.violations.extend(site.inspect(&heard, LogRange::Everything).await?);
    Ok(())
}

/// Runs a server for a while and ends it: mostly with SIGKILL, sometimes with SIGTERM, sometimes frozen for a while
/// before.
async fn live(site: &mut Site, dice: &mut Dice, round: &mut Round) -> Result<()> {
    sleep(Duration::from_millis(dice.roll(LIFE))).await;
    if dice.roll(6) == 0 {
        site.server()?.freeze().await?;
        sleep(Duration::from_millis(dice.roll(300))).await;
        site.server()?.thaw()?;
        sleep(Duration::from_millis(dice.roll(100))).await;
    }
    round.cuts += 1;
    if dice.roll(6) == 0 {
        round.violations.extend(site.terminate().await?);
        return Ok(());
    }
    site.kill().await
}
