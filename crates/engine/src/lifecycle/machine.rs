//! The lifecycle: its inputs, its effects and the transitions between them.

use std::collections::{BTreeSet, VecDeque};

use protocol::{EndReason, prompt::Delivery};

/// The number of one call of a runner, unique for the life of the session actor.
pub type Run = u64;

/// The reason for stopping a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stop {
    /// A client or the parent session aborts the turn. Waiting prompts end too.
    Abort,
    /// The server shuts down. Waiting prompts stay in the queue for the next start.
    Interrupt,
}

impl Stop {
    /// The end reason of a turn that was stopped this way.
    pub fn reason(self) -> EndReason {
        match self {
            Self::Abort => EndReason::Aborted,
            Self::Interrupt => EndReason::Interrupted,
        }
    }
}

/// Everything that can happen to a session. `P` identifies prompts, `C` children.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Input<P, C> {
    /// A prompt was accepted and is stored.
    Prompt {
        prompt: P,
        /// Joins the current run (`steer`) or waits for the next one (`queue`).
        delivery: Delivery,
    },
    /// The run waits before it asks its model again.
    Retrying { run: Run },
    /// The wait is over.
    Resumed { run: Run },
    /// The run started a child session.
    ChildStarted { run: Run, child: C },
    /// A child's turn has ended.
    ChildEnded { child: C },
    /// The runner's future resolved, was dropped or panicked.
    Ended { run: Run, reason: EndReason },
    /// The consultation has decided whether the turn continues.
    Consulted {
        /// The run that had ended.
        run: Run,
        goes_on: bool,
    },
    /// A client or the server stops the turn.
    Stop(Stop),
}

/// Actions for the session actor, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<P, C> {
    Busy,
    /// Publish retry, with the facts the run gave.
    Retry,
    /// Take the prompt from the queue and call the runner.
    Start {
        run: Run,
        prompt: P,
    },
    /// Ask the todo list and the hooks whether the turn continues, now that the run is closed and no prompt waits.
    /// The answer is [`Input::Consulted`]. Until then the turn can be stopped, and a new prompt takes precedence.
    Consult {
        /// The run that has ended.
        run: Run,
    },
    /// Call the runner again with the continuation's prompt.
    Continue {
        run: Run,
    },
    /// Tell the runner to return.
    Cancel {
        run: Run,
    },
    /// Abort a child session.
    StopChild(C),
    /// Close everything that the run left open: requests, parts, the message.
    Close(EndReason),
    /// Record that no run will work on this prompt any more.
    EndPrompt {
        prompt: P,
        reason: EndReason,
    },
    /// Publish the status idle and `session.idle`. The turn is over.
    Idle(EndReason),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Active<P, C> {
    run: Run,
    /// Prompts this run answers: the one it was started for and those that joined.
    prompts: Vec<P>,
    children: BTreeSet<C>,
    retrying: bool,
    stop: Option<Stop>,
    /// Set once the runner has ended; the run is over when its children have ended too.
    ended: Option<EndReason>,
    /// True while the run is closed and the consultation about a continuation is pending.
    consulting: bool,
}

impl<P, C> Active<P, C> {
    /// Tells if `run` names this run and its runner has not ended.
    fn speaks(&self, run: Run) -> bool {
        self.run == run && self.ended.is_none()
    }
}

/// A session's lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lifecycle<P, C> {
    active: Option<Active<P, C>>,
    waiting: VecDeque<(P, Delivery)>,
    runs: Run,
    /// Set by an interrupt: no run starts afterwards.
    closed: bool,
}

impl<P, C> Default for Lifecycle<P, C> {
    fn default() -> Self {
        Self { active: None, waiting: VecDeque::new(), runs: 0, closed: false }
    }
}

impl<P: Clone + PartialEq, C: Clone + Ord> Lifecycle<P, C> {
    /// Returns true while a turn is running.
    pub fn is_busy(&self) -> bool {
        self.active.is_some()
    }

    /// Returns true if the current turn was stopped and has not ended yet.
    pub fn is_stopping(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.stop.is_some())
    }

    /// Returns true if the server shuts down, so that no run starts any more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns true if the current turn has running children.
    pub fn has_children(&self) -> bool {
        self.active.as_ref().is_some_and(|active| !active.children.is_empty())
    }

    /// Number of prompts that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The prompts that wait, in the order in which runs take them up, with their delivery.
    pub fn queue(&self) -> impl Iterator<Item = (&P, Delivery)> {
        self.waiting.iter().map(|(prompt, delivery)| (prompt, *delivery))
    }

    /// Takes a prompt out of the queue; false if it does not wait. The caller records its end.
    pub fn withdraw(&mut self, prompt: &P) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(waiting, _)| waiting != prompt);
        self.waiting.len() < before
    }

    /// Changes the delivery and the position of a waiting prompt; false if it does not wait. A position behind the
    /// last prompt means the end of the queue.
    pub fn rearrange(&mut self, prompt: &P, delivery: Option<Delivery>, position: Option<usize>) -> bool {
        let Some(from) = self.waiting.iter().position(|(waiting, _)| waiting == prompt) else { return false };
        if let Some((prompt, old)) = self.waiting.remove(from) {
            let to = position.unwrap_or(from).min(self.waiting.len());
            self.waiting.insert(to, (prompt, delivery.unwrap_or(old)));
        }
        true
    }

    /// Tells if a report of this run belongs into the transcript: the run is active and its runner has not ended.
    pub fn admits(&self, run: Run) -> bool {
        self.active.as_ref().is_some_and(|active| active.speaks(run))
    }

    /// Takes the waiting prompts that join this run between two steps; none if it is stopping or over.
    pub fn join(&mut self, run: Run) -> Vec<P> {
        let may_join = |active: &&mut Active<P, C>| active.speaks(run) && active.stop.is_none();
        let Some(active) = self.active.as_mut().filter(may_join) else { return Vec::new() };
        let (steered, queued): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|(_, delivery)| *delivery == Delivery::Steer);
        self.waiting = queued.into();
        let joined: Vec<P> = steered.into_iter().map(|(prompt, _)| prompt).collect();
        active.prompts.extend(joined.iter().cloned());
        joined
    }

    /// Advances by one input.
    pub fn step(&mut self, input: Input<P, C>) -> Vec<Effect<P, C>> {
        match input {
            Input::Prompt { prompt, delivery } => self.accept(prompt, delivery),
            Input::Retrying { run } => match self.speaker(run) {
                Some(active) if active.stop.is_none() => {
                    active.retrying = true;
                    vec![Effect::Retry]
                }
                _ => Vec::new(),
            },
            Input::Resumed { run } => match self.speaker(run) {
                Some(active) if active.retrying => {
                    active.retrying = false;
                    vec![Effect::Busy]
                }
                _ => Vec::new(),
            },
            Input::ChildStarted { run, child } => self.adopt(run, child),
            Input::ChildEnded { child } => {
                if let Some(active) = &mut self.active {
                    active.children.remove(&child);
                }
                self.settle()
            }
            Input::Ended { run, reason } => self.end(run, reason),
            Input::Consulted { run, goes_on } => self.consulted(run, goes_on),
            Input::Stop(stop) => self.stop(stop),
        }
    }

    /// The active run, if `run` names it and its runner has not ended.
    fn speaker(&mut self, run: Run) -> Option<&mut Active<P, C>> {
        self.active.as_mut().filter(|active| active.speaks(run))
    }

    fn accept(&mut self, prompt: P, delivery: Delivery) -> Vec<Effect<P, C>> {
        self.waiting.push_back((prompt, delivery));
        match &self.active {
            // A new prompt takes precedence over any continuation.
            Some(active) if active.consulting => self.leave(),
            None if !self.closed => {
                let mut effects = vec![Effect::Busy];
                self.start(&mut effects);
                effects
            }
            _ => Vec::new(),
        }
    }

    /// Starts a run for the first waiting prompt.
    fn start(&mut self, effects: &mut Vec<Effect<P, C>>) {
        if let Some((prompt, _)) = self.waiting.pop_front() {
            self.runs += 1;
            self.active = Some(Active {
                run: self.runs,
                prompts: vec![prompt.clone()],
                children: BTreeSet::new(),
                retrying: false,
                stop: None,
                ended: None,
                consulting: false,
            });
            effects.push(Effect::Start { run: self.runs, prompt });
        }
    }

    fn adopt(&mut self, run: Run, child: C) -> Vec<Effect<P, C>> {
        match self.speaker(run) {
            Some(active) => {
                active.children.insert(child.clone());
                // The stop came while the child was being made: it must not outlive its parent's turn.
                if active.stop.is_some() { vec![Effect::StopChild(child)] } else { Vec::new() }
            }
            None => vec![Effect::StopChild(child)],
        }
    }

    fn stop(&mut self, stop: Stop) -> Vec<Effect<P, C>> {
        self.closed |= stop == Stop::Interrupt;
        let Some(active) = &mut self.active else { return Vec::new() };
        let mut effects = Vec::new();
        if stop == Stop::Abort {
            // The abort ends the prompts that waited when it came. Prompts that come later start a new turn.
            effects.extend(
                self.waiting
                    .drain(..)
                    .map(|(prompt, _)| Effect::EndPrompt { prompt, reason: EndReason::Aborted }),
            );
        }
        if active.stop.is_none() {
            active.stop = Some(stop);
            if active.consulting {
                active.ended = Some(stop.reason());
                effects.extend(self.leave());
            } else if active.ended.is_none() {
                effects.push(Effect::Cancel { run: active.run });
                effects.extend(active.children.iter().cloned().map(Effect::StopChild));
            }
        }
        effects
    }

    fn end(&mut self, run: Run, reason: EndReason) -> Vec<Effect<P, C>> {
        let Some(active) = self.speaker(run) else { return Vec::new() };
        active.ended = Some(active.stop.map_or(reason, Stop::reason));
        let mut effects: Vec<_> = if active.stop.is_some() {
            Vec::new() // the stop has already stopped them
        } else {
            active.children.iter().cloned().map(Effect::StopChild).collect()
        };
        effects.extend(self.settle());
        effects
    }

    /// Closes the run once its runner and its children have ended. If it completed and no prompt waits, asks for a
    /// consultation about a continuation.
    fn settle(&mut self) -> Vec<Effect<P, C>> {
        let over = |active: &&mut Active<P, C>| active.children.is_empty() && !active.consulting;
        let Some(active) = self.active.as_mut().filter(over) else { return Vec::new() };
        let Some(reason) = active.ended else { return Vec::new() };
        let mut effects = vec![Effect::Close(reason)];
        if reason == EndReason::Completed && active.stop.is_none() && self.waiting.is_empty() {
            active.consulting = true;
            effects.push(Effect::Consult { run: active.run });
        } else {
            effects.extend(self.leave());
        }
        effects
    }

    fn consulted(&mut self, run: Run, goes_on: bool) -> Vec<Effect<P, C>> {
        let asked = |active: &&mut Active<P, C>| active.run == run && active.consulting;
        let Some(active) = self.active.as_mut().filter(asked) else { return Vec::new() };
        if !goes_on {
            return self.leave();
        }
        self.runs += 1;
        (active.run, active.ended, active.consulting) = (self.runs, None, false);
        let busy = std::mem::take(&mut active.retrying).then_some(Effect::Busy);
        busy.into_iter().chain([Effect::Continue { run: self.runs }]).collect()
    }

    /// Leaves a closed run: ends its prompts, then starts a run for the next waiting prompt or becomes idle.
    fn leave(&mut self) -> Vec<Effect<P, C>> {
        let Some(active) = self.active.take() else { return Vec::new() };
        let reason = active.ended.unwrap_or(EndReason::Completed);
        let mut effects: Vec<_> =
            active.prompts.into_iter().map(|prompt| Effect::EndPrompt { prompt, reason }).collect();
        if active.stop.is_none() && !self.waiting.is_empty() {
            if active.retrying {
                effects.push(Effect::Busy);
            }
            self.start(&mut effects);
            return effects;
        }
        effects.push(Effect::Idle(reason));
        if !self.waiting.is_empty() && !self.closed {
            // This prompt came after the abort. The aborted turn is over, so it starts a new turn.
            effects.push(Effect::Busy);
            self.start(&mut effects);
        }
        effects
    }
}
