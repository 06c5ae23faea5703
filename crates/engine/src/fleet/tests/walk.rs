//! Random walks: longer histories than the exploration reaches, with many faults, from a seed.

use super::{
    database::NODES,
    explore::{Scene, Sizes, setting},
    model::Action,
    process::{Life, SLOW, TICK},
};

/// Faults and work of one walk.
const SIZES: Sizes = Sizes {
    ticks: 60,
    crashes: 4,
    starts: 4,
    pauses: 4,
    links: 6,
    losses: 6,
    failovers: 1,
    prompts: 12,
    tools: 8,
    frames: 4,
    checkpoints: 3,
    gives: 4,
    uses: 4,
    drains: 1,
    faulty: NODES,
};

/// Steps of one walk.
const STEPS: usize = 300;
/// Walks of every test run.
const WALKS: u64 = 600;

/// A generator of numbers that gives the same walk for the same seed, with every version of every library.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from((mixed ^ (mixed >> 31)) % bound).unwrap_or_default()
    }
}

/// Chooses what happens next. Faults are rarer than progress, or a fleet would never get anywhere.
fn choose(scene: &Scene, dice: &mut Dice) -> Option<Action> {
    let (faults, progress): (Vec<_>, Vec<_>) = scene.actions().into_iter().partition(is_fault);
    let choices =
        if progress.is_empty() || (dice.below(8) == 0 && !faults.is_empty()) { faults } else { progress };
    choices.get(dice.below(choices.len())).copied()
}

fn is_fault(action: &Action) -> bool {
    matches!(
        action,
        Action::Crash(_)
            | Action::Pause(_)
            | Action::Link(..)
            | Action::Lose(..)
            | Action::Failover
            | Action::GiveBack(..)
            | Action::Drain(_)
    )
}

/// Walks and lets the fleet come to rest. Returns the number of steps.
fn walk(seed: u64) -> Result<usize, String> {
    let mut dice = Dice(seed);
    // Every other fleet has a node with a slow clock.
    let mut scene = Scene::idle(SIZES).with_clock(if seed.is_multiple_of(2) { TICK } else { SLOW });
    let mut steps = Vec::new();
    while steps.len() < STEPS {
        let Some(action) = choose(&scene, &mut dice) else { break };
        steps.push(action);
        scene.act(action).map_err(|rule| format!("seed {seed}: {rule}, after {steps:?}"))?;
    }
    // A fleet that has lost all its nodes has nothing to show; one comes back.
    if scene.model.processes.iter().all(|process| process.life == Life::Down) {
        steps.push(Action::Start(0));
        scene.act(Action::Start(0)).map_err(|rule| format!("seed {seed}: {rule}, after {steps:?}"))?;
    }
    scene.model.settle().map_err(|rule| format!("seed {seed}: {rule}, at rest after {steps:?}"))?;
    Ok(steps.len())
}

#[test]
fn random_walks_keep_the_rules() {
    let (walks, first) = (setting("BATON_FLEET_WALKS", WALKS), setting("BATON_FLEET_SEED", 0));
    let seeds = first..first.saturating_add(walks);
    let steps: usize = seeds.map(|seed| walk(seed).unwrap_or_else(|rule| panic!("{rule}"))).sum();
    println!("{steps} steps in {walks} walks from seed {first}");
}
