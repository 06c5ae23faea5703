//! Who is told outside, from the user's own configuration.

use ::plugins::webhooks::Receiver;
use protocol::config::Config;
use store::files::{self, Environment};
use tokio::task::spawn_blocking;

use crate::exit::Failure;

/// The receivers. One that makes no sense is a reason not to start: somebody relies on being told. Those that only a
/// project has are left out, because a project is somebody else's text, and warned about.
pub(super) async fn receivers(environment: &Environment, here: &Config) -> Result<Vec<Receiver>, Failure> {
    let own = environment.clone();
    let user = spawn_blocking(move || files::load_user(&own)).await;
    let user = user.map_err(|error| Failure::error(error.to_string()))?;
    let user = user.map_err(|invalid| Failure::usage(invalid.to_string()))?.config.webhook;
    for name in here.webhook.keys().filter(|name| !user.contains_key(*name)) {
        tracing::warn!(
            webhook = name,
            "a webhook counts in the user's own configuration only; this one is not told"
        );
    }
    let receivers = user.iter().map(|(name, config)| Receiver::new(name, config));
    let receivers = receivers.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
    Ok(receivers.into_iter().flatten().collect())
}
