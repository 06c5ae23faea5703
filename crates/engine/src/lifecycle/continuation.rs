//! Whether a turn goes on by itself: a pure decision from what is counted and what is left to do.
//!
//! Nothing here can loop: each continuation is a round of an *episode*, an episode has as many rounds as its policy
//! says, and only a prompt that a person writes begins another.

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

/// How far a turn may go by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether open todos make it go on.
    pub todos: bool,
    /// Continuations of one episode, whoever wants them.
    pub rounds: u32,
    /// Continuations in a row that achieve nothing.
    pub stagnant: u32,
    /// Tokens of one episode, those read from a cache not counted.
    pub tokens: u64,
    /// How long an episode may take.
    pub time: Duration,
    /// How long everybody is warned before it goes on.
    pub countdown: Duration,
}

impl Policy {
    /// Whether a session's turns go on for the sake of todos.
    pub fn follows_todos(&self, state: &Continuation) -> bool {
        state.enabled.unwrap_or(self.todos)
    }
}

/// Todos are left alone; the bounds are the usual ones.
impl Default for Policy {
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

/// How a run has ended, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ending {
    /// Why the model stopped.
    pub finish: Option<Finish>,
    /// Whether it said or did anything.
    pub spoke: bool,
    /// Whether it gave the structured answer that was asked for.
    pub structured: bool,
}

/// What there is to know when a run has ended and its turn may go on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The newest prompt that a person wrote.
    pub asked: &'a MessageId,
    /// How the run ended.
    pub ending: Ending,
    /// The todo list.
    pub todos: &'a [Todo],
    /// Whether a request waits for a person.
    pub waiting: bool,
    /// Tokens that the session has used, those read from a cache not counted.
    pub tokens: u64,
    /// The time.
    pub now: Millis,
}

/// What comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is nothing to go on with.
    Rest,
    /// There is, but it does not go on.
    Stop(StopReason),
    /// It goes on; this is the episode with the new round counted.
    GoOn(Episode),
}

/// How many todos there are of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Still to be done.
    pub open: u64,
    /// Completed.
    pub done: u64,
    /// Waiting for a person.
    pub blocked: u64,
}

impl Count {
    /// Counts todos.
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

    /// Whether something is left that an agent or a person has to do.
    pub fn is_unfinished(self) -> bool {
        self.open + self.blocked > 0
    }
}

/// Whether a run that completed goes on for the sake of its todos.
pub fn follow_todos(policy: &Policy, state: &Continuation, facts: &Facts<'_>) -> Verdict {
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
        // Only what was never reached before is progress: to and fro is none.
        episode.open = episode.open.min(count.open);
        episode.done = episode.done.max(count.done);
    }
    if episode.stagnant >= policy.stagnant {
        return Verdict::Stop(StopReason::Stagnant);
    }
    another(policy, episode, facts)
}

/// Whether a run that completed goes on because a hook wants it to.
pub fn follow_hook(policy: &Policy, state: &Continuation, facts: &Facts<'_>) -> Verdict {
    match state.stopped {
        Some(reason @ (StopReason::Abort | StopReason::Stop)) => Verdict::Stop(reason),
        _ if !facts.ending.spoke && state.episode.is_some() => Verdict::Stop(StopReason::Silent),
        _ => another(policy, episode(state, facts, Count::of(facts.todos)), facts),
    }
}

/// Why a turn that ended in this way does not go on.
pub fn refusal(reason: EndReason) -> Option<StopReason> {
    match reason {
        EndReason::Aborted => Some(StopReason::Abort),
        EndReason::Error => Some(StopReason::Error),
        EndReason::Blocked => Some(StopReason::Refused),
        EndReason::Budget => Some(StopReason::Budget),
        // The first is asked about in full; after the second nobody is there to go on.
        EndReason::Completed | EndReason::Interrupted => None,
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

/// The present episode, or the beginning of one.
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

/// One round more, if the bounds allow it.
fn another(policy: &Policy, episode: Episode, facts: &Facts<'_>) -> Verdict {
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
