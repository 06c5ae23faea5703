//! The receivers of webhooks, from the user's own configuration.

use ::plugins::webhooks::Receiver;
use protocol::config::Config;
use store::files::{self, Environment};
use tokio::task::spawn_blocking;

use crate::exit::Failure;

/// Returns the receivers that the user has configured. An invalid receiver is an error, because its owner relies on being
/// notified. Webhooks in a project's configuration `here` are ignored with a warning: the user did not write them.
pub(super) async fn receivers(environment: &Environment, here: &Config) -> Result<Vec<Receiver>, Failure> {
    let own = environment.clone();
    let user = spawn_blocking(move || files::load_user(&own)).await;
    let user = user.map_err(|error| Failure::error(error.to_string()))?;
    let user = user.map_err(|invalid| Failure::usage(invalid.to_string()))?.config.webhook;
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
