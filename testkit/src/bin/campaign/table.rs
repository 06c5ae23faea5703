//! The table at the end: one row for each campaign.

use std::{fmt, time::Duration};

use crate::campaign::{Kind, Round};

/// The results of all rounds of a campaign.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    pub(crate) rounds: Vec<Round>,
    pub(crate) took: Duration,
}

impl Row {
    pub(crate) fn violations(&self) -> usize {
        self.rounds.iter().map(|round| round.violations.len()).sum()
    }

    fn sum(&self, of: impl Fn(&Round) -> usize) -> String {
        self.rounds.iter().map(of).sum::<usize>().to_string()
    }

    fn cells(&self) -> [String; 9] {
        let skipped = self.rounds.iter().any(|round| round.skipped.is_some() && round.starts.is_empty());
        let mut starts: Vec<Duration> = self.rounds.iter().flat_map(|round| round.starts.clone()).collect();
        starts.sort_unstable();
        let at = |percent| percentile(&starts, percent).map_or_else(|| "–".to_owned(), seconds);
        [
            self.kind.name().to_owned(),
            self.seed.to_string(),
            if skipped { "skipped".to_owned() } else { self.rounds.len().to_string() },
            self.sum(|round| round.cuts),
            self.sum(|round| round.prompts),
            self.sum(|round| round.events),
            self.violations().to_string(),
            format!("{} / {} / {}", at(50), at(99), at(100)),
            format!("{:.0}", self.took.as_secs_f64()),
        ]
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.2}", duration.as_secs_f64())
}

/// The value that `percent` of the sorted values do not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied()
}

/// All rows, as Markdown.
#[derive(Debug, Default)]
pub(crate) struct Table(pub(crate) Vec<Row>);

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "campaign",
            "seed",
            "rounds",
            "kills or cuts",
            "prompts accepted",
            "events followed",
            "violations",
            "start p50 / p99 / max, s",
            "seconds",
        ];
        writeln!(out, "| {} |", head.join(" | "))?;
        writeln!(out, "|{}", "---|".repeat(head.len()))?;
        for row in &self.0 {
            writeln!(out, "| {} |", row.cells().join(" | "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentile(&sorted, 50), Some(Duration::from_millis(50)));
        assert_eq!(percentile(&sorted, 99), Some(Duration::from_millis(99)));
        assert_eq!(percentile(&sorted, 100), Some(Duration::from_millis(100)));
        assert_eq!(percentile(&[], 50), None);
    }
}
