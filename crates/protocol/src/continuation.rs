//! Automatic continuation: turns that continue while todos are open (Baton's addition).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{Extra, MessageId, Millis, Rest};

/// Continuation state of a session.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Continuation {
    /// True if turns of this session continue automatically. If absent, the configuration decides.
    pub enabled: Option<bool>,
    /// The current episode; absent until a turn has continued.
    pub episode: Option<Episode>,
    /// Reason why turns no longer continue. The next user prompt clears it, except a lack of progress, which only a
    /// changed todo list clears.
    pub stopped: Option<StopReason>,
    /// True if the agent has written a todo list with open entries since the last user prompt. A list of an earlier prompt
    /// does not continue a turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub touched: bool,
    #[serde(flatten)]
    pub extra: Rest,
}

impl Continuation {
    /// Begins a new episode after a user prompt. A stop for lack of progress remains. Returns `None` if nothing is left
    /// to store.
    #[must_use]
    pub fn prompted(self) -> Option<Self> {
        let stopped = self.stopped.filter(|reason| *reason == StopReason::Stagnant);
        Self { episode: None, stopped, touched: false, ..self }.stored()
    }

    /// Resets the counters and the stop reason at the user's request. Returns `None` if nothing is left to store.
    #[must_use]
    pub fn resumed(self) -> Option<Self> {
        Self { episode: None, stopped: None, ..self }.stored()
    }

    /// Records that the agent has written the todo list. A list that has changed ends a stop for lack of progress.
    pub fn touch(&mut self, is_open: bool, has_changed: bool) {
        self.touched = is_open;
        if has_changed && self.stopped == Some(StopReason::Stagnant) {
            self.stopped = None;
        }
    }

    /// Returns `None` if there is nothing to store.
    #[must_use]
    pub fn stored(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// The continuations since the last user prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Episode {
    /// The user prompt that began the episode.
    pub id: MessageId,
    /// Number of continuations so far.
    pub rounds: u32,
    /// Number of consecutive continuations without progress.
    pub stagnant: u32,
    /// Tokens that the session had used at the start of the episode.
    pub tokens: u64,
    /// Start of the episode.
    pub started: Millis,
    /// Lowest number of open todos during the episode.
    pub open: u64,
    /// Highest number of finished todos during the episode.
    pub done: u64,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Reason why a turn did not continue although todos were open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// A client aborted the turn.
    Abort,
    /// A client stopped continuation or its countdown.
    Stop,
    /// The user sent a new prompt during the countdown.
    Prompt,
    /// A todo waits for the user.
    Blocked,
    /// A permission or question waits for the user.
    Waiting,
    /// The user refused a permission or question.
    Refused,
    /// The turn failed.
    Error,
    /// The turn's budget is used up.
    Budget,
    /// The maximum number of continuations is reached.
    Rounds,
    /// The maximum number of continuations without progress is reached.
    Stagnant,
    /// The token limit is reached.
    Tokens,
    /// The time limit is reached.
    Minutes,
    /// The last continuation produced no output.
    Silent,
    /// The model's last answer was cut short.
    Unfinished,
    /// A reason that this version does not know.
    #[serde(other)]
    Unknown,
}

impl StopReason {
    /// Returns true if the user caused the stop and so needs no notification.
    pub fn is_wanted(self) -> bool {
        matches!(self, Self::Abort | Self::Stop | Self::Prompt)
    }

    /// Returns true if a plugin may not continue the session either: the episode has used up a limit, or it waits for
    /// the user. After a failure a plugin may try to recover the session.
    pub fn holds_plugins(self) -> bool {
        !matches!(self, Self::Prompt | Self::Error | Self::Silent | Self::Unfinished | Self::Unknown)
    }

    /// Returns the reason as a clause for users.
    pub fn because(self) -> &'static str {
        match self {
            Self::Abort => "the turn was aborted",
            Self::Stop => "a client stopped the continuation",
            Self::Prompt => "a new prompt arrived",
            Self::Blocked => "a todo waits for you",
            Self::Waiting => "a request waits for you",
            Self::Refused => "a request was denied",
            Self::Error => "the turn failed",
            Self::Budget => "the budget is used up",
            Self::Rounds => "the limit of rounds is reached",
            Self::Stagnant => "no progress in the last rounds",
            Self::Tokens => "the token limit is reached",
            Self::Minutes => "the time limit is reached",
            Self::Silent => "the last round produced no output",
            Self::Unfinished => "the last answer was cut short",
            Self::Unknown => "unknown reason",
        }
    }
}

/// The cause of a continuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The todo list has open entries.
    Todo,
    /// A plugin's hook.
    Hook,
}

/// Marks a generated text that continues a turn. Stored in the metadata of its part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub source: Source,
    /// The user prompt that began the episode.
    pub episode: MessageId,
    /// Number of the continuation within the episode, starting at 1.
    pub n: u32,
}

impl Mark {
    /// The metadata field that holds the mark.
    pub const FIELD: &str = "continuation";

    /// Returns part metadata with this mark.
    pub fn metadata(&self) -> Extra {
        Extra::from_iter([(Self::FIELD.to_owned(), serde_json::to_value(self).unwrap_or_default())])
    }
}

/// The body of `POST /session/{id}/continuation`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContinuationInput {
    pub action: ContinuationAction,
    #[serde(flatten)]
    pub extra: Rest,
}

/// An action on a session's automatic continuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContinuationAction {
    /// Stops continuation until the next user prompt. A countdown ends at once; a running step finishes.
    Stop,
    /// Clears an earlier stop and resets the counters.
    Resume,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_new_prompt_keeps_the_switch_and_clears_the_stop_reason() {
        let switched: Continuation =
            serde_json::from_value(json!({ "enabled": false, "stopped": "rounds", "touched": true }))
                .unwrap();
        assert_eq!(serde_json::to_value(switched.prompted()).unwrap(), json!({ "enabled": false }));
        let stopped: Continuation = serde_json::from_value(json!({ "stopped": "abort" })).unwrap();
        assert_eq!(stopped.prompted(), None);
    }

    #[test]
    fn only_a_changed_list_or_the_user_ends_a_stop_for_lack_of_progress() {
        let stagnant: Continuation = serde_json::from_value(json!({ "stopped": "stagnant" })).unwrap();
        let mut next = stagnant.clone().prompted().unwrap();
        next.touch(true, false);
        assert_eq!((next.stopped, next.touched), (Some(StopReason::Stagnant), true));
        next.touch(true, true);
        assert_eq!((next.stopped, next.touched), (None, true));
        next.touch(false, true);
        assert_eq!(next.stored(), None, "a finished list leaves nothing behind");
        assert_eq!(stagnant.resumed(), None);
    }

    #[test]
    fn an_unknown_stop_reason_is_accepted() {
        let newer: StopReason = serde_json::from_value(json!("moonphase")).unwrap();
        assert_eq!(newer, StopReason::Unknown);
    }
}
