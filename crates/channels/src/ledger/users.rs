//! Users who paired with a code, and their rights.
//!
//! A pairing code is shown on the server, and the user sends it once in a chat. The ledger keeps only its digest. A
//! user who guesses wrong too often has to wait an hour.

use protocol::Millis;
use ring::digest::{SHA256, digest};
use rusqlite::{OptionalExtension, params};

use super::{Error, Ledger};
use crate::Sender;

/// Lifetime of a code.
pub const CODE_LIFE: Millis = 60 * 60 * 1_000;

/// Limit of wrong guesses of a user within [`GUESSING`].
const GUESSES: u32 = 5;
const GUESSING: Millis = 60 * 60 * 1_000;

/// Limit of unused codes; a new code replaces the one that expires first.
const CODES: u32 = 16;

/// No letters and digits that look alike; 32 characters, so that a random byte modulo 32 is evenly distributed.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const CODE_LENGTH: usize = 8;

/// Rights of a user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Roles {
    /// May prompt the agent and answer its questions.
    pub prompt: bool,
    /// May answer permission requests.
    pub approve: bool,
}

/// Result of a pairing attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paired {
    /// The user may talk to the agent from now on.
    Yes(Roles),
    /// The code does not exist or has expired.
    Wrong,
    /// Too many wrong guesses; the user has to wait.
    TooOften,
}

impl Ledger {
    /// Rights of a paired user; `None` if the user has not paired.
    pub async fn roles(&self, channel: &str, person: &str) -> Result<Option<Roles>, Error> {
        let (channel, person) = (channel.to_owned(), person.to_owned());
        self.with(move |tables| {
            let query = "SELECT prompt, approve FROM people WHERE channel = ? AND person = ?";
            let roles = tables.query_row(query, [channel, person], |row| {
                Ok(Roles { prompt: row.get(0)?, approve: row.get(1)? })
            });
            Ok(roles.optional()?)
        })
        .await
    }

    /// Creates a code with which one user can pair.
    pub async fn new_code(&self, approve: bool) -> Result<String, Error> {
        let code: String = rand::random::<[u8; CODE_LENGTH]>()
            .iter()
            .filter_map(|byte| ALPHABET.get(usize::from(byte % 32)).copied().map(char::from))
            .collect();
        let (digest, now) = (hash(&code), self.now());
        self.with(move |tables| {
            tables.execute("DELETE FROM codes WHERE expires <= ?", [now])?;
            tables.execute(
                "DELETE FROM codes WHERE digest NOT IN (SELECT digest FROM codes ORDER BY expires DESC LIMIT ?)",
                [CODES - 1],
            )?;
            let change = "INSERT OR REPLACE INTO codes VALUES (?, ?, ?)";
            tables.execute(change, params![digest, now + CODE_LIFE, approve])?;
            Ok(())
        })
        .await?;
        Ok(code)
    }

    /// Pairs a user if the code is valid, and removes the code.
    pub async fn pair(&self, channel: &str, sender: &Sender, code: &str) -> Result<Paired, Error> {
        let (channel, sender, now) = (channel.to_owned(), sender.clone(), self.now());
        let digest = hash(&code.trim().to_ascii_uppercase());
        self.with(move |tables| {
            tables.execute("DELETE FROM guesses WHERE since < ?", [now - GUESSING])?;
            let query = "SELECT count FROM guesses WHERE channel = ? AND person = ?";
            let guesses: Option<u32> =
                tables.query_row(query, [&channel, &sender.id], |row| row.get(0)).optional()?;
            if guesses.is_some_and(|count| count >= GUESSES) {
                return Ok(Paired::TooOften);
            }
            let change = "DELETE FROM codes WHERE digest = ? AND expires > ? RETURNING approve";
            let found =
                tables.query_row(change, params![digest, now], |row| row.get::<_, bool>(0)).optional()?;
            let Some(approve) = found else {
                tables.execute(
                    "INSERT INTO guesses VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1",
                    params![channel, sender.id, now],
                )?;
                return Ok(Paired::Wrong);
            };
            tables.execute(
                "INSERT OR REPLACE INTO people VALUES (?, ?, ?, 1, ?)",
                params![channel, sender.id, sender.name, approve],
            )?;
            Ok(Paired::Yes(Roles { prompt: true, approve }))
        })
        .await
    }

    /// All paired users: channel, id, name and rights.
    pub async fn users(&self) -> Result<Vec<(String, Sender, Roles)>, Error> {
        self.with(|tables| {
            let mut query = tables
                .prepare("SELECT channel, person, name, prompt, approve FROM people ORDER BY 1, 3, 2")?;
            let rows = query.query_map([], |row| {
                let sender = Sender { id: row.get(1)?, name: row.get(2)? };
                Ok((row.get(0)?, sender, Roles { prompt: row.get(3)?, approve: row.get(4)? }))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Removes a paired user. Returns false if there was none.
    pub async fn unpair(&self, channel: &str, person: &str) -> Result<bool, Error> {
        let (channel, person) = (channel.to_owned(), person.to_owned());
        self.with(move |tables| {
            let change = "DELETE FROM people WHERE channel = ? AND person = ?";
            Ok(tables.execute(change, [channel, person])? == 1)
        })
        .await
    }
}

fn hash(code: &str) -> Vec<u8> {
    digest(&SHA256, code.as_bytes()).as_ref().to_vec()
}
