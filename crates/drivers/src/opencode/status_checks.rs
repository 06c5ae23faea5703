//! The schedule of status checks: shortly after a possible end of the turn, and after every period of silence. Silence
//! alone does not end a turn; only OpenCode's report does. Pure: the caller passes the time.

use std::time::Duration;

use tokio::time::Instant;

/// The delays of status checks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Delay after a possible end of the turn.
    pub(super) settle: Duration,
    /// Delay after the last event or status check.
    pub(super) pulse: Duration,
    /// Silence after which the user is told.
    pub(super) quiet: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(1_500),
            pulse: Duration::from_secs(30),
            quiet: Duration::from_mins(10),
        }
    }
}

/// The times of the last event and of the next status check.
#[derive(Debug)]
pub(super) struct StatusChecks {
    pace: Pace,
    heard: Instant,
    asked: Instant,
    unsure: Option<Instant>,
    /// True if the user was told about the current silence.
    told: bool,
    /// An event or a prompt is newer than the last status check, whose result is therefore out of date.
    has_news: bool,
}

impl StatusChecks {
    pub(super) fn new(pace: Pace, now: Instant) -> Self {
        Self { pace, heard: now, asked: now, unsure: None, told: false, has_news: false }
    }

    /// Records an event other than a heartbeat. Returns true if the user was told about the silence that it ends.
    pub(super) fn heard(&mut self, now: Instant) -> bool {
        self.heard = now;
        self.has_news = true;
        std::mem::take(&mut self.told)
    }

    /// Records that a prompt was sent.
    pub(super) fn prompted(&mut self) {
        self.has_news = true;
    }

    /// Returns true if the session may have changed since the last status check.
    pub(super) fn has_news(&self) -> bool {
        self.has_news
    }

    /// Schedules a check soon, because the turn may have ended.
    pub(super) fn unsure(&mut self, now: Instant) {
        self.unsure = Some(now + self.pace.settle);
    }

    /// Schedules a check at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.unsure = Some(now);
    }

    /// The time of the next status check.
    pub(super) fn due(&self) -> Instant {
        self.unsure.unwrap_or_else(|| self.heard.max(self.asked) + self.pace.pulse)
    }

    /// Records a status check.
    pub(super) fn asked(&mut self, now: Instant) {
        (self.asked, self.unsure, self.has_news) = (now, None, false);
    }

    /// Called while OpenCode is busy. Returns the length of the silence when it is time to tell the user, once per
    /// silence.
    pub(super) fn silence(&mut self, now: Instant) -> Option<Duration> {
        let silence = now.saturating_duration_since(self.heard);
        if self.told || silence < self.pace.quiet {
            return None;
        }
        self.told = true;
        Some(silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_checked_after_a_silence() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let mut pulse = StatusChecks::new(Pace::default(), begun);
        assert_eq!(pulse.due(), at(30));
        pulse.heard(at(20));
        assert_eq!(pulse.due(), at(50), "an event postpones the check");
        pulse.asked(at(50));
        assert_eq!(pulse.due(), at(80));
    }

    #[test]
    fn the_status_is_checked_soon_after_a_possible_end() {
        let begun = Instant::now();
        let mut pulse = StatusChecks::new(Pace::default(), begun);
        pulse.unsure(begun);
        pulse.heard(begun + Duration::from_secs(1));
        assert_eq!(
            pulse.due(),
            begun + Duration::from_millis(1_500),
            "an event does not postpone this check"
        );
        pulse.asked(pulse.due());
        assert!(pulse.due() > begun + Duration::from_secs(30));
    }

    #[test]
    fn each_silence_causes_one_notice() {
        let begun = Instant::now();
        let at = |minutes: u64| begun + Duration::from_mins(minutes);
        let mut pulse = StatusChecks::new(Pace::default(), begun);
        assert_eq!(pulse.silence(at(9)), None);
        assert_eq!(pulse.silence(at(10)), Some(Duration::from_mins(10)));
        assert_eq!(pulse.silence(at(11)), None);
        assert!(pulse.heard(at(12)) && !pulse.heard(at(13)), "the end of the silence is reported once");
        assert_eq!(pulse.silence(at(22)), None);
        assert_eq!(pulse.silence(at(23)), Some(Duration::from_mins(10)));
    }
}
