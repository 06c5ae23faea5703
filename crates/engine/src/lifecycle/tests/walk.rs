//! Random walks, longer than the exhaustive search can go.

use proptest::prelude::*;
use protocol::{EndReason, prompt::Delivery};

use super::{
    explore::Simulation,
    monitor::{Action, TestInput},
};
use crate::lifecycle::{Input, Stop};

/// A random input. Prompts and children get their numbers when the input is fed.
fn input() -> impl Strategy<Value = TestInput> {
    let run = 1u64..12;
    prop_oneof![
        4 => prop_oneof![Just(Delivery::Steer), Just(Delivery::Queue)]
            .prop_map(|delivery| Input::Prompt { prompt: 0, delivery }),
        1 => run.clone().prop_map(|run| Input::Retrying { run }),
        1 => run.clone().prop_map(|run| Input::Resumed { run }),
        1 => run.clone().prop_map(|run| Input::ChildStarted { run, child: 0 }),
        1 => (0u8..8).prop_map(|child| Input::ChildEnded { child }),
        3 => (run, prop_oneof![Just(EndReason::Completed), Just(EndReason::Error), Just(EndReason::Blocked)])
            .prop_map(|(run, reason)| Input::Ended { run, reason }),
        2 => (1u64..12, any::<bool>()).prop_map(|(run, goes_on)| Input::Consulted { run, goes_on }),
        1 => Just(Input::Stop(Stop::Abort)),
        1 => Just(Input::Stop(Stop::Interrupt)),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1u64..12).prop_map(Action::Report),
        2 => (1u64..12).prop_map(Action::Join),
        2 => (0u8..24).prop_map(Action::Withdraw),
        3 => (0u8..24, prop_oneof![Just(Delivery::Steer), Just(Delivery::Queue)], 0usize..6)
            .prop_map(|(prompt, delivery, position)| Action::Rearrange(prompt, delivery, position)),
        15 => input().prop_map(Action::Step),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_keeps_the_rules(actions in proptest::collection::vec(action(), 1..120)) {
        let mut simulation = Simulation::default();
        let (mut prompts, mut children) = (0u8, 0u8);
        for mut action in actions {
            match &mut action {
                Action::Step(Input::Prompt { prompt, .. }) => { *prompt = prompts; prompts += 1; }
                Action::Step(Input::ChildStarted { child, .. }) => { *child = children; children += 1; }
                _ => {}
            }
            let verdict = simulation.act(&action, None);
            prop_assert!(verdict.is_ok(), "{:?}", verdict);
        }
    }
}
