//! Compaction: replaces the beginning of a conversation by a summary when the conversation has become too long.
//!
//! A compaction consists of a user message that requests it, with a `compaction` part as its only part, and a step
//! of the hidden agent `compaction` that answers it. From then on the model gets the summary, the tail (the newest
//! messages, kept as they were) and everything after them. Users still see all messages.

mod prune;
pub(super) mod summary;
mod tail;
mod window;

use std::sync::Arc;

use engine::ports::hooks::{Autocontinue, AutocontinueChoice};
use llm::{Message, Purpose, UserContent};
use protocol::agent_event::Speaker;
use protocol::part::{CompactionPart, FilePart, TextPart};
use protocol::{AgentEvent, Extra, MessageError, MessageId, MessageWithParts, Part, PartBody, Rest, TurnEnd};
use serde_json::json;

use super::active_agent::{ActiveAgent, ActiveModel};
use super::history::History;
use super::model_call::{self, ModelCall};
use super::run::{Flow, Loop};
use super::{hooks, limits, model_messages, size};

pub(super) use prune::prune;
pub(super) use window::ContextWindow;

const AGENT: &str = "compaction";

/// The share of the context that the summary request may use, in percent. The rest is for errors of the estimate.
const REQUEST_SHARE: u64 = 80;

/// The message that lets the model continue after a summary in the middle of its work.
const CONTINUE: &str =
    "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed.";

/// Precedes [`CONTINUE`] if attachments may have made the conversation too long.
const TOO_LARGE: &str = "The previous prompt was too large for the model, probably because of large attachments. \
    They were left out of the summary. If they mattered, say so, and suggest smaller ones.";

/// The reason for a compaction.
pub(super) enum Trigger<'a> {
    /// The conversation fills the model's context.
    ContextFull(Progress),
    /// The provider rejected the conversation as too long.
    Rejected,
    /// The user requested it with this message.
    Requested(&'a MessageWithParts),
}

/// The state of the model's work when a compaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The model goes on after the summary.
    Unfinished,
    /// The model has given its last answer.
    Finished,
}

/// The next action after the summary.
enum NextAction {
    Stop,
    /// Tell the model to continue. `large` is true if attachments may have been too large.
    Continue {
        large: bool,
    },
    /// Add the prompt again.
    RepeatPrompt(Vec<PartBody>),
}

/// The range to summarise, and the next action.
struct Plan {
    /// Messages before this index are summarised, or kept as the tail.
    end: usize,
    /// The index of a prompt in this range that has no answer yet.
    unanswered: Option<usize>,
    next: NextAction,
}

impl Loop<'_> {
    /// Summarises the conversation and returns whether the turn goes on.
    pub(super) async fn compact(&mut self, trigger: Trigger<'_>) -> Flow {
        match (self.try_compact(&trigger).await, &trigger) {
            // The model has already answered, so a failed summary must not turn the answer into a failure.
            (Flow::Break(TurnEnd::Error(error)), Trigger::ContextFull(Progress::Finished)) => {
                self.turn.emit(AgentEvent::Warning(error)).await;
                Flow::Break(TurnEnd::Completed)
            }
            (Flow::Break(TurnEnd::Budget { .. }), Trigger::ContextFull(Progress::Finished)) => {
                Flow::Break(TurnEnd::Completed)
            }
            (flow, _) => flow,
        }
    }

    async fn try_compact(&mut self, trigger: &Trigger<'_>) -> Flow {
        self.check_budget().await?;
        if !matches!(trigger, Trigger::Requested(_)) {
            if self.compactions >= limits::COMPACTIONS {
                return Flow::Break(TurnEnd::Error(still_too_long()));
            }
            self.compactions += 1;
        }
        let history = self.history().await?;
        let agent = self.active_agent()?;
        let plan = plan(trigger, &history, self.unanswered(&history));
        let messages = history.messages.get(..plan.end).unwrap_or_default();
        if messages.is_empty() {
            // Only a user's request can come with an empty conversation.
            let requested = matches!(trigger, Trigger::Requested(_));
            return Flow::Break(if requested {
                TurnEnd::Completed
            } else {
                TurnEnd::Error(still_too_long())
            });
        }
        let settings = &self.inner.options.compaction;
        let limits = tail::Limits {
            tokens: agent.model.window.tail_tokens(settings.preserve_recent_tokens),
            turns: settings.tail_turns,
            unanswered: plan.unanswered,
        };
        let measure = |messages: &[Arc<MessageWithParts>]| {
            size::conversation(&model_messages::convert(messages, &agent.model.reference)).tokens
        };
        // The tail reaches to the end of the conversation and would contain the prompt that is added again.
        let repeats = matches!(plan.next, NextAction::RepeatPrompt(_));
        let kept = if repeats { None } else { tail::start(messages, limits, measure) };
        self.announce(trigger, kept.and_then(|at| messages.get(at)).map(Arc::as_ref)).await;
        let head = messages.get(..kept.unwrap_or(messages.len())).unwrap_or_default();
        let request = match trigger {
            Trigger::Requested(message) => Some(message.info.id().clone()),
            Trigger::ContextFull(_) | Trigger::Rejected => None,
        };
        self.summarise(&agent, &history, head, request).await?;
        match plan.next {
            NextAction::Stop => {}
            NextAction::Continue { .. }
                if !self.continues_after_summary(&agent, matches!(trigger, Trigger::Rejected)).await =>
            {
                self.turn.emit(AgentEvent::Compacted).await;
                return Flow::Break(TurnEnd::Completed);
            }
            NextAction::Continue { large } => {
                self.turn.emit(AgentEvent::Continued(vec![continue_part(large)])).await;
            }
            NextAction::RepeatPrompt(parts) => self.turn.emit(AgentEvent::Continued(parts)).await,
        }
        self.turn.emit(AgentEvent::Compacted).await;
        Flow::Continue(())
    }

    /// Returns true if the turn goes on after a summary. A hook may decide against it.
    async fn continues_after_summary(&self, agent: &ActiveAgent<'_>, overflow: bool) -> bool {
        let (agent, model) = (&agent.config.name, &agent.model.reference);
        let Some(chat) = self.inner.after_summary(self.turn, agent, model, self.newest_prompt.as_ref())
        else {
            return true;
        };
        let (input, usual) = (Autocontinue { chat, overflow }, AutocontinueChoice { enabled: true });
        tokio::select! {
            biased;
            () = self.turn.cancelled() => true,
            choice = self.turn.hooks().change(&input, usual) => choice.enabled,
        }
    }

    /// Stores the request for a summary, with the start of the tail.
    async fn announce(&self, trigger: &Trigger<'_>, tail: Option<&MessageWithParts>) {
        let tail_start_id = tail.map(|message| message.info.id().clone());
        if let Trigger::Requested(message) = trigger {
            let request = message.parts.iter().find_map(|part| match &part.body {
                PartBody::Compaction(request) => Some((part, request)),
                _ => None,
            });
            if let Some((part, request)) = request.filter(|_| tail_start_id.is_some()) {
                let body = PartBody::Compaction(CompactionPart { tail_start_id, ..request.clone() });
                self.turn.emit(AgentEvent::Revised(Box::new(Part { body, ..part.clone() }))).await;
            }
            return;
        }
        let overflow = Some(matches!(trigger, Trigger::Rejected));
        let request = CompactionPart { auto: true, overflow, tail_start_id, extra: Extra::new() };
        self.turn.emit(AgentEvent::Continued(vec![PartBody::Compaction(request)])).await;
    }

    /// Runs the step that summarises. If the request is still too long, retries with half of the conversation. The
    /// step answers `request`, or else the request that the loop has just added.
    async fn summarise(
        &mut self,
        agent: &ActiveAgent<'_>,
        history: &History,
        head: &[Arc<MessageWithParts>],
        request: Option<MessageId>,
    ) -> Flow {
        let model = match self.summariser(agent) {
            Ok(model) => model,
            Err(message) => return Flow::Break(TurnEnd::Error(MessageError::unknown(message))),
        };
        let speaker = Speaker {
            agent: AGENT.to_owned(),
            model: model.reference.clone(),
            summary: true,
            answers: request,
        };
        self.turn.emit(AgentEvent::StepStarted { snapshot: None, speaker: Some(speaker) }).await;
        let previous = history.summary.as_ref().map(|summary| summary.summary.as_ref());
        let (shaped, changed) = tokio::select! {
            biased;
            () = self.turn.cancelled() => return Flow::Break(TurnEnd::Cancelled),
            both = async {
                (hooks::compacting(self.turn).await, hooks::summarised(self.turn, previous, head).await)
            } => both,
        };
        let (previous, conversation) = match &changed {
            Some((previous, head)) => (previous.as_ref(), model_messages::convert(head, &model.reference)),
            None => (previous, model_messages::convert(head, &model.reference)),
        };
        let chat = self.inner.chat(self.turn, AGENT, &model.reference, self.newest_prompt.as_ref());
        let previous = previous.map(text);
        let mut room = model.window.usable.map_or(u64::MAX, |usable| usable / 100 * REQUEST_SHARE);
        for attempt in 1.. {
            let mut request = model.request(&self.turn.session);
            request.purpose = Purpose::Compaction;
            let agent = self.inner.agent(AGENT);
            request.system =
                agent.and_then(|agent| agent.prompt.clone()).unwrap_or_else(|| summary::PROMPT.to_owned());
            let question = summary::question(&conversation, previous.as_deref(), &shaped, room);
            room = room.min(size::tokens(&question)) / 2;
            request.messages = vec![Message::User(vec![UserContent::Text(question)])];
            let cancel = self.turn.cancellation();
            let call = ModelCall { model: model.provider.as_ref(), request: &request, chat: chat.as_ref() };
            let output = tokio::select! {
                biased;
                () = cancel.cancelled() => return Flow::Break(TurnEnd::Cancelled),
                output = model_call::call_model(self.inner, self.turn, call) => output,
            };
            match output {
                Ok(output) => return self.close_summary(&model, output).await,
                Err(failed) if failed.error.is_overflow() && attempt < limits::COMPACTIONS => {
                    if failed.emitted {
                        self.turn.emit(AgentEvent::AttemptWithdrawn).await;
                    }
                }
                Err(failed) => return Flow::Break(TurnEnd::Error(failed.error())),
            }
        }
        Flow::Continue(())
    }

    /// Returns the model of the `compaction` agent, or else the model of the turn.
    fn summariser(&self, agent: &ActiveAgent<'_>) -> Result<ActiveModel, String> {
        let own = self.inner.agent(AGENT).and_then(|agent| agent.model.as_ref());
        self.inner.active_model(own.unwrap_or(&agent.model.reference))
    }
}

fn plan(trigger: &Trigger<'_>, history: &History, unanswered: Option<usize>) -> Plan {
    let end = history.messages.len();
    let next = match trigger {
        Trigger::Requested(_) | Trigger::ContextFull(Progress::Finished) => NextAction::Stop,
        Trigger::ContextFull(Progress::Unfinished) => NextAction::Continue { large: false },
        Trigger::Rejected => match unanswered.and_then(|at| Some((at, repeated(history, at)?))) {
            // A prompt that is added again is not summarised.
            Some((at, parts)) => {
                return Plan { end: at, unanswered: None, next: NextAction::RepeatPrompt(parts) };
            }
            None => NextAction::Continue { large: unanswered.is_some_and(|at| has_media(history, at)) },
        },
    };
    Plan { end, unanswered, next }
}

pub(super) fn still_too_long() -> MessageError {
    MessageError::ContextOverflow {
        message: "The conversation does not fit into the model's context, and summarising it did not help. Start a \
                  new session, or choose a model with a larger context."
            .to_owned(),
        response_body: None,
        extra: Rest::NONE,
    }
}

/// Returns the parts of a prompt for adding it again, with a text in place of each attachment. Returns `None` if no
/// other user message comes before it, because then there is nothing else to summarise.
fn repeated(history: &History, at: usize) -> Option<Vec<PartBody>> {
    let before = history.messages.get(..at)?;
    let earlier = before.iter().any(|message| matches!(message.info, protocol::Message::User(_)));
    if !earlier && history.summary.is_none() {
        return None;
    }
    let parts = history.messages.get(at)?.parts.iter().map(|part| match &part.body {
        PartBody::File(file) if is_media(file) => {
            let name = file.filename.as_deref().unwrap_or("file");
            let text = format!("[Attached {}: {name}]", file.mime);
            PartBody::Text(TextPart { text, synthetic: Some(true), ..TextPart::default() })
        }
        body => body.clone(),
    });
    Some(parts.collect())
}

fn has_media(history: &History, at: usize) -> bool {
    let parts = history.messages.get(at).map(|message| message.parts.as_slice()).unwrap_or_default();
    parts.iter().any(|part| matches!(&part.body, PartBody::File(file) if is_media(file)))
}

/// Returns true if a file goes to the model as it is, and not as text beside it.
fn is_media(file: &FilePart) -> bool {
    file.mime != "text/plain" && file.mime != "application/x-directory"
}

fn continue_part(large: bool) -> PartBody {
    let text = if large { format!("{TOO_LARGE}\n\n{CONTINUE}") } else { CONTINUE.to_owned() };
    let metadata = Extra::from_iter([("compaction_continue".to_owned(), json!(true))]);
    PartBody::Text(TextPart { text, synthetic: Some(true), metadata: Some(metadata), ..TextPart::default() })
}

fn text(message: &MessageWithParts) -> String {
    let texts = message.parts.iter().filter_map(|part| match &part.body {
        PartBody::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
