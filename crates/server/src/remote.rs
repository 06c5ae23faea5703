//! Queues of calls to a terminal interface, for clients that poll for them one by one.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;

/// Longest time that a poll waits for a call.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// Most queued calls per directory; beyond that the oldest is dropped.
const MAX_CALLS: usize = 64;
/// Most directories with a queue; beyond that all queues are dropped.
const MAX_DIRECTORIES: usize = 64;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Call {
    /// Path of the call.
    pub(crate) path: &'static str,
    /// Body of the call.
    pub(crate) body: Value,
}

/// Queues of all directories that were polled. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remote {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: Mutex<HashMap<String, VecDeque<Call>>>,
    called: Notify,
}

impl Remote {
    /// Queues a call if any client has polled for the directory.
    pub(crate) fn called(&self, directory: &str, call: Call) {
        let mut calls = self.inner.calls.lock();
        let Some(waiting) = calls.get_mut(directory) else { return };
        if waiting.len() >= MAX_CALLS {
            waiting.pop_front();
        }
        waiting.push_back(call);
        drop(calls);
        self.inner.called.notify_waiters();
    }

    /// Waits for the next call of a directory.
    pub(crate) async fn next(&self, directory: &str) -> Call {
        loop {
            // Registered before the queue is checked, so that no call is missed in between.
            let called = self.inner.called.notified();
            if let Some(call) = self.take(directory) {
                return call;
            }
            called.await;
        }
    }

    fn take(&self, directory: &str) -> Option<Call> {
        let mut calls = self.inner.calls.lock();
        if calls.len() >= MAX_DIRECTORIES && !calls.contains_key(directory) {
            calls.clear();
        }
        calls.entry(directory.to_owned()).or_default().pop_front()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    fn call(number: usize) -> Call {
        Call { path: "/tui/append-prompt", body: json!({ "text": number }) }
    }

    #[tokio::test]
    async fn calls_are_queued_from_the_first_poll_on_and_delivered_in_order() {
        let remote = Remote::default();
        remote.called("/a", call(0));
        assert_eq!(remote.next("/a").now_or_never(), None);
        remote.called("/a", call(1));
        remote.called("/b", call(2));
        remote.called("/a", call(3));
        assert_eq!(remote.next("/a").await, call(1));
        assert_eq!(remote.next("/a").await, call(3));
        assert_eq!(remote.next("/b").now_or_never(), None);
    }

    #[tokio::test]
    async fn a_call_wakes_one_waiting_client() {
        let remote = Remote::default();
        let (one, other) = (remote.next("/a"), remote.next("/a"));
        let send = async {
            tokio::task::yield_now().await;
            remote.called("/a", call(1));
            remote.called("/a", call(2));
        };
        let (one, other, ()) = tokio::join!(one, other, send);
        assert_eq!([one, other], [call(1), call(2)]);
    }

    #[tokio::test]
    async fn queues_are_bounded() {
        let remote = Remote::default();
        assert_eq!(remote.next("/a").now_or_never(), None);
        for number in 0..=MAX_CALLS {
            remote.called("/a", call(number));
        }
        assert_eq!(remote.next("/a").await, call(1));
        for number in 0..2 * MAX_DIRECTORIES {
            assert_eq!(remote.next(&format!("/{number}")).now_or_never(), None);
        }
        assert!(remote.inner.calls.lock().len() <= MAX_DIRECTORIES);
    }
}
