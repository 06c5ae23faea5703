//! Ids chosen by a client.

use std::{
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use protocol::{
    MessageId, Millis,
    id::{Ids, RANDOM_BYTES},
};

/// A new id for a prompt, which sorts after all earlier ones.
pub fn message() -> MessageId {
    static IDS: Mutex<Ids> = Mutex::new(Ids::new());
    #[expect(clippy::disallowed_methods, reason = "a client has no clock port, and an id only has to sort")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Millis::try_from(now.as_millis()).unwrap_or(Millis::MAX);
    let mut random = [0; RANDOM_BYTES];
    rand::fill(&mut random);
    IDS.lock().unwrap_or_else(PoisonError::into_inner).next(now, random)
}
