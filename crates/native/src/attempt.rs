//! One attempt of a step: calls the model, emits its output as events, and collects its tool calls.

use std::collections::HashMap;

use engine::session::Turn;
use futures::StreamExt;
use llm::{Error, Finish, Model, ModelEvent, Request, Usage};
use protocol::{AgentEvent, Extra};
use serde_json::Value;

/// A tool call that the model requested.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RequestedCall {
    pub(super) id: String,
    pub(super) name: String,
    /// See [`ModelEvent::ToolCall`].
    pub(super) input: Value,
}

/// The result of an attempt.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ModelOutput {
    pub(super) calls: Vec<RequestedCall>,
    /// True if the model produced text.
    pub(super) has_text: bool,
    /// `None` if the stream ended without a finish event.
    pub(super) finish: Option<(Finish, Usage)>,
}

/// A failed attempt.
#[derive(Debug)]
pub(super) struct AttemptFailure {
    pub(super) error: Error,
    /// True if events were emitted that may have to be withdrawn.
    pub(super) emitted: bool,
}

/// Calls the model once.
pub(super) async fn attempt(
    turn: &Turn,
    model: &dyn Model,
    request: Request,
) -> Result<ModelOutput, AttemptFailure> {
    let mut reader = StreamReader {
        turn,
        output: ModelOutput::default(),
        open: Vec::new(),
        metadata: HashMap::new(),
        emitted: false,
    };
    match reader.read(model, request).await {
        Ok(()) => {
            reader.close().await;
            Ok(reader.output)
        }
        Err(error) => Err(AttemptFailure { error, emitted: reader.emitted }),
    }
}

struct StreamReader<'a> {
    turn: &'a Turn,
    output: ModelOutput,
    /// Text and reasoning blocks that have begun and not ended.
    open: Vec<Block>,
    /// Provider metadata of reasoning blocks, which the provider expects back in later requests.
    metadata: HashMap<String, Extra>,
    emitted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Block {
    Text(String),
    Reasoning(String),
}

impl StreamReader<'_> {
    async fn read(&mut self, model: &dyn Model, request: Request) -> Result<(), Error> {
        // The model ends a wait that takes too long; see `llm::Model`.
        let mut stream = model.stream(request).await?;
        while let Some(event) = stream.next().await {
            let event = event?;
            if let ModelEvent::Finish { reason, usage } = event {
                self.output.finish = Some((reason, usage));
                break;
            }
            self.handle(event).await;
        }
        Ok(())
    }

    async fn handle(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::TextStart { id } => {
                self.open.push(Block::Text(id.clone()));
                self.emit(AgentEvent::TextStarted { key: id }).await;
            }
            ModelEvent::TextDelta { id, text } => {
                if !text.is_empty() {
                    self.output.has_text = true;
                    self.emit(AgentEvent::TextDelta { key: id, delta: text }).await;
                }
            }
            ModelEvent::TextEnd { id } => self.end(Block::Text(id)).await,
            ModelEvent::ReasoningStart { id, metadata } => {
                self.keep_metadata(&id, metadata);
                self.open.push(Block::Reasoning(id.clone()));
                self.emit(AgentEvent::ReasoningStarted { key: id }).await;
            }
            ModelEvent::ReasoningDelta { id, text } => {
                if !text.is_empty() {
                    self.emit(AgentEvent::ReasoningDelta { key: id, delta: text }).await;
                }
            }
            ModelEvent::ReasoningEnd { id, metadata } => {
                self.keep_metadata(&id, metadata);
                self.end(Block::Reasoning(id)).await;
            }
            ModelEvent::ToolInputStart { id, name } => {
                self.emit(AgentEvent::ToolPending { call: id, tool: name }).await;
            }
            // Partial arguments are not shown to clients.
            ModelEvent::ToolInputDelta { .. } | ModelEvent::Finish { .. } => {}
            ModelEvent::ToolCall { id, name, input } => {
                // Not every provider announces a call; a second announcement has no effect.
                self.emit(AgentEvent::ToolPending { call: id.clone(), tool: name.clone() }).await;
                self.output.calls.push(RequestedCall { id, name, input });
            }
        }
    }

    async fn emit(&mut self, event: AgentEvent) {
        self.emitted = true;
        self.turn.emit(event).await;
    }

    fn keep_metadata(&mut self, id: &str, metadata: Option<Value>) {
        if let Some(Value::Object(metadata)) = metadata {
            self.metadata.entry(id.to_owned()).or_default().extend(metadata);
        }
    }

    async fn end(&mut self, block: Block) {
        self.open.retain(|open| *open != block);
        match block {
            Block::Text(key) => self.emit(AgentEvent::TextEnded { key }).await,
            Block::Reasoning(key) => {
                let metadata = self.metadata.remove(&key);
                self.emit(AgentEvent::ReasoningEnded { key, metadata }).await;
            }
        }
    }

    /// Ends the blocks that the model left open, so that no text looks unfinished while tools run.
    async fn close(&mut self) {
        for block in std::mem::take(&mut self.open) {
            self.end(block).await;
        }
    }
}
