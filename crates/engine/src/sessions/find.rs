//! The search over the texts of all sessions.

use std::collections::{HashMap, hash_map::Entry};

use protocol::{Rest, Session, SessionId, found::FoundMessage};

use super::Sessions;
use crate::{
    Error,
    limits::{MAX_FOUND, MAX_WORDS},
    ports::{Cursor, Found, Search},
};

/// Characters of a snippet before and after the beginning of the word that was found.
const BEFORE: usize = 60;
const AFTER: usize = 140;

impl Sessions {
    /// Finds texts in which every word of the query begins a word, newest first. Also returns the number from which
    /// the next page continues, if there may be one.
    pub async fn find(
        &self,
        query: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<FoundMessage>, Option<u64>), Error> {
        let words = words(query);
        if words.is_empty() {
            return Err(Error::Invalid("query: write at least one word of letters or digits".into()));
        }
        let limit = limit.clamp(1, MAX_FOUND);
        let search = Search { words: words.clone(), before, limit };
        let found = self.shared.reads.find(search).await?;
        let next = found.last().filter(|_| found.len() == limit).map(|last| last.number);
        let mut sessions = HashMap::new();
        let mut shown = Vec::with_capacity(found.len());
        for found in found {
            if let Some(owner) = self.owner(&mut sessions, &found.session).await?
                && !owner.hides(&found.place)
            {
                shown.push(describe(found, &owner.session, &words));
            }
        }
        Ok((shown, next))
    }

    /// A session that has texts, read once for all of them; `None` if it was deleted meanwhile.
    async fn owner<'a>(
        &self,
        known: &'a mut HashMap<SessionId, Option<Owner>>,
        id: &SessionId,
    ) -> Result<Option<&'a Owner>, Error> {
        let slot = match known.entry(id.clone()) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(slot) => {
                let owner = match self.shared.reads.session(id).await? {
                    Some((session, _)) => {
                        let reverted = match &session.revert {
                            Some(revert) => self.place(id, &revert.message_id).await?,
                            None => None,
                        };
                        Some(Owner { session, reverted })
                    }
                    None => None,
                };
                slot.insert(owner)
            }
        };
        Ok(slot.as_ref())
    }
}

/// A session with the place from which its messages are reverted.
struct Owner {
    session: Session,
    reverted: Option<Cursor>,
}

impl Owner {
    /// True for a message that a pending revert hides.
    fn hides(&self, place: &Cursor) -> bool {
        let order = |it: &Cursor| (it.created, it.id.clone());
        self.reverted.as_ref().is_some_and(|reverted| order(place) >= order(reverted))
    }
}

/// The words of a query, in lower case and without punctuation.
fn words(query: &str) -> Vec<String> {
    let query = query.to_lowercase();
    let words = query.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(MAX_WORDS).map(str::to_owned).collect()
}

fn describe(found: Found, session: &Session, words: &[String]) -> FoundMessage {
    FoundMessage {
        session_id: found.session,
        message_id: found.place.id,
        part_id: found.part,
        title: session.title.clone(),
        directory: session.directory.clone(),
        snippet: snippet(&found.text, words),
        time: found.place.created,
        extra: Rest::NONE,
    }
}

/// The text around the first word of the query, on one line.
fn snippet(text: &str, words: &[String]) -> String {
    let mut begins_word = true;
    let is_match = |rest: &str| {
        let mut chars = rest.chars().flat_map(char::to_lowercase);
        words.first().is_some_and(|word| word.chars().all(|it| chars.next() == Some(it)))
    };
    let found = text.char_indices().position(|(at, it)| {
        let begins = std::mem::replace(&mut begins_word, !it.is_alphanumeric());
        begins && text.get(at..).is_some_and(is_match)
    });
    let start = found.unwrap_or(0).saturating_sub(BEFORE);
    let cut: String = text.chars().skip(start).take(BEFORE + AFTER).collect();
    let has_more = text.chars().nth(start + BEFORE + AFTER).is_some();
    let line = cut.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}{line}{}", if start > 0 { "…" } else { "" }, if has_more { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_split_into_words() {
        assert_eq!(words(" Fix  the `Login`-page! "), ["fix", "the", "login", "page"]);
        assert_eq!(words("* \"\" ()"), Vec::<String>::new());
        assert_eq!(words(&"a ".repeat(100)).len(), MAX_WORDS);
    }

    #[test]
    fn a_snippet_shows_the_word_and_its_surroundings() {
        let find = |text: &str, word: &str| snippet(text, &[word.to_owned()]);
        assert_eq!(find("Fix the\n  login page", "login"), "Fix the login page");
        assert_eq!(find("relogin, then LOGIN", "login"), "relogin, then LOGIN");
        let long = format!("{}Ünïcode {}", "x ".repeat(500), "y ".repeat(500));
        let cut = find(&long, "ünï");
        assert!(cut.starts_with("…x ") && cut.contains("Ünïcode y") && cut.ends_with('…'), "{cut}");
        assert!(cut.chars().count() <= BEFORE + AFTER + 2, "{cut}");
    }
}
