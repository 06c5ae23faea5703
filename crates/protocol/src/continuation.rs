//! Turns that go on by themselves while there is something left to do (Baton's addition).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, MessageId, Millis, Rest};

/// What a session knows about going on by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Continuation {
    /// Whether its turns go on; the configuration decides if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The present episode, once a turn has gone on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode: Option<Episode>,
    /// Why it goes on no longer; until the next prompt that a person writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StopReason>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

impl Continuation {
    /// A person has said something new: whatever was counted or stopped is over. Nothing if nothing is left to know.
    #[must_use]
    pub fn anew(self) -> Option<Self> {
        let anew = Self { episode: None, stopped: None, ..self };
        (anew != Self::default()).then_some(anew)
    }
}

/// The continuations since the last prompt that a person wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Episode {
    /// That prompt.
    pub id: MessageId,
    /// How often the turn has gone on.
    pub rounds: u32,
    /// How often in a row nothing was achieved.
    pub stagnant: u32,
    /// Tokens that the session had used when it began.
    pub tokens: u64,
    /// When it began.
    pub started: Millis,
    /// The fewest open todos it has seen.
    pub open: u64,
    /// The most finished todos it has seen.
    pub done: u64,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// Why a turn did not go on although there was something left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// Somebody aborted the turn.
    Abort,
    /// Somebody does not want it to go on, or stopped the countdown.
    Stop,
    /// A person said something new during the countdown.
    Prompt,
    /// A todo waits for a person.
    Blocked,
    /// A permission or a question waits for a person.
    Waiting,
    /// A permission or a question was refused.
    Refused,
    /// The turn failed.
    Error,
    /// The turn's budget was used up.
    Budget,
    /// It went on as often as it may.
    Rounds,
    /// It went on and achieved nothing, as often as it may.
    Stagnant,
    /// It used as many tokens as it may.
    Tokens,
    /// It took as long as it may.
    Minutes,
    /// It was told to go on and said nothing.
    Silent,
    /// The model did not come to an end by itself.
    Unfinished,
    /// A reason this version does not know.
    #[serde(other)]
    Unknown,
}

impl StopReason {
    /// Whether a person wanted it, who then knows.
    pub fn is_wanted(self) -> bool {
        matches!(self, Self::Abort | Self::Stop | Self::Prompt)
    }

    /// In words for people: that something is left to do, and why.
    pub fn describe(self) -> String {
        format!("todos are left: {}", self.because())
    }

    fn because(self) -> &'static str {
        match self {
            Self::Abort => "it was aborted",
            Self::Stop => "it was told to stop",
            Self::Prompt => "there is something new to do",
            Self::Blocked => "a todo waits for you",
            Self::Waiting => "a request waits for you",
            Self::Refused => "what it needs was refused",
            Self::Error => "it failed",
            Self::Budget => "the budget is used up",
            Self::Rounds => "it went on as often as it may",
            Self::Stagnant => "it made no progress",
            Self::Tokens => "it used as many tokens as it may",
            Self::Minutes => "it took as long as it may",
            Self::Silent => "it had nothing to say",
            Self::Unfinished => "its answer was cut short",
            Self::Unknown => "the server had a reason",
        }
    }
}

/// Who wanted a turn to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The todo list.
    Todo,
    /// A plugin.
    Hook,
}

/// Marks the text that a turn goes on with, in its part's metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Who wanted it.
    pub source: Source,
    /// The prompt that a person wrote.
    pub episode: MessageId,
    /// Which continuation of the episode it is, from 1.
    pub n: u32,
}

impl Mark {
    /// The field of the metadata that holds it.
    pub const FIELD: &str = "continuation";

    /// Metadata with this mark.
    pub fn metadata(&self) -> Extra {
        Extra::from_iter([(Self::FIELD.to_owned(), serde_json::to_value(self).unwrap_or_default())])
    }
}

/// The body of `POST /session/{id}/continuation`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContinuationInput {
    /// What to do.
    pub action: ContinuationAction,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// What can be done about a session that goes on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContinuationAction {
    /// Do not go on, until a person says something new. A countdown ends at once; a running step goes on to its end.
    Stop,
    /// Forget about an earlier stop, and begin to count anew.
    Resume,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_person_switched_outlives_what_they_say() {
        let switched: Continuation =
            serde_json::from_value(json!({ "enabled": false, "stopped": "rounds" })).unwrap();
        assert_eq!(serde_json::to_value(switched.anew()).unwrap(), json!({ "enabled": false }));
        let stopped: Continuation = serde_json::from_value(json!({ "stopped": "abort" })).unwrap();
        assert_eq!(stopped.anew(), None);
    }

    #[test]
    fn a_reason_of_a_newer_version_is_understood_as_one() {
        let newer: StopReason = serde_json::from_value(json!("moonphase")).unwrap();
        assert_eq!(newer, StopReason::Unknown);
    }
}
