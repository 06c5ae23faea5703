//! The harness together with the driver of one agent, for tests that talk to the driver.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use engine::limits::Limits;

use super::{Harness, Ticking};
use crate::external::{Agent, Driver};

pub(crate) struct Driven<A: Agent> {
    harness: Harness,
    pub(crate) driver: Driver<A>,
}

impl<A: Agent> Driven<A> {
    pub(crate) async fn drive(agent: A, limits: Limits) -> Self {
        let mut made = None;
        let harness = Harness::bounded(limits, |wake| {
            made.insert(Driver::new(agent, Arc::new(Ticking::default()), wake)).clone()
        });
        Self { harness: harness.await, driver: made.unwrap() }
    }

    /// The server is killed and started again with another driver.
    pub(crate) async fn drive_again(self, agent: A) -> Self {
        drop(self.driver);
        let mut made = None;
        let harness = self
            .harness
            .restart(|wake| made.insert(Driver::new(agent, Arc::new(Ticking::default()), wake)).clone());
        Self { harness: harness.await, driver: made.unwrap() }
    }
}

impl<A: Agent> Deref for Driven<A> {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.harness
    }
}

impl<A: Agent> DerefMut for Driven<A> {
    fn deref_mut(&mut self) -> &mut Harness {
        &mut self.harness
    }
}
