//! The address of a conversation in a chat service.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A chat of a channel, or a topic or thread in it. Each place has its own session, running turn and open requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The channel, such as `telegram`.
    pub channel: String,
    /// The chat's id at the service.
    pub chat: String,
    /// The id of the topic or thread; `None` for the chat itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.channel, self.chat)?;
        self.thread.as_ref().map_or(Ok(()), |thread| write!(out, "/{thread}"))
    }
}

impl Place {
    /// Parses the output of [`Display`](fmt::Display). No service uses a slash in its ids.
    pub fn parse(text: &str) -> Option<Self> {
        let mut names = text.splitn(3, '/').map(str::to_owned);
        Some(Self { channel: names.next()?, chat: names.next()?, thread: names.next() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_displayed_place_can_be_parsed() {
        for text in ["telegram/-7", "slack/C1/17.2"] {
            assert_eq!(Place::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Place::parse("telegram"), None);
    }
}
