//! Text and reasoning blocks for dialects without explicit starts and ends.

use serde_json::Value;

use crate::ModelEvent;

/// The open block, if any. A delta of the other kind ends it.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Number of blocks so far.
    count: usize,
    open: Option<Block>,
}

#[derive(Debug)]
struct Block {
    id: String,
    reasoning: bool,
    /// Data that the provider expects back with the block.
    metadata: Option<Value>,
}

impl Blocks {
    /// Adds answer text.
    pub(super) fn text(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            let id = self.continued(false, out);
            out.push(ModelEvent::TextDelta { id, text: text.to_owned() });
        }
    }

    /// Adds reasoning.
    pub(super) fn reasoning(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            let id = self.continued(true, out);
            out.push(ModelEvent::ReasoningDelta { id, text: text.to_owned() });
        }
    }

    /// Sets the metadata of the open reasoning block. Opens an empty one if none is open, or if the open one
    /// already has metadata.
    pub(super) fn sign(&mut self, metadata: Value, out: &mut Vec<ModelEvent>) {
        if self.open.as_ref().is_some_and(|block| block.metadata.is_some()) {
            self.close(out);
        }
        self.continued(true, out);
        if let Some(block) = &mut self.open {
            block.metadata = Some(metadata);
        }
    }

    /// Returns true if a reasoning block is open.
    pub(super) fn is_reasoning(&self) -> bool {
        self.open.as_ref().is_some_and(|block| block.reasoning)
    }

    /// Ends the open block.
    pub(super) fn close(&mut self, out: &mut Vec<ModelEvent>) {
        let Some(Block { id, reasoning, metadata }) = self.open.take() else { return };
        out.push(if reasoning {
            ModelEvent::ReasoningEnd { id, metadata }
        } else {
            ModelEvent::TextEnd { id }
        });
    }

    fn continued(&mut self, reasoning: bool, out: &mut Vec<ModelEvent>) -> String {
        if let Some(block) = self.open.as_ref().filter(|block| block.reasoning == reasoning) {
            return block.id.clone();
        }
        self.close(out);
        let id = format!("{}-{}", if reasoning { "reasoning" } else { "text" }, self.count);
        self.count += 1;
        out.push(if reasoning {
            ModelEvent::ReasoningStart { id: id.clone(), metadata: None }
        } else {
            ModelEvent::TextStart { id: id.clone() }
        });
        self.open = Some(Block { id: id.clone(), reasoning, metadata: None });
        id
    }
}
