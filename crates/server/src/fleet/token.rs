//! The side of the entry node: gets a token from each node that it passes calls on to, and keeps it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use engine::ports::Peer;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use super::{
    Process,
    issuer::{Answer, GREET, Given, LIFETIME, PROVE, Proof},
    key::{Greeting, Key, Role, random},
    wire::{Failure, Wire},
};

/// A token is replaced this long before it ends, so that none ends on its way.
const MARGIN: Duration = Duration::from_mins(5);

pub(super) struct Tokens {
    process: Process,
    key: Option<Key>,
    /// By node; the inner lock is held during a greeting, so that calls at the same time share one token.
    held: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Option<Held>>>>>,
}

#[derive(Clone)]
struct Held {
    incarnation: u64,
    token: Arc<str>,
    until: Instant,
}

impl Tokens {
    pub(super) fn new(process: Process, key: Option<Key>) -> Self {
        Self { process, key, held: Mutex::default() }
    }

    /// The token for one process of another node.
    pub(super) async fn get(&self, wire: &Wire, peer: &Peer) -> Result<Arc<str>, Failure> {
        let Some(key) = &self.key else { return Err(Failure::NoKey) };
        let place = Arc::clone(self.held.lock().entry(peer.node.clone()).or_default());
        let mut place = place.lock().await;
        let fits =
            |held: &&Held| held.incarnation == peer.incarnation && held.until > Instant::now() + MARGIN;
        if let Some(held) = place.as_ref().filter(fits) {
            return Ok(Arc::clone(&held.token));
        }
        let until = Instant::now() + LIFETIME;
        let token: Arc<str> = self.agree(key, wire, peer).await?.into();
        *place = Some(Held { incarnation: peer.incarnation, token: Arc::clone(&token), until });
        Ok(token)
    }

    /// Drops a token that the other node does not accept.
    pub(super) async fn drop(&self, peer: &Peer, token: &str) {
        let place = self.held.lock().get(&peer.node).cloned();
        if let Some(place) = place {
            let mut place = place.lock().await;
            place.take_if(|held| *held.token == *token);
        }
    }

    /// Both sides prove that they know the key; the called one goes first, so that this node proves nothing to a stranger.
    async fn agree(&self, key: &Key, wire: &Wire, peer: &Peer) -> Result<String, Failure> {
        let to = Process { node: peer.node.clone(), incarnation: peer.incarnation };
        let greeting = Greeting { from: self.process.clone(), to, nonce: random() };
        let answer: Answer = post(wire, peer, GREET, &greeting).await?;
        if !key.verify(Role::Owner, &greeting, &answer.nonce, &answer.proof) {
            tracing::warn!(node = %peer.node, "a node has another key than this one");
            return Err(Failure::WrongKey);
        }
        let signature = key.prove(Role::Entry, &greeting, &answer.nonce);
        let given: Given = post(wire, peer, PROVE, &Proof { greeting, answer, signature }).await?;
        Ok(given.token)
    }
}

async fn post<T: DeserializeOwned>(
    wire: &Wire,
    peer: &Peer,
    path: &'static str,
    message: &impl Serialize,
) -> Result<T, Failure> {
    let bytes = wire.post(peer, path, message).await?;
    serde_json::from_slice(&bytes).map_err(|error| Failure::Odd(error.to_string()))
}
