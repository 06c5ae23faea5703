//! Texts about the end of a turn, and about failures.

use std::time::Duration;

use client::streaming::{Ending, PromptResult};
use protocol::{EndReason, MessageError, continuation::StopReason, event::ContinuationStopped};

use super::lasting;

/// The text of a finished turn: its answer, and a note if the answer is incomplete.
pub(crate) fn outcome(outcome: &PromptResult, timeout: Duration) -> String {
    let text = outcome.text.trim();
    match (note(outcome, timeout), text.is_empty()) {
        (None, true) => "(empty response)".to_owned(),
        (None, false) => text.to_owned(),
        (Some(note), true) => note,
        (Some(note), false) => format!("{text}\n\n{note}"),
    }
}

fn note(outcome: &PromptResult, timeout: Duration) -> Option<String> {
    Some(match &outcome.ending {
        Ending::Complete | Ending::Ended(EndReason::Completed) if outcome.is_cut_off => {
            "(The answer was cut off: the model's output limit was reached. Write “go on”.)".to_owned()
        }
        Ending::Complete | Ending::Ended(EndReason::Completed) => {
            format!("📋 {}", left(outcome.left.as_ref()?))
        }
        Ending::Ended(EndReason::Aborted) => "Stopped.".to_owned(),
        Ending::Ended(EndReason::Withdrawn) => "Withdrawn before it began.".to_owned(),
        Ending::Ended(EndReason::Blocked) => "Stopped, because a request was refused or skipped.".to_owned(),
        Ending::Ended(EndReason::Budget) => "Stopped, because the budget is used up.".to_owned(),
        Ending::Ended(EndReason::Interrupted) => {
            "The server stopped before the answer was complete. Send the message again if you still need it."
                .to_owned()
        }
        Ending::Ended(EndReason::Error) => "Something went wrong; the server gave no reason.".to_owned(),
        Ending::Failed(error) => failed(error),
        Ending::TimedOut => {
            format!("Stopped, because nothing happened for {}.", lasting(timeout))
        }
        Ending::Lost(_) => {
            "I lost the connection to the server before the answer was complete. The agent may still work; \
                            /last shows the answer when it is there."
                .to_owned()
        }
    })
}

/// Says that todos are left, and why the agent does not continue.
fn left(stopped: &ContinuationStopped) -> String {
    let todos = match stopped.open {
        None => "Some todos are still open.".to_owned(),
        Some(0) => "No todos are open.".to_owned(),
        Some(1) => "1 todo is still open.".to_owned(),
        Some(open) => format!("{open} todos are still open."),
    };
    let why = match stopped.reason {
        StopReason::Abort => "it was aborted",
        StopReason::Stop => "another client stopped it",
        StopReason::Prompt => "there is a new message",
        StopReason::Blocked => "one of them waits for you",
        StopReason::Waiting => "a request waits for you",
        StopReason::Refused => "a request was refused",
        StopReason::Error => "an error occurred",
        StopReason::Budget => "the budget is used up",
        StopReason::Rounds => "the limit of continuations is reached",
        StopReason::Stagnant => "it made no progress",
        StopReason::Tokens => "the token limit is reached",
        StopReason::Minutes => "the time limit is reached",
        StopReason::Silent => "the agent's answer was empty",
        StopReason::Unfinished => "the answer was cut short",
        StopReason::Unknown => return todos,
    };
    let round = stopped.round().map(|round| format!(" after {round}")).unwrap_or_default();
    format!("{todos} The agent stopped{round} because {why}.")
}

fn failed(error: &MessageError) -> String {
    let message = error.message().trim();
    match error {
        MessageError::ProviderAuth { provider_id, .. } => {
            format!("The provider {provider_id} does not accept the server's key. {message}")
                .trim_end()
                .to_owned()
        }
        MessageError::Api(error) if matches!(error.status_code, Some(401 | 403)) => {
            format!("The provider does not accept the server's key. {message}").trim_end().to_owned()
        }
        MessageError::ContextOverflow { .. } => {
            "The conversation no longer fits into the model. /new begins a new one.".to_owned()
        }
        _ if message.is_empty() => "Something went wrong; the server gave no reason.".to_owned(),
        _ => format!("Something went wrong: {message}"),
    }
}

/// Answer to a command when the server fails.
pub(crate) fn unreachable(error: &client::Error) -> String {
    match error {
        error if error.is_transient() => {
            "The server cannot be reached right now. Try again in a moment.".to_owned()
        }
        error => format!("The server refused that: {}", reason(error)),
    }
}

/// A line of `/status` about a server that could not be asked.
pub(crate) fn unknown_state(error: &client::Error) -> String {
    match error {
        error if error.is_transient() => {
            "The server cannot be reached right now; I go on as soon as it is back.".to_owned()
        }
        error => unreachable(error),
    }
}

/// Answer to a message that was given up.
pub(crate) fn failure(error: &client::Error, attempts: u32) -> String {
    match error {
        error if error.is_transient() => {
            format!(
                "The server could not be reached in {attempts} attempts. Your message was set aside; send it again later."
            )
        }
        error => format!("The server refused your message: {}", reason(error)),
    }
}

fn reason(error: &client::Error) -> String {
    match error {
        client::Error::Refused { error, .. } => error.message().unwrap_or_else(|| error.kind()),
        error => error.to_string(),
    }
}
