//! The claims of a worktree: which session has changed which file, for as long as a running turn may ask.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::SessionId;

/// The number of ancestor sessions that share a claim.
const MAX_ANCESTORS: usize = 8;

/// The claims of a worktree. A claim is kept while a [`LogicalTime`] before it exists.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<Records>);

#[derive(Debug, Default)]
struct Records {
    /// A logical clock: every claim and every reading gets the next number.
    now: u64,
    /// The sessions that have a turn in this worktree.
    sessions: HashMap<SessionId, Registration>,
    /// The readings that are still held, with their number of holders.
    open: BTreeMap<u64, usize>,
    claims: Vec<Claim>,
}

#[derive(Debug)]
struct Registration {
    parent: Option<SessionId>,
    /// A turn can begin while a task of the session's last turn still holds its claimant.
    claimants: usize,
}

#[derive(Debug)]
struct Claim {
    at: u64,
    /// The session that made the change, and its ancestors.
    owners: Vec<SessionId>,
    file: PathBuf,
}

/// A session with a turn in a worktree. Dropping it ends the registration.
#[derive(Debug)]
pub(crate) struct Claimant {
    claims: Arc<Claims>,
    session: SessionId,
}

/// A reading of the logical clock that claims are compared with. Dropping it drops the claims that no other reading needs.
#[derive(Debug)]
pub(crate) struct LogicalTime {
    claims: Arc<Claims>,
    at: u64,
}

impl Claims {
    /// Registers a turn of a session.
    pub(crate) fn register(self: &Arc<Self>, session: &SessionId, parent: Option<&SessionId>) -> Claimant {
        let mut records = self.0.lock();
        let new = || Registration { parent: parent.cloned(), claimants: 0 };
        records.sessions.entry(session.clone()).or_insert_with(new).claimants += 1;
        drop(records);
        Claimant { claims: Arc::clone(self), session: session.clone() }
    }
}

impl Claimant {
    /// Reads the logical clock.
    pub(crate) fn now(&self) -> LogicalTime {
        let mut records = self.claims.0.lock();
        records.now += 1;
        let at = records.now;
        *records.open.entry(at).or_default() += 1;
        LogicalTime { claims: Arc::clone(&self.claims), at }
    }

    /// Records that this session has changed files.
    pub(crate) fn claim<'f>(&self, files: impl IntoIterator<Item = &'f Path>) {
        let mut records = self.claims.0.lock();
        records.now += 1;
        let at = records.now;
        let owners = records.lineage(&self.session);
        let claim = |file: &Path| Claim { at, owners: owners.clone(), file: file.to_owned() };
        let claims: Vec<Claim> = files.into_iter().map(claim).collect();
        records.claims.extend(claims);
    }

    /// Returns the files that this session and its descendants have changed since then.
    pub(crate) fn own(&self, since: &LogicalTime) -> BTreeSet<PathBuf> {
        self.since(since, |owners| owners.contains(&self.session))
    }

    /// Returns the files that other sessions have changed since then.
    pub(crate) fn others(&self, since: &LogicalTime) -> BTreeSet<PathBuf> {
        self.since(since, |owners| !owners.contains(&self.session))
    }

    fn since(&self, since: &LogicalTime, wanted: impl Fn(&[SessionId]) -> bool) -> BTreeSet<PathBuf> {
        let records = self.claims.0.lock();
        let claims = records.claims.iter().filter(|claim| claim.at > since.at && wanted(&claim.owners));
        claims.map(|claim| claim.file.clone()).collect()
    }
}

impl Records {
    /// Returns a session and its ancestors.
    fn lineage(&self, session: &SessionId) -> Vec<SessionId> {
        let mut lineage = vec![session.clone()];
        while let Some(parent) = lineage.last().and_then(|last| self.sessions.get(last)?.parent.clone())
            && lineage.len() <= MAX_ANCESTORS
        {
            lineage.push(parent);
        }
        lineage
    }

    /// Drops the claims that are older than every held reading.
    fn drop_unneeded(&mut self) {
        let oldest = self.open.keys().next().copied().unwrap_or(u64::MAX);
        self.claims.retain(|claim| claim.at > oldest);
    }
}

impl Drop for Claimant {
    fn drop(&mut self) {
        let mut records = self.claims.0.lock();
        if let Some(registration) = records.sessions.get_mut(&self.session) {
            registration.claimants -= 1;
            if registration.claimants == 0 {
                records.sessions.remove(&self.session);
            }
        }
    }
}

impl Drop for LogicalTime {
    fn drop(&mut self) {
        let mut records = self.claims.0.lock();
        if let Some(count) = records.open.get_mut(&self.at) {
            *count -= 1;
            if *count == 0 {
                records.open.remove(&self.at);
            }
        }
        records.drop_unneeded();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimant(claims: &Arc<Claims>, id: &str, parent: Option<&str>) -> Claimant {
        let parent = parent.map(|parent| parent.parse().unwrap());
        claims.register(&id.parse().unwrap(), parent.as_ref())
    }

    fn names(files: &BTreeSet<PathBuf>) -> String {
        files.iter().map(|file| file.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_session_sees_its_own_changes_apart_from_those_of_others() {
        let claims = Arc::default();
        let (one, two) = (claimant(&claims, "ses_1", None), claimant(&claims, "ses_2", None));
        two.claim([Path::new("early")]);
        let (since_one, since_two) = (one.now(), two.now());
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
        let later = one.now();
        assert_eq!((names(&one.own(&later)), names(&one.others(&later))), (String::new(), String::new()));
    }

    #[test]
    fn a_childs_claim_is_also_its_parents_but_not_the_reverse() {
        let claims = Arc::default();
        let top = claimant(&claims, "ses_1", None);
        let middle = claimant(&claims, "ses_2", Some("ses_1"));
        let since = top.now();
        {
            let low = claimant(&claims, "ses_3", Some("ses_2"));
            low.claim([Path::new("low")]);
        }
        top.claim([Path::new("top")]);
        assert_eq!((names(&top.own(&since)), names(&top.others(&since))), ("low top".into(), String::new()));
        assert_eq!((names(&middle.own(&since)), names(&middle.others(&since))), ("low".into(), "top".into()));
    }

    #[test]
    fn a_session_stays_registered_while_one_of_its_turns_lasts() {
        let claims = Arc::default();
        let top = claimant(&claims, "ses_1", None);
        let since = top.now();
        let (last, next) =
            (claimant(&claims, "ses_2", Some("ses_1")), claimant(&claims, "ses_2", Some("ses_1")));
        drop(last);
        next.claim([Path::new("a")]);
        assert_eq!(names(&top.own(&since)), "a");
    }

    #[test]
    fn claims_older_than_every_reading_are_dropped() {
        let claims: Arc<Claims> = Arc::default();
        let one = claimant(&claims, "ses_1", None);
        let (first, second) = (one.now(), one.now());
        one.claim([Path::new("a")]);
        drop(first);
        assert_eq!(claims.0.lock().claims.len(), 1);
        drop((second, one));
        let records = claims.0.lock();
        assert!(
            records.claims.is_empty() && records.open.is_empty() && records.sessions.is_empty(),
            "{records:?}"
        );
    }
}
