//! Slack's rules for the blocks of a message.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::platforms::service_state::ShownButton;

const BLOCKS: usize = 50;
const SECTION: usize = 3_000;
const ELEMENTS: usize = 25;
const LABEL: usize = 75;
const VALUE: usize = 2_000;
const ACTION: usize = 255;
/// Undocumented limit for the length of all blocks together.
const TOGETHER: usize = 13_200;

/// The buttons of a message, or the reason why its blocks are refused: Slack's error name, and the details.
pub(super) fn check(blocks: &str) -> Result<Vec<ShownButton>, (&'static str, String)> {
    let invalid = |what: String| ("invalid_blocks", what);
    let blocks: Vec<Value> =
        serde_json::from_str(blocks).map_err(|error| ("invalid_blocks_format", error.to_string()))?;
    if blocks.len() > BLOCKS {
        return Err(invalid(format!("{} blocks", blocks.len())));
    }
    let mut together = 0;
    let mut buttons = Vec::new();
    for block in &blocks {
        match block["type"].as_str() {
            Some("section") => together += section(block).map_err(invalid)?,
            Some("actions") => buttons.extend(actions(block).map_err(invalid)?),
            other => return Err(invalid(format!("a block of the type {other:?}"))),
        }
    }
    if together > TOGETHER {
        return Err(("msg_blocks_too_long", format!("{together} characters")));
    }
    let actions: BTreeSet<&str> = buttons.iter().map(|(action, _)| action.as_str()).collect();
    if actions.len() < buttons.len() {
        return Err(invalid("two buttons with the same action_id".to_owned()));
    }
    Ok(buttons.into_iter().map(|(_, button)| button).collect())
}

fn section(block: &Value) -> Result<usize, String> {
    let text = block["text"]["text"].as_str().unwrap_or_default();
    let length = text.chars().count();
    match block["text"]["type"].as_str() {
        Some("mrkdwn" | "plain_text") if (1..=SECTION).contains(&length) => Ok(length),
        Some("mrkdwn" | "plain_text") => Err(format!("a section of {length} characters")),
        other => Err(format!("text of the type {other:?}")),
    }
}

fn actions(block: &Value) -> Result<Vec<(String, ShownButton)>, String> {
    let elements = block["elements"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !(1..=ELEMENTS).contains(&elements.len()) {
        return Err(format!("{} elements in a row", elements.len()));
    }
    elements.iter().map(button).collect()
}

fn button(element: &Value) -> Result<(String, ShownButton), String> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (label, token, action) =
        (word(&element["text"]["text"]), word(&element["value"]), word(&element["action_id"]));
    if element["type"] != "button" || element["text"]["type"] != "plain_text" {
        return Err("an element that is not a button".to_owned());
    }
    let fits = |text: &str, least: usize, most: usize| (least..=most).contains(&text.chars().count());
    if !fits(&label, 1, LABEL) || !fits(&token, 0, VALUE) || !fits(&action, 1, ACTION) {
        return Err(format!("a button that does not fit: {label:?}, {token:?}, {action:?}"));
    }
    Ok((action, ShownButton { label, token }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(blocks: &Value) -> &'static str {
        check(&blocks.to_string()).map(|_| ()).unwrap_err().0
    }

    #[test]
    fn blocks_beyond_slacks_limits_are_refused() {
        let section = |length: usize| json!({"type": "section", "text": {"type": "mrkdwn", "text": "x".repeat(length)}});
        let button = |label: usize, action: usize| {
            json!({"type": "button", "action_id": format!("a{action}"), "value": "v",
                "text": {"type": "plain_text", "text": "x".repeat(label)}})
        };
        let row = |elements: Vec<Value>| json!([{"type": "actions", "elements": elements}]);
        assert_eq!(check(&json!([section(3_000)]).to_string()), Ok(Vec::new()));
        assert_eq!(check(&row((0..25).map(|at| button(75, at)).collect()).to_string()).unwrap().len(), 25);
        assert_eq!(refusal(&json!([section(3_001)])), "invalid_blocks");
        assert_eq!(refusal(&json!([section(0)])), "invalid_blocks");
        assert_eq!(refusal(&json!(vec![section(1); 51])), "invalid_blocks");
        assert_eq!(refusal(&json!(vec![section(3_000); 5])), "msg_blocks_too_long");
        assert_eq!(refusal(&row((0..26).map(|at| button(1, at)).collect())), "invalid_blocks");
        assert_eq!(refusal(&row(vec![])), "invalid_blocks");
        assert_eq!(refusal(&row(vec![button(76, 0)])), "invalid_blocks");
        assert_eq!(refusal(&row(vec![button(1, 0), button(1, 0)])), "invalid_blocks");
        assert_eq!(refusal(&json!({})), "invalid_blocks_format");
    }
}
