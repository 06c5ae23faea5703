//! The key that the nodes of a fleet share.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use engine::ports::{Random, SystemRandom};
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::Process;

/// Shortest key in bytes. A listener on the network could find a shorter one by trying.
const MIN_KEY: usize = 32;
/// Random bytes of a nonce or a token.
const RANDOM: usize = 32;

/// The key that all nodes of a fleet share. It is never sent and never shown.
#[derive(Clone)]
pub struct Key(hmac::Key);

/// The key is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fleet key has fewer than {MIN_KEY} characters; create one with `openssl rand -hex 32`")]
pub struct WeakKey;

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key")
    }
}

impl Key {
    pub fn new(text: &str) -> Result<Self, WeakKey> {
        let text = text.trim();
        if text.len() < MIN_KEY { Err(WeakKey) } else { Ok(Self::of(text.as_bytes())) }
    }

    /// A key of this process alone.
    pub(super) fn random() -> Self {
        let mut bytes = [0; RANDOM];
        SystemRandom.fill(&mut bytes);
        Self::of(&bytes)
    }

    fn of(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Proves to the other side of a greeting that this side knows the key.
    pub(super) fn prove(&self, role: Role, greeting: &Greeting, answer: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, &transcript(role, greeting, answer)))
    }

    /// Checks a proof in a time that does not depend on it.
    pub(super) fn verify(&self, role: Role, greeting: &Greeting, answer: &str, proof: &str) -> bool {
        URL_SAFE_NO_PAD
            .decode(proof)
            .is_ok_and(|proof| hmac::verify(&self.0, &transcript(role, greeting, answer), &proof).is_ok())
    }
}

/// The purpose of a proof. One that was made for another purpose does not verify.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    /// The node that passes calls on.
    Entry,
    /// The node that is called.
    Owner,
    /// The called node to itself: it has issued this nonce.
    Seal,
}

/// The first words of the node that wants to pass calls on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Greeting {
    pub(super) from: Process,
    pub(super) to: Process,
    pub(super) nonce: String,
}

/// Everything that both sides must agree on. Each field is preceded by its length, so that no two transcripts are equal.
fn transcript(role: Role, greeting: &Greeting, answer: &str) -> Vec<u8> {
    let Greeting { from, to, nonce } = greeting;
    let incarnations = [from.incarnation, to.incarnation].map(|it| it.to_string());
    let role = match role {
        Role::Entry => "baton fleet entry",
        Role::Owner => "baton fleet owner",
        Role::Seal => "baton fleet seal",
    };
    let fields = [role, &from.node, &incarnations[0], &to.node, &incarnations[1], nonce, answer];
    let prefixed = |field: &str| [&(field.len() as u64).to_be_bytes(), field.as_bytes()].concat();
    fields.into_iter().flat_map(prefixed).collect()
}

/// Random text that cannot be guessed.
pub(super) fn random() -> String {
    let mut bytes = [0; RANDOM];
    SystemRandom.fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> Greeting {
        let process = |node: &str, incarnation| Process { node: node.into(), incarnation };
        Greeting { from: process("a", 1), to: process("b", 2), nonce: "n".into() }
    }

    #[test]
    fn a_proof_holds_for_one_key_purpose_and_pair_of_processes() {
        let key = Key::new(&"k".repeat(32)).unwrap();
        let proof = key.prove(Role::Entry, &greeting(), "m");
        assert!(key.verify(Role::Entry, &greeting(), "m", &proof));
        assert!(!Key::new(&"l".repeat(32)).unwrap().verify(Role::Entry, &greeting(), "m", &proof));
        assert!(!key.verify(Role::Owner, &greeting(), "m", &proof));
        assert!(!key.verify(Role::Entry, &greeting(), "", &proof));
        for odd in ["", "AAAA", "not base64!"] {
            assert!(!key.verify(Role::Entry, &greeting(), "m", odd));
        }
        let mut later = greeting();
        later.from.incarnation += 1;
        assert!(!key.verify(Role::Entry, &later, "m", &proof));
        let mut shifted = greeting();
        (shifted.from.node, shifted.nonce) = ("an".into(), String::new());
        assert!(!key.verify(Role::Entry, &shifted, "m", &proof));
    }

    #[test]
    fn a_short_key_is_refused_and_no_key_is_shown() {
        assert_eq!(Key::new(&format!(" {} ", "k".repeat(31))).unwrap_err(), WeakKey);
        assert_eq!(format!("{:?}", Key::new(&"secret".repeat(6)).unwrap()), "Key");
    }
}
