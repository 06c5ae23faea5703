//! Converts posts to WhatsApp's messages.
//!
//! Choices become buttons if they fit, and otherwise a list, which allows longer labels, more of them, and a text
//! of full length: so a post always fits into one message.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::TEXT;
use crate::{
    Button, Post,
    markup::mrkdwn,
    split::{Limit, Unit},
};

/// Limits of a message with buttons: their number, the length of a title, and the length of the text.
const MAX_BUTTONS: usize = 3;
const MAX_TITLE: usize = 20;
const MAX_BUTTONS_TEXT: usize = 1_024;

/// Limits of a list: the number of rows, and the lengths of a row's title and description.
pub(super) const MAX_ROWS: usize = 10;
const MAX_ROW: usize = 24;
const MAX_DESCRIPTION: usize = 72;

/// Maximum length of a file's caption.
const MAX_CAPTION: usize = 1_024;

/// Label of the button that opens a list.
const OPEN: &str = "Choose";

/// The message for a post: a text, a choice, or an uploaded file with its id.
pub(super) fn message(to: &str, post: &Post, file: Option<&str>) -> Value {
    let text = words(&post.text);
    let (kind, content) = match file {
        Some(id) => ("document", document(&text, post, id)),
        None if post.buttons.is_empty() => ("text", json!({ "body": text, "preview_url": false })),
        None => ("interactive", choice(&text, &post.buttons)),
    };
    // Users with a username have no number; their id has a dot after the country code.
    let person = if to.contains('.') { "recipient" } else { "to" };
    let mut message = json!({
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        person: to,
        "type": kind,
        kind: content,
    });
    if let (Some(reply_to), Some(fields)) = (&post.reply_to, message.as_object_mut()) {
        fields.insert("context".to_owned(), json!({ "message_id": reply_to }));
    }
    message
}

/// The text in WhatsApp's markup, or as it is if the markup makes it too long, for instance because of a wide
/// table.
fn words(markdown: &str) -> Cow<'_, str> {
    let text = mrkdwn::whatsapp(markdown);
    if TEXT.measure(&text) <= TEXT.length { text.into() } else { markdown.into() }
}

fn document(text: &str, post: &Post, id: &str) -> Value {
    let name = post.file.as_ref().map_or("file.txt", |file| file.name.as_str());
    let mut document = json!({ "id": id, "filename": name });
    if let (false, Some(fields)) = (text.trim().is_empty(), document.as_object_mut()) {
        fields.insert("caption".to_owned(), shorten(text, MAX_CAPTION).into());
    }
    document
}

fn choice(text: &str, buttons: &[Button]) -> Value {
    // WhatsApp requires a text.
    let text = if text.trim().is_empty() { "…" } else { text };
    let (kind, action) = if fits_buttons(text, buttons) {
        let button = |button: &Button| json!({ "type": "reply", "reply": { "id": button.token, "title": title(button, MAX_TITLE) } });
        ("button", json!({ "buttons": buttons.iter().map(button).collect::<Vec<_>>() }))
    } else {
        let rows: Vec<Value> = buttons.iter().take(MAX_ROWS).map(row).collect();
        ("list", json!({ "button": OPEN, "sections": [{ "rows": rows }] }))
    };
    json!({ "type": kind, "body": { "text": text }, "action": action })
}

/// True if all choices fit on buttons, which must have different labels.
fn fits_buttons(text: &str, buttons: &[Button]) -> bool {
    let mut labels: Vec<&str> = buttons.iter().map(|button| button.label.trim()).collect();
    labels.sort_unstable();
    labels.dedup();
    buttons.len() <= MAX_BUTTONS
        && labels.len() == buttons.len()
        && labels.iter().all(|label| length(label) <= MAX_TITLE)
        && length(text) <= MAX_BUTTONS_TEXT
}

/// A long label is shown twice: shortened as the title, and longer as the description.
fn row(button: &Button) -> Value {
    let title = title(button, MAX_ROW);
    if title == button.label.trim() {
        return json!({ "id": button.token, "title": title });
    }
    json!({ "id": button.token, "title": title, "description": shorten(&one_line(&button.label), MAX_DESCRIPTION) })
}

fn title(button: &Button, most: usize) -> String {
    let label = one_line(&button.label);
    if label.is_empty() { "…".to_owned() } else { shorten(&label, most) }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// WhatsApp does not define a character; no unit that it may use counts more than UTF-16.
fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// The text, or its beginning if it is too long.
fn shorten(text: &str, most: usize) -> String {
    Limit { length: most, unit: Unit::Utf16 }.shorten(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    fn ask(text: &str, labels: &[&str]) -> Value {
        let button = |(at, label): (usize, &&str)| Button { label: (*label).into(), token: format!("t{at}") };
        let buttons = labels.iter().enumerate().map(button).collect();
        message("4917", &Post { buttons, ..Post::text(text) }, None)["interactive"].clone()
    }

    #[test]
    fn words_are_a_text_without_a_preview() {
        let post = Post { reply_to: Some("wamid.1".into()), ..Post::text("Hello.") };
        let expected = json!({
            "messaging_product": "whatsapp", "recipient_type": "individual", "to": "4917", "type": "text",
            "text": { "body": "Hello.", "preview_url": false }, "context": { "message_id": "wamid.1" },
        });
        assert_eq!(message("4917", &post, None), expected);
    }

    #[test]
    fn markdown_becomes_whatsapps_markup_if_it_fits() {
        let body = |text: &str| {
            message("4917", &Post::text(text), None)["text"]["body"].as_str().unwrap().to_owned()
        };
        assert_eq!(body("**Done**, see [it](https://example.com)"), "*Done*, see it (https://example.com)");
        let wide = format!("| a | b |\n|---|---|\n{}", "| 1 | 2 |\n".repeat(400));
        assert!(TEXT.measure(&body(&wide)) <= TEXT.length);
    }

    #[test]
    fn a_user_with_a_username_is_addressed_by_id() {
        let message = message("DE.13491208655302741918", &Post::text("Hello."), None);
        assert_eq!(message["recipient"], "DE.13491208655302741918");
        assert_eq!(message["to"], Value::Null);
    }

    #[test]
    fn a_short_choice_is_buttons() {
        let asked = ask("May it?", &["Once", "Always", "No"]);
        assert_eq!(asked["type"], "button");
        let once = json!({ "type": "reply", "reply": { "id": "t0", "title": "Once" } });
        assert_eq!(asked["action"]["buttons"][0], once);
    }

    #[test]
    fn choices_that_do_not_fit_on_buttons_become_a_list() {
        let long = "a rather long label that does not fit";
        for asked in [
            ask("Which?", &["1", "2", "3", "4"]),
            ask("Which?", &[long]),
            ask("Which?", &["same", "same "]),
            ask(&"x".repeat(1_025), &["Once"]),
        ] {
            assert_eq!(asked["type"], "list", "{asked}");
            assert_eq!(asked["action"]["button"], "Choose");
        }
        let row = json!({ "id": "t0", "title": "a rather long label tha…", "description": long });
        assert_eq!(ask("Which?", &[long])["action"]["sections"][0]["rows"][0], row);
    }

    #[test]
    fn a_list_has_ten_rows_and_none_is_empty() {
        let asked = ask("", &["", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"]);
        let rows = asked["action"]["sections"][0]["rows"].as_array().unwrap().clone();
        assert_eq!(rows.len(), 10);
        assert_eq!((&rows[0]["title"], &asked["body"]["text"]), (&json!("…"), &json!("…")));
    }

    #[test]
    fn a_file_has_a_name_and_short_words() {
        let file = Document { name: "a.diff".into(), mime: "text/x-diff".into(), text: "-1".into() };
        let post = Post { file: Some(file), ..Post::text("x".repeat(2_000)) };
        let sent = message("4917", &post, Some("99"))["document"].clone();
        assert_eq!((&sent["id"], &sent["filename"]), (&json!("99"), &json!("a.diff")));
        assert_eq!(length(sent["caption"].as_str().unwrap()), 1_024);
        let silent = Post { text: String::new(), ..post };
        assert_eq!(message("4917", &silent, Some("99"))["document"]["caption"], Value::Null);
    }

    #[test]
    fn shortening_counts_as_the_strictest_would() {
        assert_eq!(shorten("😀😀😀", 6), "😀😀😀");
        assert_eq!(shorten("😀😀😀😀", 6), "😀😀…");
        assert_eq!(shorten("two words", 5), "two…");
    }
}
