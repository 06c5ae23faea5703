//! The Web API: methods take forms or JSON, and answer with JSON that contains its own success flag.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Path, State as Shared},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{BOT, BOT_ID, Slack, TEAM, blocks};
use crate::platforms::service_state::{ServiceFault, Shown};

const LONGEST_TEXT: usize = 40_000;
/// An edited message has a lower limit than a new one.
const LONGEST_UPDATE: usize = 4_000;
/// Minimum interval of messages in a channel.
const PACE: Duration = Duration::from_secs(1);

pub(super) type Fields = BTreeMap<String, String>;

/// The result of a method, or Slack's error name.
pub(super) type Answer = Result<Value, Refusal>;

/// The reason why a method failed.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Slack's error name.
    Named(&'static str),
    /// The rate limit was exceeded.
    Busy,
}

impl From<&'static str> for Refusal {
    fn from(name: &'static str) -> Self {
        Self::Named(name)
    }
}

pub(super) async fn call(
    Shared(slack): Shared<Arc<Slack>>,
    Path(method): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let fault = slack.service_state.call(&method).await;
    match fault {
        Some(ServiceFault::Busy { after }) => return busy(after),
        Some(ServiceFault::Unavailable) => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Some(ServiceFault::Broken) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Some(ServiceFault::Cut | ServiceFault::Hold) | None => {}
    }
    let answer = slack.answer(&method, &headers, &body);
    if fault == Some(ServiceFault::Cut) {
        let cut = futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("cut")) });
        return Body::from_stream(cut).into_response();
    }
    let answer = match answer {
        Ok(mut answer) => {
            answer["ok"] = json!(true);
            answer
        }
        Err(Refusal::Busy) => return busy(1),
        Err(Refusal::Named(error)) => json!({"ok": false, "error": error}),
    };
    axum::Json(answer).into_response()
}

fn busy(after: u64) -> Response {
    let answer = axum::Json(json!({"ok": false, "error": "ratelimited"}));
    (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, after.to_string())], answer).into_response()
}

/// Reads the arguments from a form or from JSON.
fn fields(headers: &HeaderMap, body: &Bytes) -> Result<(Fields, bool), Refusal> {
    let mime = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if mime.starts_with("application/json") {
        let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
            return Err("invalid_json".into());
        };
        let text = |value: Value| if let Value::String(text) = value { text } else { value.to_string() };
        return Ok((fields.into_iter().map(|(name, value)| (name, text(value))).collect(), true));
    }
    Ok((form_urlencoded::parse(body).into_owned().collect(), false))
}

impl Slack {
    fn answer(&self, method: &str, headers: &HeaderMap, body: &Bytes) -> Answer {
        let (fields, is_json) = fields(headers, body)?;
        self.admit(method, headers, &fields)?;
        match method {
            _ if self.options.without.iter().any(|it| it == method) => Err("unknown_method".into()),
            "auth.test" => Ok(json!({"url": self.url, "team": "team", "team_id": TEAM, "user": "baton",
                "user_id": BOT, "bot_id": BOT_ID, "is_enterprise_install": false})),
            "apps.connections.open" => {
                let ticket = self.fresh("ticket-");
                self.lock().tickets.insert(ticket.clone());
                let address = match &self.front {
                    Some(front) => format!("wss://{}", front.address),
                    // The caller may reach the fake through a proxy; so does its connection then.
                    None => match headers.get(header::HOST).and_then(|host| host.to_str().ok()) {
                        Some(host) => format!("ws://{host}"),
                        None => self.url.replacen("http", "ws", 1),
                    },
                };
                Ok(json!({"url": format!("{address}/link?ticket={ticket}")}))
            }
            "chat.postMessage" => self.post(&fields),
            "chat.update" => self.update(&fields),
            "chat.delete" => self.delete(&fields),
            "assistant.threads.setStatus" => self.set_status(&fields),
            "files.getUploadURLExternal" if is_json => {
                self.service_state.problem("files.getUploadURLExternal takes no JSON");
                Err("invalid_arguments".into())
            }
            "files.getUploadURLExternal" => self.expect_file(&fields),
            "files.completeUploadExternal" => self.share(&fields),
            "files.delete" => self.delete_file(&fields),
            _ => Err("unknown_method".into()),
        }
    }

    /// Checks that the caller's token is valid for the method.
    fn admit(&self, method: &str, headers: &HeaderMap, fields: &Fields) -> Result<(), Refusal> {
        let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header
            .and_then(|value| value.strip_prefix("Bearer "))
            .or(fields.get("token").map(String::as_str));
        let (bot, app) = (self.options.bot_token.as_str(), self.options.app_token.as_str());
        let (wanted, other) = if method == "apps.connections.open" { (app, bot) } else { (bot, app) };
        match token {
            Some(token) if token == wanted => Ok(()),
            Some(token) if token == other => Err("not_allowed_token_type".into()),
            Some(_) => Err("invalid_auth".into()),
            None => Err("not_authed".into()),
        }
    }

    /// Checks that the bot may write in a channel, and in a thread of it.
    pub(super) fn open_to(&self, chat: &str, thread: Option<&str>) -> Result<(), Refusal> {
        if self.options.outside.iter().any(|it| it == chat) {
            return Err("not_in_channel".into());
        }
        if !self.lock().channels.contains(chat) {
            return Err("channel_not_found".into());
        }
        let Some(thread) = thread else { return Ok(()) };
        let parent = self.lock().messages.get(&(chat.to_owned(), thread.to_owned())).cloned();
        let parent = parent.ok_or("thread_not_found")?;
        if let Some(parent) = parent.filter(|parent| parent != thread) {
            self.service_state
                .problem(format!("{thread} is a reply; a thread is named by its first message, {parent}"));
        }
        Ok(())
    }

    fn post(&self, fields: &Fields) -> Answer {
        let chat = required(fields, "channel")?;
        let thread = fields.get("thread_ts").map(String::as_str);
        self.open_to(chat, thread)?;
        self.pace(chat)?;
        let (text, buttons) = self.content(fields, LONGEST_TEXT)?;
        let ts = self.place(chat, thread);
        self.service_state.show(Shown {
            id: ts.clone(),
            chat: chat.to_owned(),
            thread: thread.map(str::to_owned),
            text: text.clone(),
            buttons,
            ..Shown::default()
        });
        self.forget_status(chat, thread);
        let message = json!({"type": "message", "user": BOT, "bot_id": BOT_ID, "ts": ts, "text": text});
        Ok(json!({"channel": chat, "ts": ts, "message": message}))
    }

    fn update(&self, fields: &Fields) -> Answer {
        let (chat, ts) = (required(fields, "channel")?, required(fields, "ts")?);
        self.open_to(chat, None)?;
        let (text, buttons) = self.content(fields, LONGEST_UPDATE)?;
        let has_blocks = fields.contains_key("blocks");
        let is_there = self.service_state.edit(ts, |message| {
            message.before.push(std::mem::replace(&mut message.text, text.clone()));
            if has_blocks {
                message.buttons = buttons;
            }
        });
        match (is_there, self.has(chat, ts)) {
            (true, _) => Ok(json!({"channel": chat, "ts": ts, "text": text})),
            (false, true) => Err("cant_update_message".into()),
            (false, false) => Err("message_not_found".into()),
        }
    }

    fn delete(&self, fields: &Fields) -> Answer {
        let (chat, ts) = (required(fields, "channel")?, required(fields, "ts")?);
        let is_there = self.service_state.edit(ts, |message| message.is_removed = true);
        if is_there { Ok(json!({"channel": chat, "ts": ts})) } else { Err("message_not_found".into()) }
    }

    fn set_status(&self, fields: &Fields) -> Answer {
        let (chat, thread) = (required(fields, "channel_id")?, required(fields, "thread_ts")?);
        let status = fields.get("status").ok_or("invalid_arguments")?;
        self.open_to(chat, None)?;
        if !self.has(chat, thread) {
            return Err("invalid_thread_ts".into());
        }
        self.lock().statuses.insert((chat.to_owned(), thread.to_owned()), status.clone());
        if status.is_empty() {
            self.service_state.change(|_| {});
        } else {
            self.service_state.typing(chat);
        }
        Ok(json!({}))
    }

    /// A message in a thread clears its status.
    pub(super) fn forget_status(&self, chat: &str, thread: Option<&str>) {
        let Some(thread) = thread else { return };
        self.lock().statuses.remove(&(chat.to_owned(), thread.to_owned()));
        self.service_state.change(|_| {});
    }

    fn pace(&self, chat: &str) -> Result<(), Refusal> {
        let now = Instant::now();
        let mut inner = self.lock();
        let is_early = inner.spoken.get(chat).is_some_and(|before| now.duration_since(*before) < PACE);
        if self.options.is_paced && is_early {
            return Err(Refusal::Busy);
        }
        inner.spoken.insert(chat.to_owned(), now);
        Ok(())
    }

    /// The text and the buttons of a message.
    fn content(
        &self,
        fields: &Fields,
        longest: usize,
    ) -> Result<(String, Vec<crate::platforms::service_state::ShownButton>), Refusal> {
        let text = fields.get("text").cloned().unwrap_or_default();
        let blocks = fields.get("blocks").map_or(Ok(Vec::new()), |blocks| blocks::check(blocks));
        let buttons = blocks.map_err(|(name, what)| {
            self.service_state.problem(format!("{name}: {what}"));
            name
        })?;
        if text.is_empty() && fields.get("blocks").is_none_or(|blocks| blocks == "[]") {
            return Err("no_text".into());
        }
        let length = text.chars().count();
        if length > longest {
            self.service_state.problem(format!("a message of {length} characters"));
            return Err("msg_too_long".into());
        }
        self.look_at(&text);
        Ok((text, buttons))
    }

    /// Records contents that no text should have.
    pub(super) fn look_at(&self, text: &str) {
        let calls_all = ["<!channel", "<!here", "<!everyone"].iter().any(|word| text.contains(word));
        if calls_all {
            self.service_state.problem(format!("the text notifies the whole channel: {text}"));
        }
        let is_escaped = |rest: &str| ["amp;", "lt;", "gt;"].iter().any(|name| rest.starts_with(name));
        if text.split('&').skip(1).any(|rest| !is_escaped(rest)) {
            self.service_state.problem(format!("an & that is not escaped: {text}"));
        }
    }
}

/// A required argument.
pub(super) fn required<'a>(fields: &'a Fields, name: &str) -> Result<&'a str, Refusal> {
    fields
        .get(name)
        .map(String::as_str)
        .filter(|value| !value.is_empty())
        .ok_or(Refusal::Named("invalid_arguments"))
}
