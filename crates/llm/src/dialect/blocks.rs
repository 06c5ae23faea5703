//! Text and reasoning for dialects that do not say where a block begins and ends.

use serde_json::Value;

use crate::ModelEvent;

/// The block that is open, if one is. A delta of the other kind ends it.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// How many there have been.
    count: usize,
    open: Option<Block>,
}

#[derive(Debug)]
struct Block {
    id: String,
    reasoning: bool,
    /// What the provider wants back with it.
    metadata: Option<Value>,
}

impl Blocks {
    /// More answer text.
    pub(super) fn text(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            let id = self.continued(false, out);
            out.push(ModelEvent::TextDelta { id, text: text.to_owned() });
        }
    }

    /// More reasoning.
    pub(super) fn reasoning(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            let id = self.continued(true, out);
            out.push(ModelEvent::ReasoningDelta { id, text: text.to_owned() });
        }
    }

    /// Sets what the provider wants back with the open reasoning; opens an empty one if none is open, or if the
    /// open one has its own already.
    pub(super) fn sign(&mut self, metadata: Value, out: &mut Vec<ModelEvent>) {
        if self.open.as_ref().is_some_and(|block| block.metadata.is_some()) {
            self.close(out);
        }
        self.continued(true, out);
        if let Some(block) = &mut self.open {
            block.metadata = Some(metadata);
        }
    }

    /// Whether reasoning is open.
    pub(super) fn is_reasoning(&self) -> bool {
        self.open.as_ref().is_some_and(|block| block.reasoning)
    }

    /// Ends what is open.
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
