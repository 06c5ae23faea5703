//! The power-cut campaign: servers start from images of another server's database, cut at random bytes.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use testkit::{dice::Dice, process::Home};
use tokio::time::sleep;

use crate::{
    campaign::{Campaign, Round},
    follow::Follower,
    image::Image,
    judge::{self, Promise, Violation},
    ledger::{Fate, Ledger},
    load::{self, CLIENTS, Client},
    site::Site,
};

/// Number of images in a round.
const IMAGES: usize = 10;
/// Minimum number of images when the time is up: a round without a cut would prove nothing.
const FEWEST: usize = 5;
/// Longest time between two moments, in milliseconds.
const BETWEEN: u64 = 400;
/// Time after which the follower gives up.
const FOLLOW: Duration = Duration::from_mins(10);

/// The damage done to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    Whole,
    Cut,
    Torn,
    Damaged,
}

impl Harm {
    fn pick(dice: &mut Dice) -> Self {
        match dice.roll(8) {
            0 => Self::Whole,
            1..4 => Self::Cut,
            4..6 => Self::Torn,
            _ => Self::Damaged,
        }
    }
}

/// An image together with the prompts that were accepted before its earlier moment.
#[derive(Debug)]
struct Loss {
    image: Image,
    safe: usize,
    ledger: Ledger,
}

/// Runs one round: takes images from a server under load, and starts a server from each image.
pub(crate) async fn round(campaign: &Campaign, round: &mut Round) -> Result<()> {
    let mut site = Site::open(Home::new(&campaign.program)?.with_errors_kept()).await?;
    if let Err(error) = run(campaign, &mut site, round).await {
        round.broken(&error);
    }
    round.starts.append(&mut site.starts);
    round.prompts += site.ledger.accepted();
    if round.has_failed() {
        round.kept.push(site.keep());
    }
    Ok(())
}

async fn run(campaign: &Campaign, site: &mut Site, round: &mut Round) -> Result<()> {
    let mut dice = Dice::new(round.seed);
    site.start().await?;
    let ledger = || Arc::clone(&site.ledger);
    let follower = tokio::spawn(Follower::new(site.line(), FOLLOW).telling(&site.ledger).follow());
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(Client::new(site.line(), ledger(), round.seed, number).talk()))
        .collect();
    clients.push(tokio::spawn(load::answer_requests(site.line(), ledger(), Dice::new(round.seed ^ 1))));
    let mut losses = Vec::new();
    while losses.len() < IMAGES && (losses.len() < FEWEST || !campaign.is_over()) {
        losses.push(lose(site, &mut dice).await?);
    }
    site.ledger.close();
    // Some clients still wait for turns with open requests.
    tokio::select! {
        ended = futures::future::try_join_all(clients) => drop(ended.context("a client failed")?),
        () = site.keep_answering() => {}
    }
    round.violations.extend(site.drain().await);
    site.say_last().await?;
    let mut heard = follower.await.context("the follower failed")?;
    round.events += heard.frames.len();
    round.violations.append(&mut heard.violations);
    site.kill().await?;
    for (number, loss) in losses.into_iter().enumerate() {
        if number >= FEWEST && campaign.is_over() {
            break;
        }
        let harm = Harm::pick(&mut dice);
        round.cuts += 1;
        let home = Home::new(&campaign.program)?.with_project(site.home.project()).with_errors_kept();
        recover(home, loss, harm, number, &mut dice, round).await?;
    }
    Ok(())
}

/// Freezes the server twice: prompts that were accepted before the first moment must survive a cut after it.
async fn lose(site: &Site, dice: &mut Dice) -> Result<Loss> {
    sleep(Duration::from_millis(dice.roll(BETWEEN))).await;
    let server = site.server()?;
    let ledger = Ledger::accepted_of(&site.ledger);
    server.freeze().await?;
    let earlier = Image::take(&site.home.data());
    server.thaw()?;
    sleep(Duration::from_millis(dice.roll(BETWEEN))).await;
    server.freeze().await?;
    let image = Image::take(&site.home.data());
    // A session that was deleted meanwhile may be missing.
    ledger.excuse(&site.ledger);
    server.thaw()?;
    let (earlier, image) = (earlier?, image?);
    Ok(Loss { safe: image.safe(&earlier), image, ledger })
}

/// Starts a server from an image and checks its data.
async fn recover(
    home: Home,
    mut loss: Loss,
    harm: Harm,
    number: usize,
    dice: &mut Dice,
    round: &mut Round,
) -> Result<()> {
    match harm {
        Harm::Whole => {}
        Harm::Cut => loss.image.cut(loss.safe, dice),
        Harm::Torn => loss.image.tear(loss.safe, dice),
        Harm::Damaged => loss.image.damage(dice)?,
    }
    if harm == Harm::Cut || harm == Harm::Torn || dice.roll(2) == 0 {
        // SQLite rebuilds the index from the log. A real disk never has an index with more frames than the log.
        loss.image.index.clear();
    }
    loss.image.put(&home.data())?;
    let mut site = Site::open(home).await?;
    site.ledger = Arc::new(loss.ledger);
    let mut found = Vec::new();
    match site.start().await {
        Err(_) if harm == Harm::Damaged => found.extend(refusal(&site.home.errors())),
        Err(error) => found.push(Violation::new(Promise::Alive, format!("{error:#}"))),
        Ok(()) => match survey(&mut site, harm).await {
            Ok(more) => found.extend(more),
            // Any call may read a damaged page; the server must only stay alive and answer.
            Err(_) if harm == Harm::Damaged => {}
            Err(error) => found.push(Violation::new(Promise::Accepted, format!("{error:#}"))),
        },
    }
    round.starts.append(&mut site.starts);
    if site.home.errors().contains("panicked") {
        found.push(Violation::new(Promise::Alive, format!("a server panicked: {}", site.home.errors())));
    }
    if !found.is_empty() {
        round.kept.push(site.keep());
    }
    for violation in found {
        let detail = format!("image {number}, {harm:?}: {}", violation.detail);
        round.violations.push(Violation::new(violation.promise, detail));
    }
    Ok(())
}

/// Checks that a refused start states its reason.
fn refusal(errors: &str) -> Option<Violation> {
    let says_why = errors.lines().any(|line| line.contains("baton.db") || line.contains("database"));
    (!says_why).then(|| {
        Violation::new(Promise::Sound, format!("a damaged database was refused without a reason: {errors}"))
    })
}

/// Checks that everything that was accepted exists and runs, and that nothing stays open.
async fn survey(site: &mut Site, harm: Harm) -> Result<Vec<Violation>> {
    if harm == Harm::Damaged {
        let health = site.line().get("/global/health").await.ok().context("no answer from /global/health")?;
        anyhow::ensure!(health.is_success(), "/global/health answered {}", health.status);
        site.kill().await?;
        return Ok(Vec::new());
    }
    let mut found = site.drain().await;
    let prompts = site.ledger.prompts();
    let alive = prompts.values().filter(|prompt| prompt.fate == Fate::Accepted && !prompt.may_be_gone);
    let ids = alive.map(|prompt| prompt.session.clone()).collect();
    found.extend(judge::sessions(&prompts, &site.sessions(&ids).await?));
    site.kill().await?;
    found.extend(site.integrity());
    Ok(found)
}
