//! The record of a turn for the log: one line when it ends, without anything that the user or the model said.

use protocol::{AgentEvent, EndReason, Session, message::ModelRef};
use tokio::time::Instant;

use super::tally::Used;

/// The facts of a running turn.
#[derive(Debug)]
pub(super) struct Record {
    began: Instant,
    model: ModelRef,
    used: Used,
}

impl Record {
    pub(super) fn new(model: ModelRef) -> Self {
        Self { began: Instant::now(), model, used: Used::default() }
    }

    pub(super) fn add(&mut self, used: Used) {
        self.used = self.used.and(used);
    }

    /// Writes the line.
    pub(super) fn log(&self, session: &Session, end: EndReason) {
        let Self { began, model: ModelRef { provider_id, model_id, .. }, used } = self;
        tracing::info!(
            session = %session.id,
            model = %format_args!("{provider_id}/{model_id}"),
            end = end.as_str(),
            tokens = used.tokens,
            cost = used.cost.0,
            calls = used.steps,
            seconds = began.elapsed().as_secs_f64(),
            "turn ended"
        );
    }
}

/// Returns the usage that an event of an agent reports. Each report counts as one model call.
pub(super) fn usage(event: &AgentEvent) -> Option<Used> {
    match event {
        AgentEvent::StepFinished { tokens, cost, .. } | AgentEvent::Spent { tokens, cost } => {
            Some(Used { steps: 1, ..Used::of(*cost, tokens) })
        }
        _ => None,
    }
}
