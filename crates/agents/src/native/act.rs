//! The second half of a step: runs the tools that the model called, closes the step, and continues or ends the
//! turn.

use llm::{Finish, Usage};
use protocol::number::Number;
use protocol::part::PatchPart;
use protocol::session::{CacheTokens, Tokens};
use protocol::{AgentEvent, Extra, MessageError, Rest, TurnEnd, message};
use serde_json::Value;

use super::attempt::{Called, Heard};
use super::compaction::Why;
use super::role::Voice;
use super::run::{Flow, Loop, Stage};
use super::tools::Fate;
use super::{limits, structured};

/// The result of a step.
struct Ended {
    reason: Finish,
    tokens: Tokens,
    cost: Number,
}

impl Loop<'_> {
    /// Runs the tools that the model called and decides whether the turn goes on.
    pub(super) async fn act(&mut self, stage: &Stage<'_>, heard: Heard) -> Flow {
        let Heard { calls, finish, .. } = heard;
        let ended = self.count(&stage.role.voice, finish);
        if let Some(error) = verdict(ended.reason, calls.is_empty()) {
            return self.fail(&ended, error).await;
        }
        let schema = stage.prompt.as_ref().and_then(structured::schema);
        let (answers, calls): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|call| schema.is_some() && call.name == structured::NAME);
        if calls.is_empty() && answers.is_empty() {
            if schema.is_some() && ended.reason != Finish::Unknown {
                let message = structured::MISSING.to_owned();
                return self
                    .fail(&ended, MessageError::StructuredOutput { message, retries: 0, extra: Rest::NONE })
                    .await;
            }
            self.finish(&ended, None).await;
            return self.decide(stage, &ended).await;
        }
        self.repeats = 0;
        if !calls.is_empty() {
            self.tools(stage, &calls, &ended).await?;
        }
        if !answers.is_empty() {
            return self.answer(stage, schema, &answers, &ended).await;
        }
        self.finish(&ended, None).await;
        self.mind_the_size(stage, &ended, true).await
    }

    /// Runs tools, unless this is the last step of the turn or the budget is used up.
    async fn tools(&mut self, stage: &Stage<'_>, calls: &[Called], ended: &Ended) -> Flow {
        if stage.last {
            self.refuse(calls, "Not run: there are no tools in the last step of a turn.").await;
            return Flow::Continue(());
        }
        if let Some(message) = self.meter.exceeded() {
            self.refuse(calls, "Not run: the budget is used up.").await;
            self.finish(ended, None).await;
            return Flow::Break(TurnEnd::Budget { message });
        }
        let mut doom = std::mem::take(&mut self.doom);
        let fate = stage.bench.run(calls, &self.setting(stage), &mut doom).await;
        self.doom = doom;
        match fate {
            Fate::Cancelled => Flow::Break(TurnEnd::Cancelled),
            Fate::Refused if !self.inner.options.continue_on_deny => {
                self.finish(ended, None).await;
                Flow::Break(TurnEnd::Blocked)
            }
            Fate::Refused | Fate::Done => Flow::Continue(()),
        }
    }

    /// Fails calls without running them.
    async fn refuse(&self, calls: &[Called], reason: &str) {
        for call in calls {
            let (call, error) = (call.id.clone(), reason.to_owned());
            self.turn.emit(AgentEvent::ToolFailed { call, error, metadata: None }).await;
        }
    }

    /// Ends the turn with a structured answer, or lets the model try again.
    async fn answer(
        &mut self,
        stage: &Stage<'_>,
        schema: Option<&Extra>,
        answers: &[Called],
        ended: &Ended,
    ) -> Flow {
        if self.take(schema, answers).await {
            self.finish(ended, None).await;
            return Flow::Break(TurnEnd::Completed);
        }
        self.misfits += 1;
        let chances = stage.prompt.as_ref().map_or(0, structured::retries);
        if self.misfits > chances {
            let message = structured::UNFIT.to_owned();
            let error = MessageError::StructuredOutput { message, retries: chances, extra: Rest::NONE };
            return self.fail(ended, error).await;
        }
        self.finish(ended, None).await;
        self.mind_the_size(stage, ended, true).await
    }

    /// Accepts the first structured answer that fits the schema. Returns true if there is one.
    async fn take(&self, schema: Option<&Extra>, answers: &[Called]) -> bool {
        let Some(schema) = schema else { return false };
        let mut taken = false;
        for Called { id, input, .. } in answers {
            let given = if let Value::Object(input) = input { input.clone() } else { Extra::new() };
            let (call, tool) = (id.clone(), structured::NAME.to_owned());
            self.turn
                .emit(AgentEvent::ToolRunning { call, tool, input: given, title: None, metadata: None })
                .await;
            let call = id.clone();
            let event = match structured::check(schema, input) {
                _ if taken => AgentEvent::ToolFailed {
                    call,
                    error: "Ignored: an earlier call has already given the structured answer.".to_owned(),
                    metadata: None,
                },
                Ok(()) => {
                    taken = true;
                    self.turn.emit(AgentEvent::Structured(input.clone())).await;
                    AgentEvent::ToolCompleted {
                        call,
                        output: structured::TAKEN.to_owned(),
                        title: "Structured Output".to_owned(),
                        metadata: Extra::from_iter([("valid".to_owned(), true.into())]),
                        attachments: Vec::new(),
                    }
                }
                Err(error) => AgentEvent::ToolFailed { call, error, metadata: None },
            };
            self.turn.emit(event).await;
        }
        taken
    }

    /// Continues or ends the turn after a step without calls.
    async fn decide(&mut self, stage: &Stage<'_>, ended: &Ended) -> Flow {
        match ended.reason {
            Finish::Unknown if self.repeats < limits::REPEATS => {
                self.repeats += 1;
                self.mind_the_size(stage, ended, true).await
            }
            Finish::Unknown => {
                let times = self.repeats + 1;
                let message = format!("the model stopped {times} times in a row without a finish reason");
                Flow::Break(TurnEnd::Budget { message })
            }
            // [`verdict`] has handled `ContentFilter` and `Error` before.
            Finish::Stop | Finish::Length | Finish::ToolCalls | Finish::ContentFilter | Finish::Error => {
                self.mind_the_size(stage, ended, false).await?;
                Flow::Break(TurnEnd::Completed)
            }
        }
    }

    /// Summarises the conversation if the step has filled the model's context.
    async fn mind_the_size(&mut self, stage: &Stage<'_>, ended: &Ended, go_on: bool) -> Flow {
        if self.inner.overflows(&stage.role.voice, &ended.tokens) {
            return self.compact(Why::Full { go_on }).await;
        }
        self.compactions = 0;
        Flow::Continue(())
    }

    /// Closes the step of a summary, or fails if the model gave none.
    pub(super) async fn close_summary(&mut self, voice: &Voice, heard: Heard) -> Flow {
        let Heard { calls, spoke, finish } = heard;
        let ended = self.count(voice, finish);
        let empty = || MessageError::unknown("the model returned no summary of the conversation");
        let failed = verdict(ended.reason, true).or_else(|| (!spoke || !calls.is_empty()).then(empty));
        if let Some(error) = failed {
            return self.fail(&ended, error).await;
        }
        self.finish(&ended, None).await;
        Flow::Continue(())
    }

    /// Adds the step's usage to the meter.
    fn count(&mut self, voice: &Voice, finish: Option<(Finish, Usage)>) -> Ended {
        let (reason, usage) = finish.unwrap_or((Finish::Unknown, Usage::default()));
        let (tokens, cost) = (tokens(usage), Number(voice.prices.cost(&usage)));
        self.meter.step(cost, &tokens);
        Ended { reason, tokens, cost }
    }

    async fn fail(&self, ended: &Ended, error: MessageError) -> Flow {
        self.finish(ended, Some(error.clone())).await;
        Flow::Break(TurnEnd::Error(error))
    }

    async fn finish(&self, ended: &Ended, error: Option<MessageError>) {
        self.close(|snapshot, patch| AgentEvent::StepFinished {
            reason: wire(ended.reason),
            tokens: ended.tokens.clone(),
            cost: ended.cost,
            snapshot,
            patch,
            error,
        })
        .await;
    }

    /// Closes a step with the files that it has changed.
    pub(super) async fn close(&self, end: impl FnOnce(Option<String>, Option<PatchPart>) -> AgentEvent) {
        let (snapshot, patch) = self.changes.finish().await;
        let changed = patch.is_some();
        self.turn.emit(end(snapshot, patch)).await;
        if changed {
            self.sum_up().await;
        }
    }

    /// Reports the file changes of a step that the turn leaves unfinished, if there is one.
    pub(super) async fn leave(&self) {
        if let (_, Some(patch)) = self.changes.finish().await {
            self.turn.emit(AgentEvent::Patched(patch)).await;
            self.sum_up().await;
        }
    }

    /// Reports all file changes of the turn and the session.
    async fn sum_up(&self) {
        if let Some(diffed) = self.changes.diffed().await {
            self.turn.emit(diffed).await;
        }
    }
}

/// Returns the error for a finish reason that stands for one.
fn verdict(reason: Finish, silent: bool) -> Option<MessageError> {
    match reason {
        Finish::ContentFilter => {
            let message = "the provider's content filter withheld the answer".to_owned();
            Some(MessageError::ContentFilter { message, extra: Rest::NONE })
        }
        Finish::Error if silent => {
            Some(MessageError::unknown("the provider ended the answer with an unspecified error"))
        }
        _ => None,
    }
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

/// Converts usage to the wire format.
pub(super) fn tokens(usage: Usage) -> Tokens {
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
