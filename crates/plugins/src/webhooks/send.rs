//! From the outbox to one receiver.

use std::{collections::HashSet, sync::Arc, time::Duration};

use engine::ports::{Error, Notice};
use futures::stream::{FuturesUnordered, StreamExt};
use net::{Guard, chain};
use protocol::{Millis, SessionId};
use reqwest::{Client, StatusCode, header::CONTENT_TYPE};
use tokio::{sync::Notify, time::timeout};

use super::{Patience, Ports, Receiver};

/// Sessions that one receiver is told about at the same time.
const PARALLEL: usize = 4;

/// Notices that are looked at together.
const PAGE: usize = 64;

/// How long to wait when the store does not answer.
const AGAIN: Duration = Duration::from_secs(5);

/// Who is telling.
const USER_AGENT: &str = concat!("baton/", env!("CARGO_PKG_VERSION"));

/// What came of telling.
enum Outcome {
    Taken,
    /// The receiver wants to hear no more.
    Gone,
    Failed(String),
}

/// Tells one receiver.
pub(super) struct Sender {
    receiver: Receiver,
    guard: Guard,
    ports: Ports,
    patience: Patience,
    nudge: Arc<Notify>,
}

impl Sender {
    pub(super) fn new(receiver: Receiver, ports: Ports, patience: Patience, nudge: Arc<Notify>) -> Self {
        let guard = Guard::new(receiver.private);
        Self { receiver, guard, ports, patience, nudge }
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
                    tracing::warn!(%error, webhook = self.receiver.name, "the outbox cannot be read");
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

    /// Tells once and notes what came of it.
    async fn tell(&self, notice: Notice) -> SessionId {
        let outcome = timeout(self.patience.answer, self.post(&notice)).await.unwrap_or_else(|_| {
            Outcome::Failed(format!("it did not answer within {} s", self.patience.answer.as_secs_f32()))
        });
        if let Err(error) = self.settle(&notice, outcome).await {
            tracing::warn!(%error, webhook = self.receiver.name, "what a webhook was told could not be noted");
            // Without a pause it would be told again and again.
            tokio::time::sleep(AGAIN).await;
        }
        notice.session
    }

    async fn post(&self, notice: &Notice) -> Outcome {
        let Receiver { url, key, .. } = &self.receiver;
        // A client of its own each time: the address is looked up and checked each time.
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
            // An address may hold a secret.
            Err(error) => Outcome::Failed(chain(&error.without_url())),
        }
    }

    async fn settle(&self, notice: &Notice, outcome: Outcome) -> Result<(), Error> {
        let (name, id) = (&self.receiver.name, &notice.id);
        let why = match outcome {
            Outcome::Taken => return self.ports.outbox.remove(name, id).await,
            Outcome::Gone => {
                tracing::warn!(webhook = name, event = %id, "a webhook answered that it is gone; it was not told");
                return self.ports.outbox.remove(name, id).await;
            }
            Outcome::Failed(why) => why,
        };
        let now = self.ports.clock.now();
        let attempts = notice.attempts.saturating_add(1);
        if now.saturating_sub(notice.created) >= millis(self.patience.age) {
            tracing::error!(webhook = name, event = %id, attempts, why, "a webhook could not be told and is not any more");
            return self.ports.outbox.remove(name, id).await;
        }
        if attempts == 1 {
            tracing::warn!(webhook = name, event = %id, why, "a webhook could not be told; it is tried again");
        } else {
            tracing::debug!(webhook = name, event = %id, attempts, why, "a webhook could still not be told");
        }
        let due = now.saturating_add(millis(pause(&self.patience, attempts)));
        self.ports.outbox.postpone(name, id, attempts, due).await
    }
}

/// The pause after so many attempts.
fn pause(patience: &Patience, attempts: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
    patience.first.saturating_mul(doubled).min(patience.longest)
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
        let seconds = |attempts| pause(&Patience::default(), attempts).as_secs();
        assert_eq!([1, 2, 3, 10, 11, 99].map(seconds), [5, 10, 20, 2_560, 3_600, 3_600]);
    }
}
