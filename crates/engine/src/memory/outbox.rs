//! The outbox in memory: the readable reference for backends.

use futures::{FutureExt, future};
use protocol::{EventId, Millis};

use super::Memory;
use crate::{
    limits::MAX_NOTICES,
    ports::{Notice, Outbox, StoreFuture},
};

/// Waiting notices, oldest first, and the position up to which the log was read.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    read_upto: Option<u64>,
    notices: Vec<Notice>,
}

impl Waiting {
    fn put(&mut self, upto: u64, notices: Vec<Notice>) -> usize {
        self.read_upto = Some(upto);
        for notice in notices {
            if self.find(&notice.receiver, &notice.id).is_none() {
                self.notices.push(notice);
            }
        }
        let mut newer = std::collections::BTreeMap::<String, usize>::new();
        let before = self.notices.len();
        self.notices.reverse();
        self.notices.retain(|notice| {
            let count = newer.entry(notice.receiver.clone()).or_default();
            *count += 1;
            *count <= MAX_NOTICES
        });
        self.notices.reverse();
        before - self.notices.len()
    }

    fn heads(&self, receiver: &str, limit: usize) -> Vec<Notice> {
        let mut heads: Vec<Notice> = Vec::new();
        for notice in self.notices.iter().filter(|notice| notice.receiver == receiver) {
            if heads.iter().all(|head| head.session != notice.session) {
                heads.push(notice.clone());
            }
        }
        heads.sort_by_key(|head| head.due);
        heads.truncate(limit);
        heads
    }

    fn find(&mut self, receiver: &str, id: &EventId) -> Option<&mut Notice> {
        self.notices.iter_mut().find(|notice| notice.receiver == receiver && notice.id == *id)
    }

    fn postpone(&mut self, receiver: &str, id: &EventId, attempts: u32, due: Millis) {
        if let Some(notice) = self.find(receiver, id) {
            (notice.attempts, notice.due) = (attempts, due);
        }
    }

    fn remove(&mut self, receiver: &str, id: &EventId) {
        self.notices.retain(|notice| notice.receiver != receiver || notice.id != *id);
    }

    fn retain(&mut self, receivers: &[String]) {
        self.notices.retain(|notice| receivers.contains(&notice.receiver));
        self.read_upto = self.read_upto.filter(|_| !receivers.is_empty());
    }
}

impl Memory {
    fn change<T: Send + 'static>(&self, change: impl FnOnce(&mut Waiting) -> T) -> StoreFuture<'_, T> {
        future::ready(self.write(|shared| Ok(change(&mut shared.outbox)))).boxed()
    }
}

impl Outbox for Memory {
    fn read_upto(&self) -> StoreFuture<'_, Option<u64>> {
        future::ready(Ok(self.lock().outbox.read_upto)).boxed()
    }

    fn put(&self, upto: u64, notices: Vec<Notice>) -> StoreFuture<'_, usize> {
        self.change(|outbox| outbox.put(upto, notices))
    }

    fn heads(&self, receiver: &str, limit: usize) -> StoreFuture<'_, Vec<Notice>> {
        future::ready(Ok(self.lock().outbox.heads(receiver, limit))).boxed()
    }

    fn postpone(&self, receiver: &str, id: &EventId, attempts: u32, due: Millis) -> StoreFuture<'_, ()> {
        self.change(|outbox| outbox.postpone(receiver, id, attempts, due))
    }

    fn remove(&self, receiver: &str, id: &EventId) -> StoreFuture<'_, ()> {
        self.change(|outbox| outbox.remove(receiver, id))
    }

    fn retain(&self, receivers: Vec<String>) -> StoreFuture<'_, ()> {
        self.change(|outbox| outbox.retain(&receivers))
    }
}
