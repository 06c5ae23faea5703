//! The actor's loop: takes one input at a time, steps the lifecycle and performs its effects.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use protocol::{
    EndReason, EventBody, Message, MessageId, Millis, Session, SessionId,
    agent_event::Answer,
    event::{PartInfo, SessionInfo, SessionMarked},
    prompt::{Delivery, SessionPatch},
    request::AnsweredBy,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    command::{ChildWork, Command, Edit, Held},
    continuing::{EndedRun, NextRound, Pause},
    orphans::Orphan,
    record::Record,
    requests::Pending,
    run::{RunnerMessage, Running},
    tally::Tally,
    turn::Resume,
};
use crate::{
    Error, RequestKind,
    bus::Place,
    lifecycle::{Input, Lifecycle, Stop},
    ports::{self, Fence, Resolved, StoreFailure, hooks::Next},
    sessions::{Cause, DamagedSession, Sessions, Shared},
};

/// Owns one session while it is active.
pub(super) struct Actor {
    pub(super) sessions: Sessions,
    pub(super) inbox: mpsc::Receiver<Command>,
    /// Lets tasks that the actor starts report back, such as those that watch children.
    pub(super) myself: mpsc::Sender<Command>,
    pub(super) session: Session,
    /// The topmost ancestor session, if this session is a child.
    pub(super) root: Option<SessionId>,
    pub(super) place: Place,
    /// The right to commit, as it was when the actor started. An actor whose node has lost the workspace since is fenced.
    pub(super) fence: Fence,
    /// Number of events that the session has; see [`crate::ports::Commit::expected`].
    pub(super) head: u64,
    /// `time.created` of the newest message.
    pub(super) latest: Millis,
    pub(super) life: Lifecycle<MessageId, ChildWork>,
    pub(super) run: Option<Running>,
    /// Resources that the current turn has used.
    pub(super) tally: Option<Arc<Tally>>,
    /// The facts of the current turn for the log.
    pub(super) record: Option<Record>,
    /// The agent, model and runner of accepted prompts that no run has taken up yet.
    pub(super) resolved: HashMap<MessageId, Resolved>,
    /// Prompts for a single task, without continuations: command lines and summaries.
    pub(super) invocations: HashSet<MessageId>,
    /// The last run, between its end and the end of its turn.
    pub(super) last: Option<EndedRun>,
    /// The newest message of that run.
    pub(super) answer: Option<MessageId>,
    /// The countdown or hook that the turn waits for before it continues or ends.
    pub(super) pause: Option<Pause>,
    /// The continuation that the next run starts with.
    pub(super) going: Option<NextRound>,
    /// Slash commands among accepted prompts: name and arguments, until the prompt ends.
    pub(super) commands: HashMap<MessageId, (String, String)>,
    pub(super) requests: BTreeMap<String, Pending>,
    /// Open requests of a turn that ended when the server stopped.
    pub(super) orphans: Vec<Orphan>,
    /// The answered request that the next run of this prompt resumes with.
    pub(super) resume: Option<(MessageId, Resume)>,
    /// Durable events that the next commit stores.
    pub(super) unsaved: Vec<EventBody>,
    /// Callers that wait for a prompt to end.
    pub(super) prompt_waiters: HashMap<MessageId, Vec<oneshot::Sender<EndReason>>>,
    /// Callers that wait for the session to become idle.
    pub(super) idle_waiters: Vec<oneshot::Sender<()>>,
    /// Callers that delete the session once it is idle.
    pub(super) deleters: Vec<oneshot::Sender<Result<Held, Error>>>,
    /// Set from an abort until its idle is stored: the prompts that were accepted since the abort.
    pub(super) aborting: Option<Vec<MessageId>>,
    /// The error of a failed commit. The actor stores nothing after it and gives up.
    pub(super) broken: Option<ports::Error>,
}

/// Starts an actor. It ends when the session is idle and no command waits.
pub(crate) fn spawn(
    sessions: Sessions,
    id: SessionId,
    inbox: mpsc::Receiver<Command>,
    myself: mpsc::Sender<Command>,
) {
    let watch = Watch { sessions: sessions.clone(), id: id.clone() };
    tokio::spawn(async move {
        match Actor::boot(sessions, &id, inbox, myself).await {
            Ok(Some(actor)) => Box::pin(actor.work()).await,
            // Dropping the inbox drops all reply channels; the callers then find that the session does not exist.
            Ok(None) => watch.sessions.shared.registry.remove(&id),
            Err(Error::Store(error)) if error.failure == StoreFailure::Fenced => {
                watch.sessions.leave(&id, error);
            }
            Err(error) => {
                if watch.sessions.shared.unfinished.damage(&id).is_some() {
                    // Repairs are retried while the disk is full, so only the first failure and the success are
                    // logged above debug.
                    tracing::debug!(session = %id, %error, "failed to repair the session; will retry");
                } else {
                    tracing::error!(session = %id, %error, "failed to open the session");
                }
                watch.give_up(match error {
                    Error::Store(error) => error,
                    error => ports::Error::new(StoreFailure::Unavailable, error.to_string()),
                });
            }
        }
    });
}

/// Detects a panic of the actor, so that a new actor repairs the session.
struct Watch {
    sessions: Sessions,
    id: SessionId,
}

impl Watch {
    fn give_up(&self, error: ports::Error) {
        self.sessions.needs_repair(self.id.clone(), DamagedSession::new(Cause::Died), error);
        self.sessions.shared.registry.remove(&self.id);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.give_up(ports::Error::new(
                StoreFailure::Unavailable,
                "the session's actor panicked; try again",
            ));
        }
    }
}

/// The event that woke the actor.
#[expect(
    clippy::large_enum_variant,
    reason = "each value is created and matched at once, so its size does not matter"
)]
enum ActorEvent {
    Command(Option<Command>),
    Runner(RunnerMessage),
    Answered(Next),
    /// The runner no longer waits for the answer to this request.
    Dropped(String),
    Time,
}

impl Actor {
    pub(super) fn shared(&self) -> &Shared {
        &self.sessions.shared
    }

    /// Returns false if the workspace is only in custody; see [`ports::Fleet::may_run`].
    pub(super) fn may_run(&self) -> bool {
        self.shared().bus.fleet().may_run(&self.place.workspace)
    }

    async fn work(mut self) {
        loop {
            if let Some(error) = self.broken.take() {
                return self.give_up(error);
            }
            if !self.life.is_busy() {
                if let Some(reply) = self.deleters.pop() {
                    if self.hold(reply).await {
                        return;
                    }
                    continue;
                }
                // An idle actor stays while orphaned requests are open, because it keeps their deadlines.
                if self.orphans.is_empty() && self.shared().registry.retire(&self.session.id, &self.inbox) {
                    return;
                }
            }
            match self.wait().await {
                ActorEvent::Command(Some(command)) => self.command(command).await,
                // The actor holds a sender itself, so the inbox never closes.
                ActorEvent::Command(None) => return,
                ActorEvent::Runner(message) => self.handle_runner(message).await,
                ActorEvent::Answered(next) => self.hooks_answered(next).await,
                ActorEvent::Dropped(id) => self.withdraw(&id).await,
                ActorEvent::Time => self.tick().await,
            }
        }
    }

    async fn wait(&mut self) -> ActorEvent {
        let deadline = self.deadline();
        tokio::select! {
            biased;
            command = self.inbox.recv() => ActorEvent::Command(command),
            message = Running::next(&mut self.run) => ActorEvent::Runner(message),
            next = Pause::answer(&mut self.pause) => ActorEvent::Answered(next),
            id = Pending::dropped(&mut self.requests) => ActorEvent::Dropped(id),
            () = tokio::time::sleep_until(deadline) => ActorEvent::Time,
        }
    }

    /// The next time to wake up: to drop a runner, withdraw a request, save text or end a countdown.
    fn deadline(&self) -> Instant {
        let run = self.run.iter().flat_map(Running::deadlines);
        let requests = self.requests.values().map(|pending| pending.deadline);
        let far = Instant::now() + Duration::from_hours(1);
        let orphans = self.orphans.iter().map(|orphan| orphan.deadline);
        let countdown = self.pause.iter().filter_map(Pause::deadline);
        run.chain(requests).chain(orphans).chain(countdown).min().unwrap_or(far)
    }

    async fn tick(&mut self) {
        let now = Instant::now();
        if let Some(run) = &mut self.run {
            run.drop_if_due(now);
        }
        self.checkpoint(now).await;
        self.withdraw_overdue(now).await;
        self.withdraw_overdue_orphans(now).await;
        self.end_countdown_if_due(now).await;
    }

    async fn command(&mut self, command: Command) {
        match command {
            Command::Submit(input, reply) => {
                let accepted = self.submit(*input).await;
                // The caller may be gone; the prompt is stored and will be worked on all the same.
                let start = accepted.as_ref().ok().and_then(|(_, start)| start.clone());
                let _ = reply.send(accepted.map(|(submitted, _)| submitted));
                if let Some(effects) = start {
                    self.run.iter().for_each(Running::knock);
                    self.perform(effects).await;
                }
            }
            Command::Abort(reply) => self.stop(Stop::Abort, Some(reply)).await,
            Command::Interrupt(reply) => self.stop(Stop::Interrupt, Some(reply)).await,
            Command::Reply { kind, id, answer, by, reply } => {
                self.answer(kind, &id, answer, by, reply).await;
            }
            Command::Reconsider => self.reconsider().await,
            Command::Update(patch, reply) => {
                let _ = reply.send(self.update(*patch).await);
                self.reconsider_countdown().await;
            }
            Command::Seen(cursor, reply) => {
                let _ = reply.send(self.mark_seen(cursor).await);
            }
            Command::Continuation(action, reply) => {
                let _ = reply.send(self.continuation(action).await);
                self.reconsider_countdown().await;
            }
            Command::Edit(edit, reply) => {
                let _ = reply.send(self.edit(edit).await);
            }
            Command::Requeue(change, reply) => {
                let _ = reply.send(self.requeue(*change).await);
            }
            Command::Withdraw(prompt, reply) => {
                let _ = reply.send(self.withdraw_prompt(prompt).await);
            }
            Command::Revert(message, part, reply) => {
                let _ = reply.send(self.revert(message, part).await);
            }
            Command::Unrevert(reply) => {
                let _ = reply.send(self.unrevert().await);
            }
            Command::Forget(reply) => {
                let _ = reply.send(self.settle_revert().await);
            }
            Command::Wait(reply) => self.answer_when_idle(reply),
            Command::ChildEnded(child) => self.step(Input::ChildEnded { child }).await,
            Command::Background(reply) => {
                let _ = reply.send(self.send_to_background());
            }
            Command::Delete(None, reply) => {
                self.deleters.push(reply);
                self.stop(Stop::Abort, None).await;
            }
            Command::Delete(Some(before), reply) => match self.check_unused(before) {
                Ok(()) => self.deleters.push(reply),
                Err(error) => {
                    let _ = reply.send(Err(error));
                }
            },
            Command::Settle(reply) => {
                let _ = reply.send(());
            }
        }
    }

    /// Fails as busy unless the session is idle, not shared, and was last updated before this time.
    fn check_unused(&self, before: Millis) -> Result<(), Error> {
        let is_used = self.life.is_busy() || !self.orphans.is_empty() || !self.deleters.is_empty();
        let Session { id, share, time, .. } = &self.session;
        if is_used || share.is_some() || time.updated >= before {
            return Err(Error::Busy(id.clone()));
        }
        Ok(())
    }

    async fn answer(
        &mut self,
        kind: RequestKind,
        id: &str,
        answer: Answer,
        by: AnsweredBy,
        reply: oneshot::Sender<Result<(), Error>>,
    ) {
        if self.requests.contains_key(id) {
            let _ = reply.send(self.answer_request(kind, id, answer, by).await);
            return;
        }
        let answered = self.answer_orphan(kind, id, answer, by).await;
        let again = answered.as_ref().ok().cloned().flatten();
        let _ = reply.send(answered.map(drop));
        if let Some(prompt) = again {
            self.step(Input::Prompt { prompt, delivery: Delivery::Queue }).await;
        }
    }

    async fn stop(&mut self, stop: Stop, reply: Option<oneshot::Sender<()>>) {
        if stop == Stop::Abort {
            self.aborting = Some(Vec::new());
            self.withdraw_orphans();
            self.flush().await;
        }
        self.step(Input::Stop(stop)).await;
        if let Some(reply) = reply {
            self.answer_when_idle(reply);
        }
    }

    fn answer_when_idle(&mut self, reply: oneshot::Sender<()>) {
        // An idle that could not be stored does not count: waiting callers get the error when the actor gives up.
        if self.life.is_busy() || self.broken.is_some() {
            self.idle_waiters.push(reply);
        } else {
            self.aborting = None;
            let _ = reply.send(());
        }
    }

    async fn update(&mut self, patch: SessionPatch) -> Result<Session, Error> {
        let SessionPatch { title, metadata, permission, time, agent, model, continuation, .. } = patch;
        let mut session = self.session.clone();
        if let Some(title) = title {
            session.title = title;
        }
        if metadata.is_some() {
            session.metadata = metadata;
        }
        session.agent = agent.or(session.agent);
        session.model = model.or(session.model);
        if let Some(rules) = permission {
            session.permission.get_or_insert_default().extend(rules);
        }
        if continuation.is_some() {
            session.continuation.get_or_insert_default().enabled = continuation;
        }
        if let Some(time) = time {
            session.time.archived = time.archived;
        }
        session.time.updated = self.shared().mint.now();
        let before = std::mem::replace(&mut self.session, session);
        self.push_session();
        if let Err(error) = self.save(true).await {
            self.session = before;
            return Err(error);
        }
        Ok(self.session.clone())
    }

    async fn mark_seen(&mut self, cursor: u64) -> Result<(), Error> {
        if self.session.seen == Some(cursor) {
            return Ok(());
        }
        let marked = SessionMarked::new(self.session.id.clone(), cursor);
        self.unsaved.push(EventBody::SessionSeen(marked));
        self.save(false).await?;
        self.session.seen = Some(cursor);
        Ok(())
    }

    async fn edit(&mut self, edit: Edit) -> Result<(), Error> {
        let session_id = self.session.id.clone();
        let message = match &edit {
            Edit::RemoveMessage(_) => None,
            Edit::ReplacePart(part) => Some(&part.message_id),
            Edit::RemovePart(message, _) => Some(message),
        };
        let writing = self.run.as_ref().and_then(|run| run.transcript.message_id());
        let clash =
            if message.is_none() { self.life.is_busy() } else { writing.is_some() && message == writing };
        if clash {
            return Err(Error::Busy(session_id));
        }
        match edit {
            Edit::RemoveMessage(message) => self.push_message_removed(message),
            Edit::ReplacePart(part) => {
                let (part, time) = (*part, self.shared().mint.now());
                self.unsaved.push(EventBody::PartUpdated(PartInfo::new(session_id, part, time)));
            }
            Edit::RemovePart(message, part) => self.push_part_removed(message, part),
        }
        self.save(true).await
    }

    /// Hands the session to its deletion and waits for the result. Returns true if the session is deleted.
    async fn hold(&mut self, reply: oneshot::Sender<Result<Held, Error>>) -> bool {
        let info = self.session.clone();
        self.unsaved.push(EventBody::SessionDeleted(SessionInfo::new(info.id.clone(), info)));
        let commit = self.commit(true);
        self.unsaved.clear();
        let (outcome, decided) = oneshot::channel();
        // If the caller is gone, this drops `outcome`, which keeps the session.
        let _ = reply.send(Ok(Held { commit, outcome }));
        let outcome = decided.await;
        self.aborting = None;
        match outcome {
            Ok(Ok(())) => {
                self.shared().histories.forget(&self.session.id);
                true
            }
            Ok(Err(error)) => {
                // Only a full disk is known to have written nothing.
                self.broken = Some(error).filter(|error| error.failure != StoreFailure::Full);
                false
            }
            // Another session of the family is in use.
            Err(_) => false,
        }
    }

    pub(super) fn push_session(&mut self) {
        let info = self.session.clone();
        let session_id = info.id.clone();
        self.unsaved.push(EventBody::SessionUpdated(SessionInfo::new(session_id, info)));
    }

    pub(super) fn push_message(&mut self, info: Message) {
        let session_id = self.session.id.clone();
        self.unsaved.push(EventBody::MessageUpdated(protocol::event::MessageInfo::new(session_id, info)));
    }
}
