//! The search over all sessions, word by word.

use protocol::{EventBody, MessageId, PartId, SessionId};

use super::tables::Tables;
use crate::ports::{Cursor, Found, Search};

impl Tables {
    /// Keeps the list of texts in step with an event.
    pub(super) fn index(&mut self, session: &SessionId, event: &EventBody) {
        match event {
            EventBody::PartUpdated(it) => {
                let key = (session.clone(), it.part.message_id.clone(), it.part.id.clone());
                let known = self.texts.iter().find(|(_, text)| **text == key).map(|(number, _)| *number);
                match (known, it.part.searchable()) {
                    (None, Some(_)) => {
                        let number = self.texts.last_key_value().map_or(1, |(last, _)| last + 1);
                        self.texts.insert(number, key);
                    }
                    (Some(number), None) => drop(self.texts.remove(&number)),
                    _ => {}
                }
            }
            EventBody::PartRemoved(it) => {
                let is_gone =
                    |message: &MessageId, part: &PartId| *message == it.message_id && *part == it.part_id;
                self.texts.retain(|_, (owner, message, part)| owner != session || !is_gone(message, part));
            }
            EventBody::MessageRemoved(it) => {
                self.texts.retain(|_, (owner, message, _)| owner != session || *message != it.message_id);
            }
            _ => {}
        }
    }

    pub(super) fn find(&self, search: &Search) -> Vec<Found> {
        let newest_first = self.texts.iter().rev();
        let older = newest_first.filter(|(number, _)| search.before.is_none_or(|before| **number < before));
        let found = older.filter_map(|(number, (session, message, part))| {
            let row = self.sessions.get(session)?;
            let text = row.parts.get(&(message.clone(), part.clone()))?.searchable()?;
            let place = Cursor::of(row.messages.get(message)?);
            let (session, part) = (session.clone(), part.clone());
            let found = Found { number: *number, session, place, part, text: text.to_owned() };
            has_all(text, &search.words).then_some(found)
        });
        found.take(search.limit).collect()
    }
}

/// True if every word begins a word of the text.
fn has_all(text: &str, words: &[String]) -> bool {
    let text = text.to_lowercase();
    let said: Vec<&str> = text.split(|it: char| !it.is_alphanumeric()).collect();
    words.iter().all(|word| said.iter().any(|said| said.starts_with(word.as_str())))
}
