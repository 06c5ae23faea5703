//! The second half of a step: runs the tools that the model called, closes the step, and continues or ends the
//! turn.

use llm::{Finish, Usage};
use protocol::number::Number;
use protocol::session::{CacheTokens, Tokens};
use protocol::{AgentEvent, Extra, MessageError, Rest, TurnEnd, message};
use serde_json::Value;

use super::active_agent::ActiveModel;
use super::attempt::{ModelOutput, RequestedCall};
use super::compaction::{Progress, Trigger};
use super::run::{Flow, Loop, StepContext};
use super::tools::CallOutcome;
use super::{limits, structured};

/// The result of a step.
struct StepResult {
    reason: Finish,
    tokens: Tokens,
    cost: Number,
}

impl Loop<'_> {
    /// Runs the tools that the model called and decides whether the turn goes on.
    pub(super) async fn handle_output(&mut self, step: &StepContext<'_>, output: ModelOutput) -> Flow {
        let ModelOutput { calls, finish, .. } = output;
        let result = self.record_usage(&step.agent.model, finish);
        if let Some(error) = finish_error(result.reason, calls.is_empty()) {
            return self.fail_step(&result, error).await;
        }
        let schema = step.prompt.as_ref().and_then(structured::schema);
        let (answers, calls): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|call| schema.is_some() && call.name == structured::NAME);
        if calls.is_empty() && answers.is_empty() {
            if schema.is_some() && result.reason != Finish::Unknown {
                let message = structured::MISSING.to_owned();
                return self
                    .fail_step(
                        &result,
                        MessageError::StructuredOutput { message, retries: 0, extra: Rest::NONE },
                    )
                    .await;
            }
            self.finish_step(&result, None).await;
            return self.end_without_calls(step, &result).await;
        }
        self.unfinished_steps = 0;
        if !calls.is_empty() {
            self.run_tools(step, &calls, &result).await?;
        }
        if !answers.is_empty() {
            return self.handle_structured_answers(step, schema, &answers, &result).await;
        }
        self.finish_step(&result, None).await;
        self.compact_if_full(step, &result, Progress::Unfinished).await
    }

    /// Runs tools, unless this is the last step of the turn or the budget is used up.
    async fn run_tools(
        &mut self,
        step: &StepContext<'_>,
        calls: &[RequestedCall],
        result: &StepResult,
    ) -> Flow {
        if step.last {
            self.refuse_calls(calls, "Not run: there are no tools in the last step of a turn.").await;
            return Flow::Continue(());
        }
        if let Some(message) = self.supervisor.meter.exceeded() {
            self.refuse_calls(calls, "Not run: the budget is used up.").await;
            self.finish_step(result, None).await;
            return Flow::Break(TurnEnd::Budget { message });
        }
        let mut detector = std::mem::take(&mut self.detector);
        let outcome = step.tools.run(calls, &self.tool_context(step), &mut detector).await;
        self.detector = detector;
        match outcome {
            CallOutcome::Cancelled => Flow::Break(TurnEnd::Cancelled),
            CallOutcome::Refused if !self.inner.options.continue_on_deny => {
                self.finish_step(result, None).await;
                Flow::Break(TurnEnd::Blocked)
            }
            CallOutcome::Refused | CallOutcome::Done => Flow::Continue(()),
        }
    }

    /// Fails calls without running them.
    async fn refuse_calls(&self, calls: &[RequestedCall], reason: &str) {
        for call in calls {
            let (call, error) = (call.id.clone(), reason.to_owned());
            self.turn.emit(AgentEvent::ToolFailed { call, error, metadata: None }).await;
        }
    }

    /// Ends the turn with a structured answer, or lets the model try again.
    async fn handle_structured_answers(
        &mut self,
        step: &StepContext<'_>,
        schema: Option<&Extra>,
        answers: &[RequestedCall],
        result: &StepResult,
    ) -> Flow {
        if self.accept_structured_answer(schema, answers).await {
            self.finish_step(result, None).await;
            return Flow::Break(TurnEnd::Completed);
        }
        self.invalid_answers += 1;
        let chances = step.prompt.as_ref().map_or(0, structured::retries);
        if self.invalid_answers > chances {
            let message = structured::INVALID.to_owned();
            let error = MessageError::StructuredOutput { message, retries: chances, extra: Rest::NONE };
            return self.fail_step(result, error).await;
        }
        self.finish_step(result, None).await;
        self.compact_if_full(step, result, Progress::Unfinished).await
    }

    /// Accepts the first structured answer that fits the schema. Returns true if there is one.
    async fn accept_structured_answer(&self, schema: Option<&Extra>, answers: &[RequestedCall]) -> bool {
        let Some(schema) = schema else { return false };
        let mut accepted = false;
        for RequestedCall { id, input, .. } in answers {
            let given = if let Value::Object(input) = input { input.clone() } else { Extra::new() };
            let (call, tool) = (id.clone(), structured::NAME.to_owned());
            self.turn
                .emit(AgentEvent::ToolRunning { call, tool, input: given, title: None, metadata: None })
                .await;
            let call = id.clone();
            let event = match structured::check(schema, input) {
                _ if accepted => AgentEvent::ToolFailed {
                    call,
                    error: "Ignored: an earlier call has already given the structured answer.".to_owned(),
                    metadata: None,
                },
                Ok(()) => {
                    accepted = true;
                    self.turn.emit(AgentEvent::Structured(input.clone())).await;
                    AgentEvent::ToolCompleted {
                        call,
                        output: structured::ACCEPTED.to_owned(),
                        title: "Structured Output".to_owned(),
                        metadata: Extra::from_iter([("valid".to_owned(), true.into())]),
                        attachments: Vec::new(),
                    }
                }
                Err(error) => AgentEvent::ToolFailed { call, error, metadata: None },
            };
            self.turn.emit(event).await;
        }
        accepted
    }

    /// Continues or ends the turn after a step without calls.
    async fn end_without_calls(&mut self, step: &StepContext<'_>, result: &StepResult) -> Flow {
        match result.reason {
            Finish::Unknown if self.unfinished_steps < limits::UNFINISHED_STEPS => {
                self.unfinished_steps += 1;
                self.compact_if_full(step, result, Progress::Unfinished).await
            }
            Finish::Unknown => {
                let times = self.unfinished_steps + 1;
                let message = format!("the model stopped {times} times in a row without a finish reason");
                Flow::Break(TurnEnd::Budget { message })
            }
            // [`finish_error`] has handled `ContentFilter` and `Error` before.
            Finish::Stop | Finish::Length | Finish::ToolCalls | Finish::ContentFilter | Finish::Error => {
                self.compact_if_full(step, result, Progress::Finished).await?;
                Flow::Break(TurnEnd::Completed)
            }
        }
    }

    /// Summarises the conversation if the step has filled the model's context.
    async fn compact_if_full(
        &mut self,
        step: &StepContext<'_>,
        result: &StepResult,
        progress: Progress,
    ) -> Flow {
        if self.inner.overflows(&step.agent.model, &result.tokens) {
            return self.compact(Trigger::ContextFull(progress)).await;
        }
        self.compactions = 0;
        Flow::Continue(())
    }

    /// Closes the step of a summary, or fails if the model gave none.
    pub(super) async fn close_summary(&mut self, model: &ActiveModel, output: ModelOutput) -> Flow {
        let ModelOutput { calls, has_text, finish } = output;
        let result = self.record_usage(model, finish);
        let empty = || MessageError::unknown("the model returned no summary of the conversation");
        let failed =
            finish_error(result.reason, true).or_else(|| (!has_text || !calls.is_empty()).then(empty));
        if let Some(error) = failed {
            return self.fail_step(&result, error).await;
        }
        self.finish_step(&result, None).await;
        Flow::Continue(())
    }

    /// Adds the step's usage to the meter.
    fn record_usage(&self, model: &ActiveModel, finish: Option<(Finish, Usage)>) -> StepResult {
        let (reason, usage) = finish.unwrap_or((Finish::Unknown, Usage::default()));
        let (tokens, cost) = (tokens(usage), Number(model.prices.cost(&usage)));
        self.supervisor.meter.add_step(cost, &tokens);
        StepResult { reason, tokens, cost }
    }

    async fn fail_step(&self, result: &StepResult, error: MessageError) -> Flow {
        self.finish_step(result, Some(error.clone())).await;
        Flow::Break(TurnEnd::Error(error))
    }

    async fn finish_step(&self, result: &StepResult, error: Option<MessageError>) {
        let end = |snapshot, patch| AgentEvent::StepFinished {
            reason: wire(result.reason),
            tokens: result.tokens.clone(),
            cost: result.cost,
            snapshot,
            patch,
            error,
        };
        self.supervisor.close_step(end).await;
    }

    /// Closes a step that ran calls without asking a model.
    pub(super) async fn finish_calls(&self) {
        let (tokens, cost) = Default::default();
        self.finish_step(&StepResult { reason: Finish::ToolCalls, tokens, cost }, None).await;
    }
}

/// Returns the error for a finish reason that stands for one.
fn finish_error(reason: Finish, without_calls: bool) -> Option<MessageError> {
    match reason {
        Finish::ContentFilter => {
            let message = "the provider's content filter withheld the answer".to_owned();
            Some(MessageError::ContentFilter { message, extra: Rest::NONE })
        }
        Finish::Error if without_calls => {
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
