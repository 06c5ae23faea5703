//! The rules of the Graph API, and its error messages.

use std::fmt;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde_json::{Map, Value, json};

use crate::platforms::service_state::{Shown, ShownButton, ShownFile};

/// An error of the Graph API, with its texts.
#[derive(Debug, Clone)]
pub(super) struct Complaint {
    code: u32,
    message: String,
    details: Option<String>,
}

impl Complaint {
    pub(super) fn new(code: u32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None }
    }

    pub(super) fn because(self, details: impl Into<String>) -> Self {
        Self { details: Some(details.into()), ..self }
    }

    pub(super) fn late() -> Self {
        Self::new(131_047, "(#131047) Re-engagement message").because(
            "Message failed to send because more than 24 hours have passed since the customer last replied",
        )
    }

    pub(super) fn unknown(id: &str) -> Self {
        Self::new(100, format!("Unsupported post request. Object with ID '{id}' does not exist"))
    }

    /// A parameter has an invalid value.
    pub(super) fn invalid(details: impl Into<String>) -> Self {
        Self::new(131_009, "(#131009) Parameter value is not valid").because(details)
    }

    fn missing(name: &str) -> Self {
        Self::new(131_008, "(#131008) Required parameter is missing").because(name)
    }

    /// Returns true if even a careful client could not have avoided it: too late, or too fast.
    pub(super) fn is_circumstance(&self) -> bool {
        matches!(self.code, 131_047 | 131_056)
    }

    /// The same JSON is used in an answer and in a status.
    pub(super) fn json(&self) -> Value {
        let mut error = json!({
            "message": self.message, "type": "OAuthException", "code": self.code, "fbtrace_id": "Afake",
        });
        if let (Some(details), Some(error)) = (&self.details, error.as_object_mut()) {
            let data = json!({ "messaging_product": "whatsapp", "details": details });
            error.insert("error_data".to_owned(), data);
        }
        error
    }

    pub(super) fn response(&self, status: StatusCode) -> Response {
        (status, Json(json!({ "error": self.json() }))).into_response()
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.message)?;
        self.details.as_ref().map_or(Ok(()), |details| write!(out, ": {details}"))
    }
}

/// A valid message and its recipient.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    pub(super) person: String,
    pub(super) shown: Shown,
    /// The id of an uploaded file.
    pub(super) media: Option<String>,
    pub(super) is_list: bool,
}

/// Checks a read receipt with a typing indicator; returns the message's id.
pub(super) fn read(body: &Value) -> Result<&str, Complaint> {
    let fields = fields(body, &["messaging_product", "status", "message_id", "typing_indicator"])?;
    product(fields)?;
    if fields.get("status") != Some(&json!("read")) {
        return Err(Complaint::invalid("status must be read"));
    }
    match fields.get("typing_indicator") {
        Some(typing) if typing != &json!({ "type": "text" }) => {
            Err(Complaint::invalid("typing_indicator must be {type: text}"))
        }
        _ => text(fields, "message_id"),
    }
}

/// Checks a message.
pub(super) fn message(body: &Value) -> Result<Spoken, Complaint> {
    let known = ["messaging_product", "recipient_type", "to", "recipient", "type", "context"];
    let kind = body.get("type").and_then(Value::as_str).ok_or_else(|| Complaint::missing("type"))?;
    let fields = fields(body, &[known.as_slice(), &[kind]].concat())?;
    product(fields)?;
    if fields.get("recipient_type").is_some_and(|it| it != "individual") {
        return Err(Complaint::invalid("recipient_type must be individual"));
    }
    let content = fields.get(kind).ok_or_else(|| Complaint::missing(kind))?;
    let mut spoken = match kind {
        "text" => words(content)?,
        "interactive" => interactive(content)?,
        "document" => document(content)?,
        _ => return Err(Complaint::invalid(format!("this number sends no {kind}"))),
    };
    spoken.person = person(fields)?;
    spoken.shown.chat.clone_from(&spoken.person);
    spoken.shown.reply_to = match fields.get("context") {
        Some(context) => Some(text(self::fields(context, &["message_id"])?, "message_id")?.to_owned()),
        None => None,
    };
    Ok(spoken)
}

fn product(fields: &Map<String, Value>) -> Result<(), Complaint> {
    if fields.get("messaging_product") == Some(&json!("whatsapp")) {
        return Ok(());
    }
    Err(Complaint::new(100, "(#100) The parameter messaging_product is required."))
}

/// A phone number with its country code, or the id of a user with a username.
fn person(fields: &Map<String, Value>) -> Result<String, Complaint> {
    let is_number = |it: &str| (7..=15).contains(&it.len()) && it.bytes().all(|byte| byte.is_ascii_digit());
    let is_id = |it: &str| {
        it.split_once('.').is_some_and(|(country, id)| {
            country.len() == 2 && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    };
    match (fields.get("to").and_then(Value::as_str), fields.get("recipient").and_then(Value::as_str)) {
        (Some(to), _) if is_number(to.trim_start_matches('+')) => Ok(to.trim_start_matches('+').to_owned()),
        (Some(to), _) => Err(Complaint::invalid(format!("to: {to} is no number"))),
        (None, Some(id)) if is_id(id) => Ok(id.to_owned()),
        (None, Some(id)) => Err(Complaint::invalid(format!("recipient: {id} is no id"))),
        (None, None) => Err(Complaint::missing("to")),
    }
}

fn words(content: &Value) -> Result<Spoken, Complaint> {
    let fields = fields(content, &["body", "preview_url"])?;
    if fields.get("preview_url").is_some_and(|it| !it.is_boolean()) {
        return Err(Complaint::invalid("preview_url must be true or false"));
    }
    let text = limited(fields, "body", 4_096)?;
    Ok(Spoken { shown: Shown { text, ..Shown::default() }, ..Spoken::default() })
}

fn document(content: &Value) -> Result<Spoken, Complaint> {
    let fields = fields(content, &["id", "filename", "caption"])?;
    let caption =
        if fields.contains_key("caption") { limited(fields, "caption", 1_024)? } else { String::new() };
    // Without a name the real one would show “untitled”.
    let file = Some(ShownFile { name: limited(fields, "filename", 240)?, ..ShownFile::default() });
    let media = Some(text(fields, "id")?.to_owned());
    Ok(Spoken { shown: Shown { text: caption, file, ..Shown::default() }, media, ..Spoken::default() })
}

fn interactive(content: &Value) -> Result<Spoken, Complaint> {
    let fields = fields(content, &["type", "header", "body", "footer", "action"])?;
    let action = fields.get("action").ok_or_else(|| Complaint::missing("action"))?;
    let body = fields.get("body").ok_or_else(|| Complaint::missing("body"))?;
    let body = self::fields(body, &["text"])?;
    let (text, buttons, is_list) = match text(fields, "type")? {
        "button" => (limited(body, "text", 1_024)?, buttons(action)?, false),
        "list" => (limited(body, "text", 4_096)?, rows(action)?, true),
        other => return Err(Complaint::invalid(format!("this number sends no interactive {other}"))),
    };
    distinct(buttons.iter().map(|button| button.token.as_str()), "ids")?;
    if !is_list {
        distinct(buttons.iter().map(|button| button.label.as_str()), "titles")?;
    }
    Ok(Spoken { shown: Shown { text, buttons, ..Shown::default() }, is_list, ..Spoken::default() })
}

fn buttons(action: &Value) -> Result<Vec<ShownButton>, Complaint> {
    let buttons = list(fields(action, &["buttons"])?, "buttons", 3)?;
    let button = |button: &Value| {
        let fields = fields(button, &["type", "reply"])?;
        if text(fields, "type")? != "reply" {
            return Err(Complaint::invalid("a button must be a reply"));
        }
        let reply = fields.get("reply").ok_or_else(|| Complaint::missing("reply"))?;
        let reply = self::fields(reply, &["id", "title"])?;
        Ok(ShownButton { label: limited(reply, "title", 20)?, token: limited(reply, "id", 256)? })
    };
    buttons.iter().map(button).collect()
}

fn rows(action: &Value) -> Result<Vec<ShownButton>, Complaint> {
    let action = fields(action, &["button", "sections"])?;
    limited(action, "button", 20)?;
    let sections = list(action, "sections", 10)?;
    let mut all = Vec::new();
    for section in sections {
        let section = fields(section, &["title", "rows"])?;
        if section.contains_key("title") || sections.len() > 1 {
            limited(section, "title", 24)?;
        }
        for row in list(section, "rows", 10)? {
            let row = fields(row, &["id", "title", "description"])?;
            if row.contains_key("description") {
                limited(row, "description", 72)?;
            }
            all.push(ShownButton { label: limited(row, "title", 24)?, token: limited(row, "id", 200)? });
        }
    }
    if all.len() > 10 {
        return Err(Complaint::invalid("more than 10 rows"));
    }
    Ok(all)
}

/// The fields of an object; unknown ones are an error.
fn fields<'a>(value: &'a Value, known: &[&str]) -> Result<&'a Map<String, Value>, Complaint> {
    let fields = value.as_object().ok_or_else(|| Complaint::invalid("an object is expected"))?;
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(Complaint::new(100, format!("(#100) Unexpected key \"{key}\""))),
        None => Ok(fields),
    }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, Complaint> {
    fields.get(name).and_then(Value::as_str).ok_or_else(|| Complaint::missing(name))
}

/// A text that is neither blank nor too long, counted in UTF-16 units.
fn limited(fields: &Map<String, Value>, name: &str, most: usize) -> Result<String, Complaint> {
    let text = text(fields, name)?;
    let length = text.encode_utf16().count();
    if text.trim().is_empty() {
        return Err(Complaint::invalid(format!("{name} is empty")));
    }
    if length > most {
        return Err(Complaint::invalid(format!("{name} has {length} characters, and {most} are allowed")));
    }
    Ok(text.to_owned())
}

fn list<'a>(fields: &'a Map<String, Value>, name: &str, most: usize) -> Result<&'a Vec<Value>, Complaint> {
    let list = fields.get(name).and_then(Value::as_array).ok_or_else(|| Complaint::missing(name))?;
    if (1..=most).contains(&list.len()) {
        return Ok(list);
    }
    Err(Complaint::invalid(format!("{name}: 1 to {most}, not {}", list.len())))
}

fn distinct<'a>(values: impl Iterator<Item = &'a str>, what: &str) -> Result<(), Complaint> {
    let mut seen = std::collections::BTreeSet::new();
    for value in values {
        if !seen.insert(value) {
            return Err(Complaint::invalid(format!("{what} must differ: {value}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_to(to: &Value, body: &str) -> Value {
        json!({ "messaging_product": "whatsapp", "to": to, "type": "text", "text": { "body": body } })
    }

    fn complaint(body: &Value) -> String {
        message(body).unwrap_err().to_string()
    }

    fn choice(kind: &str, text: &str, action: &Value) -> Value {
        json!({
            "messaging_product": "whatsapp", "to": "15550001111", "type": "interactive",
            "interactive": { "type": kind, "body": { "text": text }, "action": action },
        })
    }

    #[test]
    fn limits_are_the_services_own() {
        let to = json!("15550001111");
        assert!(message(&text_to(&to, &"x".repeat(4_096))).is_ok());
        assert!(complaint(&text_to(&to, &"x".repeat(4_097))).contains("4097"));
        assert!(complaint(&text_to(&to, " ")).contains("empty"));
        assert!(complaint(&text_to(&json!("ada"), "x")).contains("is no number"));
        assert!(complaint(&text_to(&Value::Null, "x")).contains("missing"));
        let mut unknown = text_to(&to, "x");
        unknown["markdown"] = json!(true);
        assert!(complaint(&unknown).contains("markdown"));
    }

    #[test]
    fn buttons_and_rows_are_counted() {
        let button = |at: usize| json!({ "type": "reply", "reply": { "id": at.to_string(), "title": format!("b{at}") } });
        let buttons = |count| json!({ "buttons": (0..count).map(button).collect::<Vec<_>>() });
        assert_eq!(message(&choice("button", "x", &buttons(3))).unwrap().shown.buttons.len(), 3);
        assert!(complaint(&choice("button", "x", &buttons(4))).contains("1 to 3"));
        assert!(complaint(&choice("button", &"x".repeat(1_025), &buttons(1))).contains("1024"));
        let row = |at: usize| json!({ "id": at.to_string(), "title": "r" });
        let rows = |count| json!({ "button": "b", "sections": [{ "rows": (0..count).map(row).collect::<Vec<_>>() }] });
        assert!(message(&choice("list", &"x".repeat(1_025), &rows(10))).unwrap().is_list);
        assert!(complaint(&choice("list", "x", &rows(11))).contains("1 to 10"));
        let same = json!({ "buttons": [button(1), button(1)] });
        assert!(complaint(&choice("button", "x", &same)).contains("differ"));
    }
}
