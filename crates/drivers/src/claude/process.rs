//! One running Claude Code.

use std::collections::VecDeque;
use std::time::Duration;

use engine::session::Turn;
use protocol::agent_event::Answer;
use protocol::config::PermissionMode;
use protocol::{MessageError, MessageWithParts, Millis, Todo, TurnEnd};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::translate::{Report, Request, Signals, Translator};
use super::waiting::WaitingPrompts;
use super::wire::{self, Segment, State};
use super::{content, permit};
use crate::external::child::Words;
use crate::external::{
    Broken, Child, Condition, IdleEvent, Joining, KeptProcess, Options, OutputLine, Phase, Process,
    ProgramFailure, Signal,
};
use crate::roster::DEFAULT_MODEL;

/// Most lines that are kept of its output between turns. The oldest are dropped, because the newest show the work that
/// Claude Code has begun.
const MAX_UNREAD: usize = 256;

/// Timeout for the line with the reason why Claude Code began to work by itself.
const EXPLAIN: Duration = Duration::from_millis(200);

/// The text of a wake-up without an explanation.
const UNASKED: &str = "The agent went on by itself.";

/// Claude Code's error when the conversation to resume does not exist.
const FORGOTTEN: &str = "No conversation found";

/// Settings that can change between the turns of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProcessSettings {
    /// The model; none for Claude Code's own choice.
    model: Option<String>,
    mode: &'static str,
}

impl ProcessSettings {
    fn of(options: &Options, turn: &Turn) -> Self {
        let model = Some(turn.model.model_id.clone()).filter(|model| model != DEFAULT_MODEL);
        let mode = match options.program.mode {
            _ if turn.agent == "plan" => "plan",
            PermissionMode::Ask => "default",
            PermissionMode::AcceptEdits => "acceptEdits",
            PermissionMode::Bypass => "bypassPermissions",
            PermissionMode::Plan => "plan",
        };
        Self { model, mode }
    }
}

/// The state of the current turn.
#[derive(Debug, Default)]
struct Progress {
    /// A line belongs to this turn.
    has_begun: bool,
    /// The last segment that ended, if none has begun since.
    segment: Option<Segment>,
    is_idle: bool,
    waiting: WaitingPrompts,
    /// The reason why the turn is to end, if it is.
    stop: Option<Stop>,
}

/// The reason why a turn is to end before the process ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The user refused a request of the agent itself.
    Refused,
    /// The user stopped the turn.
    Interrupted,
    /// The end of the turn was due, and the process has not become idle.
    Overdue,
}

/// One process with one conversation.
#[derive(Debug)]
pub struct ClaudeProcess {
    child: Child,
    translator: Translator,
    /// Lines that arrived between turns.
    unread: VecDeque<OutputLine>,
    /// Lines to be written.
    queue: VecDeque<Value>,
    manner: ProcessSettings,
    /// This version reports its state, so a result does not end a turn.
    has_states: bool,
    /// Silence after which a result has ended the turn of a version that does not report its state: such a version may send
    /// a result after each call of its model.
    quiet: Duration,
    /// The number of control requests so far.
    controls: u64,
    turn: Progress,
}

impl ClaudeProcess {
    /// Starts a process that resumes the conversation with this id, or begins a new one.
    pub(super) fn start(
        options: &Options,
        turn: &Turn,
        resume: Option<&str>,
    ) -> Result<Self, ProgramFailure> {
        let manner = ProcessSettings::of(options, turn);
        let fixed = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--include-partial-messages",
            "--verbose",
            "--replay-user-messages",
            "--permission-prompt-tool",
            "stdio",
            "--permission-mode",
            manner.mode,
        ];
        let mut args: Vec<String> = fixed.map(str::to_owned).into();
        for (option, value) in [("--model", manner.model.as_deref()), ("--resume", resume)] {
            args.extend(value.into_iter().flat_map(|value| [option.to_owned(), value.to_owned()]));
        }
        let mut launch = options.launch(&turn.session.directory, args);
        launch.environment.push(("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS".into(), "1".into()));
        let mut process = Self {
            child: Child::start(&launch)?,
            translator: Translator::new(launch.directory),
            unread: VecDeque::new(),
            queue: VecDeque::new(),
            manner,
            has_states: false,
            quiet: options.timeouts.quiet,
            controls: 0,
            turn: Progress::default(),
        };
        process.control(&json!({ "subtype": "initialize", "hooks": null, "forwardSubagentText": true }));
        Ok(process)
    }

    /// Takes over the todo list of a resumed conversation.
    pub(super) fn remember(&mut self, todos: Vec<Todo>) {
        self.translator.remember(todos);
    }

    /// Applies the model and permission mode of a turn.
    pub(super) fn configure(&mut self, options: &Options, turn: &Turn) {
        let manner = ProcessSettings::of(options, turn);
        if self.manner.model != manner.model {
            let model = manner.model.as_deref().unwrap_or(DEFAULT_MODEL);
            self.control(&json!({ "subtype": "set_model", "model": model }));
        }
        if self.manner.mode != manner.mode {
            self.control(&json!({ "subtype": "set_permission_mode", "mode": manner.mode }));
        }
        self.manner = manner;
    }

    fn control(&mut self, request: &Value) {
        self.controls += 1;
        self.queue.push_back(wire::control(&format!("baton-{}", self.controls), request));
    }

    /// Returns true if an unread line begins a turn.
    fn has_begun_by_itself(&self) -> bool {
        self.unread.iter().any(begins)
    }

    /// The summary of the background task whose end made Claude Code continue.
    fn reason(&self) -> Option<&str> {
        self.unread.iter().rev().find_map(|heard| match heard {
            OutputLine::Json(line) if line.get("subtype")? == "task_notification" => {
                line.get("summary")?.as_str()
            }
            _ => None,
        })
    }

    fn apply(&mut self, report: Report, out: &mut Signals) {
        match report {
            Report::Working => self.working(None, out),
            Report::Segment(segment) => {
                if !segment.was_unprompted() {
                    self.turn.waiting.segment_ended();
                }
                self.working(Some(segment), out);
            }
            Report::Echoed(id) => self.echoed(&id),
            Report::Asked => self.turn.has_begun = true,
            Report::State(state) => self.state(state, out),
            Report::Unsupported(id) => self.queue.push_back(wire::refusal(&id)),
            Report::Refused { id, error } => {
                tracing::warn!(id, error, "Claude Code refused a control request");
                if self.turn.stop == Some(Stop::Interrupted) {
                    out.push(Signal::Failed(Broken::refuses(error)));
                }
            }
        }
    }

    /// A prompt that is taken up after a refusal gets its answer before the turn ends.
    fn echoed(&mut self, id: &str) {
        if self.turn.waiting.echoed(id) && self.turn.stop == Some(Stop::Refused) {
            self.turn.stop = None;
        }
    }

    fn working(&mut self, segment: Option<Segment>, out: &mut Signals) {
        (self.turn.has_begun, self.turn.segment) = (true, segment);
        out.push(Signal::Working);
    }

    fn state(&mut self, state: State, out: &mut Signals) {
        self.has_states = true;
        match state {
            // An idle before the first line of this turn belongs to the previous one.
            State::Idle => self.turn.is_idle = self.turn.has_begun,
            State::Running => {
                self.turn.is_idle = false;
                self.working(None, out);
            }
            State::RequiresAction | State::Unknown => {}
        }
    }

    /// The phase after a segment has ended. A version that does not report its state may continue.
    fn settling(&self) -> Phase {
        if self.has_states {
            Phase::Ending
        } else if self.translator.has_calls() {
            Phase::Working
        } else if self.translator.has_called() {
            Phase::Ending
        } else {
            Phase::Listening(self.quiet)
        }
    }

    /// Returns true if the turn has ended. Subagents and waiting prompts keep it open unless the user has aborted the turn.
    fn has_ended(&self) -> bool {
        let is_over = match &self.turn.segment {
            _ if self.has_states => self.turn.is_idle,
            Some(segment) => segment.is_error || self.turn.stop.is_some(),
            None => false,
        };
        let is_free = !self.translator.has_children() && !self.has_waiting_prompts();
        is_over && (self.turn.stop == Some(Stop::Interrupted) || is_free)
    }

    /// Returns true if a prompt waits. A version that does not report its state gets no prompt during a turn.
    fn has_waiting_prompts(&self) -> bool {
        self.has_states && !self.turn.waiting.is_empty()
    }

    /// The end of the turn according to its last segment.
    fn end(&mut self, out: &mut Signals) {
        let segment = self.turn.segment.take().unwrap_or_default();
        if segment.is_error {
            out.push(Self::failure(&segment));
            return;
        }
        self.translator.end_turn(out);
        out.push(Signal::Ended(TurnEnd::Completed));
    }

    fn failure(segment: &Segment) -> Signal<Request> {
        if segment.was_aborted() {
            return Signal::Ended(TurnEnd::Cancelled);
        }
        let message = segment.complaint();
        if message.contains(FORGOTTEN) {
            return Signal::Forgotten;
        }
        Signal::Ended(match segment.subtype.as_deref() {
            Some("error_max_turns" | "error_max_budget_usd") => TurnEnd::Budget { message },
            _ => TurnEnd::Error(MessageError::unknown(message)),
        })
    }
}

impl Process for ClaudeProcess {
    type Frame = OutputLine;
    type Request = Request;

    async fn next(&mut self) -> Result<OutputLine, Broken> {
        if let Some(heard) = self.unread.pop_front() {
            return Ok(heard);
        }
        let heard = self.child.exchange(&mut self.queue).await;
        heard.map_err(|failure| Broken::gone(failure.to_string()))
    }

    fn interpret(&mut self, frame: OutputLine, now: Millis) -> Signals {
        let line = match frame {
            OutputLine::Json(line) => line,
            OutputLine::Noise { text, why } => return vec![Signal::Noise(format!("{why}: {text}"))],
        };
        let mut out = Vec::new();
        if let Some(report) = self.translator.translate(line, now, &mut out) {
            self.apply(report, &mut out);
        }
        if self.has_ended() {
            self.end(&mut out);
        }
        out
    }

    fn prompt(&mut self, turn: &Turn, prompt: &MessageWithParts) {
        // After a restart the conversation already holds the prompt, and the user has answered the request meanwhile.
        let blocks = if turn.resumed().is_some() { content::go_on() } else { content::blocks(prompt) };
        let id = self.turn.waiting.begin();
        self.queue.push_back(wire::prompt(&id, &blocks));
    }

    fn take_up(&mut self, _: &Turn) -> bool {
        self.has_begun_by_itself()
    }

    fn joining(&self) -> Joining {
        if self.has_states { Joining::Joins } else { Joining::Waits }
    }

    fn join(&mut self, prompt: &MessageWithParts) {
        let id = self.turn.waiting.join();
        self.queue.push_back(wire::prompt(&id, &content::blocks(prompt)));
        (self.turn.segment, self.turn.is_idle) = (None, false);
    }

    fn answer(&mut self, child: Option<&str>, request: Request, answer: Answer) -> bool {
        let reply = permit::reply(request.id, &request.permit, answer);
        self.queue.push_back(wire::answer(&reply.id, &reply.response));
        if reply.refused && child.is_none() {
            self.turn.stop = Some(Stop::Refused);
        }
        reply.refused
    }

    fn stop_child(&mut self, child: &str) {
        if let Some(task) = self.translator.task_of(child) {
            let request = json!({ "subtype": "stop_task", "task_id": task });
            self.control(&request);
        }
    }

    fn interrupt(&mut self) -> bool {
        self.turn.stop = Some(Stop::Interrupted);
        // Claude Code would take up these prompts after the interruption.
        for id in self.turn.waiting.withdraw() {
            self.control(&json!({ "subtype": "cancel_async_message", "message_uuid": id }));
        }
        self.control(&json!({ "subtype": "interrupt" }));
        true
    }

    fn phase(&self) -> Phase {
        let is_settling = self.turn.segment.is_some() && !self.translator.has_busy_children();
        match (&self.turn.segment, self.turn.has_begun) {
            _ if self.turn.stop == Some(Stop::Refused) && !self.has_waiting_prompts() => Phase::Ending,
            _ if is_settling => self.settling(),
            (None, false) => Phase::Starting,
            _ => Phase::Working,
        }
    }

    /// Ends the turn after a segment that no idle follows. A process that should have become idle does not get another turn.
    fn conclude(&mut self) -> Signals {
        if self.has_states && (!self.turn.is_idle || self.has_waiting_prompts()) {
            self.turn.stop = Some(Stop::Overdue);
        }
        let mut out = Vec::new();
        self.end(&mut out);
        out
    }

    fn finish(&mut self) -> Condition {
        let is_reusable = match self.turn.stop {
            Some(Stop::Overdue) => false,
            Some(Stop::Interrupted) => !self.translator.has_background(),
            Some(Stop::Refused) | None => true,
        };
        self.translator.reset();
        self.queue.clear();
        self.turn = Progress::default();
        Condition::reusable(is_reusable)
    }

    fn last_words(&self) -> Words {
        self.child.words()
    }
}

impl KeptProcess for ClaudeProcess {
    async fn rest(&mut self) -> IdleEvent {
        loop {
            let heard = if self.has_begun_by_itself() {
                match timeout(EXPLAIN, self.child.next()).await {
                    Ok(heard) => heard,
                    Err(_) => break,
                }
            } else {
                self.child.next().await
            };
            match heard {
                Ok(heard) => {
                    if self.unread.len() >= MAX_UNREAD && !self.has_begun_by_itself() {
                        self.unread.pop_front();
                    }
                    self.unread.push_back(heard);
                }
                Err(failure) if !self.has_begun_by_itself() => return IdleEvent::Ended(failure.to_string()),
                Err(_) => break,
            }
            let is_explained = self.reason().is_some() || self.unread.len() > MAX_UNREAD;
            if self.has_begun_by_itself() && is_explained {
                break;
            }
        }
        IdleEvent::Woke(self.reason().unwrap_or(UNASKED).to_owned())
    }

    fn is_working(&self) -> bool {
        self.translator.has_background()
    }

    async fn stop(self) {
        self.child.stop().await;
    }
}

/// Returns true if a line begins a turn.
fn begins(heard: &OutputLine) -> bool {
    let OutputLine::Json(line) = heard else { return false };
    match line.get("subtype").and_then(Value::as_str) {
        Some("session_state_changed") => line.get("state").is_some_and(|state| state == "running"),
        subtype => subtype == Some("init"),
    }
}
