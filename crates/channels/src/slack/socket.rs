//! Socket Mode: Baton connects to Slack, so it needs no public address.
//!
//! Slack closes connections every few hours, usually after a warning. The new connection is open before the old one
//! is closed, so that no event is lost in between; Slack also redelivers what was not acknowledged.

mod line;

use std::time::Duration;

use futures::{StreamExt, stream::FuturesUnordered};
use serde::Deserialize;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    CHANNEL, Slack,
    errors::ApiError,
    wire::{Delivery, Frame},
};
use crate::{AdapterError, Inbox, settings::Secret, webhook::MAX_BODY};
use line::Line;

/// Time for which a replaced connection stays open for frames that are still on their way.
const FAREWELL: Duration = Duration::from_secs(5);
/// A connection that lasted this long was healthy, so the next one is opened at once.
const STEADY: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Counts failures and computes the pause before the next attempt.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Pauses after a failure, longer each time; not at all after the first. Fails if a retry is useless.
    pub(super) async fn wait(&mut self, what: &str, error: ApiError) -> Result<(), AdapterError> {
        if error.is_hopeless() {
            return Err(error.fault);
        }
        let asked = if let AdapterError::Busy { after } = error.fault { after } else { Duration::ZERO };
        let pause = self.pause().max(asked);
        tracing::warn!(channel = CHANNEL, what, reason = %error.fault, pause_s = pause.as_secs(), "a call to Slack failed; retrying");
        sleep(pause).await;
        Ok(())
    }

    fn pause(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        match self.failures.checked_sub(2) {
            None => Duration::ZERO,
            Some(doublings) => FIRST_PAUSE.saturating_mul(1 << doublings.min(10)).min(LONGEST_PAUSE),
        }
    }
}

/// The address of a new connection, valid once.
#[derive(Deserialize)]
struct Opened {
    url: String,
}

/// Receives until a fault makes it useless.
pub(super) async fn listen(slack: &Slack, token: &Secret, inbox: &Inbox) -> AdapterError {
    let wanted = Notify::new();
    let mut lines = FuturesUnordered::new();
    let mut newest = CancellationToken::new();
    // Counts connections that ended soon. Failed attempts to connect are counted apart: several short outages must not
    // add up to a long pause.
    let mut short = Backoff::default();
    loop {
        let line = tokio::select! {
            line = dial(slack, token, inbox) => line,
            // The old connection is served until a new one is open.
            never = drain(&mut lines) => match never {},
        };
        let line = match line {
            Ok(line) => line,
            Err(fault) => return fault,
        };
        newest.cancel();
        newest = CancellationToken::new();
        let began = Instant::now();
        lines.push(attend(slack, line, newest.clone(), &wanted, inbox));
        tokio::select! {
            () = wanted.notified() => {}
            never = drain(&mut lines) => match never {},
        }
        if began.elapsed() >= STEADY {
            short = Backoff::default();
            continue;
        }
        tokio::select! {
            () = sleep(short.pause()) => {}
            never = drain(&mut lines) => match never {},
        }
    }
}

/// Drives the connections. Never returns.
async fn drain<F: Future<Output = ()>>(lines: &mut FuturesUnordered<F>) -> std::convert::Infallible {
    loop {
        if lines.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Opens a connection and waits for Slack's hello.
async fn dial(slack: &Slack, token: &Secret, inbox: &Inbox) -> Result<Line, AdapterError> {
    let mut backoff = Backoff::default();
    loop {
        let opened = slack.web.call_as::<Opened>(token, "apps.connections.open", &[]).await;
        let line = match opened {
            Ok(Opened { url }) => Line::open(&url).await.map_err(ApiError::from),
            Err(error) => Err(error),
        };
        match line {
            Ok(line) => {
                tracing::info!(channel = CHANNEL, "connected");
                inbox.connected(CHANNEL);
                return Ok(line);
            }
            Err(error) => {
                inbox.lost(CHANNEL, error.fault.to_string());
                backoff.wait("apps.connections.open", error).await?;
            }
        }
    }
}

/// Serves a connection until it ends or is replaced. Requests a replacement once.
async fn attend(slack: &Slack, mut line: Line, retired: CancellationToken, wanted: &Notify, inbox: &Inbox) {
    let mut has_asked = false;
    let reason = tokio::select! {
        reason = serve(slack, &mut line, wanted, &mut has_asked, inbox) => reason,
        () = async { retired.cancelled().await; sleep(FAREWELL).await } => "a new connection replaced it".to_owned(),
    };
    tracing::debug!(channel = CHANNEL, reason, "a connection ended");
    if !retired.is_cancelled() {
        inbox.lost(CHANNEL, reason);
        if !has_asked {
            wanted.notify_one();
        }
    }
    line.close().await;
}

/// Receives frames and acknowledges each after it is stored. Returns the reason when the connection ends.
async fn serve(
    slack: &Slack,
    line: &mut Line,
    wanted: &Notify,
    has_asked: &mut bool,
    inbox: &Inbox,
) -> String {
    loop {
        let text = match line.next().await {
            Ok(text) => text,
            Err(reason) => return reason,
        };
        let Ok(frame) = serde_json::from_str::<Frame>(&text) else {
            tracing::warn!(channel = CHANNEL, bytes = text.len(), "ignored a frame that cannot be parsed");
            continue;
        };
        if frame.kind == "disconnect" && !*has_asked {
            tracing::info!(channel = CHANNEL, reason = frame.reason, "Slack will close this connection");
            *has_asked = true;
            wanted.notify_one();
        }
        let Some(envelope) = frame.envelope_id.clone() else { continue };
        if !is_taken(slack, frame, text.len(), inbox).await {
            continue;
        }
        if let Err(reason) = line.acknowledge(&envelope).await {
            return reason;
        }
    }
}

/// Stores a frame. Returns true if it can be acknowledged: it is stored, or it never can be.
async fn is_taken(slack: &Slack, frame: Frame, length: usize, inbox: &Inbox) -> bool {
    if length > MAX_BODY {
        tracing::warn!(channel = CHANNEL, bytes = length, "refused a frame that is too long");
        return true;
    }
    let delivery = match Delivery::parse(&frame.kind, frame.payload) {
        Ok(delivery) => delivery,
        Err(error) => {
            tracing::warn!(channel = CHANNEL, kind = frame.kind, %error, "refused a frame that cannot be parsed");
            return true;
        }
    };
    match slack.take(&delivery, inbox).await {
        Ok(()) => true,
        Err(reason) => {
            tracing::error!(channel = CHANNEL, %reason, "cannot store an update; Slack will send it again");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_up_to_a_limit() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> = (0..10).map(|_| backoff.pause().as_secs()).collect();
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        let busy = ApiError::from(AdapterError::Busy { after: Duration::from_mins(3) });
        let before = Instant::now();
        backoff.wait("x", busy).await.unwrap();
        assert_eq!(before.elapsed(), Duration::from_mins(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_token_is_not_retried() {
        let wrong = ApiError::named("invalid_auth", None, Duration::ZERO);
        let fault = Backoff::default().wait("x", wrong).await.unwrap_err();
        assert!(fault.to_string().contains("invalid_auth"), "{fault}");
    }
}
