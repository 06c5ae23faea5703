//! `cargo xtask campaign`: tests Baton's promises about crashes, power cuts, full disks, clocks and lost
//! connections against the real program.
//!
//! Every campaign plays rounds from a seed and judges each from outside: by HTTP, by event streams, and by the
//! database once the server has ended. The seed determines what clients do and when servers die; how the two
//! interleave depends on the machine, so a failure may take several runs of its seed to reproduce. See
//! docs/reliability.md.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "development only: a developer reads the table and the violations"
)]

mod campaign;
mod clock;
mod crash;
mod disk;
mod follow;
mod image;
mod judge;
mod ledger;
mod line;
mod load;
mod model;
mod power;
mod resume;
mod script;
mod site;
mod table;
mod waiting;

use std::{
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use campaign::{Campaign, Kind, Round};
use clap::Parser;
use table::{Row, Table};

/// Maximum number of violations that are printed for one round; the rest is counted.
const SHOWN: usize = 12;
/// Factor by which a long campaign has more rounds and more time.
const LONG: u32 = 20;

/// Tests Baton's promises about crashes, power cuts, full disks, clocks and lost connections.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask campaign")]
struct Options {
    /// Campaigns to run; all of them if none is named
    #[arg(value_enum)]
    names: Vec<Kind>,
    /// The seed of the first round
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Play twenty times as long
    #[arg(long)]
    long: bool,
    /// Play each campaign for this many minutes, whatever its number of rounds
    #[arg(long)]
    minutes: Option<u64>,
    /// Set when the program has started itself in a mount namespace of its own
    #[arg(long, hide = true)]
    private_mounts: bool,
}

impl Options {
    fn kinds(&self) -> &[Kind] {
        if self.names.is_empty() { &Kind::ALL } else { &self.names }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.kinds().contains(&Kind::Disk) && !options.private_mounts {
        isolate();
    }
    let played = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|it| it.block_on(run(&options)));
    match played {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Starts this program again in a mount namespace of its own, so that its mounts disappear with it. Returns if that
/// is not allowed here; the disk campaign then reports that it cannot run.
#[expect(clippy::disallowed_methods, reason = "the program replaces itself")]
fn isolate() {
    let Ok(program) = std::env::current_exe() else { return };
    let mut probe = Command::new("unshare");
    if !probe.args(["--mount", "true"]).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return;
    }
    let mut again = Command::new("unshare");
    again.args(["--mount", "--propagation", "private", "--"]).arg(program).arg("--private-mounts");
    let error = again.args(std::env::args_os().skip(1)).exec();
    eprintln!("cannot start again in a mount namespace: {error}");
}

/// Plays the campaigns; returns true if every promise was kept.
async fn run(options: &Options) -> Result<bool> {
    #[expect(clippy::disallowed_methods, reason = "set by `cargo xtask campaign`")]
    let program = std::env::var_os("BATON_BIN")
        .map(PathBuf::from)
        .context("BATON_BIN names no program; run `cargo xtask campaign`, which builds one and sets it")?;
    let mut table = Table::default();
    for &kind in options.kinds() {
        let (rounds, time) = budget(kind, options);
        let until = Instant::now() + time;
        let campaign = Campaign { program: program.clone(), kind, seed: options.seed, rounds, until };
        table.0.push(play(&campaign).await?);
    }
    print!("{table}");
    Ok(table.0.iter().all(|row| row.violations() == 0))
}

fn budget(kind: Kind, options: &Options) -> (u64, Duration) {
    let (rounds, time) = kind.short();
    match (options.minutes, options.long) {
        (Some(minutes), _) => (u64::MAX, Duration::from_mins(minutes)),
        (None, true) => (rounds * u64::from(LONG), time * LONG),
        (None, false) => (rounds, time),
    }
}

async fn play(campaign: &Campaign) -> Result<Row> {
    let begun = Instant::now();
    let mut rounds = Vec::new();
    for number in 0..campaign.rounds {
        if campaign.is_over() {
            break;
        }
        let mut round = Round::new(campaign.seed.wrapping_add(number));
        match campaign.kind {
            Kind::Crash => crash::round(campaign, &mut round).await?,
            Kind::PowerCut => power::round(campaign, &mut round).await?,
            Kind::Disk => disk::round(campaign, &mut round).await?,
            Kind::Clock => clock::round(campaign, &mut round).await?,
            Kind::Resume => resume::round(campaign, &mut round).await?,
        }
        report(campaign.kind, &round);
        let is_skipped = round.skipped.is_some();
        rounds.push(round);
        if is_skipped {
            break;
        }
    }
    Ok(Row { kind: campaign.kind, seed: campaign.seed, rounds, took: begun.elapsed() })
}

/// Prints the result of a round immediately, for the developer who watches a long campaign.
fn report(kind: Kind, round: &Round) {
    let (name, seed) = (kind.name(), round.seed);
    println!(
        "{name} seed {seed}: {} cuts, {} prompts, {} events, {} violations",
        round.cuts,
        round.prompts,
        round.events,
        round.violations.len()
    );
    if let Some(reason) = &round.skipped {
        println!("{name}: SKIPPED: {reason}");
    }
    let told: Vec<_> = round.violations.iter().map(|it| format!("{}: {}", it.promise, it.detail)).collect();
    for violation in told.iter().take(SHOWN) {
        println!("VIOLATION {name} --seed {seed}: {violation}");
    }
    for path in &round.kept {
        println!("{name} --seed {seed}: left for inspection: {}", path.display());
        // The list is for convenience; without it there is still the output.
        let _ = std::fs::write(path.join("violations.txt"), told.join("\n"));
    }
}
