//! Decides whether a turn continues by itself: a pure function of counters and open todos.
//!
//! Nothing here can loop: each continuation is a round of an *episode*, the policy limits the rounds of an episode,
//! and only a prompt written by the user begins another episode. Todos continue only the episode in which the agent
//! wrote them: a list that an earlier prompt left does not make a later prompt cost more than its answer.

mod reminder;
#[cfg(test)]
mod tests;

use std::time::Duration;

use protocol::{
    EndReason, MessageId, Millis, Rest, Todo,
    continuation::{Continuation, Episode, StopReason},
    message::Finish,
};

pub use reminder::reminder;

/// Limits for turns that continue by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinuationPolicy {
    /// True if open todos continue a turn.
    pub todos: bool,
    /// Maximum continuations of one episode, whether todos or hooks request them.
    pub rounds: u32,
    /// Maximum consecutive continuations without progress.
    pub stagnant: u32,
    /// Maximum tokens of one episode, not counting tokens read from a cache.
    pub tokens: u64,
    /// Maximum duration of an episode.
    pub time: Duration,
    /// Delay before a continuation, in which clients can stop it.
    pub countdown: Duration,
}

impl ContinuationPolicy {
    /// Returns true if open todos can continue this episode: the agent has written the list in it, and continuation is
    /// on. The session's own setting wins over the policy.
    pub fn follows_todos(&self, state: &Continuation) -> bool {
        state.touched && state.enabled.unwrap_or(self.todos)
    }
}

/// Does not follow todos, and uses the default limits.
impl Default for ContinuationPolicy {
    fn default() -> Self {
        Self {
            todos: false,
            rounds: 10,
            stagnant: 3,
            tokens: 1_000_000,
            time: Duration::from_hours(1),
            countdown: Duration::ZERO,
        }
    }
}

/// The end of a run, as far as a continuation depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ending {
    pub finish: Option<Finish>,
    /// True if the run produced any output.
    pub spoke: bool,
    /// True if the run returned the structured answer that the prompt asked for.
    pub structured: bool,
}

/// Facts about a session whose run has just ended.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The newest prompt written by the user.
    pub asked: &'a MessageId,
    pub ending: Ending,
    pub todos: &'a [Todo],
    /// True if a permission or question is open.
    pub waiting: bool,
    /// Tokens that the session has used, not counting tokens read from a cache.
    pub tokens: u64,
    pub now: Millis,
}

/// The decision about a turn whose run has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing requests a continuation.
    Rest,
    /// A continuation was requested, but this reason prevents it.
    Stop(StopReason),
    /// The turn continues; the episode already counts the new round.
    GoOn(Episode),
}

/// Number of todos of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    pub open: u64,
    pub done: u64,
    /// Blocked until the user does something.
    pub blocked: u64,
}

impl Count {
    pub fn of(todos: &[Todo]) -> Self {
        let mut count = Self::default();
        for todo in todos {
            match todo.status.as_str() {
                "completed" => count.done += 1,
                "blocked" => count.blocked += 1,
                "cancelled" | "deleted" => {}
                _ => count.open += 1,
            }
        }
        count
    }

    /// Returns true if any todo is open or blocked.
    pub fn is_unfinished(self) -> bool {
        self.open + self.blocked > 0
    }
}

/// Decides whether a completed run continues because of its open todos.
pub fn follow_todos(policy: &ContinuationPolicy, state: &Continuation, facts: &Facts<'_>) -> Verdict {
    let count = Count::of(facts.todos);
    if !policy.follows_todos(state) || facts.ending.structured || !count.is_unfinished() {
        return Verdict::Rest;
    }
    if let Some(reason) = state.stopped.or_else(|| obstacle(count, facts)) {
        return Verdict::Stop(reason);
    }
    let mut episode = episode(state, facts, count);
    if episode.rounds > 0 {
        let progress = count.open < episode.open || count.done > episode.done;
        episode.stagnant = if progress { 0 } else { episode.stagnant.saturating_add(1) };
        // Only a count that was never reached before is progress; a todo that is completed and reopened is not.
        episode.open = episode.open.min(count.open);
        episode.done = episode.done.max(count.done);
    }
    if episode.stagnant >= policy.stagnant {
        return Verdict::Stop(StopReason::Stagnant);
    }
    another(policy, episode, facts)
}

/// Decides whether a completed run continues because a hook requests it.
pub fn follow_hook(policy: &ContinuationPolicy, state: &Continuation, facts: &Facts<'_>) -> Verdict {
    match state.stopped {
        Some(reason @ (StopReason::Abort | StopReason::Stop)) => Verdict::Stop(reason),
        _ if !facts.ending.spoke && state.episode.is_some() => Verdict::Stop(StopReason::Silent),
        _ => another(policy, episode(state, facts, Count::of(facts.todos)), facts),
    }
}

/// Decides about a prompt with which a plugin wants to continue the session. It is a round of the user's episode.
pub fn follow_plugin(policy: &ContinuationPolicy, state: &Continuation, facts: &Facts<'_>) -> Verdict {
    match state.stopped {
        Some(reason) if reason.holds_plugins() => Verdict::Stop(reason),
        _ => another(policy, episode(state, facts, Count::of(facts.todos)), facts),
    }
}

/// The stop reason for a turn that ended without completing; `None` if the end alone does not decide.
pub fn refusal(reason: EndReason) -> Option<StopReason> {
    match reason {
        EndReason::Aborted => Some(StopReason::Abort),
        EndReason::Error => Some(StopReason::Error),
        EndReason::Blocked => Some(StopReason::Refused),
        EndReason::Budget => Some(StopReason::Budget),
        // A completed turn is decided by the other functions. An interrupted one cannot continue: its server is
        // shutting down. Only prompts end as withdrawn.
        EndReason::Completed | EndReason::Interrupted | EndReason::Withdrawn => None,
    }
}

fn obstacle(count: Count, facts: &Facts<'_>) -> Option<StopReason> {
    if facts.waiting {
        Some(StopReason::Waiting)
    } else if count.blocked > 0 {
        Some(StopReason::Blocked)
    } else if !facts.ending.spoke {
        Some(StopReason::Silent)
    } else if !matches!(facts.ending.finish, Some(Finish::Stop | Finish::Unknown)) {
        Some(StopReason::Unfinished)
    } else {
        None
    }
}

/// The current episode, or a new one.
fn episode(state: &Continuation, facts: &Facts<'_>, count: Count) -> Episode {
    state.episode.clone().unwrap_or_else(|| Episode {
        id: facts.asked.clone(),
        rounds: 0,
        stagnant: 0,
        tokens: facts.tokens,
        started: facts.now,
        open: count.open,
        done: count.done,
        extra: Rest::NONE,
    })
}

/// Adds one round, if the policy's limits allow it.
fn another(policy: &ContinuationPolicy, episode: Episode, facts: &Facts<'_>) -> Verdict {
    let took = u64::try_from(facts.now.saturating_sub(episode.started)).unwrap_or_default();
    if episode.rounds >= policy.rounds {
        Verdict::Stop(StopReason::Rounds)
    } else if facts.tokens.saturating_sub(episode.tokens) >= policy.tokens {
        Verdict::Stop(StopReason::Tokens)
    } else if Duration::from_millis(took) >= policy.time {
        Verdict::Stop(StopReason::Minutes)
    } else {
        Verdict::GoOn(Episode { rounds: episode.rounds.saturating_add(1), ..episode })
    }
}
