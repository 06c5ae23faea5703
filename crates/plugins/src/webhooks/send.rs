//! Sends notices from the outbox to one receiver.

use std::{collections::HashSet, sync::Arc, time::Duration};

use engine::ports::{Error, Notice};
use futures::stream::{FuturesUnordered, StreamExt};
use net::{AddressGuard, chain};
use protocol::{Millis, SessionId};
use reqwest::{Client, StatusCode, header::CONTENT_TYPE};
use tokio::{sync::Notify, time::timeout};

use super::{Ports, Receiver, Timeouts};

/// Maximum number of sessions whose notices are sent at the same time.
const PARALLEL: usize = 4;

/// Maximum number of notices read at once.
const PAGE: usize = 64;

/// Pause after the store failed.
const AGAIN: Duration = Duration::from_secs(5);

const USER_AGENT: &str = concat!("baton/", env!("CARGO_PKG_VERSION"));

/// The result of sending a notice.
enum Outcome {
    Taken,
    /// The receiver answered 410, so a retry is useless.
    Gone,
    Failed(String),
}

/// The task of one receiver.
pub(super) struct Sender {
    receiver: Receiver,
    guard: AddressGuard,
    ports: Ports,
    timeouts: Timeouts,
    nudge: Arc<Notify>,
}

impl Sender {
    pub(super) fn new(receiver: Receiver, ports: Ports, timeouts: Timeouts, nudge: Arc<Notify>) -> Self {
        let guard = AddressGuard::new(receiver.private);
        Self { receiver, guard, ports, timeouts, nudge }
    }

    pub(super) async fn run(self) {
        let mut going = FuturesUnordered::new();
        let mut busy: HashSet<SessionId> = HashSet::new();
        loop {
            let pause = match self.ports.outbox.heads(&self.receiver.name, PAGE).await {
                Ok(heads) => {
                    let now = self.ports.clock.now();
                    let idle = heads.into_iter().filter(|head| !busy.contains(&head.session));
                    let (due, later): (Vec<Notice>, Vec<Notice>) = idle.partition(|head| head.due <= now);
                    for notice in due.into_iter().take(PARALLEL.saturating_sub(going.len())) {
                        busy.insert(notice.session.clone());
                        going.push(self.tell(notice));
                    }
                    later.first().map(|head| span(head.due.saturating_sub(now)))
                }
                Err(error) => {
                    tracing::warn!(%error, webhook = self.receiver.name, "cannot read the outbox");
                    Some(AGAIN)
                }
            };
            tokio::select! {
                Some(session) = going.next() => drop(busy.remove(&session)),
                () = self.nudge.notified() => {}
                () = tokio::time::sleep(pause.unwrap_or(Duration::MAX)), if pause.is_some() => {}
            }
        }
    }

    /// Sends a notice once and stores the result.
    async fn tell(&self, notice: Notice) -> SessionId {
        let outcome = timeout(self.timeouts.answer, self.post(&notice)).await.unwrap_or_else(|_| {
            Outcome::Failed(format!("it did not answer within {} s", self.timeouts.answer.as_secs_f32()))
        });
        if let Err(error) = self.settle(&notice, outcome).await {
            tracing::warn!(%error, webhook = self.receiver.name, "cannot store the result of a notice");
            // Without a pause it would be sent again in a tight loop.
            tokio::time::sleep(AGAIN).await;
        }
        notice.session
    }

    async fn post(&self, notice: &Notice) -> Outcome {
        let Receiver { url, key, .. } = &self.receiver;
        // A new client for every call, because the address is resolved and checked each time.
        let client = match self.guard.client(url, Client::builder().user_agent(USER_AGENT)).await {
            Ok(client) => client,
            Err(refused) => return Outcome::Failed(refused.to_string()),
        };
        let (id, seconds) = (notice.id.as_str(), self.ports.clock.now() / 1_000);
        let call = client
            .post(url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds.to_string())
            .header("webhook-signature", key.sign(id, seconds, &notice.body))
            .body(notice.body.clone());
        match call.send().await.map(|response| response.status()) {
            Ok(status) if status.is_success() => Outcome::Taken,
            Ok(StatusCode::GONE) => Outcome::Gone,
            Ok(status) if status.is_redirection() => {
                Outcome::Failed(format!("it answered {status}, and a redirect is not followed"))
            }
            Ok(status) => Outcome::Failed(format!("it answered {status}")),
            // The address may contain a secret.
            Err(error) => Outcome::Failed(chain(&error.without_url())),
        }
    }

    async fn settle(&self, notice: &Notice, outcome: Outcome) -> Result<(), Error> {
        let (name, id) = (&self.receiver.name, &notice.id);
        let why = match outcome {
            Outcome::Taken => return self.ports.outbox.remove(name, id).await,
            Outcome::Gone => {
                tracing::warn!(webhook = name, event = %id, "a webhook answered 410 Gone; dropping the notice");
                return self.ports.outbox.remove(name, id).await;
            }
            Outcome::Failed(why) => why,
        };
        let now = self.ports.clock.now();
        let attempts = notice.attempts.saturating_add(1);
        if now.saturating_sub(notice.created) >= millis(self.timeouts.age) {
            tracing::error!(webhook = name, event = %id, attempts, why, "giving up a notice to a webhook");
            return self.ports.outbox.remove(name, id).await;
        }
        if attempts == 1 {
            tracing::warn!(webhook = name, event = %id, why, "cannot send a notice to a webhook; retrying");
        } else {
            tracing::debug!(webhook = name, event = %id, attempts, why, "still cannot send a notice to a webhook");
        }
        let due = now.saturating_add(millis(pause(&self.timeouts, attempts)));
        self.ports.outbox.postpone(name, id, attempts, due).await
    }
}

/// The pause after this many attempts.
fn pause(timeouts: &Timeouts, attempts: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
    timeouts.first.saturating_mul(doubled).min(timeouts.longest)
}

fn millis(span: Duration) -> Millis {
    Millis::try_from(span.as_millis()).unwrap_or(Millis::MAX)
}

fn span(millis: Millis) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let seconds = |attempts| pause(&Timeouts::default(), attempts).as_secs();
        assert_eq!([1, 2, 3, 10, 11, 99].map(seconds), [5, 10, 20, 2_560, 3_600, 3_600]);
    }
}
