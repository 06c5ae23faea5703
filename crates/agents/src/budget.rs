//! What a turn and a session may use, and how much of it is gone.

use std::time::Duration;

use engine::ports;
use engine::session::{Tally, Turn, Used};
use protocol::config::Budget;
use protocol::number::Number;
use protocol::session::Tokens;
use protocol::{Message, MessageWithParts, Session};
use tokio::time::Instant;

/// Counts what one turn uses, in all its runs. What its children and its title use counts as well.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    budget: &'a Budget,
    /// What the whole turn has used.
    tally: &'a Tally,
    /// That, when this run began.
    earlier: Used,
    /// What the session and its children had used then.
    before: Used,
    /// How long the session had been busy then.
    busy_before: Duration,
    /// What the children had used when somebody last looked.
    children: Used,
    /// When this run began.
    start: Instant,
}

/// Who a budget is for.
#[derive(Debug, Clone, Copy)]
enum Scope {
    Turn,
    Session,
}

impl<'a> Meter<'a> {
    /// Starts to count.
    pub(crate) async fn start(budget: &'a Budget, turn: &'a Turn) -> Result<Self, ports::Error> {
        let mut before = used([&turn.session]);
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
        let (tally, earlier) = (turn.tally(), turn.tally().used());
        let (children, start) = (Used::default(), Instant::now());
        let mut meter = Self { budget, tally, earlier, before, busy_before, children, start };
        // What they have used before belongs to earlier turns, or was counted by an earlier run.
        meter.children = meter.of_children(turn).await?;
        meter.before = meter.before.and(meter.children);
        Ok(meter)
    }

    /// Counts a step.
    pub(crate) fn step(&mut self, cost: Number, tokens: &Tokens) {
        self.tally.add(Used { steps: 1, ..Used::of(cost, tokens) });
    }

    /// Counts what the children have used meanwhile.
    pub(crate) async fn look(&mut self, turn: &Turn) -> Result<(), ports::Error> {
        let children = self.of_children(turn).await?;
        self.tally.add(children.without(self.children));
        self.children = children;
        Ok(())
    }

    /// What the children have used, if anybody wants to know.
    async fn of_children(&self, turn: &Turn) -> Result<Used, ports::Error> {
        if self.budget.cost.is_empty() && self.budget.tokens.is_empty() {
            return Ok(Used::default());
        }
        Ok(used(&turn.descendants().await?))
    }

    /// When the time is up, and the sentence for it.
    pub(crate) fn deadline(&self) -> Option<(Instant, String)> {
        let budget = &self.budget.minutes;
        let left = |from: Instant, minutes: f64, used: Duration| {
            let all = Duration::try_from_secs_f64(minutes * 60.0).unwrap_or(Duration::MAX);
            from.checked_add(all.saturating_sub(used))
        };
        let turn = budget.turn.and_then(|minutes| {
            let minutes = minutes.get();
            Some((
                left(self.tally.began(), minutes, Duration::ZERO)?,
                sentence(Scope::Turn, "be busy for", minutes, "minutes"),
            ))
        });
        let session = budget.session.and_then(|minutes| {
            let minutes = minutes.get();
            Some((
                left(self.start, minutes, self.busy_before)?,
                sentence(Scope::Session, "be busy for", minutes, "minutes"),
            ))
        });
        turn.into_iter().chain(session).min_by_key(|(at, _)| *at)
    }

    /// Why there may be no further step, if there may be none.
    pub(crate) fn exceeded(&self) -> Option<String> {
        let turn = self.tally.used();
        let session = self.before.and(turn.without(self.earlier));
        let Budget { cost, tokens, steps, minutes: _ } = self.budget;
        [
            (Scope::Turn, turn, cost.turn, tokens.turn, steps.turn),
            (Scope::Session, session, cost.session, tokens.session, steps.session),
        ]
        .into_iter()
        .find_map(|(scope, spent, cost, tokens, steps)| {
            let cost = cost.filter(|cost| spent.cost.0 >= cost.get());
            let tokens = tokens.filter(|tokens| spent.tokens >= tokens.get());
            let steps = steps.filter(|steps| spent.steps >= u64::from(steps.get()));
            cost.map(|cost| sentence(scope, "cost", cost.get(), ""))
                .or_else(|| tokens.map(|tokens| sentence(scope, "use", tokens, "tokens")))
                .or_else(|| steps.map(|steps| sentence(scope, "take", steps, "steps")))
        })
    }
}

fn sentence(scope: Scope, may: &str, limit: impl std::fmt::Display, what: &str) -> String {
    let who = match scope {
        Scope::Turn => "turn",
        Scope::Session => "session",
    };
    let sentence = format!("The {who} has used up its budget: it may {may} {limit} {what}");
    format!("{}. Budgets are set in the configuration.", sentence.trim_end())
}

/// What sessions have used. Their steps are not known.
fn used<'s>(sessions: impl IntoIterator<Item = &'s Session>) -> Used {
    sessions.into_iter().fold(Used::default(), |sum, session| {
        let nothing = Tokens::default();
        sum.and(Used::of(session.cost.unwrap_or_default(), session.tokens.as_ref().unwrap_or(&nothing)))
    })
}

/// How long a step took; none if the message is no step.
fn step_time(message: &MessageWithParts) -> Option<Duration> {
    let Message::Assistant(step) = &message.info else { return None };
    let took = step.time.completed.unwrap_or(step.time.created).saturating_sub(step.time.created);
    Some(Duration::from_millis(u64::try_from(took).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meter<'a>(budget: &'a Budget, tally: &'a Tally, before: Used) -> Meter<'a> {
        let (nothing, start) = (Used::default(), Instant::now());
        Meter {
            budget,
            tally,
            earlier: tally.used(),
            before,
            busy_before: Duration::ZERO,
            children: nothing,
            start,
        }
    }

    fn budget(value: serde_json::Value) -> Budget {
        serde_json::from_value(value).unwrap()
    }

    fn tokens(input: u64, output: u64) -> Tokens {
        Tokens { input, output, ..Tokens::default() }
    }

    #[test]
    fn a_turn_may_use_what_its_budget_says_and_no_more() {
        let budget =
            budget(json!({ "cost": { "turn": 0.3 }, "tokens": { "turn": 100 }, "steps": { "turn": 5 } }));
        let tally = Tally::default();
        let mut costly = meter(&budget, &tally, Used::default());
        costly.step(Number(0.1), &tokens(1, 1));
        costly.step(Number(0.1), &tokens(1, 1));
        assert_eq!(costly.exceeded(), None);
        costly.step(Number(0.1), &tokens(1, 1));
        insta::assert_snapshot!(costly.exceeded().unwrap(), @"The turn has used up its budget: it may cost 0.3. Budgets are set in the configuration.");
        let tally = Tally::default();
        let mut wordy = meter(&budget, &tally, Used::default());
        wordy.step(Number(0.0), &tokens(60, 40));
        insta::assert_snapshot!(wordy.exceeded().unwrap(), @"The turn has used up its budget: it may use 100 tokens. Budgets are set in the configuration.");
        let tally = Tally::default();
        let mut busy = meter(&budget, &tally, Used::default());
        (0..5).for_each(|_| busy.step(Number(0.0), &tokens(1, 0)));
        insta::assert_snapshot!(busy.exceeded().unwrap(), @"The turn has used up its budget: it may take 5 steps. Budgets are set in the configuration.");
    }

    #[test]
    fn a_session_has_used_what_its_turns_have() {
        let budget = budget(json!({ "cost": { "session": 1 }, "steps": { "session": 3 } }));
        let before = Used { cost: Number(0.9), steps: 1, ..Used::default() };
        let tally = Tally::default();
        let mut meter = meter(&budget, &tally, before);
        meter.step(Number(0.05), &tokens(1, 1));
        assert_eq!(meter.exceeded(), None);
        meter.step(Number(0.01), &tokens(1, 1));
        insta::assert_snapshot!(meter.exceeded().unwrap(), @"The session has used up its budget: it may take 3 steps. Budgets are set in the configuration.");
    }

    #[test]
    fn the_runs_of_a_turn_share_its_budget() {
        let budget = budget(json!({ "tokens": { "turn": 100, "session": 1000 } }));
        let tally = Tally::default();
        let mut first = meter(&budget, &tally, Used { tokens: 500, ..Used::default() });
        first.step(Number(0.0), &tokens(90, 0));
        assert_eq!(first.exceeded(), None);
        // The next run finds in its session what the first has used.
        let mut second = meter(&budget, &tally, Used { tokens: 590, ..Used::default() });
        assert_eq!(second.exceeded(), None);
        second.step(Number(0.0), &tokens(10, 0));
        assert!(second.exceeded().unwrap().starts_with("The turn"), "{second:?}");
        let tally = Tally::default();
        let mut other = meter(&budget, &tally, Used { tokens: 910, ..Used::default() });
        other.step(Number(0.0), &tokens(89, 0));
        assert_eq!(other.exceeded(), None, "what was before this run is not counted twice");
    }

    #[tokio::test(start_paused = true)]
    async fn the_sooner_of_two_deadlines_counts() {
        let budget = budget(json!({ "minutes": { "turn": 10, "session": 60 } }));
        let at = |used: u64| {
            let tally = Tally::default();
            let mut meter = meter(&budget, &tally, Used::default());
            meter.busy_before = Duration::from_mins(used);
            let (at, sentence) = meter.deadline().unwrap();
            (at.duration_since(Instant::now()).as_secs() / 60, sentence)
        };
        assert_eq!(at(0).0, 10);
        insta::assert_snapshot!(at(0).1, @"The turn has used up its budget: it may be busy for 10 minutes. Budgets are set in the configuration.");
        assert_eq!(at(55).0, 5);
        insta::assert_snapshot!(at(55).1, @"The session has used up its budget: it may be busy for 60 minutes. Budgets are set in the configuration.");
        assert_eq!(at(99).0, 0);
        assert_eq!(meter(&Budget::default(), &Tally::default(), Used::default()).deadline(), None);
    }
}
