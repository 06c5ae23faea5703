//! Renders a post for Slack: text in Slack's markup, with buttons below it.

use serde_json::{Value, json};

use crate::{
    Button, Post,
    markup::mrkdwn,
    split::{self, Limit, Unit},
};

/// Maximum length of a block's text. Plain messages may be longer, but a message with buttons consists of blocks.
pub(super) const TEXT: Limit = Limit { length: 3_000, unit: Unit::Character };
/// Maximum number of buttons of an actions block.
pub(super) const BUTTONS: usize = 25;
const LABEL: Limit = Limit { length: 75, unit: Unit::Character };
/// Minimum length of a piece, even if rendering makes it too long.
const LEAST: usize = 300;

/// The text of a post in Slack's markup.
pub(super) fn text(post: &Post) -> String {
    mrkdwn::slack(&post.text)
}

/// The blocks of a post; none if it has only text.
pub(super) fn blocks(post: &Post) -> Vec<Value> {
    if post.buttons.is_empty() {
        return Vec::new();
    }
    let sections = split::pieces(&text(post), TEXT)
        .into_iter()
        .map(|piece| json!({"type": "section", "text": {"type": "mrkdwn", "text": piece}}));
    let elements: Vec<Value> = post.buttons.iter().take(BUTTONS).enumerate().map(element).collect();
    sections.chain([json!({"type": "actions", "elements": elements})]).collect()
}

fn element((number, button): (usize, &Button)) -> Value {
    json!({
        "type": "button",
        "action_id": format!("baton-{number}"),
        "text": {"type": "plain_text", "text": label(&button.label), "emoji": true},
        "value": button.token,
    })
}

/// A label that fits and is never empty.
fn label(words: &str) -> String {
    let words = words.trim();
    if words.is_empty() { "…".to_owned() } else { LABEL.shorten(words) }
}

/// Splits a text so that every piece still fits after rendering, which makes text with many angle brackets longer.
pub(super) fn split(text: &str) -> Vec<String> {
    fitting(text, TEXT.length)
}

fn fitting(text: &str, length: usize) -> Vec<String> {
    let fits = |piece: &str| length <= LEAST || TEXT.measure(&mrkdwn::slack(piece)) <= TEXT.length;
    let pieces = split::pieces(text, Limit { length, ..TEXT }).into_iter();
    pieces.flat_map(|piece| if fits(&piece) { vec![piece] } else { fitting(&piece, length / 2) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn button(label: &str) -> Button {
        Button { label: label.to_owned(), token: "t".to_owned() }
    }

    #[test]
    fn text_alone_needs_no_blocks() {
        assert!(blocks(&Post::text("Hello.")).is_empty());
    }

    #[test]
    fn buttons_stand_below_the_text() {
        let post = Post { buttons: vec![button("Once"), button(&"x".repeat(80))], ..Post::text("May I?") };
        let blocks = blocks(&post);
        assert_eq!(blocks[0]["text"]["text"], "May I?");
        assert_eq!(blocks[1]["elements"][0]["value"], "t");
        let long = blocks[1]["elements"][1]["text"]["text"].as_str().unwrap();
        assert!(long.chars().count() == LABEL.length && long.ends_with('…'));
        assert_ne!(blocks[1]["elements"][0]["action_id"], blocks[1]["elements"][1]["action_id"]);
    }

    #[test]
    fn a_piece_fits_after_its_brackets_were_escaped() {
        let text = format!("```html\n{}```", "<b>&</b>\n".repeat(600));
        let pieces = split(&text);
        assert!(pieces.iter().all(|piece| TEXT.measure(&mrkdwn::slack(piece)) <= TEXT.length));
        assert_eq!(pieces.iter().map(|piece| piece.matches("<b>").count()).sum::<usize>(), 600);
    }
}
