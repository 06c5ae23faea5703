//! Breadth-first search over every reachable state of a session with three prompts, two children and one continuation.
//!
//! States are visited once, so this is not a sample: within these sizes there is no interleaving of prompts,
//! reports, joins, retries, children, continuations, ends (also late and repeated ones), aborts and shutdowns that breaks a
//! rule of [`Monitor`], and from every state the session comes to rest when its runner and children end.

use std::collections::{HashSet, VecDeque};

use protocol::{EndReason, prompt::Delivery};

use super::{
    monitor::{Monitor, TestInput, Verdict},
    planted::Bug,
};
use crate::lifecycle::{Input, Lifecycle, Stop};

const PROMPTS: u8 = 3;
const CHILDREN: u8 = 2;
const CONTINUATIONS: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct World {
    pub(super) life: Lifecycle<u8, u8>,
    pub(super) monitor: Monitor,
    accepted: u8,
    started_children: u8,
    continued: u8,
}

impl World {
    /// Feeds one input to the machine, lets the planted bug (if any) spoil the effects, and checks the rules.
    pub(super) fn feed(&mut self, input: &TestInput, bug: Option<Bug>) -> Verdict {
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
        self.monitor.observe(input, &effects)?;
        if self.life.is_busy() != self.monitor.is_busy() {
            return Err("the machine and the published status disagree".into());
        }
        Ok(())
    }

    /// Everything that could happen next, late and repeated things included.
    fn inputs(&self) -> Vec<TestInput> {
        let mut inputs = vec![Input::Stop(Stop::Abort), Input::Stop(Stop::Interrupt)];
        if self.accepted < PROMPTS {
            for delivery in [Delivery::Steer, Delivery::Queue] {
                inputs.push(Input::Prompt { prompt: self.accepted, delivery });
            }
        }
        for run in 1..=u64::from(PROMPTS + CONTINUATIONS) {
            inputs.push(Input::Consulted { run, goes_on: false });
            if self.continued < CONTINUATIONS {
                inputs.push(Input::Consulted { run, goes_on: true });
            }
            inputs.extend([
                Input::Report { run },
                Input::Join { run },
                Input::Retrying { run },
                Input::Resumed { run },
            ]);
            for reason in [EndReason::Completed, EndReason::Error, EndReason::Blocked] {
                inputs.push(Input::Ended { run, reason });
            }
            if self.started_children < CHILDREN {
                inputs.push(Input::ChildStarted { run, child: self.started_children });
            }
        }
        inputs.extend((0..CHILDREN).map(|child| Input::ChildEnded { child }));
        inputs
    }

    /// Lets the runner and the children end, again and again: the session must come to rest.
    fn comes_to_rest(mut self, bug: Option<Bug>) -> Verdict {
        for _ in 0..=3 * (PROMPTS + CONTINUATIONS) {
            if !self.life.is_busy() {
                return Ok(());
            }
            if let Some(run) = self.monitor.runner() {
                self.feed(&Input::Ended { run, reason: EndReason::Completed }, bug)?;
            }
            if let Some(run) = self.monitor.consulted() {
                self.feed(&Input::Consulted { run, goes_on: false }, bug)?;
            }
            for child in self.monitor.children().collect::<Vec<_>>() {
                self.feed(&Input::ChildEnded { child }, bug)?;
            }
        }
        Err("busy for ever".into())
    }
}

/// Visits every reachable state; the number of states, or the first rule that was broken.
pub(super) fn explore(bug: Option<Bug>) -> Result<usize, String> {
    let mut seen = HashSet::from([World::default()]);
    let mut queue = VecDeque::from([World::default()]);
    while let Some(world) = queue.pop_front() {
        for input in world.inputs() {
            let mut next = world.clone();
            next.feed(&input, bug).map_err(|rule| format!("{rule} (input {input:?}, after {world:?})"))?;
            if seen.insert(next.clone()) {
                next.clone().comes_to_rest(bug)?;
                queue.push_back(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn every_reachable_state_keeps_the_rules() {
    let states = explore(None).unwrap();
    assert!(states > 10_000, "the search ended after {states} states: it did not explore anything");
    println!("{states} states, {PROMPTS} prompts, {CHILDREN} children, {CONTINUATIONS} continuation");
}
