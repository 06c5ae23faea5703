//! The abilities of each kind of agent: a turn proves every cell of the table in docs/agents.md.
//! A change of an agent's declared abilities changes the proofs that must hold for it.

mod proofs;

use protocol::agent::Abilities;

use super::scenario_harness::each;

/// Defines a test for each ability, which proves that it works where it is declared and how its absence is handled.
macro_rules! proven {
    ($($ability:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $ability() {
                each(|kind| proofs::$ability(kind, kind.abilities().$ability)).await;
            }
        )*

        #[test]
        fn no_ability_is_without_a_proof() {
            let mut proven = [$(stringify!($ability)),*];
            proven.sort_unstable();
            let all = serde_json::to_value(Abilities::LEAST).unwrap();
            let mut all: Vec<&str> = all.as_object().unwrap().keys().map(String::as_str).collect();
            all.sort_unstable();
            assert_eq!(proven.as_slice(), all.as_slice());
        }
    };
}

proven! {
    queue, steer, abort, resume, permissions, questions, todos, tokens, cost, children, retries, attachments,
    snapshots, budgets, continuation,
}
