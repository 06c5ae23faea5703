//! Timestamps and fresh ids, from the injected clock and random source.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use protocol::{
    Event, EventBody, Millis,
    id::{Id, Ids, RANDOM_BYTES},
};

use crate::ports::{Clock, Encoded, Random};

/// Creates timestamps and ids. Ids of one mint are monotonic (within the wrap of [`protocol::id`]).
pub struct Mint {
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    ids: Mutex<Ids>,
}

impl Mint {
    pub fn new(clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self { clock, random, ids: Mutex::default() }
    }

    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    pub fn id<I: Id>(&self) -> I {
        let mut random = [0; RANDOM_BYTES];
        self.random.fill(&mut random);
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).next(self.clock.now(), random)
    }

    /// A random number below `bound`.
    pub fn below(&self, bound: usize) -> usize {
        let mut random = [0; 4];
        self.random.fill(&mut random);
        usize::try_from(u32::from_le_bytes(random)).unwrap_or(0) % bound.max(1)
    }

    /// An event with a fresh id.
    pub fn event(&self, body: EventBody) -> Event {
        Event::new(self.id(), body)
    }

    /// An event with a fresh id and its JSON.
    pub fn encoded(&self, body: EventBody) -> Encoded {
        let event = self.event(body);
        // Wire types have string keys only and no failing serialisers.
        let json = serde_json::to_vec(&event).unwrap_or_default().into();
        Encoded { event, json }
    }
}

impl fmt::Debug for Mint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Mint")
    }
}
