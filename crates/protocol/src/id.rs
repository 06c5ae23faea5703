//! Identifiers in OpenCode's format: a prefix, twelve hex digits of time and counter, fourteen random
//! base-62 characters.
//!
//! Only 48 bits of `milliseconds * 4096 + counter` survive, so the sortable part wraps every 2^36 ms
//! (about 795 days; last on 2026-08-14, next on 2028-10-17). Two consequences shape the code: messages
//! are ordered by `(time.created, id)` and never by id alone ([`crate::Message::order`]), and [`Ids`]
//! never lets its own clock run backwards, so ids made by one process within one wrap are monotonic.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Millis;

/// Maximum length of an id in bytes. Baton only interprets the prefix, but clients choose some ids, and those
/// become keys in the database.
pub const MAX_LENGTH: usize = 200;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const COUNTER_BITS: u32 = 12;
const TIME_DIGITS: usize = 12;
const TIME_MASK: u64 = (1 << 48) - 1;

/// Number of random bytes per id.
pub const RANDOM_BYTES: usize = 14;

/// The text is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected an id that starts with \"{prefix}\" and has at most {MAX_LENGTH} letters, digits, `_` or `-`"
)]
pub struct InvalidId {
    prefix: &'static str,
}

/// Sort order of newer ids relative to older ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Newer ids are larger.
    Ascending,
    /// Newer ids are smaller, so that a plain listing shows the newest first.
    Descending,
}

/// Properties that all id types share.
pub trait Id: Sized {
    /// Prefix before the underscore.
    const PREFIX: &'static str;
    /// Sort direction of the time digits.
    const DIRECTION: Direction;
    /// Wraps text that is known to be well formed.
    fn from_text(text: String) -> Self;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($prefix:literal, $direction:ident);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl Id for $name {
            const PREFIX: &'static str = $prefix;
            const DIRECTION: Direction = Direction::$direction;
            fn from_text(text: String) -> Self {
                Self(text.into())
            }
        }

        impl $name {
            /// Returns the id as it appears on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                check(text, $prefix)?;
                Ok(Self(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "pattern": concat!("^", $prefix, "[0-9A-Za-z_-]*$"),
                    "maxLength": MAX_LENGTH,
                })
            }
        }
    )*};
}

ids! {
    /// Id of a session.
    SessionId("ses", Descending);
    /// Id of a user message or an assistant message.
    MessageId("msg", Ascending);
    /// Id of a part of a message.
    PartId("prt", Ascending);
    /// Id of a permission request.
    PermissionId("per", Ascending);
    /// Id of a question request.
    QuestionId("que", Ascending);
    /// Id of a stored approval.
    ApprovalId("psv", Ascending);
    /// Id of a terminal.
    PtyId("pty", Ascending);
    /// Id of an event.
    EventId("evt", Ascending);
    /// Id of a workspace: a directory on one node.
    WorkspaceId("wrk", Ascending);
}

impl EventId {
    /// Returns the creation time, if it is within a year of `near`: an id holds only 36 bits of its millisecond.
    /// Returns `near` for an id in another program's format.
    pub fn made(&self, near: Millis) -> Millis {
        let digits = self.0.strip_prefix("evt_").and_then(|rest| rest.get(..TIME_DIGITS));
        let Some(bits) = digits.and_then(|digits| Millis::from_str_radix(digits, 16).ok()) else {
            return near;
        };
        let (period, made) = (1 << (48 - COUNTER_BITS), bits >> COUNTER_BITS);
        let away = (made - near).rem_euclid(period);
        near + if away > period / 2 { away - period } else { away }
    }
}

/// Checks the prefix, the characters and the length. OpenCode checks prefixes only. Other characters are rejected
/// because they could break a log line, a URL or a terminal.
fn check(text: &str, prefix: &'static str) -> Result<(), InvalidId> {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if text.starts_with(prefix) && plain && text.len() <= MAX_LENGTH {
        Ok(())
    } else {
        Err(InvalidId { prefix })
    }
}

/// Generates ids. Pure: the caller passes time and randomness.
#[derive(Debug, Default, Clone)]
pub struct Ids {
    last: u64,
    counter: u64,
}

impl Ids {
    /// Creates a generator that has made no id yet.
    pub const fn new() -> Self {
        Self { last: 0, counter: 0 }
    }

    /// Returns the next id of kind `I`. If the clock stands still or runs backwards, the counter keeps the order. A
    /// counter that exceeds its twelve bits carries into the time digits, which stay monotonic.
    pub fn next<I: Id>(&mut self, now: Millis, random: [u8; RANDOM_BYTES]) -> I {
        let now = u64::try_from(now).unwrap_or(0);
        if now > self.last {
            self.last = now;
            self.counter = 0;
        }
        self.counter += 1;
        let ticks = (self.last << COUNTER_BITS).wrapping_add(self.counter);
        let ticks = match I::DIRECTION {
            Direction::Ascending => ticks,
            Direction::Descending => !ticks,
        };
        let mut text = format!("{}_{:012x}", I::PREFIX, ticks & TIME_MASK);
        text.extend(random.iter().map(|byte| {
            let index = usize::from(*byte) % ALPHABET.len();
            char::from(ALPHABET.get(index).copied().unwrap_or(b'0'))
        }));
        I::from_text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WRAP: Millis = 1 << 36;

    #[test]
    fn an_event_id_yields_its_creation_time() {
        let wrap: Millis = 26 << 36;
        let mut ids = Ids::default();
        for made in [wrap - 5, wrap - 1, wrap, wrap + 7] {
            let id: EventId = ids.next(made, [3; RANDOM_BYTES]);
            for near in [wrap - 1_000_000, wrap, wrap + 1_000_000] {
                assert_eq!(id.made(near), made);
            }
        }
        assert_eq!("evt_x".parse::<EventId>().unwrap().made(42), 42);
    }

    #[test]
    fn an_id_has_the_length_and_alphabet_of_opencode() {
        let id: MessageId = Ids::default().next(1_794_724_537_447, [255; RANDOM_BYTES]);
        assert_eq!(id.as_str().len(), "msg_".len() + 26);
        assert!(id.as_str().parse::<MessageId>().is_ok());
        assert!(id.as_str().parse::<PartId>().is_err());
    }

    #[test]
    fn session_ids_sort_newest_first() {
        let mut ids = Ids::default();
        let older: SessionId = ids.next(1_000, [0; RANDOM_BYTES]);
        let newer: SessionId = ids.next(1_001, [0; RANDOM_BYTES]);
        assert!(newer < older);
    }

    #[test]
    fn the_48_bit_wrap_is_real_and_known() {
        let mut ids = Ids::default();
        let before: MessageId = ids.next(26 * WRAP - 1, [0; RANDOM_BYTES]);
        let after: MessageId = ids.next(26 * WRAP, [0; RANDOM_BYTES]);
        assert!(after < before, "the reason messages are ordered by time first");
    }

    #[test]
    fn a_malformed_id_is_rejected() {
        for bad in ["", "msg", "prt_x/../y", "msg\n", "ses_1"] {
            let parsed = bad.parse::<MessageId>();
            assert_eq!(parsed.is_ok(), bad == "msg", "{bad:?}");
        }
        assert!(format!("msg_{}", "a".repeat(MAX_LENGTH)).parse::<MessageId>().is_err());
    }

    proptest! {
        #[test]
        fn ids_of_one_process_are_unique_and_monotonic(steps in proptest::collection::vec(-5i64..5, 1..9000)) {
            let mut ids = Ids::default();
            let mut now = 25 * WRAP + 12_345;
            let mut last: Option<PartId> = None;
            for step in steps {
                now += step;
                let id: PartId = ids.next(now, [7; RANDOM_BYTES]);
                if let Some(last) = &last {
                    prop_assert!(*last < id);
                }
                last = Some(id);
            }
        }
    }
}
