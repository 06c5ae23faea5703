//! Breadth-first search over every reachable state of a session with a few prompts, children and continuations.
//!
//! Each state is visited once, so this is not a sample: within these sizes, no interleaving of prompts, reports,
//! joins, changes of the queue, retries, children, continuations, ends (also late and repeated ones), aborts and
//! shutdowns breaks a rule of [`Monitor`], and from every state the session becomes idle when its runner and children
//! end.

use std::collections::{HashSet, VecDeque};

use protocol::{EndReason, prompt::Delivery};

use super::{
    monitor::{Action, Monitor, TestInput, Verdict},
    planted::Bug,
};
use crate::lifecycle::{Input, Lifecycle, Run, Stop};

/// Size of the explored space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    prompts: u8,
    children: u8,
    continuations: u8,
    /// True if clients change the queue.
    changes: bool,
}

/// A small mix of everything except changes of the queue.
pub(super) const USUAL: Sizes = Sizes { prompts: 3, children: 2, continuations: 1, changes: false };
/// Changes of the queue, with little else.
pub(super) const CHANGES: Sizes = Sizes { prompts: 3, children: 0, continuations: 1, changes: true };
/// More of one input and less of the others, because exploring many of all would take too long.
const MANY_PROMPTS: Sizes = Sizes { prompts: 4, children: 1, continuations: 0, changes: false };
const MANY_CONTINUATIONS: Sizes = Sizes { prompts: 2, children: 1, continuations: 4, changes: false };

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Simulation {
    pub(super) life: Lifecycle<u8, u8>,
    pub(super) monitor: Monitor,
    accepted: u8,
    started_children: u8,
    continued: u8,
}

impl Sizes {
    /// Maximum number of runs.
    fn runs(self) -> u64 {
        u64::from(self.prompts + self.continuations)
    }
}

impl Simulation {
    /// Performs one action on the lifecycle, applies the planted bug (if any) to the result, and checks the rules.
    pub(super) fn act(&mut self, action: &Action, bug: Option<Bug>) -> Verdict {
        match action {
            Action::Step(input) => self.feed(input, bug)?,
            Action::Report(run) => self.report(*run, bug)?,
            Action::Join(run) => self.monitor.joined(*run, &self.life.join(*run))?,
            Action::Withdraw(prompt) => self.withdraw(*prompt, bug)?,
            Action::Rearrange(prompt, delivery, position) => {
                self.rearrange(*prompt, *delivery, *position)?;
            }
        }
        let queue: Vec<u8> = self.life.queue().map(|(prompt, _)| *prompt).collect();
        self.monitor.queued(&queue)?;
        if self.life.is_busy() != self.monitor.is_busy() {
            return Err("the machine and the published status disagree".into());
        }
        Ok(())
    }

    fn withdraw(&mut self, prompt: u8, bug: Option<Bug>) -> Verdict {
        let mut is_accepted = self.life.withdraw(&prompt);
        if let Some(bug) = bug {
            bug.spoil_withdrawal(&mut is_accepted);
        }
        self.monitor.withdrawn(prompt, is_accepted)
    }

    /// The prompt is where the client put it, and the others keep their order.
    fn rearrange(&mut self, prompt: u8, delivery: Delivery, position: usize) -> Verdict {
        let others = |life: &Lifecycle<u8, u8>| -> Vec<(u8, Delivery)> {
            life.queue().filter(|(it, _)| **it != prompt).map(|(it, delivery)| (*it, delivery)).collect()
        };
        let before = others(&self.life);
        let is_accepted = self.life.rearrange(&prompt, Some(delivery), Some(position));
        if is_accepted != self.monitor.waits(prompt) {
            return Err(format!("prompt {prompt} was rearranged: {is_accepted}"));
        }
        let found = self.life.queue().position(|(it, now)| *it == prompt && now == delivery);
        let expected = is_accepted.then(|| position.min(before.len()));
        if found != expected || others(&self.life) != before {
            return Err(format!("prompt {prompt} is at {found:?} instead of {expected:?}"));
        }
        Ok(())
    }

    fn report(&mut self, run: Run, bug: Option<Bug>) -> Verdict {
        let (mut is_recorded, mut effects) = (self.life.admits(run), Vec::new());
        if let Some(bug) = bug {
            bug.spoil_report(&mut is_recorded, &mut effects);
        }
        self.monitor.reported(run, is_recorded)?;
        self.monitor.observe(None, &effects)
    }

    fn feed(&mut self, input: &TestInput, bug: Option<Bug>) -> Verdict {
        match input {
            Input::Prompt { .. } => self.accepted += 1,
            Input::ChildStarted { .. } => self.started_children += 1,
            Input::Consulted { goes_on: true, .. } => self.continued += 1,
            _ => {}
        }
        let mut effects = self.life.step(input.clone());
        if let Some(bug) = bug {
            bug.spoil(input, &mut effects);
        }
        self.monitor.observe(Some(input), &effects)
    }

    /// All possible next actions, including late and repeated ones.
    fn actions(&self, sizes: Sizes) -> Vec<Action> {
        let mut inputs = vec![Input::Stop(Stop::Abort), Input::Stop(Stop::Interrupt)];
        if self.accepted < sizes.prompts {
            for delivery in [Delivery::Steer, Delivery::Queue] {
                inputs.push(Input::Prompt { prompt: self.accepted, delivery });
            }
        }
        for run in 1..=sizes.runs() {
            inputs.push(Input::Consulted { run, goes_on: false });
            if self.continued < sizes.continuations {
                inputs.push(Input::Consulted { run, goes_on: true });
            }
            inputs.extend([Input::Retrying { run }, Input::Resumed { run }]);
            for reason in [EndReason::Completed, EndReason::Error, EndReason::Blocked] {
                inputs.push(Input::Ended { run, reason });
            }
            if self.started_children < sizes.children {
                inputs.push(Input::ChildStarted { run, child: self.started_children });
            }
        }
        inputs.extend((0..sizes.children).map(|child| Input::ChildEnded { child }));
        let changes = (0..sizes.prompts).filter(|_| sizes.changes).flat_map(|prompt| {
            let moved = |delivery| Action::Rearrange(prompt, delivery, 0);
            [Action::Withdraw(prompt), moved(Delivery::Steer), moved(Delivery::Queue)]
        });
        let spoken = (1..=sizes.runs()).flat_map(|run| [Action::Report(run), Action::Join(run)]);
        inputs.into_iter().map(Action::Step).chain(spoken).chain(changes).collect()
    }

    /// Lets the runner and the children end repeatedly: the session must become idle.
    fn comes_to_rest(mut self, sizes: Sizes, bug: Option<Bug>) -> Verdict {
        for _ in 0..=3 * sizes.runs() {
            if !self.life.is_busy() {
                return Ok(());
            }
            if let Some(run) = self.monitor.runner() {
                self.act(&Input::Ended { run, reason: EndReason::Completed }.into(), bug)?;
            }
            if let Some(run) = self.monitor.consulted() {
                self.act(&Input::Consulted { run, goes_on: false }.into(), bug)?;
            }
            for child in self.monitor.children().collect::<Vec<_>>() {
                self.act(&Input::ChildEnded { child }.into(), bug)?;
            }
        }
        Err("busy for ever".into())
    }
}

/// Visits every reachable state. Returns the number of states, or the first rule that was broken.
pub(super) fn explore(sizes: Sizes, bug: Option<Bug>) -> Result<usize, String> {
    let mut seen = HashSet::from([Simulation::default()]);
    let mut queue = VecDeque::from([Simulation::default()]);
    while let Some(simulation) = queue.pop_front() {
        for action in simulation.actions(sizes) {
            let mut next = simulation.clone();
            next.act(&action, bug)
                .map_err(|rule| format!("{rule} (action {action:?}, after {simulation:?})"))?;
            if seen.insert(next.clone()) {
                next.clone().comes_to_rest(sizes, bug)?;
                queue.push_back(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn every_reachable_state_keeps_the_rules() {
    let sizes = [(USUAL, 10_000), (CHANGES, 1_000), (MANY_PROMPTS, 4_000), (MANY_CONTINUATIONS, 2_000)];
    for (sizes, expected) in sizes {
        let states = explore(sizes, None).unwrap();
        assert!(states > expected, "the search ended after {states} states: it did not explore {sizes:?}");
        println!("{states} states, {sizes:?}");
    }
}
