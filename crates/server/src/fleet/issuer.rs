//! The side of the called node: lets other nodes prove that they know the key, and knows the tokens that it gave them.
//!
//! A greeting costs no memory: the answer carries a seal by which the node recognises its own nonce. So only a caller that
//! knows the key can make it remember anything.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    routing::post,
};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    Process, errors,
    key::{Greeting, Key, Role, random},
};
use crate::{App, Error};

pub(super) const GREET: &str = "/baton/fleet/greet";
pub(super) const PROVE: &str = "/baton/fleet/prove";
/// Lifetime of a token.
pub(super) const LIFETIME: Duration = Duration::from_hours(1);
/// Time from the answer to a greeting to its proof.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most tokens: each node has one or two. Beyond that the oldest is dropped.
const MAX_TOKENS: usize = 256;
/// Largest message in bytes.
const MAX_MESSAGE: usize = 4 * 1024;

/// The answer to a greeting.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) nonce: String,
    seal: String,
    /// Shows the greeting node that this one knows the key.
    pub(super) proof: String,
}

/// The proof of the node that greeted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Proof {
    pub(super) greeting: Greeting,
    pub(super) answer: Answer,
    pub(super) signature: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Given {
    pub(super) token: String,
}

#[derive(Clone)]
pub(super) struct TokenIssuer(Arc<Inner>);

struct Inner {
    process: Process,
    key: Key,
    /// Seals nonces; known to this process only.
    seal: Key,
    opened: Instant,
    issued: Mutex<Issued>,
}

#[derive(Default)]
struct Issued {
    /// By the digest of the token, so that a look-up takes a time that says nothing about tokens.
    tokens: HashMap<[u8; 32], Holder>,
    /// The newest process of each node that has proved itself.
    newest: HashMap<String, u64>,
    /// Nonces that have been used, until they are too old anyway.
    used: HashMap<String, Instant>,
}

struct Holder {
    from: Process,
    until: Instant,
}

impl TokenIssuer {
    pub(super) fn new(process: Process, key: Key) -> Self {
        let (seal, opened, issued) = (Key::random(), Instant::now(), Mutex::default());
        Self(Arc::new(Inner { process, key, seal, opened, issued }))
    }

    pub(super) fn routes(&self) -> Router<App> {
        Router::new()
            .route(GREET, post(greet))
            .route(PROVE, post(prove))
            .layer(DefaultBodyLimit::max(MAX_MESSAGE))
            .with_state(self.clone())
    }

    /// The process that holds a token.
    pub(super) fn holder(&self, token: &str) -> Option<String> {
        let issued = self.0.issued.lock();
        let holder = issued.tokens.get(&digest_of(token)).filter(|holder| holder.until > Instant::now())?;
        Some(holder.from.node.clone())
    }

    fn greet(&self, greeting: &Greeting) -> Result<Answer, Error> {
        let Inner { process, key, seal, opened, .. } = &*self.0;
        if greeting.to != *process {
            return Err(errors::another_process(process));
        }
        // The age is part of the nonce and the seal covers it, so it needs no memory.
        let nonce = format!("{}.{}", opened.elapsed().as_millis(), random());
        let (proof, seal) =
            (key.prove(Role::Owner, greeting, &nonce), seal.prove(Role::Seal, greeting, &nonce));
        Ok(Answer { nonce, seal, proof })
    }

    fn prove(&self, given: &Proof) -> Result<Given, Error> {
        let Proof { greeting, answer, signature } = given;
        let Inner { process, key, seal, opened, issued } = &*self.0;
        if greeting.to != *process {
            return Err(errors::another_process(process));
        }
        let is_own = seal.verify(Role::Seal, greeting, &answer.nonce, &answer.seal);
        let made = answer.nonce.split('.').next().and_then(|millis| millis.parse().ok());
        let made = made.map(Duration::from_millis).filter(|_| is_own);
        let age = made.and_then(|made| opened.elapsed().checked_sub(made)).filter(|age| *age < PATIENCE);
        let Some(age) = age else { return Err(errors::stale_greeting()) };
        if !key.verify(Role::Entry, greeting, &answer.nonce, signature) {
            tracing::warn!(node = ?greeting.from.node, "refused a caller that does not know the key of the fleet");
            return Err(errors::wrong_key(&process.node));
        }
        issued.lock().issue(greeting.from.clone(), &answer.nonce, PATIENCE.saturating_sub(age))
    }
}

impl Issued {
    fn issue(&mut self, from: Process, nonce: &str, usable: Duration) -> Result<Given, Error> {
        let now = Instant::now();
        self.used.retain(|_, until| *until > now);
        if self.used.insert(nonce.to_owned(), now + usable).is_some() {
            return Err(errors::stale_greeting());
        }
        let newest = self.newest.entry(from.node.clone()).or_insert(from.incarnation);
        if *newest > from.incarnation {
            return Err(errors::replaced(&from.node));
        }
        *newest = from.incarnation;
        // A node has started again: its older process has no say any more.
        self.tokens.retain(|_, holder| {
            let is_older = holder.from.node == from.node && holder.from.incarnation < from.incarnation;
            holder.until > now && !is_older
        });
        if self.tokens.len() >= MAX_TOKENS
            && let Some(oldest) =
                self.tokens.iter().min_by_key(|(_, holder)| holder.until).map(|(token, _)| *token)
        {
            self.tokens.remove(&oldest);
        }
        let token = random();
        self.tokens.insert(digest_of(&token), Holder { from, until: now + LIFETIME });
        Ok(Given { token })
    }
}

fn digest_of(token: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

async fn greet(
    State(issuer): State<TokenIssuer>,
    Json(greeting): Json<Greeting>,
) -> Result<Json<Answer>, Error> {
    issuer.greet(&greeting).map(Json)
}

async fn prove(State(issuer): State<TokenIssuer>, Json(proof): Json<Proof>) -> Result<Json<Given>, Error> {
    issuer.prove(&proof).map(Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(node: &str, incarnation: u64) -> Process {
        Process { node: node.into(), incarnation }
    }

    fn issuer() -> (TokenIssuer, Key) {
        let key = Key::new(&"k".repeat(32)).unwrap();
        (TokenIssuer::new(process("b", 7), key.clone()), key)
    }

    fn proof(issuer: &TokenIssuer, key: &Key, incarnation: u64) -> Proof {
        let greeting = Greeting { from: process("a", incarnation), to: process("b", 7), nonce: random() };
        let answer = issuer.greet(&greeting).unwrap();
        assert!(key.verify(Role::Owner, &greeting, &answer.nonce, &answer.proof));
        let signature = key.prove(Role::Entry, &greeting, &answer.nonce);
        Proof { greeting, answer, signature }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_belongs_to_the_process_that_proved_itself_and_ends_after_an_hour() {
        let (issuer, key) = issuer();
        let token = issuer.prove(&proof(&issuer, &key, 1)).unwrap().token;
        assert_eq!(issuer.holder(&token).as_deref(), Some("a"));
        assert_eq!(issuer.holder("another"), None);
        tokio::time::advance(LIFETIME).await;
        assert_eq!(issuer.holder(&token), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_of_an_older_process_ends_with_the_first_proof_of_the_newer_one() {
        let (issuer, key) = issuer();
        let older = issuer.prove(&proof(&issuer, &key, 1)).unwrap().token;
        let newer = issuer.prove(&proof(&issuer, &key, 2)).unwrap().token;
        assert_eq!((issuer.holder(&older), issuer.holder(&newer).as_deref()), (None, Some("a")));
        assert_eq!(issuer.prove(&proof(&issuer, &key, 1)).unwrap_err().status(), 401);
        assert_eq!(issuer.holder(&newer).as_deref(), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_proof_counts_once_and_soon_and_for_this_process() {
        let (issuer, key) = issuer();
        let once = proof(&issuer, &key, 1);
        issuer.prove(&once).unwrap();
        assert_eq!(issuer.prove(&once).unwrap_err().status(), 401, "repeated");
        let late = proof(&issuer, &key, 1);
        tokio::time::advance(PATIENCE).await;
        assert_eq!(issuer.prove(&late).unwrap_err().status(), 401, "late");
        let mut forged = proof(&issuer, &key, 1);
        forged.answer.nonce = format!("{}0", forged.answer.nonce);
        assert_eq!(issuer.prove(&forged).unwrap_err().status(), 401, "a nonce of another node");
        let other = Key::new(&"l".repeat(32)).unwrap();
        let mut wrong = proof(&issuer, &key, 1);
        wrong.signature = other.prove(Role::Entry, &wrong.greeting, &wrong.answer.nonce);
        assert_eq!(issuer.prove(&wrong).unwrap_err().status(), 401, "another key");
        let old = Greeting { from: process("a", 1), to: process("b", 6), nonce: random() };
        assert_eq!(issuer.greet(&old).unwrap_err().status(), 421, "meant for an older process");
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_tokens_is_bounded() {
        let (issuer, key) = issuer();
        let first = issuer.prove(&proof(&issuer, &key, 1)).unwrap().token;
        tokio::time::advance(Duration::from_secs(1)).await;
        let others: Vec<_> =
            (0..MAX_TOKENS).map(|_| issuer.prove(&proof(&issuer, &key, 1)).unwrap().token).collect();
        assert_eq!(issuer.holder(&first), None);
        assert!(others.iter().all(|token| issuer.holder(token).is_some()));
    }
}
