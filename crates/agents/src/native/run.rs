//! The loop of one turn.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use engine::session::Turn;
use llm::{Finish, Limits, Model, Request, Usage};
use protocol::agent::Agent;
use protocol::number::Number;
use protocol::session::{CacheTokens, Tokens};
use protocol::{AgentEvent, Extra, MessageError, Rest, Session, TurnEnd, message};
use workspace::files::Root;

use super::attempt::Heard;
use super::doom::Doom;
use super::permission::Permissions;
use super::tools::{Bench, Fate, Setting};
use super::{Inner, agent, context, limits, step, system};

/// Works on a prompt until there is nothing left to say.
pub(super) async fn run(inner: &Inner, turn: &Turn) -> TurnEnd {
    match Loop::new(inner, turn) {
        Ok(mut looping) => looping.run().await,
        Err(message) => TurnEnd::Error(MessageError::unknown(message)),
    }
}

struct Loop<'a> {
    inner: &'a Inner,
    turn: &'a Turn,
    model: Arc<dyn Model>,
    agent: Option<&'a Agent>,
    root: Root,
    permissions: Permissions<'a>,
    bench: Bench,
    doom: Doom,
    /// How often in a row the model stopped for no known reason.
    repeats: u32,
}

/// What to do after a step.
enum Next {
    Step,
    End(TurnEnd),
}

impl<'a> Loop<'a> {
    fn new(inner: &'a Inner, turn: &'a Turn) -> Result<Self, String> {
        let provider = turn.model.provider_id.as_str();
        let model = inner.models.get(provider).cloned().ok_or_else(|| {
            let known: Vec<&str> = inner.models.keys().map(String::as_str).collect();
            format!("there is no provider \"{provider}\"; known providers: {}", known.join(", "))
        })?;
        let session = &turn.session;
        let root = Root::within(Path::new(&session.directory), Path::new(worktree(session)))
            .map_err(|error| format!("the session's directory cannot be used: {error}"))?;
        let agents = &inner.options.agents;
        let agent = agents.iter().find(|agent| agent.name == turn.agent);
        let rules = agent::rules(agent, session);
        let permissions = Permissions::new(rules, &inner.approvals, &session.directory);
        let bench = Bench::new(agents, &inner.options.tools, &permissions);
        Ok(Self { inner, turn, model, agent, root, permissions, bench, doom: Doom::default(), repeats: 0 })
    }

    async fn run(&mut self) -> TurnEnd {
        let steps = self.agent.and_then(|agent| agent.steps).unwrap_or(limits::STEPS);
        for number in 0..steps {
            if number > 0 {
                self.turn.join().await;
            }
            match self.step().await {
                Next::Step => {}
                Next::End(end) => return end,
            }
        }
        TurnEnd::Budget { message: format!("the turn has taken {steps} steps, which is as many as it may") }
    }

    /// One step: ask, run what was called, close the message, decide.
    async fn step(&mut self) -> Next {
        let cancel = self.turn.cancellation();
        if cancel.is_cancelled() {
            return Next::End(TurnEnd::Cancelled);
        }
        let history = match self.turn.history().await {
            Ok(history) => history,
            Err(error) => return Next::End(TurnEnd::Error(MessageError::unknown(error.to_string()))),
        };
        let prompt = context::newest_prompt(&history);
        let off = prompt.and_then(|prompt| prompt.tools.clone()).unwrap_or_default();
        let extra = prompt.and_then(|prompt| prompt.system.as_deref());
        let mut request = self.request(&off, extra);
        request.messages = context::conversation(&history, &self.turn.model);
        drop(history);
        self.turn.emit(AgentEvent::step_started()).await;
        let heard = tokio::select! {
            biased;
            () = cancel.cancelled() => return Next::End(TurnEnd::Cancelled),
            heard = step::step(self.inner, self.turn, self.model.as_ref(), request) => heard,
        };
        match heard {
            Ok(heard) => self.act(heard, &off).await,
            Err(error) => Next::End(TurnEnd::Error(error)),
        }
    }

    fn request(&self, off: &BTreeMap<String, bool>, extra: Option<&str>) -> Request {
        let model = &self.turn.model;
        let mut request = Request::new(llm::ModelRef::new(&model.provider_id, &model.model_id));
        let instructions = &self.inner.options.instructions;
        request.system = system::prompt(self.turn, self.agent, instructions, self.inner.clock.now(), extra);
        request.tools = self.bench.offered(&self.setting(off));
        request.limits = Limits { output_tokens: Some(limits::OUTPUT_TOKENS) };
        request
    }

    fn setting<'s>(&'s self, off: &'s BTreeMap<String, bool>) -> Setting<'s> {
        Setting {
            turn: self.turn,
            root: &self.root,
            permissions: &self.permissions,
            hidden: &self.inner.options.hidden,
            options: &self.inner.options.tools,
            off,
        }
    }

    /// Runs what the model called and decides what comes next.
    async fn act(&mut self, heard: Heard, off: &BTreeMap<String, bool>) -> Next {
        let Heard { calls, finish } = heard;
        let (reason, usage) = finish.unwrap_or((Finish::Unknown, Usage::default()));
        if let Some(error) = verdict(reason, calls.is_empty()) {
            self.finish(reason, usage, Some(error.clone())).await;
            return Next::End(TurnEnd::Error(error));
        }
        if !calls.is_empty() {
            let mut doom = std::mem::take(&mut self.doom);
            let fate = self.bench.run(&calls, &self.setting(off), &mut doom).await;
            self.doom = doom;
            self.repeats = 0;
            return match fate {
                Fate::Cancelled => Next::End(TurnEnd::Cancelled),
                Fate::Refused => {
                    self.finish(reason, usage, None).await;
                    Next::End(TurnEnd::Blocked)
                }
                Fate::Done => {
                    self.finish(reason, usage, None).await;
                    Next::Step
                }
            };
        }
        self.finish(reason, usage, None).await;
        self.decide(reason)
    }

    /// After a step without calls.
    fn decide(&mut self, reason: Finish) -> Next {
        match reason {
            Finish::Unknown if self.repeats < limits::REPEATS => {
                self.repeats += 1;
                Next::Step
            }
            Finish::Unknown => {
                let times = self.repeats + 1;
                let message = format!("the model stopped {times} times in a row without saying why");
                Next::End(TurnEnd::Budget { message })
            }
            // The other two were dealt with before.
            Finish::Stop | Finish::Length | Finish::ToolCalls | Finish::ContentFilter | Finish::Error => {
                Next::End(TurnEnd::Completed)
            }
        }
    }

    async fn finish(&self, reason: Finish, usage: Usage, error: Option<MessageError>) {
        self.turn
            .emit(AgentEvent::StepFinished {
                reason: wire(reason),
                tokens: tokens(usage),
                cost: Number(0.0),
                snapshot: None,
                patch: None,
                error,
            })
            .await;
    }
}

/// The error that a reason to stop stands for.
fn verdict(reason: Finish, silent: bool) -> Option<MessageError> {
    match reason {
        Finish::ContentFilter => {
            let message = "the provider's content filter withheld the answer".to_owned();
            Some(MessageError::ContentFilter { message, extra: Rest::NONE })
        }
        Finish::Error if silent => {
            Some(MessageError::unknown("the provider ended the answer with an error and did not say which"))
        }
        _ => None,
    }
}

/// The top of the worktree a session is in.
fn worktree(session: &Session) -> &str {
    let path = session.path.as_deref().unwrap_or_default();
    let top = session.directory.strip_suffix(path).map(|top| top.trim_end_matches('/'));
    top.filter(|top| !path.is_empty() && !top.is_empty()).unwrap_or(&session.directory)
}

fn wire(reason: Finish) -> message::Finish {
    match reason {
        Finish::Stop => message::Finish::Stop,
        Finish::ToolCalls => message::Finish::ToolCalls,
        Finish::Length => message::Finish::Length,
        Finish::ContentFilter => message::Finish::ContentFilter,
        Finish::Error => message::Finish::Error,
        Finish::Unknown => message::Finish::Unknown,
    }
}

fn tokens(usage: Usage) -> Tokens {
    let exclusive = usage.exclusive();
    Tokens {
        total: exclusive.total,
        input: exclusive.input,
        output: exclusive.output,
        reasoning: exclusive.reasoning,
        cache: CacheTokens { read: exclusive.cache_read, write: exclusive.cache_write, extra: Rest::NONE },
        extra: Extra::new(),
    }
}
