//! The loop of one turn.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use engine::session::Turn;
use protocol::agent_event::AgentEvent;
use protocol::{Message, MessageError, MessageId, MessageWithParts, PartBody, TurnEnd, UserMessage};
use tokio::time::{timeout, timeout_at};
use workspace::files::Root;

use crate::budget::Meter;
use crate::snapshots::Changes;

use super::background::Background;
use super::compaction::{self, Why};
use super::doom::Doom;
use super::guidance::Instruction;
use super::history::{History, LookBack};
use super::permission::Permissions;
use super::role::Role;
use super::system::{self, Scene};
use super::tools::{Bench, Setting};
use super::{Inner, context, fill, gate, history, hooks, limits, step, structured, title};

/// Continue, or the end of the turn.
pub(super) type Flow<T = ()> = ControlFlow<TurnEnd, T>;

/// Works on a prompt until the turn ends. A title is generated meanwhile. If it is not ready in the end, the turn
/// waits for it briefly, but never after an abort.
pub(super) async fn run(inner: &Inner, turn: &Turn) -> TurnEnd {
    let work = async {
        match Loop::new(inner, turn).await {
            Flow::Continue(mut looping) => Box::pin(looping.run()).await,
            Flow::Break(end) => end,
        }
    };
    let (work, title) = (std::pin::pin!(work), std::pin::pin!(title::title(inner, turn)));
    match futures::future::select(work, title).await {
        futures::future::Either::Left((end, title)) => {
            tokio::select! {
                () = turn.cancelled() => {}
                _ = timeout(limits::TITLE_LINGER, title) => {}
            }
            end
        }
        futures::future::Either::Right(((), work)) => work.await,
    }
}

pub(super) struct Loop<'a> {
    pub(super) inner: &'a Inner,
    pub(super) turn: &'a Turn,
    root: Root,
    instructions: Vec<Instruction>,
    pub(super) meter: Meter<'a>,
    pub(super) doom: Doom,
    pub(super) changes: Changes<'a>,
    pub(super) background: Background,
    /// The number of ancestors of this session.
    pub(super) depth: usize,
    /// The prompts that this turn answers.
    pub(super) prompts: Vec<MessageId>,
    /// The prompts that no step has begun to answer yet.
    pub(super) fresh: Vec<MessageId>,
    /// Subagents that the prompts mention.
    mentioned: Vec<String>,
    /// The newest prompt. A summary may have removed it from the conversation.
    pub(super) asked: Option<UserMessage>,
    /// The number of steps so far.
    steps: u32,
    /// Consecutive steps without a finish reason.
    pub(super) repeats: u32,
    /// Compactions since the conversation last fitted.
    pub(super) compactions: u32,
    /// Structured answers that did not fit the schema.
    pub(super) misfits: u32,
    /// True once the turn has waited for MCP servers.
    waited: bool,
}

/// The settings of one step.
pub(super) struct Stage<'a> {
    pub(super) role: Role<'a>,
    pub(super) permissions: Permissions,
    pub(super) bench: Bench,
    /// Tools that the prompt switched on or off.
    pub(super) off: BTreeMap<String, bool>,
    pub(super) prompt: Option<UserMessage>,
    /// True for the last step of a turn, which has no tools.
    pub(super) last: bool,
}

impl<'a> Loop<'a> {
    async fn new(inner: &'a Inner, turn: &'a Turn) -> Flow<Self> {
        let session = &turn.session;
        let root = or_end(gate::root(session, &inner.options.tools.closed))?;
        let meter = or_end(Meter::start(&inner.options.budget, turn).await)?;
        let depth = or_end(turn.depth().await)?;
        let found = timeout(limits::GUIDANCE, inner.options.instructions.find(session)).await;
        let instructions = found.unwrap_or_else(|_| {
            tracing::warn!(session = %session.id, "timed out finding the instructions of a directory; going on without them");
            Vec::new()
        });
        Flow::Continue(Self {
            inner,
            turn,
            root,
            instructions,
            meter,
            doom: Doom::default(),
            changes: Changes::new(inner.options.snapshots.as_deref(), turn).await,
            background: Background::default(),
            depth,
            prompts: vec![turn.prompt.clone()],
            fresh: vec![turn.prompt.clone()],
            mentioned: Vec::new(),
            asked: None,
            steps: 0,
            repeats: 0,
            compactions: 0,
            misfits: 0,
            waited: false,
        })
    }

    async fn run(&mut self) -> TurnEnd {
        let end = match self.meter.deadline() {
            // The timeout drops the work in progress, which also ends the processes it started.
            Some((at, message)) => timeout_at(at, self.work()).await.unwrap_or(TurnEnd::Budget { message }),
            None => self.work().await,
        };
        self.leave().await;
        if end == TurnEnd::Completed && self.inner.options.compaction.prune {
            self.prune().await;
        }
        end
    }

    async fn work(&mut self) -> TurnEnd {
        if let Some(waiting) = self.turn.resumed()
            && let Flow::Break(end) = self.take_up(waiting).await
        {
            return end;
        }
        loop {
            if self.turn.cancellation().is_cancelled() {
                return TurnEnd::Cancelled;
            }
            let flow = match self.round().await {
                Flow::Break(TurnEnd::Completed) => self.linger().await,
                flow => flow,
            };
            if let Flow::Break(end) = flow {
                return end;
            }
            self.hear_background().await;
            self.take_joined().await;
        }
    }

    /// Takes the prompts that join at this point. Returns true if there were any.
    pub(super) async fn take_joined(&mut self) -> bool {
        let joined = self.turn.join().await;
        self.prompts.extend(joined.iter().cloned());
        let any = !joined.is_empty();
        self.fresh.extend(joined);
        any
    }

    /// Handles what the new prompts request directly (shell commands, subtasks, compactions), then takes a step.
    async fn round(&mut self) -> Flow {
        for id in self.fresh.clone() {
            let Some(message) = or_end(self.turn.message(&id).await)? else { continue };
            self.errands(message).await?;
        }
        self.step().await
    }

    async fn errands(&mut self, message: MessageWithParts) -> Flow {
        let asked_before = self.asked.clone();
        if let Message::User(user) = &message.info {
            self.asked = Some(user.as_ref().clone());
        }
        if let Some((line, part)) = fill::shell_line(&message).zip(message.parts.first()) {
            return self.shell(part, &line).await;
        }
        let message = self.fill(message).await?;
        for part in &message.parts {
            match &part.body {
                PartBody::Subtask(task) => self.subtask(part, task).await?,
                PartBody::Agent(mention) => self.mentioned.push(mention.name.clone()),
                _ => {}
            }
        }
        if history::compaction(&message).is_some() {
            self.compact(Why::Asked(&message)).await?;
            // A turn that began with a request for a summary ends with the summary.
            if *message.info.id() == self.turn.prompt {
                return Flow::Break(TurnEnd::Completed);
            }
            // The request named a model for the summary, not for the prompt that is being answered.
            self.asked = asked_before.or(self.asked.take());
        }
        Flow::Continue(())
    }

    /// Takes one step: calls the model, runs the called tools, closes the message, and decides how to go on.
    async fn step(&mut self) -> Flow {
        self.afford().await?;
        self.wait_for_servers().await?;
        let stage = self.stage().await?;
        let request = Box::pin(self.fitting_request(&stage)).await?;
        let snapshot = self.changes.begin().await;
        self.turn.emit(AgentEvent::StepStarted { snapshot, speaker: None }).await;
        self.steps += 1;
        self.fresh.clear();
        let cancel = self.turn.cancellation();
        let (role, prompt) = (&stage.role, stage.prompt.as_ref());
        let chat = self.inner.chat(self.turn, &role.agent.name, &role.voice.model, prompt);
        let ask = step::Ask { model: role.voice.provider.as_ref(), request: &request, chat: chat.as_ref() };
        let heard = tokio::select! {
            biased;
            () = cancel.cancelled() => return Flow::Break(TurnEnd::Cancelled),
            heard = step::step(self.inner, self.turn, ask) => heard,
        };
        match heard {
            Ok(heard) => self.act(&stage, heard).await,
            Err(failed) if failed.error.is_overflow() && self.inner.compacts() => {
                if failed.said {
                    self.turn.emit(AgentEvent::AttemptWithdrawn).await;
                }
                self.turn.emit(AgentEvent::Warning(failed.error())).await;
                self.compact(Why::Refused).await
            }
            Err(failed) => Flow::Break(TurnEnd::Error(failed.error())),
        }
    }

    /// Waits briefly for MCP servers that are connecting, once per turn, and warns about those that are late.
    async fn wait_for_servers(&mut self) -> Flow {
        if std::mem::replace(&mut self.waited, true) {
            return Flow::Continue(());
        }
        let late = tokio::select! {
            biased;
            () = self.turn.cancelled() => return Flow::Break(TurnEnd::Cancelled),
            late = self.inner.options.mcp.settle(limits::MCP_PATIENCE) => late,
        };
        if !late.is_empty() {
            let message = format!(
                "MCP servers are still connecting, so the turn begins without their tools: {}.",
                late.join(", ")
            );
            self.turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
        }
        Flow::Continue(())
    }

    pub(super) async fn stage(&self) -> Flow<Stage<'a>> {
        let role = self.role()?;
        let approved = or_end(self.turn.approved().await)?;
        let mut permissions = role.permissions(self.inner, &self.turn.session, self.depth, approved);
        for agent in &self.mentioned {
            permissions.concede("task", agent);
        }
        let options = &self.inner.options;
        let bench = Bench::new(&options.agents, &options.tools, &options.mcp, &permissions);
        let prompt = self.asked.clone();
        let off = prompt.as_ref().and_then(|prompt| prompt.tools.clone()).unwrap_or_default();
        let most = role.agent.steps.unwrap_or(options.steps).max(1);
        if self.steps >= most {
            let message = format!("The turn has taken {most} steps, the limit of its agent.");
            return Flow::Break(TurnEnd::Budget { message });
        }
        let last = self.steps + 1 == most;
        Flow::Continue(Stage { role, permissions, bench, off, prompt, last })
    }

    pub(super) async fn request(&self, stage: &Stage<'_>, history: &History) -> llm::Request {
        let (session, role, prompt) = (&self.turn.session, &stage.role, stage.prompt.as_ref());
        let schema = prompt.and_then(structured::schema);
        let skills =
            if stage.permissions.hides("skill") { &[] } else { self.inner.options.tools.skills.as_slice() };
        let scene = Scene {
            session,
            worktree: system::worktree(session),
            model: &role.voice.model,
            now: self.inner.clock.now(),
            prompt: role.agent.prompt.as_deref(),
            instructions: &self.instructions,
            servers: &self.inner.options.mcp.instructions(),
            skills,
            structured: schema.is_some(),
            last: stage.last,
            extra: prompt.and_then(|prompt| prompt.system.as_deref()),
        };
        let mut request = role.request(session);
        request.system = scene.prompt();
        request.messages = match hooks::conversation(self.turn, history).await {
            Some(changed) => context::told(&changed, &role.voice.model),
            None => context::conversation(history, &role.voice.model),
        };
        let before = history.last_answer().map(|answer| answer.agent.as_str());
        if let Some(reminder) = system::reminder(&role.agent.name, before) {
            context::remind(&mut request.messages, reminder);
        }
        if !stage.last {
            request.tools = stage.bench.offered(&self.setting(stage));
            let hooks = self.turn.hooks().as_ref();
            hooks::define(hooks, &mut request.tools, |name| stage.bench.is_own(name)).await;
        }
        if let Some(schema) = schema {
            request.tools.push(structured::tool(schema));
            request.choice = llm::Choice::Required;
        }
        request
    }

    pub(super) fn setting<'s>(&'s self, stage: &'s Stage<'_>) -> Setting<'s> {
        Setting {
            turn: self.turn,
            root: &self.root,
            changes: &self.changes,
            permissions: &stage.permissions,
            background: &self.background,
            hidden: &self.inner.options.hidden,
            options: &self.inner.options.tools,
            model: &stage.role.voice.model.model_id,
            off: &stage.off,
        }
    }

    /// Ends the turn if the budget is used up.
    pub(super) async fn afford(&mut self) -> Flow {
        or_end(self.meter.look(self.turn).await)?;
        match self.meter.exceeded() {
            Some(message) => Flow::Break(TurnEnd::Budget { message }),
            None => Flow::Continue(()),
        }
    }

    /// Returns the agent and the model that the newest prompt of this turn names.
    pub(super) fn role(&self) -> Flow<Role<'a>> {
        let (agent, model) = match &self.asked {
            Some(prompt) => (prompt.agent.as_str(), &prompt.model),
            None => (self.turn.agent.as_str(), &self.turn.model),
        };
        or_end(self.inner.role(agent, model))
    }

    /// Returns the position of the newest prompt of this turn if it has no answer yet.
    pub(super) fn unanswered(&self, history: &History) -> Option<usize> {
        let newest = self.prompts.last()?;
        let answers = |message: &MessageWithParts| match &message.info {
            Message::Assistant(answer) => answer.parent_id == *newest && answer.finish.is_some(),
            // A message that continues the prompt's turn comes after an answer, or after a summary of one.
            Message::User(user) => user.continues().as_ref() == Some(newest),
        };
        if history.messages.iter().any(answers) { None } else { history.position(newest) }
    }

    /// Removes old tool output from the model's view.
    async fn prune(&self) {
        let Flow::Continue(role) = self.role() else { return };
        let mut back = LookBack::within(role.voice.window.look_back());
        let Ok(messages) = self.turn.recent(|message| back.is_enough(message)).await else { return };
        for part in compaction::prune(&messages, self.inner.clock.now()) {
            self.turn.emit(AgentEvent::Revised(Box::new(part))).await;
        }
    }
}

/// Returns the value, or ends the turn with the error.
pub(super) fn or_end<T, E: ToString>(result: Result<T, E>) -> Flow<T> {
    match result {
        Ok(value) => Flow::Continue(value),
        Err(error) => Flow::Break(TurnEnd::Error(MessageError::unknown(error.to_string()))),
    }
}
