//! Depth-first search to a depth, for more states than a breadth-first search can keep.
//!
//! It keeps one number per state and only the states on the way down, so ten million states need little memory. A state
//! that is found again closer to the start is searched again, as deep as its new place allows.

use std::collections::HashMap;

use super::{
    explore::{Reach, Scene, digest, explore, scenes, setting},
    monitor::Verdict,
    world::Action,
};

/// One state in this many is left to come to rest.
const RESTS: u64 = 32;
/// Steps of every test run. `BATON_FLEET_DEPTH` changes them.
const DEPTH: u64 = 5;

#[derive(Default)]
struct Dive {
    /// The steps that were left when a state was searched.
    seen: HashMap<u64, u64>,
    path: Vec<Action>,
}

impl Dive {
    fn search(&mut self, scene: &Scene, left: u64) -> Verdict {
        for action in scene.actions() {
            self.path.push(action);
            let mut after = scene.clone();
            after.act(action).map_err(|rule| format!("{rule}, after {:?}", self.path))?;
            after.world = after.world.canonical();
            self.visit(&after, left)?;
            self.path.pop();
        }
        Ok(())
    }

    fn visit(&mut self, scene: &Scene, left: u64) -> Verdict {
        let digest = digest(scene);
        let before = self.seen.get(&digest).copied();
        if before.is_some_and(|before| before >= left) {
            return Ok(());
        }
        self.seen.insert(digest, left);
        if before.is_none() && digest.is_multiple_of(RESTS) {
            let rested = scene.world.clone().settle();
            rested.map_err(|rule| format!("{rule}, at rest after {:?}", self.path))?;
        }
        left.checked_sub(1).map_or(Ok(()), |left| self.search(scene, left))
    }
}

/// Returns the number of states within `depth` steps of a scene.
fn dive(scene: &Scene, depth: u64) -> Result<usize, String> {
    let mut dive = Dive::default();
    dive.visit(scene, depth)?;
    Ok(dive.seen.len())
}

#[test]
fn every_state_to_a_depth_keeps_the_rules() {
    let depth = setting("BATON_FLEET_DEPTH", DEPTH);
    let mut total = 0;
    for (name, scene) in scenes(None) {
        let states = dive(&scene, depth).unwrap_or_else(|rule| panic!("{name}: {rule}"));
        println!("{name}: {states} states, complete to depth {depth}");
        total += states;
    }
    println!("{total} states");
}

#[test]
fn both_searches_find_the_same_states() {
    for (name, scene) in scenes(None) {
        let reach = Reach { depth: 3, states: usize::MAX, rests: RESTS };
        let by_breadth = explore(scene.clone(), reach).map(|(states, _)| states);
        assert_eq!(dive(&scene, 3), by_breadth, "{name}");
    }
}
