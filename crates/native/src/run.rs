//! The loop of one turn.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use engine::session::Turn;
use protocol::agent_event::AgentEvent;
use protocol::{Message, MessageError, MessageId, MessageWithParts, PartBody, TurnEnd, UserMessage};
use supervision::permission::Permissions;
use supervision::{Supervisor, gate};
use tokio::time::{timeout, timeout_at};
use workspace::files::Root;

use super::active_agent::ActiveAgent;
use super::background::Background;
use super::compaction::{self, Trigger};
use super::history::{History, LookBack};
use super::instructions::Instruction;
use super::loop_detector::LoopDetector;
use super::model_call::{self, ModelCall};
use super::system::{self, SystemPrompt};
use super::tools::{ToolContext, Toolset};
use super::{Inner, command_lines, history, hooks, limits, model_messages, structured, title};

/// Continue, or the end of the turn.
pub(super) type Flow<T = ()> = ControlFlow<TurnEnd, T>;

/// Works on a prompt until the turn ends. A title is generated meanwhile. If it is not ready in the end, the turn
/// waits for it briefly, but never after an abort.
pub(super) async fn run(inner: &Inner, turn: &Arc<Turn>) -> TurnEnd {
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
                _ = timeout(limits::TITLE_WAIT, title) => {}
            }
            end
        }
        futures::future::Either::Right(((), work)) => work.await,
    }
}

/// Waits for `main` and lets `other` work meanwhile.
async fn alongside<T>(main: impl Future<Output = T> + Unpin, other: impl Future<Output = ()>) -> T {
    match futures::future::select(main, std::pin::pin!(other)).await {
        futures::future::Either::Left((done, _)) => done,
        futures::future::Either::Right(((), main)) => main.await,
    }
}

pub(super) struct Loop<'a> {
    pub(super) inner: &'a Inner,
    pub(super) turn: &'a Turn,
    root: Root,
    instructions: Vec<Instruction>,
    pub(super) detector: LoopDetector,
    pub(super) supervisor: Supervisor,
    pub(super) background: Background,
    /// The number of ancestors of this session.
    pub(super) depth: usize,
    /// The prompts that this turn answers.
    pub(super) prompts: Vec<MessageId>,
    /// The prompts that no step has begun to answer yet.
    pub(super) new_prompts: Vec<MessageId>,
    /// Subagents that the prompts mention.
    mentioned: Vec<String>,
    /// The newest prompt. A summary may have removed it from the conversation.
    pub(super) newest_prompt: Option<UserMessage>,
    /// The number of steps so far.
    steps: u32,
    /// Consecutive steps without a finish reason.
    pub(super) unfinished_steps: u32,
    /// Compactions since the conversation last fitted.
    pub(super) compactions: u32,
    /// Structured answers that did not fit the schema.
    pub(super) invalid_answers: u32,
    /// True once the turn has waited for MCP servers.
    waited_for_servers: bool,
}

/// The settings of one step.
pub(super) struct StepContext<'a> {
    pub(super) agent: ActiveAgent<'a>,
    pub(super) permissions: Permissions,
    pub(super) tools: Toolset,
    /// Tools that the prompt switched on or off.
    pub(super) tool_switches: BTreeMap<String, bool>,
    pub(super) prompt: Option<UserMessage>,
    /// True for the last step of a turn, which has no tools.
    pub(super) last: bool,
}

impl<'a> Loop<'a> {
    async fn new(inner: &'a Inner, turn: &'a Arc<Turn>) -> Flow<Self> {
        let session = &turn.session;
        let root = or_end(gate::root(session, &inner.options.tools.closed))?;
        let (snapshots, budget) = (inner.options.snapshots.as_ref(), &inner.options.budget);
        let supervisor = or_end(Supervisor::start(snapshots, budget, turn).await)?;
        let depth = or_end(turn.depth().await)?;
        let found = timeout(limits::INSTRUCTIONS, inner.options.instructions.find(session)).await;
        let instructions = found.unwrap_or_else(|_| {
            tracing::warn!(session = %session.id, "timed out finding the instructions of a directory; going on without them");
            Vec::new()
        });
        Flow::Continue(Self {
            inner,
            turn,
            root,
            instructions,
            detector: LoopDetector::default(),
            supervisor,
            background: Background::default(),
            depth,
            prompts: vec![turn.prompt.clone()],
            new_prompts: vec![turn.prompt.clone()],
            mentioned: Vec::new(),
            newest_prompt: None,
            steps: 0,
            unfinished_steps: 0,
            compactions: 0,
            invalid_answers: 0,
            waited_for_servers: false,
        })
    }

    async fn run(&mut self) -> TurnEnd {
        let end = match self.supervisor.meter.deadline() {
            // The timeout drops the work in progress, which also ends the processes it started.
            Some((at, message)) => timeout_at(at, self.work()).await.unwrap_or(TurnEnd::Budget { message }),
            None => self.work().await,
        };
        self.supervisor.report_left_changes().await;
        if end == TurnEnd::Completed && self.inner.options.compaction.prune {
            self.prune().await;
        }
        end
    }

    async fn work(&mut self) -> TurnEnd {
        if let Some(waiting) = self.turn.resumed()
            && let Flow::Break(end) = self.resume_call(waiting).await
        {
            return end;
        }
        loop {
            if self.turn.cancellation().is_cancelled() {
                return TurnEnd::Cancelled;
            }
            let flow = match self.advance().await {
                Flow::Break(TurnEnd::Completed) => self.wait_for_background().await,
                flow => flow,
            };
            if let Flow::Break(end) = flow {
                return end;
            }
            self.report_ended_subagents().await;
            self.take_joined_prompts().await;
        }
    }

    /// Takes the prompts that join at this point. Returns true if there were any.
    pub(super) async fn take_joined_prompts(&mut self) -> bool {
        let joined = self.turn.join().await;
        self.prompts.extend(joined.iter().cloned());
        let any = !joined.is_empty();
        self.new_prompts.extend(joined);
        any
    }

    /// Handles what the new prompts request directly (shell commands, subtasks, compactions), then takes a step.
    async fn advance(&mut self) -> Flow {
        for id in self.new_prompts.clone() {
            let Some(message) = or_end(self.turn.message(&id).await)? else { continue };
            self.handle_direct_requests(message).await?;
        }
        Box::pin(self.step()).await
    }

    async fn handle_direct_requests(&mut self, message: MessageWithParts) -> Flow {
        let earlier_prompt = self.newest_prompt.clone();
        if let Message::User(user) = &message.info {
            self.newest_prompt = Some(user.as_ref().clone());
        }
        if let Some((line, part)) = command_lines::shell_line(&message).zip(message.parts.first()) {
            return self.shell(part, &line).await;
        }
        let message = self.expand_command_lines(message).await?;
        for part in &message.parts {
            match &part.body {
                PartBody::Subtask(task) => self.subtask(part, task).await?,
                PartBody::Agent(mention) => self.mentioned.push(mention.name.clone()),
                _ => {}
            }
        }
        if history::compaction(&message).is_some() {
            self.compact(Trigger::Requested(&message)).await?;
            // A turn that began with a request for a summary ends with the summary.
            if *message.info.id() == self.turn.prompt {
                return Flow::Break(TurnEnd::Completed);
            }
            // The request named a model for the summary, not for the prompt that is being answered.
            self.newest_prompt = earlier_prompt.or(self.newest_prompt.take());
        }
        Flow::Continue(())
    }

    /// Takes one step: calls the model, runs the called tools, closes the message, and decides how to go on.
    async fn step(&mut self) -> Flow {
        self.check_budget().await?;
        self.wait_for_servers().await?;
        let step = self.step_context().await?;
        let request = Box::pin(self.fitting_request(&step)).await?;
        let snapshot = self.supervisor.changes.begin();
        self.turn.emit(AgentEvent::StepStarted { snapshot, speaker: None }).await;
        self.steps += 1;
        self.new_prompts.clear();
        let cancel = self.turn.cancellation();
        let (agent, prompt) = (&step.agent, step.prompt.as_ref());
        let chat = self.inner.chat(self.turn, &agent.config.name, &agent.model.reference, prompt);
        let call = ModelCall { model: agent.model.provider.as_ref(), request: &request, chat: chat.as_ref() };
        // The model answers while the first snapshot of the turn is taken.
        let answer = Box::pin(model_call::call_model(self.inner, self.turn, call));
        let output = tokio::select! {
            biased;
            () = cancel.cancelled() => return Flow::Break(TurnEnd::Cancelled),
            output = alongside(answer, self.supervisor.report_snapshot()) => output,
        };
        match output {
            Ok(output) => self.handle_output(&step, output).await,
            Err(failed) if failed.error.is_overflow() && self.inner.compacts() => {
                if failed.emitted {
                    self.turn.emit(AgentEvent::AttemptWithdrawn).await;
                }
                self.turn.emit(AgentEvent::Warning(failed.error())).await;
                self.compact(Trigger::Rejected).await
            }
            Err(failed) => Flow::Break(TurnEnd::Error(failed.error())),
        }
    }

    /// Waits briefly for MCP servers that are connecting, once per turn, and warns about those that are late.
    async fn wait_for_servers(&mut self) -> Flow {
        if std::mem::replace(&mut self.waited_for_servers, true) {
            return Flow::Continue(());
        }
        let late = tokio::select! {
            biased;
            () = self.turn.cancelled() => return Flow::Break(TurnEnd::Cancelled),
            late = self.inner.options.mcp.connect_within(limits::MCP_WAIT) => late,
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

    pub(super) async fn step_context(&self) -> Flow<StepContext<'a>> {
        let agent = self.active_agent()?;
        let approved = or_end(self.turn.approved().await)?;
        let mut permissions = agent.permissions(self.inner, &self.turn.session, self.depth, approved);
        for agent in &self.mentioned {
            permissions.allow_named("task", agent);
        }
        let options = &self.inner.options;
        let tools = Toolset::new(&options.agents, &options.tools, &options.mcp, &permissions);
        let prompt = self.newest_prompt.clone();
        let tool_switches = prompt.as_ref().and_then(|prompt| prompt.tools.clone()).unwrap_or_default();
        let most = agent.config.steps.unwrap_or(options.steps).max(1);
        if self.steps >= most {
            let message = format!("The turn has taken {most} steps, the limit of its agent.");
            return Flow::Break(TurnEnd::Budget { message });
        }
        let last = self.steps + 1 == most;
        Flow::Continue(StepContext { agent, permissions, tools, tool_switches, prompt, last })
    }

    pub(super) async fn request(&self, step: &StepContext<'_>, history: &History) -> llm::Request {
        let (session, agent, prompt) = (&self.turn.session, &step.agent, step.prompt.as_ref());
        let schema = prompt.and_then(structured::schema);
        let skills =
            if step.permissions.hides("skill") { &[] } else { self.inner.options.tools.skills.as_slice() };
        let system_prompt = SystemPrompt {
            session,
            worktree: session.worktree(),
            model: &agent.model.reference,
            now: self.inner.clock.now(),
            prompt: agent.config.prompt.as_deref(),
            instructions: &self.instructions,
            servers: &self.inner.options.mcp.instructions(),
            skills,
            structured: schema.is_some(),
            last: step.last,
            extra: prompt.and_then(|prompt| prompt.system.as_deref()),
        };
        let mut request = agent.request(session);
        request.system = system_prompt.render();
        request.messages = match hooks::conversation(self.turn, history).await {
            Some(changed) => model_messages::convert(&changed, &agent.model.reference),
            None => model_messages::conversation(history, &agent.model.reference),
        };
        let before = history.last_answer().map(|answer| answer.agent.as_str());
        if let Some(reminder) = system::reminder(&agent.config.name, before) {
            model_messages::remind(&mut request.messages, reminder);
        }
        if !step.last {
            request.tools = step.tools.offered(&self.tool_context(step));
            let hooks = self.turn.hooks().as_ref();
            hooks::define(hooks, &mut request.tools, |name| step.tools.is_own(name)).await;
        }
        if let Some(schema) = schema {
            request.tools.push(structured::tool(schema));
            request.choice = llm::Choice::Required;
        }
        request
    }

    pub(super) fn tool_context<'s>(&'s self, step: &'s StepContext<'_>) -> ToolContext<'s> {
        ToolContext {
            turn: self.turn,
            root: &self.root,
            changes: &self.supervisor.changes,
            permissions: &step.permissions,
            background: &self.background,
            hidden: &self.inner.options.hidden,
            options: &self.inner.options.tools,
            model: &step.agent.model.reference.model_id,
            tool_switches: &step.tool_switches,
        }
    }

    /// Ends the turn if the budget is used up.
    pub(super) async fn check_budget(&self) -> Flow {
        match or_end(self.supervisor.exceeded().await)? {
            Some(message) => Flow::Break(TurnEnd::Budget { message }),
            None => Flow::Continue(()),
        }
    }

    /// Returns the agent and the model that the newest prompt of this turn names.
    pub(super) fn active_agent(&self) -> Flow<ActiveAgent<'a>> {
        let (agent, model) = match &self.newest_prompt {
            Some(prompt) => (prompt.agent.as_str(), &prompt.model),
            None => (self.turn.agent.as_str(), &self.turn.model),
        };
        or_end(self.inner.active_agent(agent, model))
    }

    /// Returns the position of the newest prompt of this turn if it has no answer yet.
    pub(super) fn unanswered(&self, history: &History) -> Option<usize> {
        let newest = self.prompts.last()?;
        let answers = |message: &Arc<MessageWithParts>| match &message.info {
            Message::Assistant(answer) => answer.parent_id == *newest && answer.finish.is_some(),
            // A message that continues the prompt's turn comes after an answer, or after a summary of one.
            Message::User(user) => user.continues().as_ref() == Some(newest),
        };
        if history.messages.iter().any(answers) { None } else { history.position(newest) }
    }

    /// Removes old tool output from the model's view.
    async fn prune(&self) {
        let Flow::Continue(agent) = self.active_agent() else { return };
        let mut back = LookBack::within(agent.model.window.read_limit());
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
