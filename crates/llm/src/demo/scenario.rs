//! The scenario file: its types and how it is read.
//!
//! Actions are read one by one from a first, loose pass over the file, so that an error can say which scenario,
//! step and action it is about instead of only a line number.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{Finish, Headers, Usage};

/// What one call to the model does.
pub type Step = Vec<Action>;

/// A named script.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// One line for listings.
    pub about: String,
    /// What the first, second, ... call since the newest prompt does. Never empty.
    pub steps: Vec<Step>,
    /// The same for a conversation that was summarised; empty if that makes no difference.
    pub after_summary: Vec<Step>,
}

impl Scenario {
    /// What call number `index` does; the last step repeats.
    pub(super) fn step(&self, index: usize, summarised: bool) -> &[Action] {
        let other = summarised && !self.after_summary.is_empty();
        let steps = if other { &self.after_summary } else { &self.steps };
        steps.get(index).or(steps.last()).map(Vec::as_slice).unwrap_or_default()
    }
}

/// One thing a scripted model does. See the module above for the file format.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Action {
    /// Says something.
    Text(Talk),
    /// Thinks something.
    Reasoning(Talk),
    /// Calls a tool.
    Tool {
        /// The tool's name.
        name: String,
        /// Its input.
        #[serde(default)]
        input: Option<Value>,
        /// The argument text as it is, in place of `input`.
        #[serde(default)]
        raw: Option<String>,
    },
    /// Pauses.
    Wait {
        /// For how long.
        ms: u64,
    },
    /// Never says anything again.
    Stall {
        /// Only for so many attempts.
        #[serde(default)]
        times: Option<u32>,
    },
    /// Loses the connection.
    Drop {
        /// Only for so many attempts.
        #[serde(default)]
        times: Option<u32>,
    },
    /// Reports a failure inside the stream.
    Error {
        /// What a person reads.
        message: String,
        /// The provider's name for it.
        #[serde(default)]
        code: Option<String>,
        /// Only for so many attempts.
        #[serde(default)]
        times: Option<u32>,
    },
    /// Refuses the call.
    Http {
        /// The status code.
        status: u16,
        /// Response headers.
        #[serde(default)]
        headers: Headers,
        /// The response body: text, or any other JSON, which is sent as its text.
        #[serde(default)]
        body: Option<Value>,
        /// Only for so many attempts.
        #[serde(default)]
        times: Option<u32>,
    },
    /// Ends the step.
    Finish {
        /// Why.
        reason: Finish,
        /// What was used; estimated when absent.
        #[serde(default)]
        usage: Option<Usage>,
    },
}

/// Words and how they are streamed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Talk {
    /// The words.
    pub text: String,
    /// How many of them go into one delta.
    #[serde(default = "one")]
    pub words: u32,
    /// The pause before each delta.
    #[serde(default)]
    pub delay_ms: u64,
    /// How often the text is said, within one block.
    #[serde(default = "one")]
    pub repeat: u32,
}

fn one() -> u32 {
    1
}

/// Scenarios by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scenarios(BTreeMap<String, Scenario>);

impl Scenarios {
    /// The scenarios that come with the program.
    pub fn built_in() -> Result<Self, ParseError> {
        Self::parse(include_str!("scenarios.json"))
    }

    /// Reads a scenario file.
    pub fn parse(json: &str) -> Result<Self, ParseError> {
        let file: BTreeMap<String, Loose> = serde_json::from_str(json).map_err(ParseError::File)?;
        file.into_iter()
            .map(|(name, loose)| Ok((name.clone(), loose.read(&name)?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Adds scenarios; one with a known name replaces the older one.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The scenario with that name.
    pub fn get(&self, name: &str) -> Option<&Scenario> {
        self.0.get(name)
    }

    /// All scenarios, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Scenario)> {
        self.0.iter().map(|(name, scenario)| (name.as_str(), scenario))
    }
}

/// A scenario whose actions have not been looked at yet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Loose {
    about: String,
    steps: Vec<Vec<Value>>,
    #[serde(default)]
    after_summary: Vec<Vec<Value>>,
}

impl Loose {
    fn read(self, scenario: &str) -> Result<Scenario, ParseError> {
        if self.steps.is_empty() {
            return Err(ParseError::NoSteps { scenario: scenario.to_owned() });
        }
        let first = self.steps.len();
        let steps = read(self.steps, scenario, 0)?;
        // Counted on, so that an error names one place.
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

/// What the types cannot say: how an action fits with itself and with those before it.
fn check(action: &Action, before: &[Action]) -> Result<(), &'static str> {
    if before.iter().any(|action| matches!(action, Action::Finish { .. })) {
        return Err("nothing can follow `finish`");
    }
    match action {
        Action::Http { .. } if !before.iter().all(|action| matches!(action, Action::Http { .. })) => {
            Err("`http` refuses the whole call, so it has to come first")
        }
        Action::Tool { input, raw, .. } if input.is_some() == raw.is_some() => {
            Err("`tool` needs either `input` or `raw`")
        }
        Action::Text(talk) | Action::Reasoning(talk) if talk.words == 0 => {
            Err("`words` has to be at least 1")
        }
        _ => Ok(()),
    }
}

/// A scenario file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The file as a whole.
    #[error("cannot read the scenario file: {0}")]
    File(#[source] serde_json::Error),
    /// A scenario that does nothing, not even nothing.
    #[error("scenario `{scenario}` has no steps")]
    NoSteps {
        /// Its name.
        scenario: String,
    },
    /// One action; steps and actions are counted from 1.
    #[error("scenario `{scenario}`, step {step}, action {action}: {message}")]
    Action {
        /// The scenario's name.
        scenario: String,
        /// Which step.
        step: usize,
        /// Which action of the step.
        action: usize,
        /// What is wrong with it.
        message: String,
    },
}
