//! Access control: only users named in the settings or paired with a code may talk to the agent.

use std::collections::HashMap;

use parking_lot::Mutex;
use protocol::Millis;

use super::Context;
use crate::{
    Sender, Update,
    ledger::{self, Roles},
};

/// Minimum time between two hints to the same user without access.
const QUIET: Millis = 60 * 60 * 1_000;

/// Limit of remembered users without access; further ones get no answer.
const STRANGERS: usize = 1_000;

impl Context {
    /// A user's rights in a channel; the settings take precedence over pairing.
    pub(super) async fn roles(&self, channel: &str, sender: &Sender) -> Result<Roles, ledger::Error> {
        let named = self.allow.get(channel).into_iter().flatten().find(|person| person.id == sender.id);
        if let Some(person) = named {
            return Ok(Roles { prompt: person.prompt, approve: person.approve });
        }
        Ok(self.ledger.roles(channel, &sender.id).await?.unwrap_or_default())
    }
}

/// Users without access who got a hint, and when.
#[derive(Debug, Default)]
pub(super) struct UnknownUsers(Mutex<HashMap<(String, String), Millis>>);

impl UnknownUsers {
    /// Returns true if the user should get a hint: only in a direct chat, and only once per [`QUIET`].
    pub(super) fn is_to_be_told(&self, update: &Update, now: Millis) -> bool {
        if !update.is_direct {
            return false;
        }
        let mut told = self.0.lock();
        told.retain(|_, when| now - *when < QUIET);
        let who = (update.place.channel.clone(), update.sender.id.clone());
        if told.contains_key(&who) || told.len() >= STRANGERS {
            return false;
        }
        told.insert(who, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Content, Place};

    fn update(person: usize, is_direct: bool) -> Update {
        Update {
            id: "1".into(),
            alias: None,
            quoted: None,
            replies_to: None,
            album: None,
            place: Place { channel: "telegram".into(), chat: "7".into(), thread: None },
            sender: Sender { id: person.to_string(), name: String::new() },
            is_direct,
            is_addressed: true,
            message: None,
            sent: 0,
            content: Content::Stop,
        }
    }

    #[test]
    fn a_user_without_access_gets_one_hint_an_hour_and_none_in_groups() {
        let strangers = UnknownUsers::default();
        assert!(!strangers.is_to_be_told(&update(1, false), 0));
        assert!(strangers.is_to_be_told(&update(1, true), 0));
        assert!(!strangers.is_to_be_told(&update(1, true), QUIET - 1));
        assert!(strangers.is_to_be_told(&update(2, true), QUIET - 1));
        assert!(strangers.is_to_be_told(&update(1, true), QUIET));
    }

    #[test]
    fn the_number_of_remembered_users_is_limited() {
        let strangers = UnknownUsers::default();
        let told = (0..STRANGERS + 10).filter(|person| strangers.is_to_be_told(&update(*person, true), 0));
        assert_eq!(told.count(), STRANGERS);
    }
}
