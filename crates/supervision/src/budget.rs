//! Usage budgets: the limits of a turn and of a session, and a meter that compares usage with them.

use std::sync::Arc;
use std::time::Duration;

use engine::ports;
use engine::session::{Tally, Turn, Used};
use parking_lot::Mutex;
use protocol::config::Budget;
use protocol::number::Number;
use protocol::session::Tokens;
use protocol::{Message, MessageWithParts, Session};
use tokio::time::Instant;

/// Counts what one turn uses, over all its runs. The usage of its child sessions and of its title call counts
/// too.
#[derive(Debug)]
pub struct Meter {
    budget: Budget,
    /// The usage of the whole turn, shared by all its runs.
    tally: Arc<Tally>,
    /// The value of `tally` when this run began.
    earlier: Used,
    /// The usage of the session and its children when this run began.
    before: Used,
    /// The total time of the session's steps when this run began.
    busy_before: Duration,
    /// The usage of the children when [`Meter::add_children`] last read it.
    children: Mutex<Used>,
    start: Instant,
}

/// The owner of a budget.
#[derive(Debug, Clone, Copy)]
enum Scope {
    Turn,
    Session,
}

impl Meter {
    /// Starts the meter. Reads the session's earlier messages only if a session budget for steps or minutes
    /// is set.
    pub async fn start(budget: &Budget, turn: &Turn) -> Result<Self, ports::Error> {
        let mut before = usage_of([&turn.session]);
        let mut busy_before = Duration::ZERO;
        if budget.steps.session.is_some() || budget.minutes.session.is_some() {
            turn.each(|message| {
                if let Some(took) = step_time(message) {
                    before.steps += 1;
                    busy_before += took;
                }
            })
            .await?;
        }
        // The children used this in earlier turns, or an earlier run has counted it.
        let children = children_usage(budget, turn).await?;
        Ok(Self {
            budget: budget.clone(),
            tally: Arc::clone(turn.tally()),
            earlier: turn.tally().used(),
            before: before.and(children),
            busy_before,
            children: Mutex::new(children),
            start: Instant::now(),
        })
    }

    pub fn add_step(&self, cost: Number, tokens: &Tokens) {
        self.tally.add(Used { steps: 1, ..Used::of(cost, tokens) });
    }

    /// Adds the usage of the children since the last call.
    pub(crate) async fn add_children(&self, turn: &Turn) -> Result<(), ports::Error> {
        let children = children_usage(&self.budget, turn).await?;
        let counted = {
            let mut counted = self.children.lock();
            std::mem::replace(&mut *counted, children)
        };
        self.tally.add(children.without(counted));
        Ok(())
    }

    /// Returns the earliest time limit and the message for the user when it passes.
    pub fn deadline(&self) -> Option<(Instant, String)> {
        let budget = &self.budget.minutes;
        let left = |from: Instant, minutes: f64, used: Duration| {
            let all = Duration::try_from_secs_f64(minutes * 60.0).unwrap_or(Duration::MAX);
            from.checked_add(all.saturating_sub(used))
        };
        let turn = budget.turn.and_then(|minutes| {
            let minutes = minutes.get();
            Some((
                left(self.tally.began(), minutes, Duration::ZERO)?,
                Scope::Turn.reached("time", "minutes", &format!("{minutes} minutes")),
            ))
        });
        let session = budget.session.and_then(|minutes| {
            let minutes = minutes.get();
            Some((
                left(self.start, minutes, self.busy_before)?,
                Scope::Session.reached("time", "minutes", &format!("{minutes} minutes")),
            ))
        });
        turn.into_iter().chain(session).min_by_key(|(at, _)| *at)
    }

    /// Returns the message for the user if a budget is used up, so that no further step may run.
    pub fn exceeded(&self) -> Option<String> {
        let turn = self.tally.used();
        let session = self.before.and(turn.without(self.earlier));
        let Budget { cost, tokens, steps, minutes: _ } = &self.budget;
        [
            (Scope::Turn, turn, cost.turn, tokens.turn, steps.turn),
            (Scope::Session, session, cost.session, tokens.session, steps.session),
        ]
        .into_iter()
        .find_map(|(scope, spent, cost, tokens, steps)| {
            let cost = cost.filter(|cost| spent.cost.0 >= cost.get());
            let tokens = tokens.filter(|tokens| spent.tokens >= tokens.get());
            let steps = steps.filter(|steps| spent.steps >= u64::from(steps.get()));
            cost.map(|cost| scope.reached("cost", "cost", &dollars(cost.get())))
                .or_else(|| tokens.map(|tokens| scope.reached("token", "tokens", &tokens.to_string())))
                .or_else(|| steps.map(|steps| scope.reached("step", "steps", &steps.to_string())))
        })
    }
}

impl Scope {
    /// Returns the message for the user when a limit is reached. It names the key, so that the user finds the setting.
    fn reached(self, what: &str, quantity: &str, limit: &str) -> String {
        let (owner, scope) = match self {
            Self::Turn => ("", "turn"),
            Self::Session => ("session ", "session"),
        };
        format!(
            "Turn stopped: {owner}{what} limit {limit} reached (`budget.{quantity}.{scope}` in baton.json)"
        )
    }
}

/// Formats a price with cents, or with all digits if it has smaller parts.
fn dollars(cost: f64) -> String {
    let cents = format!("{cost:.2}");
    if cents.parse() == Ok(cost) { format!("${cents}") } else { format!("${cost}") }
}

/// Returns the usage of a turn's children, or zero if no budget for cost or tokens is set.
async fn children_usage(budget: &Budget, turn: &Turn) -> Result<Used, ports::Error> {
    if budget.cost.is_empty() && budget.tokens.is_empty() {
        return Ok(Used::default());
    }
    Ok(usage_of(&turn.descendants().await?))
}

/// Sums the usage of sessions. A session does not record its number of steps, so that field stays zero.
fn usage_of<'s>(sessions: impl IntoIterator<Item = &'s Session>) -> Used {
    sessions.into_iter().fold(Used::default(), |sum, session| {
        let nothing = Tokens::default();
        sum.and(Used::of(session.cost.unwrap_or_default(), session.tokens.as_ref().unwrap_or(&nothing)))
    })
}

/// Returns the duration of a step, or `None` for a user message.
fn step_time(message: &MessageWithParts) -> Option<Duration> {
    let Message::Assistant(step) = &message.info else { return None };
    let took = step.time.completed.unwrap_or(step.time.created).saturating_sub(step.time.created);
    Some(Duration::from_millis(u64::try_from(took).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meter(budget: &Budget, tally: &Arc<Tally>, before: Used) -> Meter {
        Meter {
            budget: budget.clone(),
            tally: Arc::clone(tally),
            earlier: tally.used(),
            before,
            busy_before: Duration::ZERO,
            children: Mutex::default(),
            start: Instant::now(),
        }
    }

    fn budget(value: serde_json::Value) -> Budget {
        serde_json::from_value(value).unwrap()
    }

    fn tokens(input: u64, output: u64) -> Tokens {
        Tokens { input, output, ..Tokens::default() }
    }

    #[test]
    fn a_turn_may_use_its_budget_and_no_more() {
        let budget =
            budget(json!({ "cost": { "turn": 0.3 }, "tokens": { "turn": 100 }, "steps": { "turn": 5 } }));
        let tally = Arc::new(Tally::default());
        let costly = meter(&budget, &tally, Used::default());
        costly.add_step(Number(0.1), &tokens(1, 1));
        costly.add_step(Number(0.1), &tokens(1, 1));
        assert_eq!(costly.exceeded(), None);
        costly.add_step(Number(0.1), &tokens(1, 1));
        insta::assert_snapshot!(costly.exceeded().unwrap(), @"Turn stopped: cost limit $0.30 reached (`budget.cost.turn` in baton.json)");
        let tally = Arc::new(Tally::default());
        let wordy = meter(&budget, &tally, Used::default());
        wordy.add_step(Number(0.0), &tokens(60, 40));
        insta::assert_snapshot!(wordy.exceeded().unwrap(), @"Turn stopped: token limit 100 reached (`budget.tokens.turn` in baton.json)");
        let tally = Arc::new(Tally::default());
        let busy = meter(&budget, &tally, Used::default());
        (0..5).for_each(|_| busy.add_step(Number(0.0), &tokens(1, 0)));
        insta::assert_snapshot!(busy.exceeded().unwrap(), @"Turn stopped: step limit 5 reached (`budget.steps.turn` in baton.json)");
    }

    #[test]
    fn a_session_uses_the_sum_of_its_turns() {
        let budget = budget(json!({ "cost": { "session": 1 }, "steps": { "session": 3 } }));
        let before = Used { cost: Number(0.9), steps: 1, ..Used::default() };
        let tally = Arc::new(Tally::default());
        let meter = meter(&budget, &tally, before);
        meter.add_step(Number(0.05), &tokens(1, 1));
        assert_eq!(meter.exceeded(), None);
        meter.add_step(Number(0.01), &tokens(1, 1));
        insta::assert_snapshot!(meter.exceeded().unwrap(), @"Turn stopped: session step limit 3 reached (`budget.steps.session` in baton.json)");
    }

    #[test]
    fn the_runs_of_a_turn_share_its_budget() {
        let budget = budget(json!({ "tokens": { "turn": 100, "session": 1000 } }));
        let tally = Arc::new(Tally::default());
        let first = meter(&budget, &tally, Used { tokens: 500, ..Used::default() });
        first.add_step(Number(0.0), &tokens(90, 0));
        assert_eq!(first.exceeded(), None);
        // The session's usage includes what the first run used, and the second run must not count it twice.
        let second = meter(&budget, &tally, Used { tokens: 590, ..Used::default() });
        assert_eq!(second.exceeded(), None);
        second.add_step(Number(0.0), &tokens(10, 0));
        assert!(second.exceeded().unwrap().contains("budget.tokens.turn"), "{second:?}");
        let tally = Arc::new(Tally::default());
        let other = meter(&budget, &tally, Used { tokens: 910, ..Used::default() });
        other.add_step(Number(0.0), &tokens(89, 0));
        assert_eq!(other.exceeded(), None, "what was before this run is not counted twice");
    }

    #[tokio::test(start_paused = true)]
    async fn the_sooner_of_two_deadlines_counts() {
        let budget = budget(json!({ "minutes": { "turn": 10, "session": 60 } }));
        let at = |used: u64| {
            let tally = Arc::new(Tally::default());
            let mut meter = meter(&budget, &tally, Used::default());
            meter.busy_before = Duration::from_mins(used);
            let (at, sentence) = meter.deadline().unwrap();
            (at.duration_since(Instant::now()).as_secs() / 60, sentence)
        };
        assert_eq!(at(0).0, 10);
        insta::assert_snapshot!(at(0).1, @"Turn stopped: time limit 10 minutes reached (`budget.minutes.turn` in baton.json)");
        assert_eq!(at(55).0, 5);
        insta::assert_snapshot!(at(55).1, @"Turn stopped: session time limit 60 minutes reached (`budget.minutes.session` in baton.json)");
        assert_eq!(at(99).0, 0);
        assert_eq!(meter(&Budget::default(), &Arc::default(), Used::default()).deadline(), None);
    }
}
