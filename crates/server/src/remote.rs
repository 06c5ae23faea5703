//! Calls that are meant for a terminal interface, kept for whoever asks for them one by one.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;

/// How long a client waits for a call before it has to ask again.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// Calls that are kept for a directory; beyond that the oldest is forgotten.
const MAX_CALLS: usize = 64;
/// Directories that calls are kept for; beyond that all are forgotten.
const MAX_DIRECTORIES: usize = 64;

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Call {
    /// What was called.
    pub(crate) path: &'static str,
    /// What was sent.
    pub(crate) body: Value,
}

/// The calls of every directory that somebody has asked about. Cheap to clone.
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
    /// Keeps a call, if anybody ever asked for those of the directory.
    pub(crate) fn called(&self, directory: &str, call: Call) {
        let mut calls = self.lock();
        let Some(waiting) = calls.get_mut(directory) else { return };
        if waiting.len() >= MAX_CALLS {
            waiting.pop_front();
        }
        waiting.push_back(call);
        drop(calls);
        self.inner.called.notify_waiters();
    }

    /// The next call of a directory, as soon as there is one.
    pub(crate) async fn next(&self, directory: &str) -> Call {
        loop {
            // It counts from here on, so that nothing is missed between looking and waiting.
            let called = self.inner.called.notified();
            if let Some(call) = self.take(directory) {
                return call;
            }
            called.await;
        }
    }

    fn take(&self, directory: &str) -> Option<Call> {
        let mut calls = self.lock();
        if calls.len() >= MAX_DIRECTORIES && !calls.contains_key(directory) {
            calls.clear();
        }
        calls.entry(directory.to_owned()).or_default().pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Call>>> {
        // Lists of whole calls are never half-changed.
        self.inner.calls.lock().unwrap_or_else(PoisonError::into_inner)
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
    async fn calls_are_kept_from_the_first_question_on_and_handed_out_in_order() {
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
    async fn a_call_wakes_one_of_those_who_wait() {
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
    async fn only_so_much_is_kept() {
        let remote = Remote::default();
        assert_eq!(remote.next("/a").now_or_never(), None);
        for number in 0..=MAX_CALLS {
            remote.called("/a", call(number));
        }
        assert_eq!(remote.next("/a").await, call(1));
        for number in 0..2 * MAX_DIRECTORIES {
            assert_eq!(remote.next(&format!("/{number}")).now_or_never(), None);
        }
        assert!(remote.lock().len() <= MAX_DIRECTORIES);
    }
}
