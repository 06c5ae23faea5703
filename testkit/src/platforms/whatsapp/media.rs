//! Files: those of users can be downloaded, and those of the bot are uploaded before they are sent.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State as Shared},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use memchr::memmem;
use serde_json::json;

use super::{Complaint, WhatsApp, answered};
use crate::platforms::service_state::{GivenFile, Shown, ShownFile};

/// Allowed media types of a document.
const KINDS: [&str; 8] = [
    "text/plain",
    "application/pdf",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
];

#[derive(Debug, Clone)]
pub(super) struct Media {
    pub(super) mime: String,
    bytes: Bytes,
}

impl Media {
    /// A file of the user.
    pub(super) fn given(file: &GivenFile) -> Self {
        let bytes = STANDARD.decode(&file.base64).unwrap_or_default();
        Self { mime: file.mime.clone(), bytes: bytes.into() }
    }
}

impl WhatsApp {
    /// An uploaded file, as the user receives it.
    pub(super) fn file(&self, id: &str, shown: &Shown) -> Result<ShownFile, Complaint> {
        let inner = self.lock();
        let media = inner.media.get(id).ok_or_else(|| Complaint::unknown(id))?;
        let text = String::from_utf8_lossy(&media.bytes).into_owned();
        let name = shown.file.as_ref().map(|file| file.name.clone()).unwrap_or_default();
        Ok(ShownFile { name, mime: media.mime.clone(), text })
    }
}

type Service = Shared<Arc<WhatsApp>>;

/// Handles `POST /{number}/media`.
pub(super) async fn upload(
    Shared(service): Service,
    Path(path): Path<Vec<String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let number = path.last().cloned().unwrap_or_default();
    let fault = match service.admit("media", &headers).await {
        Ok(fault) => fault,
        Err(response) => return response,
    };
    if number != service.options.phone_number_id {
        return service.refuse("media", &Complaint::unknown(&number));
    }
    match received(&headers, &body) {
        Ok(media) => answered(fault, json!({ "id": service.keep(media).0 })),
        Err(complaint) => service.refuse("media", &complaint),
    }
}

/// Reads the file from a form.
fn received(headers: &HeaderMap, body: &[u8]) -> Result<Media, Complaint> {
    let mime = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = mime.strip_prefix("multipart/form-data; boundary=").unwrap_or_default().trim_matches('"');
    let fields = form(body, boundary).ok_or_else(|| Complaint::new(100, "(#100) The body is no form"))?;
    let find = |name: &str| fields.iter().find(|field| field.name == name);
    let is_product = find("messaging_product").is_some_and(|field| field.body == b"whatsapp");
    if !is_product {
        return Err(Complaint::new(100, "(#100) The parameter messaging_product is required."));
    }
    let file = find("file").ok_or_else(|| Complaint::new(100, "(#100) The parameter file is required."))?;
    if !file.has_filename {
        return Err(Complaint::new(100, "(#100) The file has no name"));
    }
    let kind = file.mime.split(';').next().unwrap_or_default().trim();
    let is_media = ["image/", "audio/", "video/"].iter().any(|family| kind.starts_with(family));
    if !KINDS.contains(&kind) && !is_media {
        let message =
            format!("(#100) Param file must be a file with one of the following types: {}", KINDS.join(", "));
        return Err(Complaint::new(100, message).because(format!("it has the type {kind}")));
    }
    Ok(Media { mime: kind.to_owned(), bytes: Bytes::copy_from_slice(file.body) })
}

struct Field<'a> {
    name: String,
    has_filename: bool,
    mime: String,
    body: &'a [u8],
}

/// The fields of a form; `None` if the body is not a form.
fn form<'a>(body: &'a [u8], boundary: &str) -> Option<Vec<Field<'a>>> {
    if boundary.is_empty() {
        return None;
    }
    let mark = format!("--{boundary}");
    let ends: Vec<usize> = memmem::find_iter(body, mark.as_bytes()).collect();
    let parts = ends.windows(2).map(|pair| match pair {
        [from, to] => body.get(from + mark.len()..*to),
        _ => None,
    });
    parts.map(|part| field(part?)).collect()
}

fn field(part: &[u8]) -> Option<Field<'_>> {
    let part = part.strip_prefix(b"\r\n")?.strip_suffix(b"\r\n")?;
    let middle = memmem::find(part, b"\r\n\r\n")?;
    let head = std::str::from_utf8(part.get(..middle)?).ok()?;
    let value = |header: &str| {
        let found = head.lines().find(|line| line.to_ascii_lowercase().starts_with(header))?;
        found.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let disposition = value("content-disposition")?;
    let name = disposition.split("; name=\"").nth(1)?.split('"').next()?.to_owned();
    Some(Field {
        name,
        has_filename: disposition.contains("; filename=\""),
        mime: value("content-type").unwrap_or_default(),
        body: part.get(middle + 4..)?,
    })
}

/// Handles `GET /{id}`: the address of a file, or the owner of a number.
pub(super) async fn describe(
    Shared(service): Service,
    Path(path): Path<Vec<String>>,
    headers: HeaderMap,
) -> Response {
    let id = path.last().cloned().unwrap_or_default();
    let media = service.lock().media.get(&id).cloned();
    let method = if media.is_some() { "media.url" } else { "number" };
    let fault = match service.admit(method, &headers).await {
        Ok(fault) => fault,
        Err(response) => return response,
    };
    let number = &service.options.phone_number_id;
    let Some(media) = media else {
        if id == *number {
            return answered(fault, json!({ "id": id, "verified_name": "Baton" }));
        }
        return service.refuse(method, &Complaint::unknown(&id));
    };
    let answer = json!({
        "messaging_product": "whatsapp",
        "url": format!("{}/lookaside/{id}?ext=1&hash=fake", service.address),
        "mime_type": media.mime,
        "sha256": "fake",
        "file_size": media.bytes.len().to_string(),
        "id": id,
    });
    answered(fault, answer)
}

/// Serves the file itself.
pub(super) async fn download(
    Shared(service): Service,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    if let Err(response) = service.admit("media.download", &headers).await {
        return response;
    }
    // The real one answers with an HTML page.
    if !headers.contains_key(header::USER_AGENT) {
        service.service_state.problem("media.download: the User-Agent header is missing");
        return (StatusCode::FORBIDDEN, "<html>Sorry, this content isn't available right now</html>")
            .into_response();
    }
    let media = service.lock().media.get(&id).cloned();
    match media {
        Some(media) => ([(header::CONTENT_TYPE, media.mime)], media.bytes).into_response(),
        None => (StatusCode::NOT_FOUND, Json(json!({}))).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uploaded(kind: &str) -> Result<Media, Complaint> {
        let body = format!(
            "--x\r\nContent-Disposition: form-data; name=\"messaging_product\"\r\n\r\nwhatsapp\r\n\
             --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\nContent-Type: {kind}\r\n\r\n\
             one\r\n\r\ntwo\r\n--x--\r\n"
        );
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "multipart/form-data; boundary=x".parse().unwrap());
        received(&headers, body.as_bytes())
    }

    #[test]
    fn a_form_is_read_and_kinds_are_few() {
        let media = uploaded("text/plain").unwrap();
        assert_eq!((media.mime.as_str(), &media.bytes[..]), ("text/plain", b"one\r\n\r\ntwo".as_slice()));
        assert!(uploaded("text/x-diff").unwrap_err().to_string().contains("text/x-diff"));
    }
}
