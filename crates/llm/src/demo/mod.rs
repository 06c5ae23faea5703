//! The provider `demo`: a model that follows a script. It needs no network and no key.
//!
//! It serves three purposes. `demo/baton` answers a new user's first prompt before any provider is set up. The
//! built-in scenarios (`demo/simple`, `demo/retry_429`, `demo/stall`, ...) show how Baton and its clients
//! behave when a model misbehaves. And tests write their own.
//!
//! # Scenario files
//!
//! A file is an object of named scenarios. A scenario has a description `about` and `steps`: the actions of the
//! model in its first, second, ... call since the newest prompt. When a turn needs more steps than are written,
//! the last one repeats. A step is a list of actions, performed in order; an empty list produces nothing. A
//! scenario may also have `after_summary`: steps that replace the others after the conversation was summarised.
//!
//! ```
//! let file = r#"{
//!   "fix_typo": {
//!     "about": "reads a file, is rate limited once, then answers slowly",
//!     "steps": [
//!       [
//!         { "do": "reasoning", "text": "Let me look first." },
//!         { "do": "tool", "name": "read", "input": { "filePath": "README.md" } },
//!         { "do": "finish", "reason": "tool-calls", "usage": { "input": 900, "output": 30 } }
//!       ],
//!       [
//!         { "do": "http", "status": 429, "headers": { "retry-after": "2" }, "times": 1 },
//!         { "do": "text", "text": "The typo is in line 3.", "words": 2, "delay_ms": 40 },
//!         { "do": "finish", "reason": "stop" }
//!       ]
//!     ]
//!   }
//! }"#;
//! let mut scenarios = llm::demo::Scenarios::built_in().unwrap();
//! scenarios.extend(llm::demo::Scenarios::parse(file).unwrap());
//! ```
//!
//! | action | fields |
//! |---|---|
//! | `text`, `reasoning` | `text`; `words` per delta (1), `delay_ms` before each delta (0), `repeat` the text (1) |
//! | `tool` | `name`, and `input` (any JSON) or `raw` (the argument text itself, which need not be JSON) |
//! | `wait` | `ms` |
//! | `stall` | sends nothing more until the stream's timeout; `times` |
//! | `drop` | loses the connection; `times` |
//! | `error` | reports an error in the stream; `message`, `code`, `times` |
//! | `http` | refuses the call (first in its step); `status`, `headers`, `body`, `times` |
//! | `finish` | `reason` and `usage` (estimated when left out) |
//!
//! Consecutive texts form one block, as do consecutive pieces of reasoning; a failure cuts the block before it.
//! `times` limits a failure to the first attempts of a step, so that the next one succeeds; without it the
//! failure is permanent. A step without `finish` ends without one, like that of a broken provider.
//!
//! # Choosing a scenario
//!
//! By model id: `demo/<scenario>`. `demo/<scenario>:500` replaces every `repeat` in it, `demo/<scenario>@20`
//! every `delay_ms`, and `demo/<scenario>:500@20` both. A prompt that contains `[[scenario:<scenario>]]`
//! overrides the model id; scripted subagents use this to differ from their parent.
//!
//! The model keeps no state: its actions follow from the request alone (assistant messages since the newest
//! prompt, attempt), so a turn continues where it was after a restart.

mod baton;
mod choice;
mod play;
mod scenario;
mod side;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::{self, BoxFuture, FutureExt};

pub use scenario::{Action, ParseError, Scenario, Scenarios, ScriptedText, Step};

use crate::catalogue::{self, Limit};
use crate::{Deadlines, Error, EventStream, Model, Purpose, Request};

pub const PROVIDER: &str = "demo";

/// The tour that reacts to the prompt; the default model when nothing else is configured.
pub const BATON: &str = "baton";

/// Context size in tokens, like that of a real model of medium size.
pub const CONTEXT: u64 = 128_000;

/// Output limit of one step, in tokens.
pub const OUTPUT: u64 = 8_192;

#[derive(Debug, Clone)]
pub struct Demo {
    scenarios: Arc<Scenarios>,
    about: Arc<catalogue::Model>,
    deadlines: Deadlines,
}

impl Demo {
    /// A model with these scenarios besides [`BATON`].
    pub fn new(scenarios: Scenarios) -> Self {
        let mut about = catalogue::Model::named(PROVIDER);
        about.limit = Limit { context: CONTEXT, input: None, output: OUTPUT };
        Self { scenarios: Arc::new(scenarios), about: Arc::new(about), deadlines: Deadlines::default() }
    }

    /// The same model, which gives up a stalled stream after these deadlines.
    #[must_use]
    pub fn with_deadlines(self, deadlines: Deadlines) -> Self {
        Self { deadlines, ..self }
    }

    /// A model with the built-in scenarios. Fails only if the file compiled into the program is invalid.
    pub fn built_in() -> Result<Self, ParseError> {
        Scenarios::built_in().map(Self::new)
    }

    /// Every model id (without the provider) and its description, the tour first.
    pub fn models(&self) -> impl Iterator<Item = (&str, &str)> {
        let baton = (BATON, "friendly tour: looks at the prompt and uses the real tools");
        std::iter::once(baton)
            .chain(self.scenarios.iter().map(|(name, scenario)| (name, scenario.about.as_str())))
    }

    /// The description of a model, whose id may contain numbers for its scenario.
    pub fn describe(&self, model: &str) -> Option<&str> {
        let name = choice::Choice::parse(model).name;
        self.models().find(|(id, _)| *id == name).map(|(_, about)| about)
    }

    fn begin(&self, request: &Request) -> Result<EventStream, Error> {
        let script = |step: &[Action], tuning| play::script(step, request, tuning, self.deadlines);
        let cues = match request.purpose {
            Purpose::Title => script(&side::title(request), choice::Tuning::default())?,
            Purpose::Compaction => script(&side::summary(request), choice::Tuning::default())?,
            Purpose::Turn => {
                let choice = choice::Choice::of(request);
                if choice.name == BATON {
                    script(&baton::answer(request), choice.tuning)?
                } else {
                    let scenario = self
                        .scenarios
                        .get(&choice.name)
                        .ok_or_else(|| Error::UnknownModel(format!("{PROVIDER}/{}", choice.name)))?;
                    let step = scenario.step(choice::step_number(request), side::is_summarised(request));
                    script(step, choice.tuning)?
                }
            }
        };
        Ok(play::stream(cues))
    }
}

impl Model for Demo {
    fn knows(&self, model: &str) -> bool {
        let name = choice::Choice::parse(model).name;
        name == BATON || self.scenarios.get(&name).is_some()
    }

    fn about(&self, model: &str) -> Option<&catalogue::Model> {
        self.knows(model).then_some(&self.about)
    }

    fn stream(&self, request: Request) -> BoxFuture<'static, Result<EventStream, Error>> {
        future::ready(self.begin(&request)).boxed()
    }
}
