//! Time and randomness as ports, so that a simulation can control both.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use protocol::Millis;

/// Wall-clock time for timestamps. Waiting uses the tokio clock, which tests can pause.
pub trait Clock: Send + Sync {
    fn now(&self) -> Millis;
}

/// Elapsed time for leases. It must also count time in which the machine is suspended, because the leases of other nodes
/// run on meanwhile.
pub trait Stopwatch: fmt::Debug + Send + Sync {
    /// Time since an arbitrary moment; it never falls.
    fn elapsed(&self) -> Duration;
}

/// Unpredictable bytes for ids.
pub trait Random: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}

#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        #[expect(clippy::disallowed_methods, reason = "the only place that reads the system clock")]
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis::try_from(now.as_millis()).unwrap_or(Millis::MAX)
    }
}

/// The thread's random generator.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        rand::fill(bytes);
    }
}
