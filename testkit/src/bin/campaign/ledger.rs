//! What the clients of a campaign know: which prompts they sent and what the server said to them.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use crate::script::Script;

/// What a client knows about a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was sent and not answered.
    Unsure,
    /// The server answered with success.
    Accepted,
    /// The server refused it.
    Refused(u16),
}

/// A prompt that was sent at least once.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) session: String,
    pub(crate) script: Script,
    pub(crate) fate: Fate,
    /// Its session may have been deleted, or a revert may have removed it.
    pub(crate) may_be_gone: bool,
}

/// Shared by all clients of a round.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    prompts: Mutex<BTreeMap<String, Prompt>>,
    /// Calls that had to be sent again because a server died.
    pub(crate) resent: AtomicUsize,
    /// How many prompts the server says are over.
    pub(crate) ended: AtomicUsize,
    /// Clients stop at their next opportunity.
    closing: AtomicBool,
}

impl Ledger {
    /// What another ledger says now is accepted. Its other prompts are left out: a cut may have any of them or not.
    pub(crate) fn accepted_of(other: &Self) -> Self {
        let accepted = other.prompts().into_iter().filter(|(_, prompt)| prompt.fate == Fate::Accepted);
        Self { prompts: Mutex::new(accepted.collect()), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Prompt>> {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a prompt before it is sent: the answer may never arrive.
    pub(crate) fn sending(&self, id: &str, session: &str, script: Script) {
        let prompt = Prompt { session: session.to_owned(), script, fate: Fate::Unsure, may_be_gone: false };
        self.lock().insert(id.to_owned(), prompt);
    }

    /// Notes the answer to a prompt.
    pub(crate) fn answered(&self, id: &str, status: u16) {
        if let Some(prompt) = self.lock().get_mut(id) {
            let is_success = (200..300).contains(&status);
            prompt.fate = if is_success { Fate::Accepted } else { Fate::Refused(status) };
        }
    }

    /// Notes that a prompt need not be there any more.
    pub(crate) fn may_be_gone(&self, id: &str) {
        if let Some(prompt) = self.lock().get_mut(id) {
            prompt.may_be_gone = true;
        }
    }

    /// Takes over from a later ledger which prompts may be gone.
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

    /// Prompts that are accepted and not over, as far as the follower has heard.
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
