//! Files that users send, and files that the bot uploads.

use std::sync::Arc;

use axum::{
    extract::{Path, State as Shared},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Slack, blocks,
    web::{Answer, Fields, required},
};
use crate::platforms::service_state::{GivenFile, Shown, ShownFile};

#[derive(Debug, Clone, Default)]
pub(super) struct Stored {
    name: String,
    mime: String,
    /// The announced length.
    length: usize,
    content: Option<Bytes>,
}

/// Receives an upload of the bot: the plain content, or the only part of a form.
pub(super) async fn upload(
    Shared(slack): Shared<Arc<Slack>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mime = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some(body) = content(mime, body) else { return StatusCode::BAD_REQUEST.into_response() };
    let mut inner = slack.lock();
    let Some(file) = inner.files.get_mut(&id).filter(|file| file.content.is_none()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (length, said) = (body.len(), file.length);
    file.content = Some(body);
    drop(inner);
    if length != said {
        slack.service_state.problem(format!("a file of {length} bytes that was said to have {said}"));
        return StatusCode::BAD_REQUEST.into_response();
    }
    format!("OK - {length}").into_response()
}

/// The content of an upload, with or without a form around it.
fn content(mime: &str, body: Bytes) -> Option<Bytes> {
    if !mime.starts_with("multipart/form-data") {
        return Some(body);
    }
    let boundary = mime.split_once("boundary=")?.1.trim_matches('"');
    let start = memchr::memmem::find(&body, b"\r\n\r\n")? + 4;
    let length = memchr::memmem::find(body.get(start..)?, format!("\r\n--{boundary}").as_bytes())?;
    Some(body.slice(start..start + length))
}

/// Serves a file of the user. A caller without the token is redirected to a login page.
pub(super) async fn download(
    Shared(slack): Shared<Arc<Slack>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if token.and_then(|token| token.strip_prefix("Bearer ")) != Some(&slack.options.bot_token) {
        return Redirect::to("/login").into_response();
    }
    let file = slack.lock().files.get(&id).cloned();
    match file.and_then(|file| Some((file.mime, file.content?))) {
        Some((mime, content)) => ([(header::CONTENT_TYPE, mime)], content).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

impl Slack {
    /// Stores a file of the user's message and returns its description.
    pub(super) fn given(&self, file: &GivenFile) -> Value {
        let id = self.fresh("F");
        let content = STANDARD.decode(&file.base64).unwrap_or_default();
        let address = format!("{}/files/{id}", self.url);
        let described = json!({
            "id": id, "name": file.name, "title": file.name, "mimetype": file.mime, "size": content.len(),
            "mode": "hosted", "url_private": address, "url_private_download": address,
        });
        let length = content.len();
        let stored = Stored {
            name: file.name.clone(),
            mime: file.mime.clone(),
            length,
            content: Some(content.into()),
        };
        self.lock().files.insert(id, stored);
        described
    }

    pub(super) fn expect_file(&self, fields: &Fields) -> Answer {
        let name = required(fields, "filename")?.to_owned();
        let length = required(fields, "length")?.parse().map_err(|_| "invalid_arguments")?;
        if length == 0 {
            return Err("invalid_arguments".into());
        }
        let id = self.fresh("F");
        let stored = Stored { name, mime: "text/plain".to_owned(), length, content: None };
        self.lock().files.insert(id.clone(), stored);
        Ok(json!({"upload_url": format!("{}/upload/{id}", self.url), "file_id": id}))
    }

    pub(super) fn share(&self, fields: &Fields) -> Answer {
        let files: Vec<Value> =
            serde_json::from_str(required(fields, "files")?).map_err(|_| "invalid_arguments")?;
        let id = files.first().and_then(|file| file["id"].as_str()).ok_or("invalid_arguments")?;
        let (chat, thread) = (required(fields, "channel_id")?, fields.get("thread_ts").map(String::as_str));
        self.open_to(chat, thread)?;
        let stored = self.lock().files.get(id).cloned().ok_or("file_not_found")?;
        let content = stored.content.ok_or("file_not_found")?;
        let blocks = fields.get("blocks").filter(|_| !fields.contains_key("initial_comment"));
        let buttons =
            blocks.map_or(Ok(Vec::new()), |blocks| blocks::check(blocks)).map_err(|(name, _)| name)?;
        let text = fields.get("initial_comment").cloned().unwrap_or_default();
        self.look_at(&text);
        let text_of_file = String::from_utf8_lossy(&content).into_owned();
        self.place(chat, thread);
        self.service_state.show(Shown {
            id: id.to_owned(),
            chat: chat.to_owned(),
            thread: thread.map(str::to_owned),
            text,
            buttons,
            file: Some(ShownFile { name: stored.name, mime: stored.mime, text: text_of_file }),
            ..Shown::default()
        });
        self.forget_status(chat, thread);
        Ok(json!({"files": [{"id": id}]}))
    }

    pub(super) fn delete_file(&self, fields: &Fields) -> Answer {
        let is_there =
            self.service_state.edit(required(fields, "file")?, |message| message.is_removed = true);
        if is_there { Ok(json!({})) } else { Err("file_not_found".into()) }
    }
}
