//! Compaction: replaces the beginning of a conversation by a summary when the conversation has become too long.
//!
//! A compaction consists of a user message that requests it, with a `compaction` part as its only part, and a step
//! of the hidden agent `compaction` that answers it. From then on the model gets the summary, the tail (the newest
//! messages, kept as they were) and everything after them. Users still see all messages.

mod prune;
pub(super) mod summary;
mod tail;
mod window;

use engine::ports::hooks::{Autocontinue, AutocontinueChoice};
use llm::{Message, Purpose, UserContent};
use protocol::agent_event::Speaker;
use protocol::part::{CompactionPart, FilePart, TextPart};
use protocol::{AgentEvent, Extra, MessageError, MessageId, MessageWithParts, Part, PartBody, Rest, TurnEnd};
use serde_json::json;

use super::history::History;
use super::role::{Role, Voice};
use super::run::{Flow, Loop};
use super::{context, hooks, limits, size, step};

pub(super) use prune::prune;
pub(super) use window::Window;

const AGENT: &str = "compaction";

/// The share of the context that the summary request may use, in percent. The rest is for errors of the estimate.
const ROOM: u64 = 80;

/// The message that lets the model continue after a summary in the middle of its work.
const GO_ON: &str =
    "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed.";

/// Precedes [`GO_ON`] if attachments may have made the conversation too long.
const TOO_LARGE: &str = "The previous prompt was too large for the model, probably because of large attachments. \
    They were left out of the summary. If they mattered, say so, and suggest smaller ones.";

/// The reason for a compaction.
pub(super) enum Why<'a> {
    /// The context is full.
    Full {
        /// True if the model has work left to do.
        go_on: bool,
    },
    /// The provider refused the conversation as too long.
    Refused,
    /// The user asked for it.
    Asked(&'a MessageWithParts),
}

/// The next action after the summary.
enum After {
    Stop,
    /// Tell the model to continue. `large` is true if attachments may have been too large.
    GoOn {
        large: bool,
    },
    /// Add the prompt again.
    Repeat(Vec<PartBody>),
}

/// The range to summarise, and the next action.
struct Plan {
    /// Messages before this index are summarised, or kept as the tail.
    end: usize,
    /// The index of a prompt in this range that has no answer yet.
    unanswered: Option<usize>,
    after: After,
}

impl Loop<'_> {
    /// Summarises the conversation and returns whether the turn goes on.
    pub(super) async fn compact(&mut self, why: Why<'_>) -> Flow {
        match (self.try_compact(&why).await, &why) {
            // The model has already answered, so a failed summary must not turn the answer into a failure.
            (Flow::Break(TurnEnd::Error(error)), Why::Full { go_on: false }) => {
                self.turn.emit(AgentEvent::Warning(error)).await;
                Flow::Break(TurnEnd::Completed)
            }
            (Flow::Break(TurnEnd::Budget { .. }), Why::Full { go_on: false }) => {
                Flow::Break(TurnEnd::Completed)
            }
            (flow, _) => flow,
        }
    }

    async fn try_compact(&mut self, why: &Why<'_>) -> Flow {
        self.afford().await?;
        if !matches!(why, Why::Asked(_)) {
            if self.compactions >= limits::COMPACTIONS {
                return Flow::Break(TurnEnd::Error(still_too_long()));
            }
            self.compactions += 1;
        }
        let history = self.history().await?;
        let role = self.role()?;
        let plan = plan(why, &history, self.unanswered(&history));
        let said = history.messages.get(..plan.end).unwrap_or_default();
        if said.is_empty() {
            // Only a user's request can come with an empty conversation.
            let asked = matches!(why, Why::Asked(_));
            return Flow::Break(if asked { TurnEnd::Completed } else { TurnEnd::Error(still_too_long()) });
        }
        let settings = &self.inner.options.compaction;
        let wish = tail::Wish {
            tokens: role.voice.window.kept(settings.preserve_recent_tokens),
            turns: settings.tail_turns,
            unanswered: plan.unanswered,
        };
        let weigh = |messages: &[MessageWithParts]| {
            size::conversation(&context::told(messages, &role.voice.model)).tokens
        };
        // The tail reaches to the end of the conversation and would contain the prompt that is added again.
        let repeats = matches!(plan.after, After::Repeat(_));
        let kept = if repeats { None } else { tail::start(said, wish, weigh) };
        self.announce(why, kept.and_then(|at| said.get(at))).await;
        let head = said.get(..kept.unwrap_or(said.len())).unwrap_or_default();
        let request = match why {
            Why::Asked(message) => Some(message.info.id().clone()),
            Why::Full { .. } | Why::Refused => None,
        };
        self.summarise(&role, &history, head, request).await?;
        match plan.after {
            After::Stop => {}
            After::GoOn { .. } if !self.goes_on(&role, matches!(why, Why::Refused)).await => {
                self.turn.emit(AgentEvent::Compacted).await;
                return Flow::Break(TurnEnd::Completed);
            }
            After::GoOn { large } => self.turn.emit(AgentEvent::Continued(vec![go_on(large)])).await,
            After::Repeat(parts) => self.turn.emit(AgentEvent::Continued(parts)).await,
        }
        self.turn.emit(AgentEvent::Compacted).await;
        Flow::Continue(())
    }

    /// Returns true if the turn goes on after a summary. A hook may decide against it.
    async fn goes_on(&self, role: &Role<'_>, overflow: bool) -> bool {
        let (agent, model) = (&role.agent.name, &role.voice.model);
        let Some(chat) = self.inner.after_summary(self.turn, agent, model, self.asked.as_ref()) else {
            return true;
        };
        let (input, usual) = (Autocontinue { chat, overflow }, AutocontinueChoice { enabled: true });
        tokio::select! {
            biased;
            () = self.turn.cancelled() => true,
            choice = self.turn.hooks().compaction_autocontinue(&input, usual) => choice.enabled,
        }
    }

    /// Stores the request for a summary, with the start of the tail.
    async fn announce(&self, why: &Why<'_>, tail: Option<&MessageWithParts>) {
        let tail_start_id = tail.map(|message| message.info.id().clone());
        if let Why::Asked(message) = why {
            let wish = message.parts.iter().find_map(|part| match &part.body {
                PartBody::Compaction(wish) => Some((part, wish)),
                _ => None,
            });
            if let Some((part, wish)) = wish.filter(|_| tail_start_id.is_some()) {
                let body = PartBody::Compaction(CompactionPart { tail_start_id, ..wish.clone() });
                self.turn.emit(AgentEvent::Revised(Box::new(Part { body, ..part.clone() }))).await;
            }
            return;
        }
        let overflow = Some(matches!(why, Why::Refused));
        let wish = CompactionPart { auto: true, overflow, tail_start_id, extra: Extra::new() };
        self.turn.emit(AgentEvent::Continued(vec![PartBody::Compaction(wish)])).await;
    }

    /// Runs the step that summarises. If the request is still too long, retries with half of the conversation. The
    /// step answers `request`, or else the request that the loop has just added.
    async fn summarise(
        &mut self,
        role: &Role<'_>,
        history: &History,
        head: &[MessageWithParts],
        request: Option<MessageId>,
    ) -> Flow {
        let voice = match self.summariser(role) {
            Ok(voice) => voice,
            Err(message) => return Flow::Break(TurnEnd::Error(MessageError::unknown(message))),
        };
        let model = voice.model.clone();
        let speaker = Speaker { agent: AGENT.to_owned(), model, summary: true, answers: request };
        self.turn.emit(AgentEvent::StepStarted { snapshot: None, speaker: Some(speaker) }).await;
        let (shaped, changed) = tokio::select! {
            biased;
            () = self.turn.cancelled() => return Flow::Break(TurnEnd::Cancelled),
            both = async { (hooks::compacting(self.turn).await, hooks::summarised(self.turn, head).await) } => both,
        };
        let told = context::told(changed.as_deref().unwrap_or(head), &voice.model);
        let chat = self.inner.chat(self.turn, AGENT, &voice.model, self.asked.as_ref());
        let previous = history.summary.as_ref().map(|summary| text(&summary.summary));
        let mut room = voice.window.usable.map_or(u64::MAX, |usable| usable / 100 * ROOM);
        for attempt in 1.. {
            let mut request = voice.request(&self.turn.session);
            request.purpose = Purpose::Compaction;
            let agent = self.inner.agent(AGENT);
            request.system =
                agent.and_then(|agent| agent.prompt.clone()).unwrap_or_else(|| summary::PROMPT.to_owned());
            let question = summary::question(&told, previous.as_deref(), &shaped, room);
            room = room.min(size::tokens(&question)) / 2;
            request.messages = vec![Message::User(vec![UserContent::Text(question)])];
            let cancel = self.turn.cancellation();
            let ask = step::Ask { model: voice.provider.as_ref(), request: &request, chat: chat.as_ref() };
            let heard = tokio::select! {
                biased;
                () = cancel.cancelled() => return Flow::Break(TurnEnd::Cancelled),
                heard = step::step(self.inner, self.turn, ask) => heard,
            };
            match heard {
                Ok(heard) => return self.close_summary(&voice, heard).await,
                Err(failed) if failed.error.is_overflow() && attempt < limits::COMPACTIONS => {
                    if failed.said {
                        self.turn.emit(AgentEvent::AttemptWithdrawn).await;
                    }
                }
                Err(failed) => return Flow::Break(TurnEnd::Error(failed.error())),
            }
        }
        Flow::Continue(())
    }

    /// Returns the model of the `compaction` agent, or else the model of the turn.
    fn summariser(&self, role: &Role<'_>) -> Result<Voice, String> {
        let own = self.inner.agent(AGENT).and_then(|agent| agent.model.as_ref());
        self.inner.voice(own.unwrap_or(&role.voice.model))
    }
}

fn plan(why: &Why<'_>, history: &History, unanswered: Option<usize>) -> Plan {
    let end = history.messages.len();
    let after = match why {
        Why::Asked(_) | Why::Full { go_on: false } => After::Stop,
        Why::Full { go_on: true } => After::GoOn { large: false },
        Why::Refused => match unanswered.and_then(|at| Some((at, repeated(history, at)?))) {
            // A prompt that is added again is not summarised.
            Some((at, parts)) => return Plan { end: at, unanswered: None, after: After::Repeat(parts) },
            None => After::GoOn { large: unanswered.is_some_and(|at| has_media(history, at)) },
        },
    };
    Plan { end, unanswered, after }
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

fn go_on(large: bool) -> PartBody {
    let text = if large { format!("{TOO_LARGE}\n\n{GO_ON}") } else { GO_ON.to_owned() };
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
