//! Calls a plugin with a deadline, and reports exceptions, timeouts and exits of the process as faults.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::timeout;

use super::open::Running;
use super::wire::Failure;

/// A failed call of a plugin.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Thrown(String),
    /// The process exited.
    #[error("the plugin host exited while running this hook")]
    Ended,
    /// The plugin timed out, or its answer cannot be parsed.
    #[error("{0}")]
    Broken(String),
}

impl Fault {
    /// The answer has the wrong shape.
    pub(super) fn misfit(error: &serde_json::Error) -> Self {
        Self::Broken(format!("its result has the wrong shape: {error}"))
    }
}

/// A call of a plugin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) plugin: usize,
    /// The public name of the hook.
    pub(super) hook: &'static str,
    /// The method of the process that calls the hook.
    pub(super) method: &'static str,
    pub(super) limit: Duration,
}

/// The plugin's answer; `None` if it is not called because it still owes an earlier answer.
pub(super) async fn ask(
    running: Arc<Running>,
    question: Question,
    call: Box<RawValue>,
) -> Result<Option<Box<RawValue>>, Fault> {
    let Question { plugin, hook, method, limit } = question;
    let key = (plugin, hook);
    if running.overdue.lock().contains(&key) {
        return Ok(None);
    }
    let asked = Arc::clone(&running);
    // The call continues after the timeout, so that the plugin is called again once it has answered.
    let mut answer = tokio::spawn(async move {
        let answer = asked.wire.call(method, &call).await;
        asked.overdue.lock().remove(&key);
        answer
    });
    match timeout(limit, &mut answer).await {
        Ok(Ok(Ok(answered))) => Ok(Some(answered)),
        Ok(Ok(Err(Failure::Thrown(why)))) => Err(Fault::Thrown(why)),
        Ok(Ok(Err(Failure::Gone))) => Err(Fault::Ended),
        Ok(Ok(Err(failure))) => Err(Fault::Broken(failure.to_string())),
        Ok(Err(error)) => Err(Fault::Broken(error.to_string())),
        Err(_) => {
            running.overdue.lock().insert(key);
            if answer.is_finished() {
                running.overdue.lock().remove(&key);
            }
            running.suspect.notify_one();
            Err(Fault::Broken(format!("it takes longer than {} s", limit.as_secs_f32())))
        }
    }
}
