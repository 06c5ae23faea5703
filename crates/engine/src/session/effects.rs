//! Performs the lifecycle's effects and handles the runner's calls.

use std::{collections::VecDeque, sync::Arc};

use protocol::{
    AgentEvent, EndReason, EventBody, Message, MessageError, MessageId, MessageWithParts, Rest, SessionId,
    SessionStatus, TurnEnd,
    event::{CommandDone, PromptStarted},
    message::Origin,
    project::FileDiff,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    actor::Actor,
    command::{ChildWork, Command},
    continuing::EndedRun,
    record::{self, Record},
    revert::summary,
    run::{RunnerMessage, Running},
    turn::{Call, ChildStarted, Resume, Signals, Turn},
};
use crate::{
    lifecycle::{Effect, Input, Lifecycle, Run},
    limits::{MAX_CALLS, MAX_EVENTS_PER_COMMIT},
    ports::{ChildEnd, ChildSpec, Resolved},
    sessions::Submitted,
    transcript::{Emit, Transcript},
};

/// Effects that are still to be performed, in order.
pub(super) type Effects = VecDeque<Effect<MessageId, ChildWork>>;

/// Notifications that follow once the events before them are stored and published.
enum After {
    Prompt(MessageId, EndReason),
    Idle(EndReason, Option<Record>),
}

impl Actor {
    /// Advances the lifecycle and performs the effects.
    pub(super) async fn step(&mut self, input: Input<MessageId, ChildWork>) {
        let effects = self.advance(input);
        self.perform(effects.into()).await;
    }

    /// Advances the lifecycle.
    pub(super) fn advance(
        &mut self,
        input: Input<MessageId, ChildWork>,
    ) -> Vec<Effect<MessageId, ChildWork>> {
        self.counting(|life| life.step(input))
    }

    /// Advances the lifecycle before the caller's commit. If a turn begins, its busy belongs to that commit: a client
    /// that is told of a prompt never reads idle before the prompt's turn has ended.
    pub(super) fn open_turn(&mut self, input: Input<MessageId, ChildWork>) -> Effects {
        let mut effects = Effects::from(self.advance(input));
        if let Some(Effect::Busy) = effects.front() {
            effects.pop_front();
            self.push_status(SessionStatus::BUSY);
        }
        effects
    }

    /// Changes the lifecycle and keeps the server's count of waiting prompts.
    pub(super) fn counting<T>(
        &mut self,
        change: impl FnOnce(&mut Lifecycle<MessageId, ChildWork>) -> T,
    ) -> T {
        let before = self.life.waiting();
        let changed = change(&mut self.life);
        self.shared().registry.count_waiting(before, self.life.waiting());
        changed
    }

    /// Performs effects in order. All events that end a turn are stored in one transaction.
    pub(super) async fn perform(&mut self, mut effects: Effects) {
        let mut after = Vec::new();
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Busy => self.push_status(SessionStatus::BUSY),
                Effect::Retry => self.push_retry(),
                Effect::Start { run, prompt } => {
                    self.push_started(&prompt);
                    let last = self.last.take();
                    // The runner prepares itself meanwhile. Whatever it asks the session waits for the commit.
                    self.start(run, prompt);
                    self.flush().await;
                    if self.broken.is_some() {
                        // This run has not begun: the next actor starts it.
                        (self.run, self.last) = (None, last);
                        return;
                    }
                }
                Effect::Consult { run } => {
                    if let Some(goes_on) = self.consult(run, false).await {
                        effects.extend(self.advance(Input::Consulted { run, goes_on }));
                    }
                }
                Effect::Continue { run } => {
                    if !self.go_on(run).await {
                        let reason = EndReason::Error;
                        effects.extend(self.advance(Input::Ended { run, reason }));
                    }
                }
                Effect::Cancel { .. } => self.cancel_run(),
                Effect::StopChild((child, _)) => self.stop_child(child),
                Effect::Close(reason) => self.close_run(reason),
                Effect::EndPrompt { prompt, reason } => {
                    self.resolved.remove(&prompt);
                    self.push_executed(&prompt);
                    self.invocations.remove(&prompt);
                    self.push_prompt_ended(prompt.clone(), reason);
                    after.push(After::Prompt(prompt, reason));
                }
                Effect::Idle(reason) => {
                    self.note_refusal(reason).await;
                    (self.tally, self.last, self.pause, self.answer) = (None, None, None, None);
                    self.push_idle(reason);
                    after.push(After::Idle(reason, self.record.take()));
                }
            }
        }
        self.flush().await;
        if self.broken.is_some() {
            // Waiters are not notified of anything that is not stored.
            return;
        }
        for after in after {
            match after {
                After::Prompt(prompt, reason) => {
                    for waiter in self.prompt_waiters.remove(&prompt).into_iter().flatten() {
                        let _ = waiter.send(reason);
                    }
                }
                After::Idle(reason, record) => {
                    self.shared().registry.count_end(reason);
                    if let Some(record) = record {
                        record.log(&self.session, reason);
                    }
                    self.aborting = None;
                    for waiter in self.idle_waiters.drain(..) {
                        let _ = waiter.send(());
                    }
                }
            }
        }
    }

    fn push_retry(&mut self) {
        if let Some(retry) = self.run.as_ref().and_then(|run| run.retry.clone()) {
            self.push_status(retry);
        }
    }

    fn push_started(&mut self, prompt: &MessageId) {
        let session_id = self.session.id.clone();
        let message_id = prompt.clone();
        self.unsaved.push(EventBody::PromptStarted(PromptStarted::new(session_id, message_id)));
    }

    fn start(&mut self, number: Run, prompt: MessageId) {
        let Some(resolved) = self.resolved.remove(&prompt) else {
            return self.start_without_runner(number, prompt);
        };
        let Resolved { agent, model, .. } = &resolved;
        let transcript =
            Transcript::new(&self.session, agent.clone(), model.clone(), prompt.clone(), self.latest);
        let resume = self.resume.take().filter(|(resumed, _)| *resumed == prompt).map(|(_, resume)| resume);
        self.launch(number, transcript, resolved, resume);
    }

    /// Only reachable if a prompt was stepped without being resolved. The turn ends with a visible error.
    fn start_without_runner(&mut self, number: Run, prompt: MessageId) {
        tracing::error!(session = %self.session.id, %prompt, "an accepted prompt has no runner; ending its turn with an error");
        let (_, inbox) = mpsc::channel(MAX_CALLS);
        let task = tokio::spawn(async {
            TurnEnd::Error(MessageError::unknown("no agent is available for this prompt"))
        });
        let model = protocol::message::ModelRef::new("unknown", "unknown");
        let transcript = Transcript::new(&self.session, "unknown".into(), model, prompt, self.latest);
        let cancel = CancellationToken::new();
        self.run = Some(Running::new(number, transcript, None, inbox, task, cancel, Arc::default()));
    }

    /// Calls the runner for the transcript's prompt.
    pub(super) fn launch(
        &mut self,
        number: Run,
        transcript: Transcript,
        resolved: Resolved,
        resume: Option<Resume>,
    ) {
        (self.last, self.pause, self.going, self.answer) = (None, None, None, None);
        self.record.get_or_insert_with(|| Record::new(resolved.model.clone()));
        let (calls, inbox) = mpsc::channel(MAX_CALLS);
        let cancel = CancellationToken::new();
        let signals = Arc::new(Signals::default());
        let turn = Turn {
            session: self.session.clone(),
            workspace: self.place.workspace.clone(),
            prompt: transcript.prompt().clone(),
            agent: resolved.agent.clone(),
            model: resolved.model.clone(),
            calls,
            reads: self.shared().reads.clone(),
            histories: self.shared().histories.clone(),
            cancel: cancel.clone(),
            tally: self.tally.get_or_insert_default().clone(),
            signals: signals.clone(),
            resume,
            preface: None,
            supervision: None,
            hooks: resolved.hooks.clone(),
            hook_limit: self.shared().limits.hook,
        };
        let runner = resolved.runner.clone();
        // In a task of its own, so that a panic ends the turn and not the actor.
        let task = tokio::spawn(async move { runner.run(turn).await });
        self.run = Some(Running::new(number, transcript, Some(resolved), inbox, task, cancel, signals));
    }

    /// Returns false if there are no running children.
    pub(super) fn send_to_background(&self) -> bool {
        let run = self.run.as_ref().filter(|_| self.life.has_children() && !self.life.is_stopping());
        if let Some(run) = run {
            run.signals.backgrounded.notify_waiters();
        }
        run.is_some()
    }

    fn cancel_run(&mut self) {
        let grace = self.shared().limits.runner_grace;
        // Cancel first, so that no runner mistakes a withdrawn request for the user's answer.
        if let Some(run) = &mut self.run {
            run.cancel(grace);
        }
        self.withdraw_all();
    }

    /// Closes everything that the run left open, and keeps what a continuation may need.
    fn close_run(&mut self, reason: EndReason) {
        self.withdraw_all();
        let Some(mut run) = self.run.take() else { return };
        let events =
            run.transcript.close(reason, run.error.take(), &self.session, &self.sessions.shared.mint);
        self.latest = self.latest.max(run.transcript.latest());
        self.unsaved.extend(events);
        self.answer = run.transcript.newest().cloned();
        let (asked, ending) = (run.transcript.asked().clone(), run.transcript.ending());
        self.last = run.resolved.take().map(|resolved| EndedRun { resolved, asked, ending });
    }

    /// Records a prompt's slash command until the prompt ends, or that it is a command line.
    pub(super) fn note_origin(&mut self, prompt: &MessageId, origin: Option<Origin>) {
        match origin {
            Some(Origin::Command { name, arguments }) => {
                self.commands.insert(prompt.clone(), (name, arguments));
            }
            Some(Origin::Shell { .. }) => {
                self.invocations.insert(prompt.clone());
            }
            Some(Origin::Wake | Origin::Plugin) | None => {}
        }
    }

    /// Publishes that a slash command was executed, before the turn is idle. Skips a command without an answer.
    fn push_executed(&mut self, prompt: &MessageId) {
        let Some((name, arguments)) = self.commands.remove(prompt) else { return };
        let Some(message_id) = self.answer.clone() else { return };
        let session_id = self.session.id.clone();
        self.unsaved
            .push(EventBody::CommandExecuted(CommandDone::new(name, session_id, arguments, message_id)));
    }

    pub(super) fn stop_child(&self, child: SessionId) {
        let sessions = self.sessions.clone();
        tokio::spawn(async move {
            if let Err(error) = sessions.abort(&child).await {
                tracing::warn!(session = %child, %error, "failed to stop a child session");
            }
        });
    }

    /// Handles one call or the end of the runner.
    pub(super) async fn handle_runner(&mut self, message: RunnerMessage) {
        let Some(run) = self.run.as_ref().map(|run| run.number) else { return };
        match message {
            RunnerMessage::Call(Call::Emit(event)) => self.report(run, event).await,
            RunnerMessage::Call(Call::Request(ask, reply)) => {
                let _ = reply.send((self.request(ask), self.shared().mint.now()));
            }
            RunnerMessage::Call(Call::Ask(ask, settled, reply)) => {
                self.show(self.request(ask), settled, reply).await;
            }
            RunnerMessage::Call(Call::Show(request, settled, reply)) => {
                self.show(request, settled, reply).await;
            }
            RunnerMessage::Call(Call::Texts(key, reply)) => {
                let run = self.run.as_ref();
                let texts = run.map(|run| run.transcript.open_texts(key.as_deref())).unwrap_or_default();
                let _ = reply.send(texts);
            }
            RunnerMessage::Call(Call::Join(reply)) => self.join(run, reply).await,
            RunnerMessage::Call(Call::Child(spec, reply)) => self.start_child(run, spec, reply).await,
            RunnerMessage::Call(Call::Recall(reply)) => {
                self.flush().await;
                let _ = reply.send(self.recall());
            }
            RunnerMessage::Call(Call::Flush(reply)) => {
                self.flush().await;
                let _ = reply.send(());
            }
            RunnerMessage::Call(Call::Admit(reply)) => {
                self.flush().await;
                if self.broken.is_none() {
                    let _ = reply.send(());
                }
            }
            RunnerMessage::Ended(end) => {
                let (reason, error) = match end {
                    TurnEnd::Completed => (EndReason::Completed, None),
                    TurnEnd::Blocked => (EndReason::Blocked, None),
                    TurnEnd::Budget { message } => (EndReason::Budget, Some(MessageError::unknown(message))),
                    TurnEnd::Error(error) => (EndReason::Error, Some(error)),
                    TurnEnd::Cancelled => (EndReason::Aborted, None),
                };
                if let Some(run) = &mut self.run {
                    run.error = error;
                }
                self.step(Input::Ended { run, reason }).await;
            }
        }
    }

    /// Applies an event and those that the runner has reported meanwhile, and stores them in one commit. The runner
    /// continues while a commit is written, so a busy store makes commits larger instead of more.
    async fn report(&mut self, run: Run, event: AgentEvent) {
        self.apply(run, event).await;
        for _ in 1..MAX_EVENTS_PER_COMMIT {
            let Some(event) = self.run.as_mut().and_then(Running::ready_event) else { break };
            self.apply(run, event).await;
        }
        self.flush().await;
    }

    /// Applies one event. Durable events wait for the next commit; a live event is published after the durable events
    /// before it are stored.
    async fn apply(&mut self, run: Run, event: AgentEvent) {
        match &event {
            AgentEvent::Retrying { attempt, limit, message, next } => {
                if let Some(run) = &mut self.run {
                    run.retry = Some(SessionStatus::Retry {
                        attempt: *attempt,
                        limit: *limit,
                        message: message.clone(),
                        next: *next,
                        action: None,
                        extra: Rest::NONE,
                    });
                }
                return self.step(Input::Retrying { run }).await;
            }
            AgentEvent::Resumed => return self.step(Input::Resumed { run }).await,
            _ => {}
        }
        if !self.life.admits(run) {
            return;
        }
        let event = match event {
            // Both compare the event with what is stored.
            AgentEvent::Diffed { prompt, session } => {
                self.flush().await;
                return self.diffed(prompt, session).await;
            }
            AgentEvent::Todos(list) => {
                self.flush().await;
                self.note_list(&list).await;
                AgentEvent::Todos(list)
            }
            event => event,
        };
        let interval = self.shared().limits.checkpoint;
        let shared = self.sessions.shared.clone();
        if let Some(used) = record::usage(&event) {
            shared.registry.count_use(used);
            if let Some(record) = &mut self.record {
                record.add(used);
            }
        }
        let Some(running) = &mut self.run else { return };
        let events = running.transcript.apply(event, &mut self.session, &shared.mint);
        self.latest = self.latest.max(running.transcript.latest());
        for body in events {
            if body.is_durable() {
                self.unsaved.push(body);
            } else {
                if let Some(running) = &mut self.run {
                    running.touched(interval);
                }
                self.flush().await;
                if self.broken.is_some() {
                    return;
                }
                shared.bus.publish(Some(&self.place), &shared.mint.event(body));
            }
        }
    }

    /// Records changed files: with the prompt that is being answered, and with the session.
    async fn diffed(&mut self, prompt: Vec<FileDiff>, session: Vec<FileDiff>) {
        let Some(answered) = self.run.as_ref().map(|run| run.transcript.prompt().clone()) else { return };
        let shared = self.sessions.shared.clone();
        let mut emit = Emit::new(self.session.id.clone(), &shared.mint);
        match shared.reads.message(&self.session.id, &answered).await {
            Ok(Some(MessageWithParts { info: Message::User(mut user), .. })) => {
                user.summary.get_or_insert_default().diffs = prompt;
                emit.message(Message::User(user));
            }
            // The prompt was removed meanwhile, so there is nothing to record its changes on.
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(session = %self.session.id, %error, "failed to record the files that a prompt changed");
            }
        }
        self.session.summary = Some(summary(&session));
        emit.session(&mut self.session);
        emit.diff(session);
        self.unsaved.extend(emit.into_events());
    }

    async fn join(&mut self, run: Run, reply: oneshot::Sender<Vec<MessageId>>) {
        let joined = self.counting(|life| life.join(run));
        let mut last = None;
        for prompt in &joined {
            let resolved = self.resolved.remove(prompt).map(|resolved| (prompt.clone(), resolved));
            // A request for a summary is answered by its summary; the steps after it answer the user's prompt.
            if last.is_none() || !self.invocations.contains(prompt) {
                last = resolved.or(last);
            }
            self.push_started(prompt);
        }
        if let (Some((last, resolved)), Some(run)) = (last, &mut self.run) {
            run.transcript.answer(last, resolved.agent.clone(), resolved.model.clone(), self.latest);
            run.resolved = Some(resolved);
        }
        self.flush().await;
        let _ = reply.send(joined);
    }

    async fn start_child(
        &mut self,
        run: Run,
        spec: ChildSpec,
        reply: oneshot::Sender<Result<ChildStarted, String>>,
    ) {
        if self.life.is_stopping() {
            let _ = reply.send(Err("the turn was stopped".into()));
            return;
        }
        let started = self.sessions.start_child(&self.session, spec).await;
        let (child, submitted) = match started {
            Ok(started) => started,
            Err(error) => {
                let _ = reply.send(Err(error.to_string()));
                return;
            }
        };
        let work = (child.clone(), submitted.message.info.id().clone());
        let (ended, end) = oneshot::channel();
        tokio::spawn(watch_child(
            self.sessions.clone(),
            child.clone(),
            submitted,
            self.myself.clone(),
            ended,
        ));
        self.step(Input::ChildStarted { run, child: work }).await;
        let _ = reply.send(Ok(ChildStarted { session: child, end }));
    }
}

/// Waits for a child's turn to end and notifies its parent.
async fn watch_child(
    sessions: crate::sessions::Sessions,
    child: SessionId,
    submitted: Submitted,
    parent: mpsc::Sender<Command>,
    ended: oneshot::Sender<ChildEnd>,
) {
    let reason = match submitted.end {
        Some(end) => end.await.unwrap_or(EndReason::Interrupted),
        None => EndReason::Completed,
    };
    let prompt = submitted.message.info.id().clone();
    let answer = sessions.newest_answer(&child, &prompt).await;
    let parts = answer.ok().flatten().map(|answer| answer.parts).unwrap_or_default();
    let text = parts.iter().filter_map(|part| match &part.body {
        protocol::PartBody::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let text = text.collect::<Vec<_>>().join("\n");
    let _ = ended.send(ChildEnd { session: child.clone(), reason, text });
    let _ = parent.send(Command::ChildEnded((child, prompt))).await;
}
