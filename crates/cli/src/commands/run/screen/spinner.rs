//! The spinner, which shows that the turn is running while nothing is printed.

use std::{
    fmt,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// Interval between frames.
const FRAME: Duration = Duration::from_millis(80);

/// A spinner that is shown or hidden.
#[derive(Debug, Default)]
pub(super) struct Spinner {
    bar: Option<ProgressBar>,
    is_counting_down: bool,
}

impl Spinner {
    /// Shows the spinner with a label and the time since it was first shown.
    pub(super) fn show(&mut self, label: &str) {
        if std::mem::take(&mut self.is_counting_down) {
            self.hide();
        }
        let bar = self.bar.get_or_insert_with(|| start("{spinner:.cyan} {msg:.dim} {elapsed:.dim}", None));
        bar.set_message(label.to_owned());
    }

    /// Shows the spinner with the seconds that are left until a deadline.
    pub(super) fn count_down(&mut self, label: &str, deadline: Instant) {
        self.hide();
        let bar = start("{spinner:.cyan} {msg:.dim} {left:.dim}", Some(deadline));
        bar.set_message(label.to_owned());
        self.bar = Some(bar);
        self.is_counting_down = true;
    }

    pub(super) fn hide(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn start(template: &str, deadline: Option<Instant>) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(mut style) = ProgressStyle::with_template(template) {
        if let Some(deadline) = deadline {
            style = style.with_key("left", move |_: &ProgressState, out: &mut dyn fmt::Write| {
                let left = deadline.saturating_duration_since(Instant::now());
                let _ = write!(out, "{}", seconds(left));
            });
        }
        bar.set_style(style);
    }
    bar.enable_steady_tick(FRAME);
    bar
}

/// A duration in whole seconds, rounded up: a countdown that shows 0 would be over.
pub(super) fn seconds(left: Duration) -> String {
    format!("{} s", left.as_millis().div_ceil(1_000))
}
