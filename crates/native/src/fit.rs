//! Makes sure that a request fits into the model's context before it is sent.
//!
//! Sending a request that is too long costs time and memory, and some providers cut it silently. So each request is
//! measured first: by the model's own token count of the last step and an estimate of what was added since. If it
//! probably does not fit, the conversation is summarised first. If it cannot fit, it is never sent.

use std::sync::Arc;

use protocol::{MessageError, MessageWithParts, Rest, TurnEnd};

use super::active_agent::ActiveModel;
use super::compaction::{self, Progress, Trigger};
use super::history::{self, History, LookBack};
use super::run::{Flow, Loop, StepContext, or_end};
use super::{model_messages, size};

impl Loop<'_> {
    /// Returns the next request, after a summary of the conversation if it has become too long.
    pub(super) async fn fitting_request(&mut self, step: &StepContext<'_>) -> Flow<llm::Request> {
        let model = &step.agent.model;
        let mut history = self.history().await?;
        self.check_prompt(model, &history)?;
        let mut summarised = false;
        if history.last_finished().is_some_and(|last| self.inner.overflows(model, &last.tokens)) {
            history = self.summarised().await?;
            summarised = true;
        }
        loop {
            let request = tokio::select! {
                biased;
                () = self.turn.cancelled() => return Flow::Break(TurnEnd::Cancelled),
                request = self.request(step, &history) => request,
            };
            let estimate = size::request(&request);
            let too_long = history.cut || model.window.probably_exceeds(estimate, counted(&history, model));
            if too_long && !summarised && self.inner.compacts() {
                drop(request);
                history = self.summarised().await?;
                summarised = true;
            } else if history.cut || model.window.cannot_hold(estimate) {
                return Flow::Break(TurnEnd::Error(compaction::still_too_long()));
            } else {
                // The estimate may be too low; then the provider refuses the request.
                return Flow::Continue(request);
            }
        }
    }

    /// Summarises the conversation and returns it.
    async fn summarised(&mut self) -> Flow<History> {
        self.compact(Trigger::ContextFull(Progress::Unfinished)).await?;
        self.history().await
    }

    /// Refuses a prompt that is larger than the model's context: a summary of earlier messages would not help.
    fn check_prompt(&self, model: &ActiveModel, history: &History) -> Flow {
        let prompt = self.unanswered(history).and_then(|at| history.messages.get(at));
        let Some(prompt) = prompt else { return Flow::Continue(()) };
        let size = size::conversation(&model_messages::convert([prompt], &model.reference));
        if !model.window.cannot_hold(size) {
            return Flow::Continue(());
        }
        let name = &model.reference.model_id;
        let takes =
            model.window.max_input.map_or_else(String::new, |most| format!("; {name} takes at most {most}"));
        let message = format!(
            "The prompt is too large for the model: about {} tokens in {} bytes{takes}. Shorten it, attach less, or \
             choose a model with a larger context.",
            size.tokens, size.bytes
        );
        let error = MessageError::ContextOverflow { message, response_body: None, extra: Rest::NONE };
        Flow::Break(TurnEnd::Error(error))
    }

    /// Returns the conversation as this turn may see it, as far back as the model's context could hold.
    pub(super) async fn history(&self) -> Flow<History> {
        let mut back = LookBack::within(self.active_agent()?.model.window.read_limit());
        let mut messages = or_end(self.turn.recent(|message| back.is_enough(message)).await)?;
        if back.is_cut() {
            let summary = self.summary_before(&messages, &back).await?;
            messages.splice(..0, summary);
        }
        let mut older = Vec::new();
        for id in history::missing(&messages, &self.new_prompts) {
            older.extend(or_end(self.turn.message(&id).await)?.map(Arc::new));
        }
        older.sort_by(|one, other| one.info.order().cmp(&other.info.order()));
        messages.splice(..0, older);
        let mut history = History::new(messages, &self.new_prompts, &self.prompts);
        history.cut = back.is_cut();
        Flow::Continue(history)
    }

    /// Returns the newest summary and the request for it, unless `messages` contains them.
    async fn summary_before(
        &self,
        messages: &[Arc<MessageWithParts>],
        back: &LookBack,
    ) -> Flow<Vec<Arc<MessageWithParts>>> {
        let mut found = Vec::new();
        let request = if let Some(request) = back.request() {
            request.clone()
        } else {
            let Some(summary) = or_end(self.turn.newest_summary().await)? else {
                return Flow::Continue(found);
            };
            let protocol::Message::Assistant(answer) = &summary.info else {
                return Flow::Continue(found);
            };
            let request = answer.parent_id.clone();
            found.push(Arc::new(summary));
            request
        };
        if !messages.iter().any(|message| *message.info.id() == request)
            && let Some(request) = or_end(self.turn.message(&request).await)?
        {
            found.insert(0, Arc::new(request));
        }
        Flow::Continue(found)
    }
}

/// Returns the model's own token count of the conversation, plus an estimate for what it has not counted yet.
fn counted(history: &History, model: &ActiveModel) -> Option<u64> {
    let (counted, since) = history.measured()?;
    Some(counted.saturating_add(size::conversation(&model_messages::convert(since, &model.reference)).tokens))
}
