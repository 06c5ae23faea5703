//! What a turn and a session may use, and how much of it is gone.

use std::time::Duration;

use engine::ports;
use engine::session::Turn;
use protocol::config::Budget;
use protocol::number::Number;
use protocol::session::Tokens;
use protocol::{Message, MessageWithParts, Session};
use tokio::time::Instant;

/// What was used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Spent {
    cost: Number,
    tokens: u64,
    steps: u64,
    /// Being busy.
    time: Duration,
}

impl Spent {
    fn add(&mut self, cost: Number, tokens: &Tokens) {
        self.cost += cost;
        let Tokens { input, output, reasoning, cache, .. } = tokens;
        self.tokens = [*input, *output, *reasoning, cache.read, cache.write]
            .into_iter()
            .fold(self.tokens, u64::saturating_add);
    }

    fn of<'a>(sessions: impl IntoIterator<Item = &'a Session>) -> Self {
        let mut spent = Self::default();
        for session in sessions {
            spent
                .add(session.cost.unwrap_or_default(), session.tokens.as_ref().unwrap_or(&Tokens::default()));
        }
        spent
    }

    fn and(mut self, other: Self) -> Self {
        self.cost += other.cost;
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.steps += other.steps;
        self.time += other.time;
        self
    }

    fn without(mut self, other: Self) -> Self {
        self.cost += Number(-other.cost.0);
        self.tokens = self.tokens.saturating_sub(other.tokens);
        self
    }
}

/// Counts what one turn uses. What its children use counts as well; titles do not.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    budget: &'a Budget,
    start: Instant,
    /// What the turn's own steps have used.
    turn: Spent,
    /// What the session had used before.
    before: Spent,
    /// What the children had used before.
    children_before: Spent,
    /// What the children have used.
    children: Spent,
}

/// Who a budget is for.
#[derive(Debug, Clone, Copy)]
enum Scope {
    Turn,
    Session,
}

impl<'a> Meter<'a> {
    /// Starts to count.
    pub(super) async fn start(budget: &'a Budget, turn: &Turn) -> Result<Self, ports::Error> {
        let start = Instant::now();
        let mut before = Spent::of([&turn.session]);
        if budget.steps.session.is_some() || budget.minutes.session.is_some() {
            (before.steps, before.time) = used(&turn.history().await?);
        }
        let zero = Spent::default();
        let mut meter = Self { budget, start, turn: zero, before, children_before: zero, children: zero };
        meter.look(turn).await?;
        meter.children_before = meter.children;
        Ok(meter)
    }

    /// Counts a step.
    pub(super) fn spend(&mut self, cost: Number, tokens: &Tokens) {
        self.turn.add(cost, tokens);
        self.turn.steps += 1;
    }

    /// Looks what the children have used meanwhile, if anybody wants to know.
    pub(super) async fn look(&mut self, turn: &Turn) -> Result<(), ports::Error> {
        if !(self.budget.cost.is_empty() && self.budget.tokens.is_empty()) {
            self.children = Spent::of(&turn.descendants().await?);
        }
        Ok(())
    }

    /// When the time is up, and the sentence for it.
    pub(super) fn deadline(&self) -> Option<(Instant, String)> {
        let budget = &self.budget.minutes;
        let left = |minutes: f64, used: Duration| {
            let all = Duration::try_from_secs_f64(minutes * 60.0).unwrap_or(Duration::MAX);
            self.start.checked_add(all.saturating_sub(used))
        };
        let turn = budget.turn.and_then(|minutes| {
            let minutes = minutes.get();
            Some((left(minutes, Duration::ZERO)?, sentence(Scope::Turn, "be busy for", minutes, "minutes")))
        });
        let session = budget.session.and_then(|minutes| {
            let minutes = minutes.get();
            Some((
                left(minutes, self.before.time)?,
                sentence(Scope::Session, "be busy for", minutes, "minutes"),
            ))
        });
        turn.into_iter().chain(session).min_by_key(|(at, _)| *at)
    }

    /// Why there may be no further step, if there may be none.
    pub(super) fn exceeded(&self) -> Option<String> {
        let turn = self.turn.and(self.children.without(self.children_before));
        let session = self.before.and(self.turn).and(self.children);
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

/// How many steps a session has taken, and how long they took.
fn used(history: &[MessageWithParts]) -> (u64, Duration) {
    let steps = history.iter().filter_map(|message| match &message.info {
        Message::Assistant(step) => Some(&step.time),
        Message::User(_) => None,
    });
    steps.fold((0, Duration::ZERO), |(count, sum), time| {
        let took = time.completed.unwrap_or(time.created).saturating_sub(time.created);
        (count + 1, sum + Duration::from_millis(u64::try_from(took).unwrap_or(0)))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meter(budget: &Budget, before: Spent) -> Meter<'_> {
        let zero = Spent::default();
        let start = Instant::now();
        Meter { budget, start, turn: zero, before, children_before: zero, children: zero }
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
        let mut costly = meter(&budget, Spent::default());
        costly.spend(Number(0.1), &tokens(1, 1));
        costly.spend(Number(0.1), &tokens(1, 1));
        assert_eq!(costly.exceeded(), None);
        costly.spend(Number(0.1), &tokens(1, 1));
        insta::assert_snapshot!(costly.exceeded().unwrap(), @"The turn has used up its budget: it may cost 0.3. Budgets are set in the configuration.");
        let mut wordy = meter(&budget, Spent::default());
        wordy.spend(Number(0.0), &tokens(60, 40));
        insta::assert_snapshot!(wordy.exceeded().unwrap(), @"The turn has used up its budget: it may use 100 tokens. Budgets are set in the configuration.");
        let mut busy = meter(&budget, Spent::default());
        (0..5).for_each(|_| busy.spend(Number(0.0), &tokens(1, 0)));
        insta::assert_snapshot!(busy.exceeded().unwrap(), @"The turn has used up its budget: it may take 5 steps. Budgets are set in the configuration.");
    }

    #[test]
    fn a_session_has_used_what_its_turns_have() {
        let budget = budget(json!({ "cost": { "session": 1 }, "steps": { "session": 3 } }));
        let before = Spent { cost: Number(0.9), steps: 1, ..Spent::default() };
        let mut meter = meter(&budget, before);
        meter.spend(Number(0.05), &tokens(1, 1));
        assert_eq!(meter.exceeded(), None);
        meter.spend(Number(0.01), &tokens(1, 1));
        insta::assert_snapshot!(meter.exceeded().unwrap(), @"The session has used up its budget: it may take 3 steps. Budgets are set in the configuration.");
    }

    #[test]
    fn children_are_paid_by_the_turn_that_started_them() {
        let budget = budget(json!({ "tokens": { "turn": 100 } }));
        let mut meter = meter(&budget, Spent::default());
        meter.children_before.tokens = 1000;
        meter.children.tokens = 1090;
        meter.spend(Number(0.0), &tokens(9, 0));
        assert_eq!(meter.exceeded(), None);
        meter.children.tokens = 1091;
        assert!(meter.exceeded().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_sooner_of_two_deadlines_counts() {
        let budget = budget(json!({ "minutes": { "turn": 10, "session": 60 } }));
        let at = |used: u64| {
            let before = Spent { time: Duration::from_mins(used), ..Spent::default() };
            let (at, sentence) = meter(&budget, before).deadline().unwrap();
            (at.duration_since(Instant::now()).as_secs() / 60, sentence)
        };
        assert_eq!(at(0).0, 10);
        insta::assert_snapshot!(at(0).1, @"The turn has used up its budget: it may be busy for 10 minutes. Budgets are set in the configuration.");
        assert_eq!(at(55).0, 5);
        insta::assert_snapshot!(at(55).1, @"The session has used up its budget: it may be busy for 60 minutes. Budgets are set in the configuration.");
        assert_eq!(at(99).0, 0);
        assert_eq!(meter(&Budget::default(), Spent::default()).deadline(), None);
    }
}
