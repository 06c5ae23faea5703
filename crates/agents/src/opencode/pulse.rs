//! When OpenCode is asked whether it is at work: a little after what looked like an end, and whenever nothing was heard
//! for a while. Silence alone means nothing: a turn is over when OpenCode says so, and not before. Pure: the time is told.

use std::time::Duration;

use tokio::time::Instant;

/// How long OpenCode is waited for before it is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// After what looked like an end.
    pub(super) settle: Duration,
    /// After it was heard of, or asked.
    pub(super) pulse: Duration,
    /// Until people are told that it says nothing.
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

/// When OpenCode was heard of, and when it is asked next.
#[derive(Debug)]
pub(super) struct Pulse {
    pace: Pace,
    heard: Instant,
    asked: Instant,
    unsure: Option<Instant>,
    /// Whether people were told that nothing is heard.
    told: bool,
}

impl Pulse {
    pub(super) fn new(pace: Pace, now: Instant) -> Self {
        Self { pace, heard: now, asked: now, unsure: None, told: false }
    }

    /// Something was heard that is not just a sign of life. Whether people were told that nothing is.
    pub(super) fn heard(&mut self, now: Instant) -> bool {
        self.heard = now;
        std::mem::take(&mut self.told)
    }

    /// It may be over.
    pub(super) fn unsure(&mut self, now: Instant) {
        self.unsure = Some(now + self.pace.settle);
    }

    /// When it is asked next.
    pub(super) fn due(&self) -> Instant {
        self.unsure.unwrap_or_else(|| self.heard.max(self.asked) + self.pace.pulse)
    }

    /// It is being asked.
    pub(super) fn asked(&mut self, now: Instant) {
        (self.asked, self.unsure) = (now, None);
    }

    /// It is at work. For how long nothing was heard, if it is time to tell people, who are told once.
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
    fn it_is_asked_when_nothing_was_heard_for_a_while() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let mut pulse = Pulse::new(Pace::default(), begun);
        assert_eq!(pulse.due(), at(30));
        pulse.heard(at(20));
        assert_eq!(pulse.due(), at(50), "whoever speaks is not asked");
        pulse.asked(at(50));
        assert_eq!(pulse.due(), at(80));
    }

    #[test]
    fn it_is_asked_soon_when_it_may_be_over() {
        let begun = Instant::now();
        let mut pulse = Pulse::new(Pace::default(), begun);
        pulse.unsure(begun);
        pulse.heard(begun + Duration::from_secs(1));
        assert_eq!(pulse.due(), begun + Duration::from_millis(1_500), "one word more does not put it off");
        pulse.asked(pulse.due());
        assert!(pulse.due() > begun + Duration::from_secs(30));
    }

    #[test]
    fn people_are_told_once_about_each_silence() {
        let begun = Instant::now();
        let at = |minutes: u64| begun + Duration::from_mins(minutes);
        let mut pulse = Pulse::new(Pace::default(), begun);
        assert_eq!(pulse.silence(at(9)), None);
        assert_eq!(pulse.silence(at(10)), Some(Duration::from_mins(10)));
        assert_eq!(pulse.silence(at(11)), None);
        assert!(pulse.heard(at(12)) && !pulse.heard(at(13)), "they are told when it is over, once");
        assert_eq!(pulse.silence(at(22)), None);
        assert_eq!(pulse.silence(at(23)), Some(Duration::from_mins(10)));
    }
}
