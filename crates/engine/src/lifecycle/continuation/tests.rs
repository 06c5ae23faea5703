//! Tests the decision with tables, and checks that no order of events exceeds the policy's limit for an episode.

use proptest::prelude::*;
use serde_json::json;

use super::*;

pub(in crate::lifecycle) fn todo(status: &str, content: &str) -> Todo {
    let todo = json!({ "content": content, "status": status, "priority": "medium" });
    serde_json::from_value(todo).unwrap()
}

fn todos(statuses: &[&str]) -> Vec<Todo> {
    statuses.iter().map(|status| todo(status, "something")).collect()
}

fn asked() -> MessageId {
    "msg_0123456789abABCDEFGHIJKLMN".parse().unwrap()
}

const GOOD: Ending = Ending { finish: Some(Finish::Stop), spoke: true, structured: false };

fn on() -> ContinuationPolicy {
    ContinuationPolicy { todos: true, ..ContinuationPolicy::default() }
}

/// The state of a session whose agent has written its todos since the user's prompt.
fn listed() -> Continuation {
    Continuation { touched: true, ..Continuation::default() }
}

/// The decision for a list of todos when nothing else prevents a continuation.
fn verdict(state: &Continuation, ending: Ending, statuses: &[&str]) -> Verdict {
    let (asked, todos) = (asked(), todos(statuses));
    let facts = Facts { asked: &asked, ending, todos: &todos, waiting: false, tokens: 0, now: 0 };
    follow_todos(&on(), state, &facts)
}

fn is_on(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::GoOn(_))
}

#[test]
fn only_unfinished_todos_continue_a_turn() {
    let fresh = listed();
    assert_eq!(verdict(&fresh, GOOD, &[]), Verdict::Rest);
    assert_eq!(verdict(&fresh, GOOD, &["completed", "cancelled", "deleted"]), Verdict::Rest);
    assert!(is_on(&verdict(&fresh, GOOD, &["completed", "pending"])));
    assert!(is_on(&verdict(&fresh, GOOD, &["in_progress"])));
    let off = Continuation { enabled: Some(false), ..listed() };
    assert_eq!(verdict(&off, GOOD, &["pending"]), Verdict::Rest);
    let old = listed().prompted().unwrap_or_default();
    assert_eq!(verdict(&old, GOOD, &["pending"]), Verdict::Rest, "the list belongs to an earlier prompt");
}

#[test]
fn every_obstacle_has_its_stop_reason() {
    let fresh = listed();
    let stop = |ending, statuses: &[&str]| match verdict(&fresh, ending, statuses) {
        Verdict::Stop(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(stop(GOOD, &["pending", "blocked"]), StopReason::Blocked);
    assert_eq!(stop(GOOD, &["blocked"]), StopReason::Blocked);
    assert_eq!(stop(Ending { spoke: false, ..GOOD }, &["pending"]), StopReason::Silent);
    for finish in [Finish::Length, Finish::ContentFilter, Finish::Error, Finish::ToolCalls] {
        assert_eq!(stop(Ending { finish: Some(finish), ..GOOD }, &["pending"]), StopReason::Unfinished);
    }
    assert_eq!(verdict(&fresh, Ending { structured: true, ..GOOD }, &["pending"]), Verdict::Rest);
    let (asked, todos) = (asked(), todos(&["pending"]));
    let facts = Facts { asked: &asked, ending: GOOD, todos: &todos, waiting: true, tokens: 0, now: 0 };
    assert_eq!(follow_todos(&on(), &fresh, &facts), Verdict::Stop(StopReason::Waiting));
}

#[test]
fn a_stop_holds_until_it_is_forgotten() {
    for reason in [StopReason::Abort, StopReason::Stop, StopReason::Rounds] {
        let stopped = Continuation { stopped: Some(reason), ..listed() };
        assert_eq!(verdict(&stopped, GOOD, &["pending"]), Verdict::Stop(reason));
        assert!(is_on(&verdict(&stopped.clone().resumed().unwrap_or_default(), GOOD, &["pending"])));
        let mut next = stopped.prompted().unwrap_or_default();
        next.touch(true, false);
        assert!(is_on(&verdict(&next, GOOD, &["pending"])));
    }
}

#[test]
fn after_a_lack_of_progress_only_a_changed_list_continues_a_turn() {
    let stopped = Continuation { stopped: Some(StopReason::Stagnant), ..listed() };
    let mut next = stopped.prompted().unwrap_or_default();
    assert_eq!(verdict(&next, GOOD, &["pending"]), Verdict::Rest);
    next.touch(true, false);
    assert_eq!(verdict(&next, GOOD, &["pending"]), Verdict::Stop(StopReason::Stagnant));
    next.touch(true, true);
    assert!(is_on(&verdict(&next, GOOD, &["pending"])));
}

#[test]
fn a_plugin_continues_an_episode_within_its_limits() {
    let (asked, policy) = (asked(), ContinuationPolicy { rounds: 2, ..ContinuationPolicy::default() });
    let facts =
        Facts { asked: &asked, ending: Ending::default(), todos: &[], waiting: false, tokens: 0, now: 0 };
    let mut state = Continuation::default();
    for round in 1..=2 {
        let Verdict::GoOn(episode) = follow_plugin(&policy, &state, &facts) else { panic!("{state:?}") };
        assert_eq!(episode.rounds, round);
        state.episode = Some(episode);
    }
    assert_eq!(follow_plugin(&policy, &state, &facts), Verdict::Stop(StopReason::Rounds));
    for reason in [StopReason::Stagnant, StopReason::Abort, StopReason::Blocked] {
        let stopped = Continuation { stopped: Some(reason), ..Continuation::default() };
        assert_eq!(follow_plugin(&policy, &stopped, &facts), Verdict::Stop(reason));
    }
    let failed = Continuation { stopped: Some(StopReason::Error), ..Continuation::default() };
    assert!(is_on(&follow_plugin(&policy, &failed, &facts)), "a plugin may recover a session");
}

/// Plays rounds until the verdict is to stop; returns the number of rounds and the last verdict.
fn play(
    policy: &ContinuationPolicy,
    mut lists: impl Iterator<Item = Vec<Todo>>,
    tokens: u64,
    millis: Millis,
) -> (u32, Verdict) {
    let (asked, mut state) = (asked(), listed());
    for round in 0.. {
        let todos = lists.next().unwrap_or_default();
        let past = Millis::from(round);
        let facts = Facts {
            asked: &asked,
            ending: GOOD,
            todos: &todos,
            waiting: false,
            tokens: tokens * u64::from(round),
            now: millis * past,
        };
        match follow_todos(policy, &state, &facts) {
            Verdict::GoOn(episode) => state.episode = Some(episode),
            other => return (round, other),
        }
    }
    unreachable!("a loop without an end")
}

#[test]
fn bounds_end_an_episode() {
    let idle = || std::iter::repeat_with(|| todos(&["pending", "pending"]));
    assert_eq!(play(&on(), idle(), 0, 0), (3, Verdict::Stop(StopReason::Stagnant)));
    let patient = ContinuationPolicy { stagnant: 100, ..on() };
    assert_eq!(play(&patient, idle(), 0, 0), (10, Verdict::Stop(StopReason::Rounds)));
    assert_eq!(play(&patient, idle(), 300_000, 0), (4, Verdict::Stop(StopReason::Tokens)));
    assert_eq!(play(&patient, idle(), 0, 20 * 60_000), (3, Verdict::Stop(StopReason::Minutes)));
}

#[test]
fn reopening_a_todo_is_no_progress() {
    let churn = [["pending", "in_progress"], ["in_progress", "pending"]];
    let churn = churn.iter().cycle().map(|list| todos(list));
    assert_eq!(play(&on(), churn, 0, 0), (3, Verdict::Stop(StopReason::Stagnant)));
    // One todo is completed and reopened, again and again.
    let back = [["completed", "pending"], ["pending", "pending"]];
    let back = back.iter().cycle().map(|list| todos(list));
    assert_eq!(play(&on(), back, 0, 0), (3, Verdict::Stop(StopReason::Stagnant)));
}

#[test]
fn progress_is_given_time() {
    let list = |done: usize| {
        let statuses = (0..8).map(|at| if at < done { "completed" } else { "pending" });
        todos(&statuses.collect::<Vec<_>>())
    };
    let slow = (0..).map(|round: usize| list(round / 2));
    let policy = ContinuationPolicy { rounds: 100, ..on() };
    assert_eq!(play(&policy, slow, 0, 0), (16, Verdict::Rest));
}

/// Every event that can affect a session's continuation.
#[derive(Debug, Clone)]
enum ContinuationEvent {
    Ended(Vec<&'static str>, bool, u64, Millis),
    Hook(u64, Millis),
    /// A plugin's prompt that continues the session.
    Plugin,
    Failed(EndReason),
    /// The agent writes the todo list, which differs from the stored one or not.
    Listed(bool),
    Prompt,
    Resume,
    Stop,
    Restart,
}

fn happening() -> impl Strategy<Value = ContinuationEvent> {
    let status =
        prop_oneof![Just("pending"), Just("in_progress"), Just("completed"), Just("cancelled"), Just("odd")];
    let ended = (proptest::collection::vec(status, 0..6), any::<bool>(), 0u64..100_000, 0i64..200_000);
    prop_oneof![
        12 => ended.prop_map(|(list, spoke, tokens, time)| ContinuationEvent::Ended(list, spoke, tokens, time)),
        4 => (0u64..100_000, 0i64..200_000).prop_map(|(tokens, time)| ContinuationEvent::Hook(tokens, time)),
        1 => prop_oneof![Just(EndReason::Aborted), Just(EndReason::Error), Just(EndReason::Interrupted)]
            .prop_map(ContinuationEvent::Failed),
        4 => any::<bool>().prop_map(ContinuationEvent::Listed),
        2 => Just(ContinuationEvent::Plugin),
        1 => Just(ContinuationEvent::Prompt),
        1 => Just(ContinuationEvent::Resume),
        1 => Just(ContinuationEvent::Stop),
        2 => Just(ContinuationEvent::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_events_makes_an_episode_too_long(
        happenings in proptest::collection::vec(happening(), 1..200),
        rounds in 0u32..6,
        stagnant in 1u32..4,
    ) {
        let policy = ContinuationPolicy { rounds, stagnant, ..on() };
        let (asked, mut state) = (asked(), Continuation::default());
        let (mut tokens, mut now, mut continued) = (0, 0, 0);
        let (mut listed, mut stagnated) = (false, false);
        for happening in happenings {
            let by_todos = matches!(happening, ContinuationEvent::Ended(..));
            let verdict = match happening {
                ContinuationEvent::Ended(list, spoke, more, time) => {
                    (tokens, now) = (tokens + more, now + time);
                    let (ending, todos) = (Ending { spoke, ..GOOD }, todos(&list));
                    let facts = Facts { asked: &asked, ending, todos: &todos, waiting: false, tokens, now };
                    follow_todos(&policy, &state, &facts)
                }
                ContinuationEvent::Hook(more, time) => {
                    (tokens, now) = (tokens + more, now + time);
                    let facts = Facts { asked: &asked, ending: GOOD, todos: &[], waiting: false, tokens, now };
                    follow_hook(&policy, &state, &facts)
                }
                ContinuationEvent::Plugin => {
                    let facts = Facts { asked: &asked, ending: GOOD, todos: &[], waiting: false, tokens, now };
                    // A plugin's prompt that is refused changes nothing.
                    match follow_plugin(&policy, &state, &facts) {
                        Verdict::Stop(_) => Verdict::Rest,
                        other => other,
                    }
                }
                ContinuationEvent::Listed(changed) => {
                    state.touch(true, changed);
                    (listed, stagnated) = (true, stagnated && !changed);
                    Verdict::Rest
                }
                ContinuationEvent::Failed(reason) => refusal(reason).map_or(Verdict::Rest, Verdict::Stop),
                ContinuationEvent::Stop => Verdict::Stop(StopReason::Stop),
                ContinuationEvent::Prompt => {
                    state = state.prompted().unwrap_or_default();
                    (continued, listed) = (0, false);
                    Verdict::Rest
                }
                ContinuationEvent::Resume => {
                    state = state.resumed().unwrap_or_default();
                    (continued, stagnated) = (0, false);
                    Verdict::Rest
                }
                ContinuationEvent::Restart => {
                    state = serde_json::from_value(serde_json::to_value(&state).unwrap()).unwrap();
                    Verdict::Rest
                }
            };
            match verdict {
                Verdict::GoOn(episode) => {
                    prop_assert!(!matches!(state.stopped, Some(StopReason::Abort | StopReason::Stop)));
                    prop_assert!(!by_todos || (listed && !stagnated));
                    continued += 1;
                    prop_assert_eq!(episode.rounds, continued);
                    state.episode = Some(episode);
                }
                Verdict::Stop(reason) => {
                    state.stopped.get_or_insert(reason);
                    stagnated |= state.stopped == Some(StopReason::Stagnant);
                }
                Verdict::Rest => {}
            }
            prop_assert!(continued <= rounds);
        }
    }
}
