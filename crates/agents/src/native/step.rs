//! One step with its retries.

use std::time::Duration;

use engine::session::Turn;
use llm::{Model, Request, Retry, retry};
use protocol::{AgentEvent, MessageError, Millis};

use super::attempt::{Failed, Heard, attempt};
use super::{Inner, failure, limits};

/// Asks the model until it answers or there is no point in asking again.
pub(super) async fn step(
    inner: &Inner,
    turn: &Turn,
    model: &dyn Model,
    request: Request,
) -> Result<Heard, MessageError> {
    let mut retries = 0;
    loop {
        let request = Request { attempt: retries, ..request.clone() };
        let Failed { error, said } = match attempt(turn, model, request).await {
            Ok(heard) => return Ok(heard),
            Err(failed) => failed,
        };
        let wait = match error.retry() {
            Retry::After { delay_hint } if retries < limits::RETRIES => {
                retry::delay(retries + 1, delay_hint, fraction(inner))
            }
            _ => return Err(failure::message_error(&error)),
        };
        if wait > retry::CEILING {
            return Err(failure::message_error(&error));
        }
        retries += 1;
        // What the last attempt said stays when there is no next one; here there is one.
        if said {
            turn.emit(AgentEvent::AttemptWithdrawn).await;
        }
        let next = inner.clock.now().saturating_add(millis(wait));
        turn.emit(AgentEvent::Retrying { attempt: retries, message: error.to_string(), next }).await;
        tokio::time::sleep(wait).await;
        turn.emit(AgentEvent::Resumed).await;
    }
}

/// A random number from 0 to 1.
fn fraction(inner: &Inner) -> f64 {
    let mut byte = [0; 1];
    inner.random.fill(&mut byte);
    f64::from(byte[0]) / f64::from(u8::MAX)
}

fn millis(wait: Duration) -> Millis {
    Millis::try_from(wait.as_millis()).unwrap_or(Millis::MAX)
}
