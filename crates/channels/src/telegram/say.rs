//! Builds the bodies of calls to Telegram.

use serde_json::{Map, Value, json};

use super::{api::Body, form::Form};
use crate::{
    Button, Document, Place, Post, Sent,
    markup::{self, html::Html},
    split::{self, Limit, Unit},
};

/// Maximum length of a message without its tags.
pub(super) const TEXT: Limit = Limit { length: 4_096, unit: Unit::Utf16 };

/// Maximum length of a file's caption.
const CAPTION: Limit = Limit { length: 1_024, unit: Unit::Utf16 };

/// Maximum length of the text that confirms a tap.
const TOAST: Limit = Limit { length: 200, unit: Unit::Character };

/// Maximum number of buttons in a row and of their characters in total, so that they are readable on a phone.
const ROW: usize = 3;
const ROW_WIDTH: usize = 30;
const LABEL: Limit = Limit { length: 60, unit: Unit::Character };

/// The format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextFormat {
    Html,
    /// Plain text, which Telegram always accepts.
    Plain,
}

/// The text of a message; with a file it is the caption.
fn words(post: &Post, dress: TextFormat) -> Map<String, Value> {
    let mut body = Map::new();
    let (key, text) = match &post.file {
        Some(_) => ("caption", caption(&post.text)),
        None => ("text", post.text.clone()),
    };
    if dress == TextFormat::Html {
        body.insert(key.to_owned(), markup::render(&text, &Html).into());
        body.insert("parse_mode".to_owned(), "HTML".into());
    } else {
        body.insert(key.to_owned(), text.into());
    }
    if post.file.is_none() {
        // The preview of a link would be larger than most answers.
        body.insert("link_preview_options".to_owned(), json!({"is_disabled": true}));
    }
    body
}

/// The fields that address a place.
fn at(place: &Place) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("chat_id".to_owned(), number(&place.chat));
    if let Some(thread) = &place.thread {
        body.insert("message_thread_id".to_owned(), number(thread));
    }
    body
}

/// Ids are numbers, except for the names of public channels.
fn number(id: &str) -> Value {
    id.parse::<i64>().map_or_else(|_| id.into(), Value::from)
}

/// The body that sends a post, with its file if it has one.
pub(super) fn message(place: &Place, post: &Post, dress: TextFormat) -> Body {
    let mut body = at(place);
    body.extend(words(post, dress));
    body.extend(reply(post));
    body.extend(keyboard(&post.buttons));
    match &post.file {
        Some(file) => Body::Form(form(&body, file)),
        None => Body::Json(Value::Object(body)),
    }
}

/// The body that edits a message. Buttons that the new post lacks are removed.
pub(super) fn edit(place: &Place, sent: &Sent, post: &Post, dress: TextFormat) -> Body {
    let mut body = Map::new();
    body.insert("chat_id".to_owned(), number(&place.chat));
    body.insert("message_id".to_owned(), number(&sent.0));
    body.extend(words(post, dress));
    body.extend(keyboard(&post.buttons));
    Body::Json(Value::Object(body))
}

fn form(body: &Map<String, Value>, file: &Document) -> Form {
    let mut form = Form::new();
    for (name, value) in body {
        form.field(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    form.file("document", file);
    form
}

pub(super) fn typing(place: &Place) -> Value {
    let mut body = at(place);
    body.insert("action".to_owned(), "typing".into());
    Value::Object(body)
}

pub(super) fn removal(place: &Place, sent: &Sent) -> Value {
    json!({"chat_id": number(&place.chat), "message_id": number(&sent.0)})
}

pub(super) fn receipt(receipt: &str, words: Option<&str>) -> Value {
    let mut body = json!({"callback_query_id": receipt});
    if let (Some(words), Some(body)) = (words, body.as_object_mut()) {
        body.insert("text".to_owned(), TOAST.shorten(words).into());
    }
    body
}

/// The reply fields. If the original message was deleted, the post is sent without a reply.
fn reply(post: &Post) -> Option<(String, Value)> {
    let message = post.reply_to.as_deref()?;
    let reply = json!({"message_id": number(message), "allow_sending_without_reply": true});
    Some(("reply_parameters".to_owned(), reply))
}

/// Splits text into pieces that fit when rendered. Rendering can make a text longer: a table is padded with spaces.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let mut limit = TEXT;
    loop {
        let pieces = split::pieces(text, limit);
        let is_short = |piece: &String| shown(piece) <= TEXT.length;
        if limit.length < TEXT.length / 8 || pieces.iter().all(is_short) {
            return pieces;
        }
        limit.length /= 2;
    }
}

/// Length of a text without tags and entities.
fn shown(markdown: &str) -> usize {
    let html = markup::render(markdown, &Html);
    let mut is_tag = false;
    let visible: String = html
        .chars()
        .filter(|it| {
            let is_inside = is_tag || *it == '<';
            is_tag = is_inside && *it != '>';
            !is_inside
        })
        .collect();
    let visible = visible.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    TEXT.measure(&visible)
}

/// The beginning of a text as a file's caption; the file has the rest.
fn caption(text: &str) -> String {
    if CAPTION.measure(text) <= CAPTION.length {
        return text.to_owned();
    }
    let limit = Limit { length: CAPTION.length - 1, ..CAPTION };
    split::pieces(text, limit).first().map(|piece| format!("{piece}…")).unwrap_or_default()
}

/// Rows of buttons, with short ones side by side.
fn keyboard(buttons: &[Button]) -> Option<(String, Value)> {
    let mut rows: Vec<Vec<Value>> = Vec::new();
    let mut width = 0;
    for button in buttons {
        let label = LABEL.shorten(&button.label);
        width += label.chars().count();
        let shown = json!({"text": label, "callback_data": button.token});
        match rows.last_mut() {
            Some(row) if row.len() < ROW && width <= ROW_WIDTH => row.push(shown),
            _ => {
                width = label.chars().count();
                rows.push(vec![shown]);
            }
        }
    }
    (!rows.is_empty()).then(|| ("reply_markup".to_owned(), json!({"inline_keyboard": rows})))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(labels: &[&str]) -> Vec<usize> {
        let button = |label: &&str| Button { label: (*label).to_owned(), token: "t".to_owned() };
        let buttons: Vec<Button> = labels.iter().map(button).collect();
        let (_, keyboard) = keyboard(&buttons).unwrap();
        keyboard["inline_keyboard"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row.as_array().unwrap().len())
            .collect()
    }

    #[test]
    fn short_buttons_share_a_row_and_long_ones_do_not() {
        assert_eq!(rows(&["Once", "Always", "Deny"]), [3]);
        assert_eq!(rows(&["1", "2", "3", "4"]), [3, 1]);
        assert_eq!(rows(&["Use the existing interface", "Write another", "No"]), [1, 2]);
        assert!(keyboard(&[]).is_none());
    }

    #[test]
    fn a_text_that_grows_when_rendered_is_split_smaller() {
        let row = format!("|{}|\n", "a|".repeat(15));
        let table = format!("{row}{}\n{}", "|-".repeat(16) + "|", row.repeat(120));
        assert!(TEXT.measure(&table) < TEXT.length, "{}", table.len());
        assert!(shown(&table) > TEXT.length);
        assert!(pieces(&table).iter().all(|piece| shown(piece) <= TEXT.length));
    }

    #[test]
    fn rendered_length_excludes_tags() {
        assert_eq!(shown("**a** < `b` & 😀"), "a < b & ..".len());
    }

    #[test]
    fn a_long_caption_is_cut() {
        let caption = caption(&"word ".repeat(400));
        assert!(CAPTION.measure(&caption) <= CAPTION.length && caption.ends_with('…'));
    }
}
