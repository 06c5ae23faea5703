//! The claims of a worktree: which session has changed which file, for as long as a running turn may ask.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::SessionId;

/// The number of ancestor sessions that share a claim.
const MAX_ABOVE: usize = 8;

/// The claims of a worktree. A claim is kept while a [`Moment`] before it exists.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    /// A logical clock: every claim and every moment gets the next number.
    now: u64,
    /// The parents of the sessions that have a turn in this worktree.
    parents: HashMap<SessionId, Option<SessionId>>,
    /// The moments that are still held, with their number of holders.
    open: BTreeMap<u64, usize>,
    claims: Vec<Claim>,
}

#[derive(Debug)]
struct Claim {
    at: u64,
    /// The session that made the change, and its ancestors.
    owners: Vec<SessionId>,
    file: PathBuf,
}

/// A session's turn in a worktree. Dropping it ends the turn's registration.
#[derive(Debug)]
pub(crate) struct Visit {
    ledger: Arc<Ledger>,
    session: SessionId,
}

/// A point in time that claims are compared with. Dropping it lets the ledger drop claims that no other moment needs.
#[derive(Debug)]
pub(crate) struct Moment {
    ledger: Arc<Ledger>,
    at: u64,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        // A panic cannot leave a half-made change behind, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a turn of a session.
    pub(crate) fn enter(self: &Arc<Self>, session: &SessionId, parent: Option<&SessionId>) -> Visit {
        self.book().parents.insert(session.clone(), parent.cloned());
        Visit { ledger: Arc::clone(self), session: session.clone() }
    }
}

impl Visit {
    /// Returns a moment for the current time.
    pub(crate) fn moment(&self) -> Moment {
        let mut book = self.ledger.book();
        book.now += 1;
        let at = book.now;
        *book.open.entry(at).or_default() += 1;
        Moment { ledger: Arc::clone(&self.ledger), at }
    }

    /// Records that this session has changed files.
    pub(crate) fn claim<'f>(&self, files: impl IntoIterator<Item = &'f Path>) {
        let mut book = self.ledger.book();
        book.now += 1;
        let at = book.now;
        let owners = book.family(&self.session);
        let claim = |file: &Path| Claim { at, owners: owners.clone(), file: file.to_owned() };
        let claims: Vec<Claim> = files.into_iter().map(claim).collect();
        book.claims.extend(claims);
    }

    /// Returns the files that this session and its descendants have changed since the moment.
    pub(crate) fn own(&self, since: &Moment) -> BTreeSet<PathBuf> {
        self.since(since, |owners| owners.contains(&self.session))
    }

    /// Returns the files that other sessions have changed since the moment.
    pub(crate) fn others(&self, since: &Moment) -> BTreeSet<PathBuf> {
        self.since(since, |owners| !owners.contains(&self.session))
    }

    fn since(&self, since: &Moment, wanted: impl Fn(&[SessionId]) -> bool) -> BTreeSet<PathBuf> {
        let book = self.ledger.book();
        let claims = book.claims.iter().filter(|claim| claim.at > since.at && wanted(&claim.owners));
        claims.map(|claim| claim.file.clone()).collect()
    }
}

impl Book {
    /// Returns a session and its ancestors.
    fn family(&self, session: &SessionId) -> Vec<SessionId> {
        let mut family = vec![session.clone()];
        while let Some(parent) = family.last().and_then(|last| self.parents.get(last)).cloned().flatten()
            && family.len() <= MAX_ABOVE
        {
            family.push(parent);
        }
        family
    }

    /// Drops the claims that are older than every held moment.
    fn tidy(&mut self) {
        let oldest = self.open.keys().next().copied().unwrap_or(u64::MAX);
        self.claims.retain(|claim| claim.at > oldest);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.ledger.book().parents.remove(&self.session);
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        let mut book = self.ledger.book();
        if let Some(count) = book.open.get_mut(&self.at) {
            *count -= 1;
            if *count == 0 {
                book.open.remove(&self.at);
            }
        }
        book.tidy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(ledger: &Arc<Ledger>, id: &str, parent: Option<&str>) -> Visit {
        let parent = parent.map(|parent| parent.parse().unwrap());
        ledger.enter(&id.parse().unwrap(), parent.as_ref())
    }

    fn names(files: &BTreeSet<PathBuf>) -> String {
        files.iter().map(|file| file.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_session_sees_its_own_changes_apart_from_those_of_others() {
        let ledger = Arc::default();
        let (one, two) = (visit(&ledger, "ses_1", None), visit(&ledger, "ses_2", None));
        two.claim([Path::new("early")]);
        let (since_one, since_two) = (one.moment(), two.moment());
        one.claim([Path::new("a"), Path::new("b")]);
        two.claim([Path::new("b"), Path::new("c")]);
        assert_eq!(
            (names(&one.own(&since_one)), names(&one.others(&since_one))),
            ("a b".into(), "b c".into())
        );
        assert_eq!(
            (names(&two.own(&since_two)), names(&two.others(&since_two))),
            ("b c".into(), "a b".into())
        );
        let later = one.moment();
        assert_eq!((names(&one.own(&later)), names(&one.others(&later))), (String::new(), String::new()));
    }

    #[test]
    fn a_childs_claim_is_also_its_parents_but_not_the_reverse() {
        let ledger = Arc::default();
        let top = visit(&ledger, "ses_1", None);
        let middle = visit(&ledger, "ses_2", Some("ses_1"));
        let since = top.moment();
        {
            let low = visit(&ledger, "ses_3", Some("ses_2"));
            low.claim([Path::new("low")]);
        }
        top.claim([Path::new("top")]);
        assert_eq!((names(&top.own(&since)), names(&top.others(&since))), ("low top".into(), String::new()));
        assert_eq!((names(&middle.own(&since)), names(&middle.others(&since))), ("low".into(), "top".into()));
    }

    #[test]
    fn claims_older_than_every_moment_are_dropped() {
        let ledger: Arc<Ledger> = Arc::default();
        let one = visit(&ledger, "ses_1", None);
        let (first, second) = (one.moment(), one.moment());
        one.claim([Path::new("a")]);
        drop(first);
        assert_eq!(ledger.book().claims.len(), 1);
        drop((second, one));
        let book = ledger.book();
        assert!(book.claims.is_empty() && book.open.is_empty() && book.parents.is_empty(), "{book:?}");
    }
}
