//! Settings that only the user's own configuration may have: the receivers of webhooks and the retention of sessions.

use std::time::Duration;

use ::plugins::webhooks::Receiver;
use protocol::config::Config;
use store::files::{self, Environment};
use tokio::task::spawn_blocking;

use crate::exit::Failure;

/// Reads the user's own configuration.
pub(super) async fn user_config(environment: &Environment) -> Result<Config, Failure> {
    let own = environment.clone();
    let user = spawn_blocking(move || files::load_user(&own)).await;
    let user = user.map_err(|error| Failure::error(error.to_string()))?;
    Ok(user.map_err(|invalid| Failure::usage(invalid.to_string()))?.config)
}

/// Returns the time after which the server deletes unused sessions. A project could otherwise delete sessions of other
/// projects, so its configuration `here` is ignored with a warning.
pub(super) fn retention(user: &Config, here: &Config) -> Option<Duration> {
    let days = |config: &Config| config.sessions.and_then(|sessions| sessions.retention_days);
    if days(here).is_some() && days(user) != days(here) {
        tracing::warn!(
            "ignoring `sessions.retention_days` of the project: only the user's own configuration may have it"
        );
    }
    days(user).map(|days| Duration::from_hours(24).saturating_mul(days.get()))
}

/// Returns the receivers that the user has configured. An invalid receiver is an error, because its owner relies on being
/// notified. Webhooks in a project's configuration `here` are ignored with a warning: the user did not write them.
pub(super) fn receivers(user: &Config, here: &Config) -> Result<Vec<Receiver>, Failure> {
    let user = &user.webhook;
    for name in here.webhook.keys().filter(|name| !user.contains_key(*name)) {
        tracing::warn!(
            webhook = name,
            "ignoring a webhook of the project: only the user's own configuration may have them"
        );
    }
    let receivers = user.iter().map(|(name, config)| Receiver::new(name, config));
    let receivers = receivers.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
    Ok(receivers.into_iter().flatten().collect())
}
