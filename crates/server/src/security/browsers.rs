//! Browsers that have signed in with the password.
//!
//! A browser holds a random token in a cookie. The server stores a keyed hash of it, with the password as the key: the
//! stored file opens nothing by itself, and a new password signs every browser out.

use std::{fmt, io, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use engine::ports::{Clock, Random, SystemClock, SystemRandom};
use parking_lot::Mutex;
use protocol::Millis;
use ring::hmac;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Time after its last call when a browser must sign in again.
pub(super) const LIFETIME: Millis = 30 * 24 * 3_600_000;
/// Most browsers that are signed in; a further one replaces the one with the oldest call.
const MAX_BROWSERS: usize = 64;
/// Interval at which the time of a browser's last call is stored.
const STORE_SEEN: Millis = 3_600_000;
/// Bytes of a token.
const TOKEN: usize = 32;
/// Characters of a browser's own description that are stored.
const MAX_AGENT: usize = 200;

/// Storage for the list of browsers.
pub trait BrowserStorage: Send + Sync + fmt::Debug {
    /// Reads the list; `None` if nothing has been stored.
    fn load(&self) -> io::Result<Option<Vec<u8>>>;
    /// Replaces the list durably.
    fn save(&self, list: &[u8]) -> io::Result<()>;
}

/// A browser that has signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Browser {
    /// Identifies the browser in this list.
    pub id: String,
    /// The browser's description of itself.
    pub agent: String,
    /// Time of the sign-in, in milliseconds since the Unix epoch.
    pub created: Millis,
    /// Time of the last call, to within an hour.
    pub seen: Millis,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    hash: String,
    #[serde(flatten)]
    browser: Browser,
}

/// The list of browsers that have signed in; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Browsers(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    records: Mutex<Vec<Record>>,
    storage: Option<Arc<dyn BrowserStorage>>,
    /// Held while the list is written, so that an older list never replaces a newer one.
    saving: Mutex<()>,
}

impl Browsers {
    /// Reads the stored list. A list that cannot be read is an error: starting with an empty one would overwrite it.
    pub fn open(storage: Arc<dyn BrowserStorage>) -> io::Result<Self> {
        let records = match storage.load()? {
            Some(list) => serde_json::from_slice(&list)?,
            None => Vec::new(),
        };
        Ok(Self(Arc::new(Inner { records: Mutex::new(records), storage: Some(storage), ..Inner::default() })))
    }

    /// Adds a browser and returns its token. The browser is stored when this returns.
    pub(super) async fn sign_in(&self, key: &[u8], agent: &str) -> io::Result<String> {
        let token = random::<TOKEN>();
        let now = SystemClock.now();
        let agent = agent.chars().filter(|c| !c.is_control()).take(MAX_AGENT).collect();
        let browser = Browser { id: random::<9>(), agent, created: now, seen: now };
        {
            let mut records = self.0.records.lock();
            records.retain(|record| is_fresh(record, now));
            if records.len() >= MAX_BROWSERS
                && let Some(oldest) =
                    records.iter().enumerate().min_by_key(|(_, record)| record.browser.seen).map(|(at, _)| at)
            {
                records.remove(oldest);
            }
            records.push(Record { hash: hash(key, &token), browser });
        }
        self.save().await?;
        Ok(token)
    }

    /// Returns true if the token belongs to a browser that is signed in, and extends its time.
    pub(super) fn knows(&self, key: &[u8], token: &str) -> bool {
        let (hash, now) = (hash(key, token), SystemClock.now());
        let is_due = {
            let mut records = self.0.records.lock();
            let Some(record) = records.iter_mut().find(|record| record.hash == hash) else { return false };
            if !is_fresh(record, now) {
                return false;
            }
            let is_due = now.saturating_sub(record.browser.seen) >= STORE_SEEN;
            if is_due {
                record.browser.seen = now;
            }
            is_due
        };
        if is_due {
            let browsers = self.clone();
            tokio::spawn(async move {
                if let Err(error) = browsers.save().await {
                    tracing::warn!(%error, "cannot store the time of a browser's last call");
                }
            });
        }
        true
    }

    /// Signs out the browser with this token.
    pub(super) async fn sign_out(&self, key: &[u8], token: &str) -> io::Result<bool> {
        let hash = hash(key, token);
        self.remove(|record| record.hash == hash).await
    }

    /// Signs out a browser by its id; false if there is none.
    pub(crate) async fn revoke(&self, id: &str) -> io::Result<bool> {
        self.remove(|record| record.browser.id == id).await
    }

    /// Browsers that are signed in, newest first.
    pub(crate) fn list(&self) -> Vec<Browser> {
        let now = SystemClock.now();
        let records = self.0.records.lock();
        let fresh = records.iter().filter(|record| is_fresh(record, now));
        let mut list: Vec<_> = fresh.map(|record| record.browser.clone()).collect();
        list.sort_by_key(|browser| std::cmp::Reverse(browser.created));
        list
    }

    async fn remove(&self, is_meant: impl Fn(&Record) -> bool) -> io::Result<bool> {
        let found = {
            let mut records = self.0.records.lock();
            let before = records.len();
            records.retain(|record| !is_meant(record));
            records.len() < before
        };
        if found {
            self.save().await?;
        }
        Ok(found)
    }

    async fn save(&self) -> io::Result<()> {
        let inner = self.0.clone();
        let saved = tokio::task::spawn_blocking(move || {
            let Some(storage) = &inner.storage else { return Ok(()) };
            let _saving = inner.saving.lock();
            let list = serde_json::to_vec(&*inner.records.lock())?;
            storage.save(&list)
        });
        saved.await.map_err(io::Error::other)?
    }
}

fn is_fresh(record: &Record, now: Millis) -> bool {
    now.saturating_sub(record.browser.seen) < LIFETIME
}

fn random<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    SystemRandom.fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn hash(key: &[u8], token: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct InMemory(Mutex<Option<Vec<u8>>>);

    impl BrowserStorage for InMemory {
        fn load(&self) -> io::Result<Option<Vec<u8>>> {
            Ok(self.0.lock().clone())
        }

        fn save(&self, list: &[u8]) -> io::Result<()> {
            *self.0.lock() = Some(list.to_vec());
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_browser_stays_signed_in_after_a_restart_and_the_file_contains_no_token() {
        let storage = Arc::new(InMemory::default());
        let browsers = Browsers::open(storage.clone()).unwrap();
        let token = browsers.sign_in(b"me:secret", "Firefox\u{7}").await.unwrap();
        let stored = String::from_utf8(storage.load().unwrap().unwrap()).unwrap();
        assert!(!stored.contains(&token) && !stored.contains("secret"), "{stored}");
        let again = Browsers::open(storage).unwrap();
        assert!(again.knows(b"me:secret", &token));
        assert_eq!(again.list()[0].agent, "Firefox");
        assert!(!again.knows(b"me:other", &token), "a new password signs every browser out");
        let hash = again.0.records.lock()[0].hash.clone();
        assert!(!again.knows(b"me:secret", &hash));
    }

    #[tokio::test]
    async fn a_browser_that_signs_out_or_is_revoked_is_unknown() {
        let browsers = Browsers::default();
        let (one, two) =
            (browsers.sign_in(b"k", "one").await.unwrap(), browsers.sign_in(b"k", "two").await.unwrap());
        assert!(browsers.sign_out(b"k", &one).await.unwrap());
        assert!(!browsers.knows(b"k", &one) && browsers.knows(b"k", &two));
        let id = browsers.list()[0].id.clone();
        assert!(browsers.revoke(&id).await.unwrap());
        assert!(!browsers.revoke(&id).await.unwrap());
        assert!(!browsers.knows(b"k", &two));
    }

    #[tokio::test]
    async fn old_browsers_and_browsers_beyond_the_limit_are_dropped() {
        let browsers = Browsers::default();
        let first = browsers.sign_in(b"k", "first").await.unwrap();
        browsers.0.records.lock()[0].browser.seen -= LIFETIME;
        assert!(!browsers.knows(b"k", &first));
        for _ in 0..=MAX_BROWSERS {
            browsers.sign_in(b"k", "more").await.unwrap();
        }
        assert_eq!(browsers.list().len(), MAX_BROWSERS);
    }
}
