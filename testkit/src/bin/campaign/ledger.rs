//! The clients' knowledge in a campaign: the prompts they sent and the server's answers.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use crate::script::Script;

/// A client's knowledge of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The prompt was sent and not answered.
    Unsure,
    Accepted,
    /// With this status.
    Refused(u16),
}

/// A prompt that was sent at least once.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) session: String,
    pub(crate) script: Script,
    pub(crate) fate: Fate,
    /// True if its session may have been deleted, or a revert may have removed it.
    pub(crate) may_be_gone: bool,
}

/// The ledger that all clients of a round share.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    prompts: Mutex<BTreeMap<String, Prompt>>,
    /// Calls that were sent again because a server died.
    pub(crate) resent: AtomicUsize,
    /// Prompts that have ended according to the server.
    pub(crate) ended: AtomicUsize,
    /// Set when clients should stop.
    closing: AtomicBool,
}

impl Ledger {
    /// The prompts that another ledger lists as accepted. Others are left out: after a power cut they may exist or
    /// not.
    pub(crate) fn accepted_of(other: &Self) -> Self {
        let accepted = other.prompts().into_iter().filter(|(_, prompt)| prompt.fate == Fate::Accepted);
        Self { prompts: Mutex::new(accepted.collect()), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Prompt>> {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a prompt before it is sent, because the answer may never arrive.
    pub(crate) fn sending(&self, id: &str, session: &str, script: Script) {
        let prompt = Prompt { session: session.to_owned(), script, fate: Fate::Unsure, may_be_gone: false };
        self.lock().insert(id.to_owned(), prompt);
    }

    /// Records the answer to a prompt.
    pub(crate) fn answered(&self, id: &str, status: u16) {
        if let Some(prompt) = self.lock().get_mut(id) {
            let is_success = (200..300).contains(&status);
            prompt.fate = if is_success { Fate::Accepted } else { Fate::Refused(status) };
        }
    }

    /// Records that a prompt may have been removed.
    pub(crate) fn may_be_gone(&self, id: &str) {
        if let Some(prompt) = self.lock().get_mut(id) {
            prompt.may_be_gone = true;
        }
    }

    /// Copies from a later ledger which prompts may have been removed.
    pub(crate) fn excuse(&self, later: &Self) {
        let gone = later.prompts().into_iter().filter(|(_, prompt)| prompt.may_be_gone);
        gone.for_each(|(id, _)| self.may_be_gone(&id));
    }

    pub(crate) fn prompts(&self) -> BTreeMap<String, Prompt> {
        self.lock().clone()
    }

    pub(crate) fn accepted(&self) -> usize {
        self.lock().values().filter(|prompt| prompt.fate == Fate::Accepted).count()
    }

    /// Accepted prompts that have not ended, according to the follower.
    pub(crate) fn unfinished(&self) -> usize {
        self.accepted().saturating_sub(self.ended.load(Relaxed))
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Relaxed);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }
}
