//! A model call with its retries.

use std::time::Duration;

use engine::ports::hooks::ChatContext;
use engine::session::Turn;
use llm::{Model, Request, Retry, retry};
use protocol::{AgentEvent, MessageError, Millis};
use tokio::time::Instant;

use super::attempt::{AttemptFailure, ModelOutput, attempt};
use super::{Inner, failure, hooks};

/// The error of a model call that is not retried any more.
#[derive(Debug)]
pub(super) struct CallFailure {
    pub(super) error: llm::Error,
    /// True if the last attempt emitted events.
    pub(super) emitted: bool,
    /// The end of the provider's retry delay, if it is longer than a turn waits.
    until: Option<Millis>,
}

impl CallFailure {
    /// Returns the error for the message and the user.
    pub(super) fn error(&self) -> MessageError {
        match self.until {
            Some(until) => failure::retry_delay_too_long(&self.error, until),
            None => failure::message_error(&self.error),
        }
    }
}

/// A model call, which retries repeat.
#[derive(Clone, Copy)]
pub(super) struct ModelCall<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) request: &'a Request,
    /// Set if hooks want to change the call.
    pub(super) chat: Option<&'a ChatContext>,
}

/// Calls the model until it answers or a retry is pointless.
pub(super) async fn call_model(
    inner: &Inner,
    turn: &Turn,
    call: ModelCall<'_>,
) -> Result<ModelOutput, CallFailure> {
    let ModelCall { model, request, chat } = call;
    let mut retries = 0;
    let mut first_failure = None;
    loop {
        let attempt_request = hooks::change_request(turn, chat, for_attempt(request, retries)).await;
        let AttemptFailure { error, emitted } = match attempt(turn, model, attempt_request).await {
            Ok(output) => return Ok(output),
            Err(failed) => failed,
        };
        let failing_since = *first_failure.get_or_insert_with(Instant::now);
        let delay = match error.retry_at(&request.model.provider) {
            Retry::After { delay_hint } => retry::delay(retries + 1, delay_hint, fraction(inner)),
            Retry::Never => return Err(CallFailure { error, emitted, until: None }),
        };
        let Some(wait) = may_wait(inner, &error, retries, failing_since, delay) else {
            return Err(CallFailure { error, emitted, until: None });
        };
        let next = inner.clock.now().saturating_add(millis(wait));
        if wait > retry::CEILING {
            return Err(CallFailure { error, emitted, until: Some(next) });
        }
        retries += 1;
        // The output of the last attempt stays if no other attempt follows; here one follows.
        if emitted {
            turn.emit(AgentEvent::AttemptWithdrawn).await;
        }
        // A rate limit is waited out for a time, not for a number of retries.
        let limit = (!error.is_rate_limit()).then_some(inner.options.retries);
        turn.emit(AgentEvent::Retrying { attempt: retries, limit, message: error.to_string(), next }).await;
        tokio::time::sleep(wait).await;
        turn.emit(AgentEvent::Resumed).await;
    }
}

/// Returns the delay if another retry is allowed: up to a number of retries or, while the provider limits the rate of
/// calls, up to a time. The last delay is cut to that time.
fn may_wait(
    inner: &Inner,
    error: &llm::Error,
    retries: u32,
    failing_since: Instant,
    delay: Duration,
) -> Option<Duration> {
    if retries < inner.options.retries {
        return Some(delay);
    }
    let left = inner.options.rate_limit.checked_sub(failing_since.elapsed())?;
    let waits = error.is_rate_limit() && inner.options.retries > 0 && !left.is_zero();
    waits.then(|| delay.min(left))
}

fn for_attempt(request: &Request, attempt: u32) -> Request {
    Request { attempt, ..request.clone() }
}

/// Returns a random number from 0 to 1.
fn fraction(inner: &Inner) -> f64 {
    let mut byte = [0; 1];
    inner.random.fill(&mut byte);
    f64::from(byte[0]) / f64::from(u8::MAX)
}

fn millis(wait: Duration) -> Millis {
    Millis::try_from(wait.as_millis()).unwrap_or(Millis::MAX)
}
