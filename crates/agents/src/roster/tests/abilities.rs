//! What works with each kind of agent, and what does not: every cell of the table in docs/agents.md is proven by a turn.
//! Whoever changes what an agent is said to be able to do changes what is proven of it.

mod proofs;

use protocol::agent::Abilities;

use super::stage::each;

/// A test for each ability, which proves that it works where it is said to, and that its absence is handled openly.
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
