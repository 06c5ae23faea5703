//! Asking a plugin something, with a deadline. What it throws, or that it hangs or takes the process down, is its own.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::timeout;

use super::lock;
use super::open::Running;
use super::wire::Failure;

/// How a plugin goes wrong that was asked something.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Thrown(String),
    /// The process is gone.
    #[error("it ended the plugin host, or somebody else did")]
    Ended,
    /// It hangs, or leaves something behind that cannot be read.
    #[error("{0}")]
    Broken(String),
}

impl Fault {
    /// What it left behind is not what was asked for.
    pub(super) fn misfit(error: &serde_json::Error) -> Self {
        Self::Broken(format!("what it left behind has the wrong shape: {error}"))
    }
}

/// Whom to ask, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) plugin: usize,
    /// The hook, as people know it.
    pub(super) hook: &'static str,
    /// The method of the process that calls it.
    pub(super) method: &'static str,
    pub(super) limit: Duration,
}

/// What the plugin has answered; nothing if it is not to be asked, because it still owes an answer.
pub(super) async fn ask(
    running: Arc<Running>,
    question: Question,
    call: Box<RawValue>,
) -> Result<Option<Box<RawValue>>, Fault> {
    let Question { plugin, hook, method, limit } = question;
    let key = (plugin, hook);
    if lock(&running.overdue).contains(&key) {
        return Ok(None);
    }
    let asked = Arc::clone(&running);
    // The call goes on when nobody waits for it any more, so that it is known when the plugin is back.
    let mut answer = tokio::spawn(async move {
        let answer = asked.wire.call(method, &call).await;
        lock(&asked.overdue).remove(&key);
        answer
    });
    match timeout(limit, &mut answer).await {
        Ok(Ok(Ok(answered))) => Ok(Some(answered)),
        Ok(Ok(Err(Failure::Thrown(why)))) => Err(Fault::Thrown(why)),
        Ok(Ok(Err(Failure::Gone))) => Err(Fault::Ended),
        Ok(Ok(Err(failure))) => Err(Fault::Broken(failure.to_string())),
        Ok(Err(error)) => Err(Fault::Broken(error.to_string())),
        Err(_) => {
            lock(&running.overdue).insert(key);
            if answer.is_finished() {
                lock(&running.overdue).remove(&key);
            }
            running.suspect.notify_one();
            Err(Fault::Broken(format!("it takes longer than {} s", limit.as_secs_f32())))
        }
    }
}
