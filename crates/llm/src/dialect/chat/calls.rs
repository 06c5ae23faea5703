//! Assembles tool calls from pieces. Servers disagree on what identifies a call: the index, the id, both or
//! neither.

use serde_json::Value;

use crate::dialect::input;
use crate::{ModelEvent, json};

/// Tool calls of one response.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Number of completed calls, for generated ids.
    completed: usize,
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    /// True if the server gave the id.
    own_id: bool,
    name: String,
    json: String,
    announced: bool,
}

impl Calls {
    /// Adds a piece of a call.
    pub(super) fn push(&mut self, piece: &Value, step: usize, out: &mut Vec<ModelEvent>) {
        let function = json::at(piece, &["function"]);
        let (id, name) = (json::maybe(piece, "id"), json::maybe(function, "name"));
        let arguments = match json::at(function, &["arguments"]) {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            // One server sends the object instead of its text.
            whole => whole.to_string(),
        };
        if id.is_none() && name.is_none() && arguments.is_empty() {
            return;
        }
        let index = json::count(piece, "index");
        let at = self.find(index, id, name).unwrap_or_else(|| {
            let made_up = format!("call_{step}_{}", self.completed + self.calls.len());
            self.calls.push(Call {
                index,
                id: id.map_or(made_up, str::to_owned),
                own_id: id.is_some(),
                name: String::new(),
                json: String::new(),
                announced: false,
            });
            self.calls.len() - 1
        });
        let Some(call) = self.calls.get_mut(at) else { return };
        if let (Some(id), false) = (id, call.announced) {
            id.clone_into(&mut call.id);
            call.own_id = true;
        }
        if let (Some(name), true) = (name, call.name.is_empty()) {
            name.clone_into(&mut call.name);
        }
        call.json.push_str(&arguments);
        call.tell(arguments, out);
    }

    fn find(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let same_index = |call: &Call| index.is_none() || call.index == index;
        self.calls.iter().rposition(|call| match id {
            // Another id with another name under a used index is another call.
            Some(id) => {
                call.id == id || (same_index(call) && index.is_some() && (!call.own_id || name.is_none()))
            }
            // Without both, a name begins a call and anything else continues the last one.
            None if index.is_none() => name.is_none(),
            None => same_index(call),
        })
    }

    /// Returns true if no call is open.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Completes the calls in the order they began.
    pub(super) fn complete(&mut self, out: &mut Vec<ModelEvent>) {
        self.completed += self.calls.len();
        for mut call in self.calls.drain(..) {
            call.announce(out);
            let input = input::parse(&call.json);
            out.push(ModelEvent::ToolCall { id: call.id, name: call.name, input });
        }
    }
}

impl Call {
    /// Passes on a piece once the call has a name to announce.
    fn tell(&mut self, piece: String, out: &mut Vec<ModelEvent>) {
        if self.announced {
            if !piece.is_empty() {
                out.push(ModelEvent::ToolInputDelta { id: self.id.clone(), json: piece });
            }
        } else if !self.name.is_empty() {
            self.announce(out);
        }
    }

    fn announce(&mut self, out: &mut Vec<ModelEvent>) {
        if std::mem::replace(&mut self.announced, true) {
            return;
        }
        out.push(ModelEvent::ToolInputStart { id: self.id.clone(), name: self.name.clone() });
        if !self.json.is_empty() {
            out.push(ModelEvent::ToolInputDelta { id: self.id.clone(), json: self.json.clone() });
        }
    }
}
