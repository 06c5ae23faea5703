//! Breadth-first search over every state that a fleet can reach within a number of steps and of faults.
//!
//! Each scene begins with a fleet at work, so that the steps are spent on what goes wrong. Every state keeps the rules
//! of [`Monitor`](super::monitor::Monitor), and a sample of them is left to come to rest, which checks I9 and the end
//! of I4: what was accepted ends once nothing fails any more.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use super::{
    database::{NODES, OWN, SHARED},
    mistakes::Mistake,
    model::{Action, FleetModel},
    monitor::Verdict,
    process::{Ask, Life, Link, SLOW, TICK},
};
use crate::fleet::Transaction;

/// The faults and the work that one exploration may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Sizes {
    pub(super) ticks: u8,
    pub(super) crashes: u8,
    pub(super) starts: u8,
    pub(super) pauses: u8,
    /// Changes of a connection: cut, mute or slow, and up again.
    pub(super) links: u8,
    pub(super) losses: u8,
    pub(super) failovers: u8,
    pub(super) prompts: u8,
    pub(super) tools: u8,
    pub(super) frames: u8,
    pub(super) checkpoints: u8,
    pub(super) gives: u8,
    /// First uses of a workspace that no node owns.
    pub(super) uses: u8,
    pub(super) drains: u8,
    /// Nodes that fail: those with the lowest numbers.
    pub(super) faulty: u8,
}

/// A model and what may still go wrong in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Scene {
    pub(super) model: FleetModel,
    pub(super) left: Sizes,
}

pub(super) const BOTH: [u8; 2] = [OWN, SHARED];

impl Scene {
    /// A fleet in which node 0 owns both workspaces.
    pub(super) fn idle(left: Sizes) -> Self {
        let mut model = FleetModel::new();
        let drained = model.drain().and_then(|()| model.act(Action::Tick)).and_then(|()| model.drain());
        drained.expect("the start keeps the rules");
        for workspace in BOTH {
            model.act(Action::Use(0, workspace)).expect("the first use keeps the rules");
            model.drain().expect("the first use keeps the rules");
        }
        Self { model, left }
    }

    /// As [`Scene::idle`], with a turn of node 0 in the workspace.
    pub(super) fn busy(workspace: u8, left: Sizes) -> Self {
        let mut scene = Self::idle(left);
        for action in [Action::Submit(0, workspace), Action::Run(0, workspace)] {
            scene.model.act(action).expect("the first turn keeps the rules");
            scene.model.drain().expect("the first turn keeps the rules");
        }
        scene
    }

    /// As [`Scene::busy`], in the shared workspace and with a tool that runs.
    pub(super) fn tool(left: Sizes) -> Self {
        let mut scene = Self::busy(SHARED, left);
        for action in [Action::Admit(0, SHARED), Action::Tool(0, SHARED)] {
            scene.model.act(action).expect("the first tool keeps the rules");
            scene.model.drain().expect("the first tool keeps the rules");
        }
        scene
    }

    /// Node 0 gets a clock that measures this time in a tick.
    pub(super) fn with_clock(mut self, clock: Duration) -> Self {
        self.model.processes[0].clock = clock;
        self
    }

    /// Everything that could happen next.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.left.ticks > 0 {
            actions.push(Action::Tick);
        }
        for node in 0..NODES {
            self.faults(node, &mut actions);
            self.traffic(node, &mut actions);
            if self.model.process(node).is_running() {
                for workspace in BOTH {
                    self.work(node, workspace, &mut actions);
                }
            }
        }
        actions.extend((0..self.model.late.len()).map(Action::Late));
        let all_run = self.model.processes.iter().all(|process| process.life != Life::Paused);
        if self.left.failovers > 0 && all_run {
            actions.push(if self.model.replica.is_some() { Action::Failover } else { Action::Lag });
        }
        actions
    }

    fn faults(&self, node: u8, actions: &mut Vec<Action>) {
        let (process, left) = (self.model.process(node), self.left);
        match process.life {
            Life::Down if left.starts > 0 => actions.push(Action::Start(node)),
            Life::Paused => actions.push(Action::Resume(node)),
            Life::Running if node < left.faulty => {
                if left.crashes > 0 {
                    actions.push(Action::Crash(node));
                }
                if left.pauses > 0 {
                    actions.push(Action::Pause(node));
                }
                if left.drains > 0 && process.node.identity().is_some() {
                    actions.push(Action::Drain(node));
                }
                if process.link != Link::Up {
                    actions.push(Action::Link(node, Link::Up));
                } else if left.links > 0 {
                    actions.extend([Link::Cut, Link::Mute, Link::Slow].map(|link| Action::Link(node, link)));
                }
            }
            Life::Down | Life::Running => {}
        }
    }

    fn traffic(&self, node: u8, actions: &mut Vec<Action>) {
        let process = self.model.process(node);
        if !process.is_running() {
            return;
        }
        let splits = self.model.mistake.is_some_and(Mistake::splits_commits);
        for (index, flight) in process.flights.iter().enumerate() {
            let must_begin = splits && flight.begun.is_none() && matches!(flight.ask, Ask::Write(_));
            if must_begin {
                actions.push(Action::Begin(node, index));
            } else if process.link != Link::Cut {
                actions.push(Action::Execute(node, index));
            }
            let is_idle_connect =
                matches!(flight.ask, Ask::Change(Transaction::Connect { .. } | Transaction::Register { .. }));
            if self.left.losses > 0 && node < self.left.faulty && !is_idle_connect {
                actions.push(Action::Lose(node, index));
            }
        }
        let behind = self.model.db.last() != process.tail.last();
        if behind && matches!(process.link, Link::Up | Link::Slow) {
            actions.push(Action::Tail(node));
        }
        if self.model.frame.is_some() && self.left.frames == 0 {
            actions.push(Action::Show(node));
        }
    }

    fn work(&self, node: u8, workspace: u8, actions: &mut Vec<Action>) {
        let (process, left) = (self.model.process(node), self.left);
        if process.actor(workspace).is_some_and(|actor| !actor.is_repaired && !actor.has_given_up)
            && process.writer.is_free()
        {
            actions.push(Action::Repair(node, workspace));
        }
        let record = &self.model.db.record;
        let is_free =
            record.holdings[&workspace].owner.is_none_or(|owner| owner == node || record.is_dead(&owner));
        if left.uses > 0 && process.link == Link::Up && is_free && process.node.epoch(&workspace).is_none() {
            actions.push(Action::Use(node, workspace));
        }
        let Some(actor) = process.ready(workspace) else { return };
        if left.prompts > 0 && !actor.custody {
            actions.push(Action::Submit(node, workspace));
        }
        if actor.memory.running.is_none() {
            if !actor.memory.waiting.is_empty() && !actor.custody {
                actions.push(Action::Run(node, workspace));
            } else if left.gives > 0 {
                actions.push(Action::GiveBack(node, workspace));
            }
        }
        if !actor.is_running {
            return;
        }
        actions.push(Action::Finish(node, workspace));
        let needs_none = self.model.mistake == Some(Mistake::ToolBeforeAdmission);
        if actor.is_admitted || (needs_none && left.tools > 0) {
            actions.push(Action::Tool(node, workspace));
        } else if left.tools > 0 {
            actions.push(Action::Admit(node, workspace));
        }
        if left.checkpoints > 0 {
            actions.push(Action::Checkpoint(node, workspace));
        }
        if left.frames > 0 {
            actions.push(Action::Emit(node, workspace));
        }
    }

    /// Does one thing and pays for it.
    pub(super) fn act(&mut self, action: Action) -> Verdict {
        let left = &mut self.left;
        let pays = match action {
            Action::Tick => Some(&mut left.ticks),
            Action::Start(_) => Some(&mut left.starts),
            Action::Crash(_) => Some(&mut left.crashes),
            Action::Pause(_) => Some(&mut left.pauses),
            Action::Link(_, link) if link != Link::Up => Some(&mut left.links),
            Action::Lose(..) => Some(&mut left.losses),
            Action::Failover => Some(&mut left.failovers),
            Action::Submit(..) => Some(&mut left.prompts),
            Action::Admit(..) => Some(&mut left.tools),
            Action::Emit(..) => Some(&mut left.frames),
            Action::Checkpoint(..) => Some(&mut left.checkpoints),
            Action::GiveBack(..) => Some(&mut left.gives),
            Action::Use(..) => Some(&mut left.uses),
            Action::Drain(_) => Some(&mut left.drains),
            _ => None,
        };
        if let Some(budget) = pays {
            *budget = budget.saturating_sub(1);
        }
        self.model.act(action)
    }
}

/// A limit of the search: whichever is reached first ends it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    pub(super) depth: usize,
    pub(super) states: usize,
    /// One state in this many is left to come to rest.
    pub(super) rests: u64,
}

/// Visits every state within reach. Returns the number of states and the depth that was explored completely, or the
/// first rule that was broken and the steps that lead there.
pub(super) fn explore(scene: Scene, reach: Reach) -> Result<(usize, usize), String> {
    let mut seen = HashSet::from([digest(&scene)]);
    let mut trail = Trail::default();
    let mut level = vec![(usize::MAX, scene)];
    for depth in 0..reach.depth {
        let mut next = Vec::new();
        for (from, scene) in level {
            for action in scene.actions() {
                let mut after = scene.clone();
                after.act(action).map_err(|rule| format!("{rule}, after {:?}", trail.to(from, action)))?;
                after.model = after.model.canonical();
                let digest = digest(&after);
                if !seen.insert(digest) {
                    continue;
                }
                if digest.is_multiple_of(reach.rests) {
                    let rested = after.model.clone().settle();
                    rested.map_err(|rule| format!("{rule}, at rest after {:?}", trail.to(from, action)))?;
                }
                if seen.len() >= reach.states {
                    return Ok((seen.len(), depth));
                }
                next.push((trail.step(from, action), after));
            }
        }
        if next.is_empty() {
            return Ok((seen.len(), reach.depth));
        }
        level = next;
    }
    Ok((seen.len(), reach.depth))
}

/// The step that led to each state, and the state before.
#[derive(Default)]
struct Trail(Vec<(usize, Action)>);

impl Trail {
    fn step(&mut self, from: usize, action: Action) -> usize {
        self.0.push((from, action));
        self.0.len() - 1
    }

    fn to(&self, from: usize, last: Action) -> Vec<Action> {
        let mut steps = vec![last];
        let mut at = from;
        while let Some((before, action)) = self.0.get(at) {
            steps.push(*action);
            at = *before;
        }
        steps.reverse();
        steps
    }
}

fn digest(scene: &Scene) -> u64 {
    let mut hasher = DefaultHasher::new();
    scene.hash(&mut hasher);
    hasher.finish()
}

/// Work in both workspaces with no faults but a crash and lost answers.
const CRASHES: Sizes = Sizes {
    ticks: 7,
    crashes: 1,
    starts: 1,
    pauses: 0,
    links: 0,
    losses: 1,
    failovers: 0,
    prompts: 1,
    tools: 1,
    frames: 0,
    checkpoints: 0,
    gives: 0,
    uses: 0,
    drains: 0,
    faulty: NODES,
};
/// A node that is paused or cut off while others take over.
const PAUSES: Sizes =
    Sizes { crashes: 0, starts: 0, pauses: 1, links: 1, losses: 0, frames: 1, tools: 2, ..CRASHES };
/// Lost answers, released workspaces and checkpoints.
const LOSSES: Sizes = Sizes {
    crashes: 0,
    starts: 0,
    ticks: 2,
    losses: 2,
    prompts: 2,
    gives: 1,
    uses: 1,
    checkpoints: 1,
    tools: 0,
    ..CRASHES
};
/// A node that takes no new work and gives back what it has.
const DRAINS: Sizes = Sizes { losses: 1, ticks: 4, prompts: 1, gives: 2, drains: 1, tools: 0, ..CRASHES };
/// A replica that has not got the newest commits becomes the database.
const FAILOVER: Sizes = Sizes {
    crashes: 0,
    starts: 0,
    ticks: 3,
    losses: 1,
    failovers: 1,
    prompts: 2,
    frames: 1,
    tools: 0,
    ..CRASHES
};

/// The explored scenes, by name.
fn scenes() -> Vec<(&'static str, Scene)> {
    vec![
        ("crashes, shared", Scene::busy(SHARED, CRASHES)),
        ("crashes, own", Scene::busy(OWN, CRASHES)),
        ("pauses", Scene::busy(SHARED, PAUSES)),
        ("slow clock", Scene::busy(SHARED, PAUSES).with_clock(SLOW)),
        ("losses", Scene::idle(LOSSES)),
        ("drains", Scene::idle(DRAINS)),
        ("failover", Scene::idle(FAILOVER)),
    ]
}

/// A number from the environment, for longer runs than a test run has time for.
pub(super) fn setting(name: &str, usual: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a developer sets them for a longer run")]
    let value = std::env::var(name);
    value.map_or(usual, |value| {
        value.parse().unwrap_or_else(|error| panic!("{name} must be a number and is {value:?}: {error}"))
    })
}

/// States per scene that every test run explores. `BATON_FLEET_STATES` changes them.
const STATES: u64 = 6_000;

#[test]
fn every_state_within_reach_keeps_the_rules() {
    let most = usize::try_from(setting("BATON_FLEET_STATES", STATES)).unwrap();
    let mut total = 0;
    for (name, scene) in scenes() {
        let reach = Reach { depth: 60, states: most, rests: 32 };
        let (states, depth) = explore(scene, reach).unwrap_or_else(|rule| panic!("{name}: {rule}"));
        println!("{name}: {states} states, complete to depth {depth}");
        total += states;
    }
    println!("{total} states");
}

#[test]
fn a_clock_of_half_the_rate_breaks_the_lease() {
    let left = Sizes { ticks: 5, links: 1, faulty: 1, ..Sizes::default() };
    let reach = Reach { depth: 40, states: 20_000, rests: 4 };
    assert!(explore(Scene::tool(left).with_clock(SLOW), reach).is_ok(), "a rate of two thirds is tolerated");
    let rule = explore(Scene::tool(left).with_clock(TICK / 2), reach).unwrap_err();
    assert!(rule.starts_with("I7"), "{rule}");
}
