//! One turn of Codex, from the prompt to its end.

use std::collections::{BTreeMap, BTreeSet};

use engine::session::Turn;
use protocol::agent_event::Answer;
use protocol::config::PermissionMode;
use protocol::{MessageError, MessageWithParts, Millis, TurnEnd};
use serde_json::{Value, json};
use tracing::debug;

use super::ask::{self, UserRequest};
use super::failure::failure;
use super::input::{Wanted, text_input, wanted};
use super::process::{Call, CodexProcess, Frame, Received};
use super::threads::Thread;
use super::translate::Translation;
use super::wire::{self, CodexNotification, Notice, Status, TurnStatus};
use crate::external::{Broken, Phase, Process, Signal};
use crate::jsonrpc::{Asked, Error, ErrorObject, INVALID_PARAMS, Incoming};
use crate::roster::DEFAULT_MODEL;

/// A request of Codex.
#[derive(Debug)]
pub struct Request {
    asked: Asked,
    wish: UserRequest,
}

pub(super) type Signals = Vec<Signal<Request>>;

/// The state of the current turn.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The model and the effort that the prompt names.
    model: Option<String>,
    effort: Option<String>,
    /// A turn is being started.
    pub(super) is_starting: bool,
    /// The id of the turn, once Codex has reported it.
    current: Option<String>,
    /// Threads of subagents at work.
    pub(super) threads: BTreeMap<String, Thread>,
    /// Threads that have had a session in this turn.
    pub(super) known: BTreeSet<String>,
    /// The number of prompts that are being joined.
    joining: usize,
    /// Prompts that came too late to join.
    unsent: Vec<Value>,
    /// A turn that has completed while prompts were being joined.
    completed: Option<wire::Turn>,
    held: Option<Held>,
    /// The message after which the end of the turn is due.
    farewell: Option<&'static str>,
    has_refused: bool,
    interruption: Option<Interruption>,
}

/// The end of a turn while subagents are at work.
#[derive(Debug)]
struct Held {
    end: TurnEnd,
    /// Codex may begin another turn for its goal.
    awaits_goal: bool,
}

/// An interruption of the turn by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interruption {
    Clean,
    /// A command was running. Codex leaves it running.
    LeftCommand,
}

impl CodexProcess {
    fn configure(&mut self, turn: &Turn) {
        self.turn.model = Some(turn.model.model_id.clone()).filter(|model| model != DEFAULT_MODEL);
        self.turn.effort.clone_from(&turn.model.variant);
    }

    fn start(&mut self, input: &[Value]) {
        let mut params = json!({ "threadId": self.thread, "input": input });
        if let Some(params) = params.as_object_mut() {
            if let Some(model) = &self.turn.model {
                params.insert("model".into(), model.as_str().into());
            }
            if let Some(effort) = &self.turn.effort {
                params.insert("effort".into(), effort.as_str().into());
            }
            let model = self.turn.model.as_ref().or(self.model.as_ref());
            if let (PermissionMode::Plan, Some(model)) = (self.options.program.mode, model) {
                let settings =
                    json!({ "model": model, "reasoning_effort": null, "developer_instructions": null });
                params.insert("collaborationMode".into(), json!({ "mode": "plan", "settings": settings }));
            }
        }
        self.turn.is_starting = true;
        self.turn.current = None;
        self.call(Call::Start, "turn/start", params);
    }

    fn steer(&mut self, input: Vec<Value>) {
        let params = json!({ "threadId": self.thread, "expectedTurnId": self.turn.current, "input": input });
        self.turn.joining += 1;
        self.call(Call::Steer(input), "turn/steer", params);
    }

    fn answered(&mut self, call: Call, answer: Result<Value, Error>, out: &mut Signals) {
        let text =
            |answer: &Value, path: &str| answer.pointer(path).and_then(Value::as_str).map(str::to_owned);
        match (call, answer) {
            (Call::Start, Ok(answer)) => {
                self.turn.current = text(&answer, "/turn/id");
                out.push(Signal::Working);
            }
            (Call::Start, Err(error)) => out.push(Signal::Failed(Broken::refuses(format!("Codex: {error}")))),
            (Call::Steer(input), answer) => {
                self.turn.joining = self.turn.joining.saturating_sub(1);
                match answer {
                    Ok(answer) => self.turn.current = text(&answer, "/turnId").or(self.turn.current.take()),
                    Err(error) => {
                        debug!(%error, "a prompt could not join the turn of Codex");
                        self.turn.unsent.extend(input);
                    }
                }
                self.settle(out);
            }
            (Call::Interrupt, Err(error)) if self.turn.interruption.is_some() => {
                out.push(Signal::Failed(Broken::refuses(format!("Codex: {error}"))));
            }
            (Call::Interrupt | Call::Other, Err(error)) => debug!(%error, "Codex refused a request"),
            (Call::Interrupt | Call::Other, Ok(_)) => {}
        }
    }

    fn asked(&mut self, asked: Asked, out: &mut Signals) {
        let thread = asked.params.get("threadId").and_then(Value::as_str);
        let child = thread.filter(|thread| self.turn.threads.contains_key(*thread)).map(str::to_owned);
        let thread = child.as_ref().and_then(|child| self.turn.threads.get(child));
        let translation = thread.map_or(&self.translation, |thread| &thread.translation);
        let directory = self.directory.trim_end_matches('/');
        match ask::user_request(&asked.method, asked.params.clone(), translation, directory) {
            Ok(wish) => {
                let (id, ask) = (asked.id.to_string(), wish.ask.clone());
                out.push(Signal::Asked { id, child, ask, request: Request { asked, wish } });
            }
            Err(error) => {
                debug!(error, "a request of Codex cannot be read");
                asked.answer(Err(ErrorObject::new(INVALID_PARAMS, error)));
            }
        }
    }

    fn notification(&mut self, notification: CodexNotification, now: Millis, out: &mut Signals) {
        if let Notice::Resolved(id) = &notification.notice {
            out.push(Signal::Withdrawn(id.to_string()));
        }
        if let Some(thread) = notification.thread.clone().filter(|_| !self.translation.is_own(&notification))
        {
            return self.thread_notification(&thread, notification, now, out);
        }
        match &notification.notice {
            Notice::Goal { active } => self.has_goal = *active,
            // Codex continues by itself.
            Notice::TurnStarted if self.turn.held.is_some() => {
                self.turn.held = None;
                self.turn.current.clone_from(&notification.turn);
            }
            _ => {}
        }
        if self.turn.held.is_none() {
            match &notification.notice {
                Notice::TurnCompleted(ended) => {
                    let current = self.turn.current.as_deref();
                    if current.is_none_or(|current| current == ended.id) {
                        self.completed(ended.clone(), out);
                    }
                    return;
                }
                Notice::TurnStarted if self.turn.current.is_none() => {
                    self.turn.current.clone_from(&notification.turn);
                }
                Notice::Status(Status::Active) => self.turn.farewell = None,
                Notice::Status(Status::Idle) => self.expect_end("says that it is idle"),
                Notice::Status(Status::SystemError) => self.expect_end("says that it has failed"),
                Notice::Error { will_retry: false, .. } => self.expect_end("gave up"),
                Notice::Closed => self.expect_end("closed the thread"),
                Notice::Warning(message) if !message.is_empty() => debug!(message, "warning of Codex"),
                _ => {}
            }
        }
        self.expect_threads(None, &notification.notice, out);
        out.extend(
            self.translation.translate(notification, now).into_iter().map(|event| Signal::Emit(None, event)),
        );
    }

    fn expect_end(&mut self, why: &'static str) {
        self.turn.farewell.get_or_insert(why);
    }

    fn completed(&mut self, ended: wire::Turn, out: &mut Signals) {
        out.extend(self.translation.end(&ended).into_iter().map(|event| Signal::Emit(None, event)));
        self.turn.farewell = None;
        self.turn.completed = Some(ended);
        self.settle(out);
    }

    /// Ends a turn that has completed. It first waits for the answers to prompts that are being joined: prompts that
    /// came too late get another turn of Codex.
    fn settle(&mut self, out: &mut Signals) {
        let has_ended = self.turn.completed.is_some() || self.turn.held.is_some();
        if self.turn.joining > 0 || !has_ended {
            return;
        }
        let has_failed = self.turn.completed.as_ref().is_some_and(|ended| ended.status == TurnStatus::Failed);
        let may_go_on = !self.turn.has_refused && self.turn.interruption.is_none() && !has_failed;
        let late = std::mem::take(&mut self.turn.unsent);
        if may_go_on && !late.is_empty() {
            (self.turn.completed, self.turn.held) = (None, None);
            return self.start(&late);
        }
        if let Some(ended) = self.turn.completed.take() {
            let awaits_goal = self.has_goal && may_go_on && ended.status == TurnStatus::Completed;
            self.turn.held = Some(Held { end: self.end(&ended), awaits_goal });
        }
        self.release(out);
    }

    fn end(&self, ended: &wire::Turn) -> TurnEnd {
        let failed = |message: &str| TurnEnd::Error(MessageError::unknown(message));
        match ended.status {
            TurnStatus::Completed => TurnEnd::Completed,
            TurnStatus::Failed => {
                TurnEnd::Error(failure(ended.error.as_ref().or(self.translation.trouble.as_ref())))
            }
            TurnStatus::Interrupted => failed("Codex interrupted the turn without being asked to"),
            TurnStatus::InProgress | TurnStatus::Other => failed("Codex ended the turn without saying how"),
        }
    }

    /// Ends the turn once all threads have ended and Codex does not begin another turn by itself.
    pub(super) fn release(&mut self, out: &mut Signals) {
        if self.turn.threads.is_empty() {
            out.extend(self.turn.held.take_if(|held| !held.awaits_goal).map(|held| Signal::Ended(held.end)));
        }
    }
}

impl Process for CodexProcess {
    type Frame = Frame;
    type Request = Request;

    async fn next(&mut self) -> Result<Frame, Broken> {
        self.receive().await
    }

    fn interpret(&mut self, frame: Frame, now: Millis) -> Signals {
        let mut out = Vec::new();
        match frame.0 {
            Received::Answered(call, answer) => self.answered(call, answer, &mut out),
            Received::Incoming(Incoming::Asked(asked)) => self.asked(asked, &mut out),
            Received::Incoming(Incoming::Told { method, params }) => {
                match wire::notification(&method, params) {
                    Ok(notification) => self.notification(notification, now, &mut out),
                    Err(error) => out.push(Signal::Noise(error)),
                }
            }
            Received::Incoming(Incoming::Malformed(malformed)) => {
                out.push(Signal::Noise(malformed.to_string()));
            }
        }
        out
    }

    fn prompt(&mut self, turn: &Turn, prompt: &MessageWithParts) {
        self.configure(turn);
        // The prompt joins a turn that Codex has begun by itself.
        self.begun = None;
        match wanted(prompt) {
            Wanted::Turn(input) => self.start(&input),
            Wanted::Compaction => {
                self.turn.is_starting = true;
                self.call(Call::Start, "thread/compact/start", json!({ "threadId": self.thread }));
            }
        }
    }

    fn take_up(&mut self, turn: &Turn) -> bool {
        self.configure(turn);
        self.turn.current = self.begun.take();
        self.turn.current.is_some()
    }

    fn join(&mut self, prompt: &MessageWithParts) {
        if let Wanted::Turn(input) = wanted(prompt) {
            self.steer(input);
        }
    }

    fn answer(&mut self, child: Option<&str>, request: Request, answer: Answer) -> bool {
        let Request { asked, wish } = request;
        let reply = wish.reply(answer);
        let is_question = asked.method == ask::QUESTION;
        asked.answer(Ok(reply.result.clone()));
        if let Some(thread) = child {
            self.answered_in_thread(thread, &reply, is_question);
            return reply.refused;
        }
        self.turn.has_refused |= reply.refused;
        if reply.refused && is_question {
            // No answer to a question means no, so the turn is interrupted.
            self.expect_end("was interrupted");
            let params = json!({ "threadId": self.thread, "turnId": self.turn.current });
            self.call(Call::Interrupt, "turn/interrupt", params);
        } else if let Some(correction) = reply.correction {
            self.steer(vec![text_input(&correction)]);
        }
        reply.refused
    }

    fn stop_child(&mut self, child: &str) {
        self.stop_thread(child);
    }

    /// Threads of subagents and a turn without an id cannot be interrupted.
    fn interrupt(&mut self) -> bool {
        self.forget_calls();
        self.turn.joining = 0;
        let has_command = self.translation.is_running_command();
        self.turn.interruption =
            Some(if has_command { Interruption::LeftCommand } else { Interruption::Clean });
        let Some(turn) = self.turn.current.clone().filter(|_| self.turn.threads.is_empty()) else {
            return false;
        };
        let params = json!({ "threadId": self.thread, "turnId": turn });
        self.call(Call::Interrupt, "turn/interrupt", params);
        true
    }

    fn phase(&self) -> Phase {
        let awaits_goal = self.turn.held.as_ref().is_some_and(|held| held.awaits_goal);
        let may_begin_again = awaits_goal && self.turn.threads.is_empty();
        match self.turn.farewell {
            _ if self.turn.is_starting => Phase::Calling,
            Some(_) => Phase::Ending,
            None if may_begin_again => Phase::Ending,
            None => Phase::Working,
        }
    }

    fn conclude(&mut self) -> Signals {
        if let Some(held) = self.turn.held.take() {
            return vec![Signal::Ended(held.end)];
        }
        let why = self.turn.farewell.unwrap_or("said nothing");
        let broken = match &self.translation.trouble {
            Some(trouble) => Broken { error: failure(Some(trouble)), is_gone: false },
            None => Broken::refuses(format!(
                "Codex {why}, but did not end the turn within {:?}",
                self.options.timeouts.settle
            )),
        };
        vec![Signal::Failed(broken)]
    }

    fn finish(&mut self) -> bool {
        let is_reusable = self.turn.interruption != Some(Interruption::LeftCommand);
        let counted = std::mem::take(&mut self.translation.counted);
        self.translation = Translation::new(&self.thread, &self.directory, counted);
        self.forget_calls();
        self.turn = Progress::default();
        is_reusable
    }
}
