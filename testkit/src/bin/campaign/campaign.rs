//! A campaign: rounds of one kind, each with a seed of its own, within a budget of rounds and time.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::judge::{Promise, Violation};

/// The kind and the limits of a campaign.
#[derive(Debug)]
pub(crate) struct Campaign {
    /// The program of the server under test.
    pub(crate) program: PathBuf,
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    pub(crate) rounds: u64,
    pub(crate) until: Instant,
}

impl Campaign {
    /// Returns true if the time is up; a round that has begun still ends normally.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Servers are killed, stopped and frozen under mixed load
    Crash,
    /// Servers start from images of a power cut: cut, torn and damaged write-ahead logs
    PowerCut,
    /// The disk is full, and then it is not (needs root, for a small tmpfs)
    Disk,
    /// The wall clock jumps back and forth (needs libfaketime)
    Clock,
    /// Followers drop, lag and come back with every kind of cursor
    Resume,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Crash, Self::PowerCut, Self::Disk, Self::Clock, Self::Resume];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::PowerCut => "power-cut",
            Self::Disk => "disk",
            Self::Clock => "clock",
            Self::Resume => "resume",
        }
    }

    /// Rounds and time of a short campaign.
    pub(crate) fn short(self) -> (u64, Duration) {
        match self {
            Self::Crash => (3, Duration::from_mins(1)),
            Self::PowerCut => (2, Duration::from_secs(45)),
            Self::Disk | Self::Clock => (2, Duration::from_secs(30)),
            Self::Resume => (1, Duration::from_secs(30)),
        }
    }
}

/// The result of one round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) seed: u64,
    /// Number of kills, power cuts, clock jumps or dropped connections.
    pub(crate) cuts: usize,
    pub(crate) prompts: usize,
    pub(crate) events: usize,
    pub(crate) violations: Vec<Violation>,
    pub(crate) starts: Vec<Duration>,
    /// Directories that are kept for inspection.
    pub(crate) kept: Vec<PathBuf>,
    /// The reason why the campaign, or a part of it, cannot run here.
    pub(crate) skipped: Option<String>,
}

impl Round {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.violations.is_empty()
    }

    /// Records that the round was cut short, because the server did not start or did not answer.
    pub(crate) fn broken(&mut self, error: &anyhow::Error) {
        self.violations.push(Violation::new(Promise::Alive, format!("{error:#}")));
    }
}
