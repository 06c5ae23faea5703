//! Types and parser of the scenario file.
//!
//! Actions are parsed one by one after a first, loose pass over the file, so that an error can name the
//! scenario, step and action instead of only a line number.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{Finish, Headers, Usage};

/// Actions of one call to the model.
pub type Step = Vec<Action>;

#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// One-line description for lists.
    pub about: String,
    /// Steps of the first, second, ... call since the newest prompt. Never empty.
    pub steps: Vec<Step>,
    /// Steps after the conversation was summarised; empty if they are the same.
    pub after_summary: Vec<Step>,
}

impl Scenario {
    /// The step of call number `index`; the last step repeats.
    pub(super) fn step(&self, index: usize, summarised: bool) -> &[Action] {
        let other = summarised && !self.after_summary.is_empty();
        let steps = if other { &self.after_summary } else { &self.steps };
        steps.get(index).or(steps.last()).map(Vec::as_slice).unwrap_or_default()
    }
}

/// One action of a scripted model. The module above describes the file format.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Action {
    /// Streams answer text.
    Text(ScriptedText),
    /// Streams reasoning.
    Reasoning(ScriptedText),
    Tool {
        name: String,
        #[serde(default)]
        input: Option<Value>,
        /// Raw argument text in place of `input`.
        #[serde(default)]
        raw: Option<String>,
    },
    Wait {
        ms: u64,
    },
    /// Sends nothing more.
    Stall {
        /// Number of attempts that fail; `None` means all.
        #[serde(default)]
        times: Option<u32>,
    },
    Drop {
        /// Number of attempts that fail; `None` means all.
        #[serde(default)]
        times: Option<u32>,
    },
    /// Reports an error inside the stream.
    Error {
        message: String,
        /// The provider's error code.
        #[serde(default)]
        code: Option<String>,
        /// Number of attempts that fail; `None` means all.
        #[serde(default)]
        times: Option<u32>,
    },
    /// Refuses the call.
    Http {
        status: u16,
        #[serde(default)]
        headers: Headers,
        /// Response body: text, or JSON, which is sent as text.
        #[serde(default)]
        body: Option<Value>,
        /// Number of attempts that fail; `None` means all.
        #[serde(default)]
        times: Option<u32>,
    },
    /// Ends the step with a finish reason.
    Finish {
        reason: Finish,
        /// Estimated when absent.
        #[serde(default)]
        usage: Option<Usage>,
    },
}

/// Text and the way it is streamed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedText {
    pub text: String,
    /// Words per delta.
    #[serde(default = "one")]
    pub words: u32,
    /// Pause before each delta.
    #[serde(default)]
    pub delay_ms: u64,
    /// Number of repetitions of the text within one block.
    #[serde(default = "one")]
    pub repeat: u32,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scenarios(BTreeMap<String, Scenario>);

impl Scenarios {
    /// Scenarios compiled into the program.
    pub fn built_in() -> Result<Self, ParseError> {
        Self::parse(include_str!("scenarios.json"))
    }

    /// Parses a scenario file.
    pub fn parse(json: &str) -> Result<Self, ParseError> {
        let file: BTreeMap<String, UnparsedScenario> =
            serde_json::from_str(json).map_err(ParseError::File)?;
        file.into_iter()
            .map(|(name, loose)| Ok((name.clone(), loose.read(&name)?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Adds scenarios; one with a known name replaces the older one.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn get(&self, name: &str) -> Option<&Scenario> {
        self.0.get(name)
    }

    /// All scenarios, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Scenario)> {
        self.0.iter().map(|(name, scenario)| (name.as_str(), scenario))
    }
}

/// A scenario whose actions are not parsed yet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnparsedScenario {
    about: String,
    steps: Vec<Vec<Value>>,
    #[serde(default)]
    after_summary: Vec<Vec<Value>>,
}

impl UnparsedScenario {
    fn read(self, scenario: &str) -> Result<Scenario, ParseError> {
        if self.steps.is_empty() {
            return Err(ParseError::NoSteps { scenario: scenario.to_owned() });
        }
        let first = self.steps.len();
        let steps = read(self.steps, scenario, 0)?;
        // Numbered after `steps`, so that an error names an unambiguous step.
        let after_summary = read(self.after_summary, scenario, first)?;
        Ok(Scenario { about: self.about, steps, after_summary })
    }
}

fn read(loose: Vec<Vec<Value>>, scenario: &str, before: usize) -> Result<Vec<Step>, ParseError> {
    let mut steps = Vec::with_capacity(loose.len());
    for (step, actions) in loose.into_iter().enumerate() {
        let mut read = Vec::with_capacity(actions.len());
        for (action, value) in actions.into_iter().enumerate() {
            let place = |message: String| ParseError::Action {
                scenario: scenario.to_owned(),
                step: before + step + 1,
                action: action + 1,
                message,
            };
            let parsed = serde_json::from_value(value).map_err(|error| place(error.to_string()))?;
            check(&parsed, &read).map_err(|message| place(message.to_owned()))?;
            read.push(parsed);
        }
        steps.push(read);
    }
    Ok(steps)
}

/// Checks rules that the types cannot express: fields of an action, and its position among the others.
fn check(action: &Action, before: &[Action]) -> Result<(), &'static str> {
    if before.iter().any(|action| matches!(action, Action::Finish { .. })) {
        return Err("nothing can follow `finish`");
    }
    match action {
        Action::Http { .. } if !before.iter().all(|action| matches!(action, Action::Http { .. })) => {
            Err("`http` refuses the whole call, so it must come first")
        }
        Action::Tool { input, raw, .. } if input.is_some() == raw.is_some() => {
            Err("`tool` needs either `input` or `raw`")
        }
        Action::Text(talk) | Action::Reasoning(talk) if talk.words == 0 => Err("`words` must be at least 1"),
        _ => Ok(()),
    }
}

/// An invalid scenario file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The file as a whole is invalid.
    #[error("cannot read the scenario file: {0}")]
    File(#[source] serde_json::Error),
    /// The scenario has no steps at all.
    #[error("scenario `{scenario}` has no steps")]
    NoSteps { scenario: String },
    /// An invalid action; steps and actions are counted from 1.
    #[error("scenario `{scenario}`, step {step}, action {action}: {message}")]
    Action { scenario: String, step: usize, action: usize, message: String },
}
