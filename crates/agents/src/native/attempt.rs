//! One attempt of a step: calls the model, emits its output as events, and collects its tool calls.

use std::collections::HashMap;

use engine::session::Turn;
use futures::StreamExt;
use llm::{Error, Finish, Model, ModelEvent, Request, Usage};
use protocol::{AgentEvent, Extra};
use serde_json::Value;

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Called {
    pub(super) id: String,
    pub(super) name: String,
    /// See [`ModelEvent::ToolCall`].
    pub(super) input: Value,
}

/// The result of an attempt.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Heard {
    pub(super) calls: Vec<Called>,
    /// True if the model produced text.
    pub(super) spoke: bool,
    /// `None` if the stream ended without a finish event.
    pub(super) finish: Option<(Finish, Usage)>,
}

/// A failed attempt.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: Error,
    /// True if events were emitted that may have to be withdrawn.
    pub(super) said: bool,
}

/// Calls the model once.
pub(super) async fn attempt(turn: &Turn, model: &dyn Model, request: Request) -> Result<Heard, Failed> {
    let mut listener =
        Listener { turn, heard: Heard::default(), open: Vec::new(), metadata: HashMap::new(), said: false };
    match listener.listen(model, request).await {
        Ok(()) => {
            listener.close().await;
            Ok(listener.heard)
        }
        Err(error) => Err(Failed { error, said: listener.said }),
    }
}

struct Listener<'a> {
    turn: &'a Turn,
    heard: Heard,
    /// Text and reasoning blocks that have begun and not ended.
    open: Vec<Block>,
    /// Provider metadata of reasoning blocks, which the provider expects back in later requests.
    metadata: HashMap<String, Extra>,
    said: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Block {
    Text(String),
    Reasoning(String),
}

impl Listener<'_> {
    async fn listen(&mut self, model: &dyn Model, request: Request) -> Result<(), Error> {
        // The model ends a wait that takes too long; see `llm::Model`.
        let mut stream = model.stream(request).await?;
        while let Some(event) = stream.next().await {
            let event = event?;
            if let ModelEvent::Finish { reason, usage } = event {
                self.heard.finish = Some((reason, usage));
                break;
            }
            self.hear(event).await;
        }
        Ok(())
    }

    async fn hear(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::TextStart { id } => {
                self.open.push(Block::Text(id.clone()));
                self.say(AgentEvent::TextStarted { key: id }).await;
            }
            ModelEvent::TextDelta { id, text } => {
                if !text.is_empty() {
                    self.heard.spoke = true;
                    self.say(AgentEvent::TextDelta { key: id, delta: text }).await;
                }
            }
            ModelEvent::TextEnd { id } => self.end(Block::Text(id)).await,
            ModelEvent::ReasoningStart { id, metadata } => {
                self.keep(&id, metadata);
                self.open.push(Block::Reasoning(id.clone()));
                self.say(AgentEvent::ReasoningStarted { key: id }).await;
            }
            ModelEvent::ReasoningDelta { id, text } => {
                if !text.is_empty() {
                    self.say(AgentEvent::ReasoningDelta { key: id, delta: text }).await;
                }
            }
            ModelEvent::ReasoningEnd { id, metadata } => {
                self.keep(&id, metadata);
                self.end(Block::Reasoning(id)).await;
            }
            ModelEvent::ToolInputStart { id, name } => {
                self.say(AgentEvent::ToolPending { call: id, tool: name }).await;
            }
            // Partial arguments are not shown to clients.
            ModelEvent::ToolInputDelta { .. } | ModelEvent::Finish { .. } => {}
            ModelEvent::ToolCall { id, name, input } => {
                // Not every provider announces a call; a second announcement has no effect.
                self.say(AgentEvent::ToolPending { call: id.clone(), tool: name.clone() }).await;
                self.heard.calls.push(Called { id, name, input });
            }
        }
    }

    async fn say(&mut self, event: AgentEvent) {
        self.said = true;
        self.turn.emit(event).await;
    }

    fn keep(&mut self, id: &str, metadata: Option<Value>) {
        if let Some(Value::Object(metadata)) = metadata {
            self.metadata.entry(id.to_owned()).or_default().extend(metadata);
        }
    }

    async fn end(&mut self, block: Block) {
        self.open.retain(|open| *open != block);
        match block {
            Block::Text(key) => self.say(AgentEvent::TextEnded { key }).await,
            Block::Reasoning(key) => {
                let metadata = self.metadata.remove(&key);
                self.say(AgentEvent::ReasoningEnded { key, metadata }).await;
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
