//! One turn of a process that exchanges frames with its agent: the only loop that waits for an agent, its user, the
//! children and the deadlines.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use protocol::agent_event::{Answer, Ask};
use protocol::{AgentEvent, TurnEnd};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::agent::{Broken, Condition, Context, Joining, Options, Outcome, Phase, Process, Signal, Task};
use super::children::Children;

/// Unreadable frames after which a turn fails.
const MAX_NOISE: usize = 1_000;

/// Requests of an agent that may wait for an answer at once; further ones are answered as withdrawn.
const MAX_REQUESTS: usize = 256;

/// Continue, or end the turn.
type Flow = ControlFlow<Outcome>;

/// A request with its answer; none if the agent has withdrawn it.
struct Answered<R> {
    id: String,
    child: Option<String>,
    answer: Option<(R, Answer)>,
}

/// Lets a process work on a turn until the turn has ended.
pub async fn exchange<P: Process>(
    options: &Options,
    context: Context<'_>,
    process: &mut P,
    task: Task<'_>,
) -> Outcome {
    let mut exchange = Exchange {
        options,
        context,
        process,
        children: Children::new(context.children, context.turn, &options.program.rules),
        requests: FuturesUnordered::new(),
        withdrawals: HashMap::new(),
        has_refused: false,
        refused_children: HashSet::new(),
        has_begun: false,
        heard: Instant::now(),
        ending: None,
        noise: 0,
    };
    let mut outcome = exchange.run(task).await;
    exchange.children.settle().await;
    if !exchange.process.finish() && outcome.process == Condition::Reusable {
        outcome.process = Condition::Broken;
    }
    outcome
}

struct Exchange<'a, P: Process> {
    options: &'a Options,
    context: Context<'a>,
    process: &'a mut P,
    children: Children<'a>,
    /// Requests that wait for the rules or the user.
    requests: FuturesUnordered<BoxFuture<'a, Answered<P::Request>>>,
    /// One token for each open request, by the agent's id.
    withdrawals: HashMap<String, CancellationToken>,
    has_refused: bool,
    refused_children: HashSet<String>,
    /// The agent has begun to work on the prompt.
    has_begun: bool,
    /// The time of the last frame or answer.
    heard: Instant,
    /// The time since which the end of the turn is due.
    ending: Option<Instant>,
    noise: usize,
}

impl<P: Process> Exchange<'_, P> {
    async fn run(&mut self, task: Task<'_>) -> Outcome {
        let turn = self.context.turn;
        match task {
            Task::Prompt(prompt) => self.process.prompt(turn, prompt),
            Task::Wake if self.process.take_up(turn) => {}
            Task::Wake => return Outcome::reusable(TurnEnd::Completed),
        }
        loop {
            let deadline = self.deadline();
            let flow = tokio::select! {
                biased;
                () = turn.cancelled() => return self.interrupt().await,
                Some(answered) = self.requests.next() => self.answered(answered),
                frame = self.process.next() => self.receive(frame).await,
                () = turn.prompted(), if self.process.joining() != Joining::Waits => self.prompted().await,
                child = self.children.stopped() => {
                    self.process.stop_child(&child);
                    Flow::Continue(())
                }
                () = until(deadline) => self.overdue().await,
            };
            if let Flow::Break(outcome) = flow {
                return outcome;
            }
        }
    }

    /// The time at which the process has been silent for too long. There is none while the process waits for the user, or
    /// while a call with a deadline of its own is open.
    fn deadline(&mut self) -> Option<Instant> {
        let timeouts = &self.options.timeouts;
        let phase = self.process.phase();
        if phase != Phase::Ending {
            self.ending = None;
        }
        match phase {
            Phase::Ending => Some(*self.ending.get_or_insert_with(Instant::now) + timeouts.settle),
            Phase::Calling => None,
            _ if !self.requests.is_empty() => None,
            Phase::Starting => Some(self.heard + timeouts.start),
            Phase::Working => Some(self.heard + timeouts.silence),
            Phase::Listening(silence) => Some(self.heard + silence),
        }
    }

    async fn overdue(&mut self) -> Flow {
        let Options { about, timeouts, .. } = self.options;
        let what = match self.process.phase() {
            Phase::Ending | Phase::Listening(_) => return self.conclude().await,
            Phase::Starting => format!("did not begin to work on the prompt within {:?}", timeouts.start),
            Phase::Working | Phase::Calling => format!("sent nothing for {:?}", timeouts.silence),
        };
        let words = self.process.last_words();
        Flow::Break(Outcome::failed(format!("{} {what}, so it was ended{words}", about.name)))
    }

    /// Ends the turn although the agent has not ended it.
    async fn conclude(&mut self) -> Flow {
        for signal in self.process.conclude() {
            self.apply(signal).await?;
        }
        Flow::Break(Outcome::failed(format!("{} did not end the turn", self.options.about.name)))
    }

    async fn receive(&mut self, frame: Result<P::Frame, Broken>) -> Flow {
        self.heard = Instant::now();
        let frame = match frame {
            Ok(frame) => frame,
            Err(broken) => return Flow::Break(self.broken(broken)),
        };
        for signal in self.process.interpret(frame, self.context.clock.now()) {
            self.apply(signal).await?;
        }
        Flow::Continue(())
    }

    async fn apply(&mut self, signal: Signal<P::Request>) -> Flow {
        match signal {
            Signal::Emit(child, event) => self.children.emit(child.as_deref(), event).await,
            Signal::ChildStarted(parent, subagent) => self.children.begin(parent.as_deref(), subagent).await,
            Signal::ChildEnded(child, end) => {
                let end = if self.refused_children.contains(&child) { TurnEnd::Blocked } else { end };
                self.children.end(&child, end).await;
            }
            Signal::Note(note) => {
                let name = self.options.about.id.clone();
                self.context.turn.emit(AgentEvent::Noted { name, note }).await;
            }
            Signal::Working => self.has_begun = true,
            Signal::Ended(end) => return Flow::Break(Outcome::reusable(self.judged(end))),
            Signal::Failed(broken) => return Flow::Break(self.broken(broken)),
            Signal::Forgotten => {
                let message = format!("{} does not have this conversation any more", self.options.about.name);
                return Flow::Break(Outcome { process: Condition::Unused, ..Outcome::failed(message) });
            }
            Signal::Asked { id, child, ask, request } => self.ask(id, child, ask, request),
            Signal::Withdrawn(id) => {
                if let Some(withdrawal) = self.withdrawals.remove(&id) {
                    withdrawal.cancel();
                }
            }
            Signal::Noise(reason) => return self.noise(&reason),
        }
        Flow::Continue(())
    }

    /// The end of the turn for clients: a refusal by the user ends it as blocked, regardless of the agent's own report.
    fn judged(&self, end: TurnEnd) -> TurnEnd {
        let was_child_refused = end == TurnEnd::Cancelled && !self.refused_children.is_empty();
        if self.has_refused || was_child_refused { TurnEnd::Blocked } else { end }
    }

    fn broken(&self, broken: Broken) -> Outcome {
        let is_unused = broken.is_gone && !self.has_begun;
        let process = if is_unused { Condition::Unused } else { Condition::Broken };
        Outcome { end: TurnEnd::Error(broken.error), process }
    }

    fn noise(&mut self, reason: &str) -> Flow {
        let name = &self.options.about.name;
        tracing::debug!(session = %self.context.turn.session.id, agent = name, reason, "unreadable frame");
        self.noise += 1;
        if self.noise <= MAX_NOISE {
            return Flow::Continue(());
        }
        let message = format!("{name} sent more than {MAX_NOISE} lines that cannot be read: {reason}");
        Flow::Break(Outcome::failed(message))
    }

    fn ask(&mut self, id: String, child: Option<String>, ask: Ask, request: P::Request) {
        self.has_begun = true;
        let withdrawal = CancellationToken::new();
        let answer = if self.requests.len() < MAX_REQUESTS {
            self.children.ask(child.as_deref(), ask)
        } else {
            futures::future::ready(Answer::Withdrawn).boxed()
        };
        self.withdrawals.insert(id.clone(), withdrawal.clone());
        let answered = async move {
            let answer = withdrawal.run_until_cancelled(answer).await.map(|answer| (request, answer));
            Answered { id, child, answer }
        };
        self.requests.push(answered.boxed());
    }

    fn answered(&mut self, answered: Answered<P::Request>) -> Flow {
        self.heard = Instant::now();
        let Answered { id, child, answer } = answered;
        let Some((request, answer)) = answer else { return Flow::Continue(()) };
        self.withdrawals.remove(&id);
        if self.process.answer(child.as_deref(), request, answer) {
            match child {
                Some(child) => drop(self.refused_children.insert(child)),
                None => self.has_refused = true,
            }
        }
        Flow::Continue(())
    }

    async fn prompted(&mut self) -> Flow {
        if self.process.joining() == Joining::Ends {
            return self.conclude().await;
        }
        for id in self.context.turn.join().await {
            if let Ok(Some(prompt)) = self.context.turn.message(&id).await {
                self.process.join(&prompt);
                self.heard = Instant::now();
            }
        }
        Flow::Continue(())
    }

    /// Interrupts the turn for the user with the agent's own message. A process that does not stop in time is ended,
    /// with it everything that it has started.
    async fn interrupt(&mut self) -> Outcome {
        let deadline = Instant::now() + self.options.timeouts.interrupt;
        self.requests.clear();
        self.children.end_all(&TurnEnd::Cancelled).await;
        let has_stopped =
            self.process.interrupt() && timeout_at(deadline, self.stopped()).await.unwrap_or(false);
        if has_stopped { Outcome::reusable(TurnEnd::Cancelled) } else { Outcome::broken(TurnEnd::Cancelled) }
    }

    /// Waits until the agent has ended the turn. The engine drops the events of a turn that was stopped.
    async fn stopped(&mut self) -> bool {
        while let Ok(frame) = self.process.next().await {
            let signals = self.process.interpret(frame, self.context.clock.now());
            for signal in signals {
                match signal {
                    Signal::Ended(_) => return true,
                    Signal::Failed(_) => return false,
                    _ => {}
                }
            }
        }
        false
    }
}

/// Waits for a deadline, or for ever if there is none.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
