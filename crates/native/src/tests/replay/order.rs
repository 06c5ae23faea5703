//! Reduces a stream of events to the order that a user can see.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use similar::{Algorithm, ChangeTag, capture_diff_slices};

/// Returns the words of each session: the first one's, then its children's in the order of their creation.
pub(super) fn sessions(events: &[Value]) -> Vec<Vec<String>> {
    let made = events.iter().filter(|event| event["type"] == "session.created");
    let ids = made.filter_map(|event| event["properties"]["info"]["id"].as_str());
    ids.map(|id| {
        let mut teller = EventReducer::default();
        events.iter().filter(|event| session(event) == Some(id)).for_each(|event| teller.add(event));
        teller.words
    })
    .collect()
}

fn session(event: &Value) -> Option<&str> {
    let it = &event["properties"];
    [&it["sessionID"], &it["info"]["sessionID"], &it["part"]["sessionID"], &it["info"]["id"]]
        .into_iter()
        .find_map(Value::as_str)
}

/// Returns the words that only the old order has (`-`) and those that only the new one has (`+`).
pub(super) fn changes(old: &[String], new: &[String]) -> String {
    let operations = capture_diff_slices(Algorithm::Myers, old, new);
    let changes = operations.iter().flat_map(|operation| operation.iter_changes(old, new));
    let shown = changes.filter_map(|change| match change.tag() {
        ChangeTag::Delete => Some(format!("`-{}`", change.value())),
        ChangeTag::Insert => Some(format!("`+{}`", change.value())),
        ChangeTag::Equal => None,
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[derive(Default)]
struct EventReducer {
    words: Vec<String>,
    busy: bool,
    /// Prompts that were already reported.
    prompts: HashSet<String>,
    /// The last state of each call.
    calls: HashMap<String, String>,
}

impl EventReducer {
    fn add(&mut self, event: &Value) {
        let it = &event["properties"];
        let kind = event["type"].as_str().unwrap_or_default();
        let word = match kind {
            "session.created" | "session.updated" | "session.diff" => None,
            _ if kind.starts_with("prompt.") => None,
            "session.status" => self.status(&it["status"]),
            "message.updated" => self.message(&it["info"]),
            "message.part.updated" => self.part(&it["part"]),
            "message.part.delta" => Some("delta".to_owned()),
            "session.error" => Some(format!("ERROR({})", text(&it["error"]["name"]))),
            other => Some(other.to_owned()),
        };
        let again = |word: &String| word == "delta" || word.starts_with("assistant");
        if let Some(word) = word
            && !(again(&word) && self.words.last() == Some(&word))
        {
            self.words.push(word);
        }
    }

    fn status(&mut self, status: &Value) -> Option<String> {
        let was_busy = std::mem::replace(&mut self.busy, status["type"] == "busy");
        match status["type"].as_str() {
            Some("busy") => (!was_busy).then(|| "BUSY".to_owned()),
            Some("retry") => Some(format!("RETRY{}", status["attempt"])),
            _ => Some("IDLE".to_owned()),
        }
    }

    fn message(&mut self, info: &Value) -> Option<String> {
        if info["role"] == "user" {
            return self.prompts.insert(text(&info["id"]).to_owned()).then(|| "USER".to_owned());
        }
        let mut word = format!("assistant[{}", info["finish"].as_str().unwrap_or("-"));
        if !info["time"]["completed"].is_null() {
            word.push_str(",done");
        }
        if let Some(error) = info["error"]["name"].as_str() {
            word.push(',');
            word.push_str(error);
        }
        Some(word + "]")
    }

    fn part(&mut self, part: &Value) -> Option<String> {
        let kind = text(&part["type"]);
        match kind {
            "patch" => None,
            "tool" => {
                let word = format!("{}:{}", text(&part["tool"]), text(&part["state"]["status"]));
                let before = self.calls.insert(text(&part["id"]).to_owned(), word.clone());
                (before.as_ref() != Some(&word)).then_some(word)
            }
            _ if self.prompts.contains(text(&part["messageID"])) => Some(format!("{kind}(user)")),
            "step-finish" => Some(format!("step-finish({})", text(&part["reason"]))),
            "text" | "reasoning" if part["time"]["end"].is_null() => Some(format!("{kind}+start")),
            "text" | "reasoning" => Some(format!("{kind}+end")),
            _ => Some(kind.to_owned()),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
