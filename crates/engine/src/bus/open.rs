//! The text of parts that are still streaming.
//!
//! Deltas are not stored one by one, so clients that reconnect or read messages get the text of open parts from
//! here.

use std::collections::HashMap;

use protocol::{Part, PartId, WorkspaceId};

use super::Place;

#[derive(Debug, Default)]
pub(super) struct OpenParts {
    parts: HashMap<PartId, (Place, Part, String)>,
}

impl OpenParts {
    /// Stores an open part's snapshot. A closed part is removed, because the store has its text.
    pub(super) fn update(&mut self, place: &Place, part: &Part) {
        match part.text() {
            Some(text) if part.is_open() => {
                self.parts.insert(part.id.clone(), (place.clone(), part.clone(), text.to_owned()));
            }
            _ => self.remove(&part.id),
        }
    }

    pub(super) fn append(&mut self, id: &PartId, delta: &str) {
        if let Some((_, _, text)) = self.parts.get_mut(id) {
            text.push_str(delta);
        }
    }

    pub(super) fn remove(&mut self, id: &PartId) {
        self.parts.remove(id);
    }

    pub(super) fn remove_where(&mut self, gone: impl Fn(&Part) -> bool) {
        self.parts.retain(|_, (_, part, _)| !gone(part));
    }

    pub(super) fn text(&self, id: &PartId) -> Option<String> {
        self.parts.get(id).map(|(_, _, text)| text.clone())
    }

    pub(super) fn all(&self, workspace: Option<&WorkspaceId>) -> Vec<(Place, Part)> {
        let mut parts: Vec<(Place, Part)> = self
            .parts
            .values()
            .filter(|(place, _, _)| workspace.is_none_or(|workspace| *workspace == place.workspace))
            .map(|(place, part, text)| {
                let mut part = part.clone();
                part.set_text(text.clone());
                (place.clone(), part)
            })
            .collect();
        parts.sort_by(|(_, left), (_, right)| left.id.cmp(&right.id));
        parts
    }
}
