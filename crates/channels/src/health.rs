//! The state of each channel's connection to its service.

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    Millis, Rest,
    channel::{Channel, ChannelState},
};
use tokio::sync::watch;

use crate::words;

/// The states of all channels by name. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Health(watch::Sender<BTreeMap<String, Channel>>);

impl Health {
    /// A receiver of the states, which wakes when one changes.
    pub fn subscribe(&self) -> watch::Receiver<BTreeMap<String, Channel>> {
        self.0.subscribe()
    }

    /// Stores the state of a channel. A repeated state keeps the time at which it began, and takes the newest reason.
    pub(crate) fn set(&self, name: &str, state: ChannelState, reason: Option<String>, now: Millis) {
        self.0.send_if_modified(|channels| {
            let before = channels.get(name);
            let begun = before.filter(|before| before.state == state).and_then(|before| before.since);
            let since = Some(begun.unwrap_or(now));
            let channel = Channel { name: name.to_owned(), state, since, reason, extra: Rest::NONE };
            let is_new = before != Some(&channel);
            if is_new {
                channels.insert(name.to_owned(), channel);
            }
            is_new
        });
    }
}

/// Corrects the stored states of a gateway that is not running. A refusal stays, because it is the reason why the
/// gateway ended.
pub(crate) fn correct(channels: &mut [Channel]) {
    let is_final = |state| matches!(state, ChannelState::Refused | ChannelState::Stopped);
    for channel in channels.iter_mut().filter(|channel| !is_final(channel.state)) {
        channel.state = ChannelState::Stopped;
        channel.since = None;
        channel.reason = Some("the gateway ended unexpectedly".to_owned());
    }
}

/// A channel's state in words, for a terminal: `connected for 5 min`.
pub fn describe(channel: &Channel, now: Millis) -> String {
    let time = channel.since.map(|since| u64::try_from(now - since).unwrap_or_default());
    let time = time.map(|time| words::lasting(Duration::from_millis(time)));
    let state = channel.state.as_str();
    let state = match (channel.state, time) {
        (ChannelState::Refused | ChannelState::Stopped, Some(time)) => format!("{state} {time} ago"),
        (_, Some(time)) => format!("{state} for {time}"),
        (_, None) => state.to_owned(),
    };
    match &channel.reason {
        Some(reason) => format!("{state}: {reason}"),
        None => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(health: &Health) -> Vec<Channel> {
        health.subscribe().borrow().values().cloned().collect()
    }

    #[test]
    fn an_outage_begins_with_its_first_failure() {
        let health = Health::default();
        health.set("telegram", ChannelState::Connecting, None, 5);
        health.set("telegram", ChannelState::Reconnecting, Some("refused".into()), 7);
        health.set("telegram", ChannelState::Reconnecting, Some("timed out".into()), 9);
        let [channel] = &states(&health)[..] else { panic!() };
        assert_eq!((channel.since, channel.reason.as_deref()), (Some(7), Some("timed out")));
        health.set("telegram", ChannelState::Connected, None, 10);
        health.set("telegram", ChannelState::Connected, None, 11);
        let json = serde_json::to_value(states(&health)).unwrap();
        assert_eq!(json, serde_json::json!([{ "name": "telegram", "state": "connected", "since": 10 }]));
    }

    #[test]
    fn a_state_is_described_with_its_age_and_reason() {
        let channel = |state, since, reason: Option<&str>| {
            let reason = reason.map(str::to_owned);
            Channel { name: "telegram".into(), state, since, reason, extra: Rest::NONE }
        };
        let now = 10_000_000;
        let connected = channel(ChannelState::Connected, Some(now - 300_000), None);
        assert_eq!(describe(&connected, now), "connected for 5 min");
        let lost = channel(ChannelState::Reconnecting, Some(now - 5_000), Some("refused"));
        assert_eq!(describe(&lost, now), "reconnecting for 5 s: refused");
        let refused = channel(ChannelState::Refused, Some(now), Some("wrong token"));
        assert_eq!(describe(&refused, now), "refused 0 s ago: wrong token");
        assert_eq!(describe(&channel(ChannelState::Stopped, None, Some("killed")), now), "stopped: killed");
    }

    #[test]
    fn a_gateway_that_is_not_running_has_no_connection() {
        let health = Health::default();
        health.set("slack", ChannelState::Refused, Some("invalid_auth".into()), 3);
        health.set("telegram", ChannelState::Connected, None, 4);
        health.set("whatsapp", ChannelState::Stopped, None, 5);
        let mut channels = states(&health);
        correct(&mut channels);
        let found: Vec<_> = channels.iter().map(|it| (it.state, it.since)).collect();
        let expected = [
            (ChannelState::Refused, Some(3)),
            (ChannelState::Stopped, None),
            (ChannelState::Stopped, Some(5)),
        ];
        assert_eq!(found, expected);
    }
}
