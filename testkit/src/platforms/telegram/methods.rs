//! The bot's methods, with Telegram's limits and error texts.

use serde_json::{Value, json};

use super::{Refusal, Telegram, body::Body, html, updates::Webhook};
use crate::platforms::service_state::{Shown, ShownButton};

const TEXT: usize = 4_096;
const CAPTION: usize = 1_024;
const CALLBACK_DATA: usize = 64;
const BUTTONS: usize = 100;
const BUTTONS_IN_ROW: usize = 8;
const TOAST: usize = 200;
const MAX_DOWNLOAD: usize = 20 << 20;

const ACTIONS: [&str; 4] = ["typing", "upload_document", "upload_photo", "record_voice"];

type Result = std::result::Result<Value, Refusal>;

/// An error of the caller.
fn bad(words: impl Into<String>) -> Refusal {
    Refusal::new(400, words)
}

impl Telegram {
    pub(super) async fn act(&self, method: &str, body: &Body) -> Result {
        match method {
            "getMe" => Ok(self.me()),
            "getUpdates" => self.poll(body).await,
            "setWebhook" => self.set_webhook(body),
            "deleteWebhook" => Ok(self.delete_webhook()),
            "getWebhookInfo" => Ok(self.webhook_info()),
            "setMyCommands" => set_commands(body),
            "sendMessage" => self.send_message(body),
            "sendDocument" => self.send_document(body),
            "editMessageText" => self.edit(body, "text", TEXT),
            "editMessageCaption" => self.edit(body, "caption", CAPTION),
            "deleteMessage" => self.delete_message(body),
            "sendChatAction" => self.chat_action(body),
            "answerCallbackQuery" => self.answer(body),
            "getFile" => self.file(body),
            _ => Err(Refusal::new(404, "Not Found")),
        }
    }

    pub(super) fn me(&self) -> Value {
        json!({
            "id": self.options.id(), "is_bot": true, "first_name": "Baton", "username": self.options.username,
            "can_join_groups": true, "can_read_all_group_messages": false, "supports_inline_queries": false,
        })
    }

    fn set_webhook(&self, body: &Body) -> Result {
        let url = body.text("url").unwrap_or_default();
        let is_near = url.starts_with("http://127.0.0.1:") || url.starts_with("http://localhost:");
        if !url.starts_with("https://") && !is_near {
            return Err(bad("Bad Request: bad webhook: An HTTPS URL must be provided for webhook"));
        }
        let secret = body.text("secret_token");
        let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
        if secret.as_ref().is_some_and(|it| it.len() > 256 || !it.chars().all(is_plain)) {
            return Err(bad("Bad Request: secret token contains unallowed characters"));
        }
        self.want(body);
        self.lock().webhook = Some(Webhook { url, secret });
        self.news.send_modify(|count| *count += 1);
        Ok(json!(true))
    }

    fn delete_webhook(&self) -> Value {
        self.lock().webhook = None;
        json!(true)
    }

    fn webhook_info(&self) -> Value {
        let inner = self.lock();
        let url = inner.webhook.as_ref().map(|it| it.url.clone()).unwrap_or_default();
        json!({"url": url, "has_custom_certificate": false, "pending_update_count": inner.waiting.len()})
    }

    fn send_message(&self, body: &Body) -> Result {
        let words = self.words(body, "text", TEXT)?;
        if words.visible.trim().is_empty() {
            return Err(bad("Bad Request: message text is empty"));
        }
        self.show(body, words)
    }

    fn send_document(&self, body: &Body) -> Result {
        if body.file.is_none() {
            return Err(bad("Bad Request: there is no document in the request"));
        }
        let words = self.words(body, "caption", CAPTION)?;
        self.show(body, words)
    }

    /// Shows a message, if its chat and thread exist and its contents are valid.
    fn show(&self, body: &Body, words: Words) -> Result {
        let chat = self.chat(body)?;
        let thread = body.text("message_thread_id");
        if thread.as_ref().is_some_and(|it| !self.lock().threads.contains(&(chat.clone(), it.clone()))) {
            return Err(bad("Bad Request: message thread not found"));
        }
        let reply_to = self.replied(body)?;
        let buttons = buttons(body)?;
        self.pace(&chat)?;
        let id = self.new_message();
        let file = body.file.clone();
        let message = json!({
            "message_id": id, "date": super::now(), "chat": {"id": chat.parse::<i64>().unwrap_or_default(), "type": "private"},
            "from": self.me(), "text": words.visible,
        });
        let id = id.to_string();
        self.service_state.show(Shown {
            id,
            chat,
            thread,
            text: words.sent,
            buttons,
            file,
            reply_to,
            ..Shown::default()
        });
        Ok(message)
    }

    fn replied(&self, body: &Body) -> std::result::Result<Option<String>, Refusal> {
        let Some(reply) = body.value("reply_parameters") else { return Ok(None) };
        let id = reply.get("message_id").and_then(Value::as_i64).unwrap_or_default();
        let is_there = (1..=self.lock().last_message).contains(&id);
        let is_optional = reply.get("allow_sending_without_reply") == Some(&json!(true));
        if !is_there && !is_optional {
            return Err(bad("Bad Request: message to be replied not found"));
        }
        Ok(is_there.then(|| id.to_string()))
    }

    fn edit(&self, body: &Body, key: &str, limit: usize) -> Result {
        let words = self.words(body, key, limit)?;
        let buttons = buttons(body)?;
        let chat = self.chat(body)?;
        self.pace(&chat)?;
        let id = body.text("message_id").unwrap_or_default();
        let state = self.service_state.state();
        let Some(shown) = state.messages.iter().find(|it| it.id == id && it.chat == chat && !it.is_removed)
        else {
            return Err(bad("Bad Request: message to edit not found"));
        };
        if key == "text" && shown.file.is_some() {
            return Err(bad("Bad Request: there is no text in the message to edit"));
        }
        if shown.text == words.sent && shown.buttons == buttons {
            return Err(bad(
                "Bad Request: message is not modified: specified new message content and reply markup are exactly the \
                 same as a current content and reply markup of the message",
            ));
        }
        self.service_state.edit(&id, |shown| {
            shown.before.push(std::mem::replace(&mut shown.text, words.sent));
            shown.buttons = buttons;
        });
        Ok(json!({"message_id": body.number("message_id"), "text": words.visible}))
    }

    fn delete_message(&self, body: &Body) -> Result {
        let id = body.text("message_id").unwrap_or_default();
        if self.service_state.edit(&id, |shown| shown.is_removed = true) {
            return Ok(json!(true));
        }
        Err(bad("Bad Request: message to delete not found"))
    }

    fn chat_action(&self, body: &Body) -> Result {
        let action = body.text("action").unwrap_or_default();
        if !ACTIONS.contains(&action.as_str()) {
            return Err(bad("Bad Request: wrong parameter action in request"));
        }
        self.service_state.typing(&self.chat(body)?);
        Ok(json!(true))
    }

    fn answer(&self, body: &Body) -> Result {
        let id = body.text("callback_query_id").unwrap_or_default();
        if !self.lock().queries.remove(&id) {
            return Err(bad(
                "Bad Request: query is too old and response timeout expired or query ID is invalid",
            ));
        }
        let text = body.text("text").unwrap_or_default();
        if text.chars().count() > TOAST {
            return Err(bad("Bad Request: MESSAGE_TOO_LONG"));
        }
        self.service_state.change(|state| state.understood.push(text));
        Ok(json!(true))
    }

    fn file(&self, body: &Body) -> Result {
        let id = body.text("file_id").unwrap_or_default();
        let inner = self.lock();
        let size = inner.files.get(&id).map(Vec::len).ok_or_else(|| bad("Bad Request: wrong file_id"))?;
        if size > MAX_DOWNLOAD {
            return Err(bad("Bad Request: file is too big"));
        }
        Ok(
            json!({"file_id": id, "file_unique_id": id, "file_size": size, "file_path": format!("documents/{id}")}),
        )
    }

    fn chat(&self, body: &Body) -> std::result::Result<String, Refusal> {
        let chat = body.text("chat_id").unwrap_or_default();
        if let Some(id) = self.lock().migrated.get(&chat) {
            let words = "Bad Request: group chat was upgraded to a supergroup chat";
            return Err(bad(words).with("migrate_to_chat_id", *id));
        }
        if self.lock().chats.contains(&chat) { Ok(chat) } else { Err(bad("Bad Request: chat not found")) }
    }

    fn words(&self, body: &Body, key: &str, limit: usize) -> std::result::Result<Words, Refusal> {
        let sent = body.text(key).unwrap_or_default();
        let visible = match body.text("parse_mode").as_deref() {
            Some("HTML") => html::visible(&sent, &self.options.unknown_tags).map_err(bad)?,
            _ => sent.clone(),
        };
        if visible.encode_utf16().count() > limit {
            let what = if key == "caption" { "message caption" } else { "message" };
            return Err(bad(format!("Bad Request: {what} is too long")));
        }
        Ok(Words { sent, visible })
    }
}

/// The text of a message, as it was sent and as the user sees it.
struct Words {
    sent: String,
    visible: String,
}

fn buttons(body: &Body) -> std::result::Result<Vec<ShownButton>, Refusal> {
    let keyboard = body.value("reply_markup").and_then(|it| it.get("inline_keyboard"));
    let rows = keyboard.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut buttons = Vec::new();
    for row in rows {
        let row = row.as_array().cloned().unwrap_or_default();
        if row.len() > BUTTONS_IN_ROW {
            return Err(bad("Bad Request: too many buttons in a row"));
        }
        for button in row {
            let text = |key| button.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (label, token) = (text("text"), text("callback_data"));
            if label.is_empty() {
                return Err(bad("Bad Request: text buttons are unallowed in the inline keyboard"));
            }
            if !(1..=CALLBACK_DATA).contains(&token.len()) {
                return Err(bad("Bad Request: BUTTON_DATA_INVALID"));
            }
            buttons.push(ShownButton { label, token });
        }
    }
    if buttons.len() > BUTTONS {
        return Err(bad("Bad Request: reply markup is too long"));
    }
    Ok(buttons)
}

fn set_commands(body: &Body) -> Result {
    let commands =
        body.value("commands").and_then(Value::as_array).ok_or_else(|| bad("Bad Request: commands"))?;
    let is_letter = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
    let is_right = |command: &Value| {
        let text = |key| command.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, words) = (text("command"), text("description"));
        (1..=32).contains(&name.len())
            && name.chars().all(is_letter)
            && (1..=256).contains(&words.chars().count())
    };
    if commands.len() > 100 || !commands.iter().all(is_right) {
        return Err(bad("Bad Request: BOT_COMMAND_INVALID"));
    }
    Ok(json!(true))
}
