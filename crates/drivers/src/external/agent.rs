//! The parts that an external agent brings to a turn; the [`Driver`](super::Driver) owns everything else.
//!
//! An [`Agent`] starts processes and lets one of them work on a turn. An agent that exchanges frames with its process
//! implements [`Process`] and leaves the turn to [`exchange`](super::exchange::exchange): [`Process::next`] is the
//! transport, and every other method is synchronous. A method that has something to send queues it for the transport.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::Clock;
use engine::session::Turn;
use protocol::agent_event::{Answer, Ask};
use protocol::prompt::Delivery;
use protocol::{AgentEvent, MessageError, MessageWithParts, Millis, TurnEnd};

use super::child::Words;
use super::{Bounds, ChildRegistry, IdleLimits, IdlePool, KeptProcess, Launch, Subagent, Timeouts};
use crate::roster::{About, Program};

/// Settings that every external agent has.
#[derive(Debug, Clone)]
pub struct Options {
    /// The agent's names, models and abilities.
    pub about: About,
    /// The program and its permissions.
    pub program: Program,
    pub timeouts: Timeouts,
    /// Resource limits of a process.
    pub bounds: Bounds,
    /// Limits for processes that are kept between turns.
    pub keeping: IdleLimits,
    /// The idle processes of all agents.
    pub pool: IdlePool,
}

impl Options {
    /// The default limits for a configured program.
    pub fn new(about: About, program: Program) -> Self {
        let keeping = IdleLimits { idle: program.idle, ..IdleLimits::default() };
        let (timeouts, bounds, pool) = (Timeouts::default(), Bounds::default(), IdlePool::default());
        Self { about, program, timeouts, bounds, keeping, pool }
    }

    /// The configured program with its environment. `args` follow the configured arguments.
    pub fn launch(&self, directory: impl Into<PathBuf>, args: impl IntoIterator<Item = String>) -> Launch {
        let mut words = self.program.command.iter().cloned();
        let program = words.next().unwrap_or_else(|| self.about.id.clone());
        let mut launch = Launch::new(program, words.chain(args), directory);
        let variables = self.program.environment.iter();
        launch.environment = variables.map(|(name, value)| (name.into(), value.into())).collect();
        launch.hidden = self.program.hidden.iter().map(Into::into).collect();
        launch.bounds = self.bounds;
        launch
    }
}

/// An external agent.
pub trait Agent: Send + Sync + 'static {
    /// A process with the conversation of one session.
    type Process: KeptProcess;

    /// The driver opens the first step of a turn, because the agent's protocol has no message for that.
    const OPENS_STEP: bool = false;

    /// The agent names sessions itself, so that the driver does not name them after their first prompt.
    const NAMES_SESSIONS: bool = false;

    /// The agent confirms that it has resumed a conversation before it gets the prompt. The driver takes an agent that does
    /// not, and ends before it begins to work, for one that has lost the conversation.
    const CONFIRMS_RESUME: bool = true;

    /// The agent can compact its conversation when the user asks for it.
    const COMPACTS: bool = true;

    /// The delivery of a prompt that names none. An agent that would cut its answer short for a prompt that joins has
    /// [`Delivery::Queue`].
    const DELIVERY: Delivery = Delivery::Steer;

    /// The agent's settings.
    fn options(&self) -> &Options;

    /// Starts a process and resumes the conversation with this id, or begins a new one.
    fn open(
        &self,
        turn: &Turn,
        resume: Option<&str>,
    ) -> impl Future<Output = Result<Opened<Self::Process>, MessageError>> + Send;

    /// Takes the turn of a child session that this agent manages itself. Returns none if the session is not such a child.
    fn follow(&self, turn: &Turn) -> impl Future<Output = Option<TurnEnd>> + Send {
        let _ = turn;
        std::future::ready(None)
    }

    /// Ends everything that the agent runs besides the processes of sessions.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Lets a process work on a turn until the turn has ended.
    fn work(
        &self,
        context: Context<'_>,
        process: &mut Self::Process,
        task: Task<'_>,
    ) -> impl Future<Output = Outcome> + Send;
}

/// The surroundings of a turn.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub turn: &'a Arc<Turn>,
    /// The clock for timestamps in events.
    pub clock: &'a Arc<dyn Clock>,
    /// The child sessions of all turns.
    pub children: &'a ChildRegistry,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Context").field("session", &self.turn.session.id).finish_non_exhaustive()
    }
}

/// The work of a turn.
#[derive(Debug, Clone, Copy)]
pub enum Task<'a> {
    /// A prompt to answer.
    Prompt(&'a MessageWithParts),
    /// Work that the agent has begun by itself between turns.
    Wake,
}

/// A process that was started.
#[derive(Debug)]
pub struct Opened<P> {
    pub process: P,
    /// The id to store, under which the conversation can be resumed; none if the process reports it later.
    pub note: Option<String>,
    /// The reason why the conversation was lost; none if it was resumed or there was none.
    pub lost: Option<String>,
}

/// The end of a turn and the state of its process.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub end: TurnEnd,
    pub process: Condition,
}

/// The state of a process after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It can serve the next turn.
    Reusable,
    /// It is no longer needed.
    Released,
    /// It has to be ended.
    Broken,
    /// It has ended, or lost its conversation, before it began to work on the prompt. Another process can take the
    /// prompt.
    Unused,
}

impl Outcome {
    /// The process can serve the next turn.
    pub fn reusable(end: TurnEnd) -> Self {
        Self { end, process: Condition::Reusable }
    }

    /// The process has to be ended.
    pub fn broken(end: TurnEnd) -> Self {
        Self { end, process: Condition::Broken }
    }

    /// The turn failed, and the process has to be ended.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::broken(TurnEnd::Error(MessageError::unknown(message)))
    }
}

/// The meaning of a frame.
#[derive(Debug)]
pub enum Signal<R> {
    /// An event in the session, or in the session of this child.
    Emit(Option<String>, AgentEvent),
    /// A subagent begins to work. The parent is the child that started it, none for the agent itself.
    ChildStarted(Option<String>, Subagent),
    /// A subagent has ended.
    ChildEnded(String, TurnEnd),
    /// The id under which the conversation can be resumed.
    Note(String),
    /// The agent works on the turn.
    Working,
    /// The turn has ended, including its subagents.
    Ended(TurnEnd),
    /// The turn has failed, and the process cannot continue.
    Failed(Broken),
    /// The agent does not have the conversation that it was started with.
    Forgotten,
    /// The agent waits for an answer.
    Asked {
        /// The agent's id of the request.
        id: String,
        /// The child that asks; none for the agent itself.
        child: Option<String>,
        /// The permission or question.
        ask: Ask,
        /// The agent's data for [`Process::answer`].
        request: R,
    },
    /// The agent does not wait for this answer any longer.
    Withdrawn(String),
    /// A frame that could not be read, with the reason.
    Noise(String),
}

/// The reason why a process cannot continue.
#[derive(Debug)]
pub struct Broken {
    /// The error for the user.
    pub error: MessageError,
    /// The process is gone, so that another one could take a prompt that it has not begun.
    pub is_gone: bool,
}

impl Broken {
    /// The process is gone.
    pub fn gone(message: impl Into<String>) -> Self {
        Self { error: MessageError::unknown(message), is_gone: true }
    }

    /// The process refuses to work, or does something that cannot be handled.
    pub fn refuses(message: impl Into<String>) -> Self {
        Self { error: MessageError::unknown(message), is_gone: false }
    }
}

/// The progress of a turn, which decides how long the next frame may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A call with its own deadline is open.
    Calling,
    /// The agent has not begun to work on the prompt.
    Starting,
    /// The agent works.
    Working,
    /// The end of the turn is due.
    Ending,
    /// The agent works by itself, and only a silence of this length shows that it has ended.
    Listening(Duration),
}

/// The treatment of a prompt that arrives during a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joining {
    /// It joins the turn.
    Joins,
    /// It waits for the end of the turn.
    Waits,
    /// It ends the turn.
    Ends,
}

/// A process that exchanges frames with an agent.
pub trait Process: KeptProcess {
    /// A message of the agent, or the answer to a call.
    type Frame: Send;
    /// The data that is needed to answer a request of the agent.
    type Request: Send + 'static;

    /// Sends the queued messages and returns the next frame. Nothing is lost if the future is dropped.
    fn next(&mut self) -> impl Future<Output = Result<Self::Frame, Broken>> + Send;

    /// The meaning of a frame. Pure except for the state of the process and its queue.
    fn interpret(&mut self, frame: Self::Frame, now: Millis) -> Vec<Signal<Self::Request>>;

    /// Queues the prompt that begins a turn.
    fn prompt(&mut self, turn: &Turn, prompt: &MessageWithParts);

    /// Takes up work that the agent has begun by itself. Returns false if there is none.
    fn take_up(&mut self, turn: &Turn) -> bool;

    /// The treatment of a prompt that arrives now.
    fn joining(&self) -> Joining {
        Joining::Joins
    }

    /// Queues a prompt that joins the running turn.
    fn join(&mut self, prompt: &MessageWithParts);

    /// Queues the answer to a request. Returns true if the user refused, so that the turn ends as blocked.
    fn answer(&mut self, child: Option<&str>, request: Self::Request, answer: Answer) -> bool;

    /// Queues the request to stop a subagent.
    fn stop_child(&mut self, child: &str);

    /// Queues the interruption of the turn. Returns false if the process has to be ended instead.
    fn interrupt(&mut self) -> bool;

    /// The progress of the turn.
    fn phase(&self) -> Phase;

    /// The end of a turn whose end was due and did not come: [`Signal::Ended`] or [`Signal::Failed`] comes last.
    fn conclude(&mut self) -> Vec<Signal<Self::Request>>;

    /// The end of the process's error output, for an error message.
    fn last_words(&self) -> Words {
        Words::default()
    }

    /// Forgets the turn. Returns false if the process cannot serve another one.
    fn finish(&mut self) -> bool;
}
