//! Rows of name, figure and remark, as a Markdown table.

use std::{fmt, time::Duration};

#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<[String; 3]>,
}

impl Table {
    pub(crate) fn row(
        &mut self,
        name: impl Into<String>,
        figure: impl Into<String>,
        remark: impl Into<String>,
    ) {
        self.rows.push([name.into(), figure.into(), remark.into()]);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "| what | figure | how |\n|---|---|---|")?;
        self.rows
            .iter()
            .try_for_each(|[name, figure, remark]| writeln!(out, "| {name} | {figure} | {remark} |"))
    }
}

/// The value below which a share of the samples lies.
pub(crate) fn percentile(samples: &mut [Duration], share: f64) -> Duration {
    samples.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = ((samples.len() as f64 * share).ceil() as usize).saturating_sub(1);
    samples.get(index).copied().unwrap_or_default()
}

/// Milliseconds with two decimals.
pub(crate) fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}

/// Mebibytes with one decimal.
pub(crate) fn mebibytes(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let bytes = bytes as f64;
    format!("{:.1} MiB", bytes / 1_048_576.0)
}

/// Events per second.
pub(crate) fn rate(count: usize, time: Duration) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown without digits")]
    let count = count as f64;
    format!("{:.0}/s", count / time.as_secs_f64())
}
