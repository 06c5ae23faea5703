//! The rules, checked from inputs and effects alone, without access to the lifecycle's state.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{EndReason, prompt::Delivery};

use crate::lifecycle::{Effect, Input, Run, Stop};

pub(super) type TestInput = Input<u8, u8>;
pub(super) type TestEffect = Effect<u8, u8>;

/// One action of a session's actor on the lifecycle.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Step(TestInput),
    /// Asks if a report of this run is recorded.
    Report(Run),
    /// Takes the prompts that join this run.
    Join(Run),
    /// A client withdraws a prompt.
    Withdraw(u8),
    /// A client changes the delivery of a prompt and moves it to this position.
    Rearrange(u8, Delivery, usize),
}

impl From<TestInput> for Action {
    fn from(input: TestInput) -> Self {
        Self::Step(input)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Prompt {
    Waiting,
    Started,
    Ended,
}

/// The state of a session as reconstructed from its inputs and effects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Monitor {
    busy: bool,
    retrying: bool,
    /// The run whose runner was started and has not ended.
    runner: Option<Run>,
    /// The run that was started and not closed.
    open: Option<Run>,
    children: BTreeSet<u8>,
    prompts: BTreeMap<u8, Prompt>,
    /// The run whose consultation is pending.
    consulted: Option<Run>,
    interrupted: bool,
    last_run: Run,
}

pub(super) type Verdict = Result<(), String>;

impl Monitor {
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    pub(super) fn runner(&self) -> Option<Run> {
        self.runner
    }

    pub(super) fn consulted(&self) -> Option<Run> {
        self.consulted
    }

    pub(super) fn children(&self) -> impl Iterator<Item = u8> + '_ {
        self.children.iter().copied()
    }

    /// Checks one step, or the effects that a bug adds to a report.
    pub(super) fn observe(&mut self, input: Option<&TestInput>, effects: &[TestEffect]) -> Verdict {
        let runner_before = self.runner;
        if let Some(input) = input {
            self.hear(input);
        }
        let child_input = matches!(input, Some(Input::ChildStarted { .. } | Input::ChildEnded { .. }));
        let status = |effect: &TestEffect| matches!(effect, Effect::Busy | Effect::Retry | Effect::Idle(_));
        if child_input && runner_before.is_some() && effects.iter().any(status) {
            return Err("a child changed its parent's status".into());
        }
        effects.iter().try_for_each(|effect| self.check(effect))?;
        self.rest()
    }

    /// Checks a report: recorded if and only if its runner is there.
    pub(super) fn reported(&self, run: Run, is_recorded: bool) -> Verdict {
        match (is_recorded, self.runner == Some(run)) {
            (true, false) => Err(format!("a late report of run {run} was recorded")),
            (false, true) => Err(format!("a report of run {run} was dropped")),
            _ => Ok(()),
        }
    }

    /// Checks the prompts that join a run.
    pub(super) fn joined(&mut self, run: Run, prompts: &[u8]) -> Verdict {
        if !prompts.is_empty() && self.runner != Some(run) {
            return Err(format!("prompts joined run {run}, which is over"));
        }
        prompts.iter().try_for_each(|prompt| self.advance(*prompt, Prompt::Started))?;
        self.rest()
    }

    /// Checks a withdrawal: possible if and only if the prompt waits.
    pub(super) fn withdrawn(&mut self, prompt: u8, is_accepted: bool) -> Verdict {
        let waits = self.waits(prompt);
        match (is_accepted, waits) {
            (true, true) => self.advance(prompt, Prompt::Ended)?,
            (false, false) => {}
            _ => return Err(format!("prompt {prompt}: waits {waits}, withdrawn {is_accepted}")),
        }
        self.rest()
    }

    /// Checks the queue: it holds exactly the prompts that wait.
    pub(super) fn queued(&self, queue: &[u8]) -> Verdict {
        let waiting = self.prompts.iter().filter(|(_, state)| **state == Prompt::Waiting);
        let mut sorted = queue.to_vec();
        sorted.sort_unstable();
        if waiting.map(|(prompt, _)| *prompt).eq(sorted) {
            Ok(())
        } else {
            Err(format!("{queue:?} wait according to the machine: a prompt is lost or doubled"))
        }
    }

    pub(super) fn waits(&self, prompt: u8) -> bool {
        self.prompts.get(&prompt) == Some(&Prompt::Waiting)
    }

    fn hear(&mut self, input: &TestInput) {
        match input {
            Input::Prompt { prompt, .. } => {
                self.prompts.insert(*prompt, Prompt::Waiting);
            }
            Input::Ended { run, .. } if self.runner == Some(*run) => self.runner = None,
            Input::ChildStarted { run, child } if self.runner == Some(*run) => {
                self.children.insert(*child);
            }
            Input::ChildEnded { child } => {
                self.children.remove(child);
            }
            Input::Stop(Stop::Interrupt) => self.interrupted = true,
            _ => {}
        }
    }

    fn check(&mut self, effect: &TestEffect) -> Verdict {
        let allowed_when_idle = matches!(effect, Effect::Busy | Effect::StopChild(_));
        if !self.busy && !allowed_when_idle {
            return Err(format!("{effect:?} outside a turn"));
        }
        match effect {
            Effect::Busy if self.busy && !self.retrying => return Err("busy twice".into()),
            Effect::Busy => (self.busy, self.retrying) = (true, false),
            Effect::Retry => self.retrying = true,
            Effect::Start { run, prompt } => {
                if self.open.is_some() || *run <= self.last_run {
                    return Err(format!("run {run} started over another"));
                }
                self.run(*run);
                self.advance(*prompt, Prompt::Started)?;
            }
            Effect::Consult { run } => {
                if self.open.is_some() || self.runner.is_some() || !self.children.is_empty() {
                    return Err("asked to go on while something was going on".into());
                }
                self.consulted = Some(*run);
            }
            Effect::Continue { run } => {
                if self.consulted.is_none() || *run <= self.last_run || self.interrupted {
                    return Err(format!("run {run} continues without a consultation"));
                }
                self.run(*run);
            }
            Effect::Close(_) => {
                if self.runner.is_some() || !self.children.is_empty() {
                    return Err("closed while something was going on".into());
                }
                self.open.take().ok_or("closed twice")?;
            }
            Effect::EndPrompt { prompt, .. } => self.advance(*prompt, Prompt::Ended)?,
            Effect::Idle(reason) => self.idle(*reason)?,
            Effect::Cancel { .. } | Effect::StopChild(_) => {}
        }
        Ok(())
    }

    fn run(&mut self, run: Run) {
        (self.open, self.runner, self.last_run, self.consulted) = (Some(run), Some(run), run, None);
    }

    fn idle(&mut self, reason: EndReason) -> Verdict {
        if self.open.is_some() || self.runner.is_some() || !self.children.is_empty() {
            return Err(format!("idle ({reason:?}) while something was going on"));
        }
        if self.prompts.values().any(|prompt| *prompt == Prompt::Started) {
            return Err("idle before a started prompt was ended".into());
        }
        (self.busy, self.retrying, self.consulted) = (false, false, None);
        Ok(())
    }

    fn advance(&mut self, prompt: u8, to: Prompt) -> Verdict {
        let from = self.prompts.get(&prompt).copied();
        if from.is_none_or(|from| from >= to) {
            return Err(format!("prompt {prompt} went from {from:?} to {to:?}"));
        }
        self.prompts.insert(prompt, to);
        Ok(())
    }

    /// Checks the invariants that hold between inputs.
    fn rest(&self) -> Verdict {
        if self.busy {
            return Ok(());
        }
        if let Some(run) = self.open {
            return Err(format!("run {run} is open in an idle session"));
        }
        let forgotten =
            |prompt: &Prompt| *prompt != Prompt::Ended && !(self.interrupted && *prompt == Prompt::Waiting);
        if self.prompts.values().any(forgotten) {
            return Err("an accepted prompt was forgotten".into());
        }
        Ok(())
    }
}
