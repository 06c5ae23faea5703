//! The arguments of a method: JSON, or a form, in which every value is a text and files have names.

use axum::{
    body::Bytes,
    http::{HeaderMap, header},
};
use memchr::memmem;
use serde_json::{Map, Value};

use crate::platforms::service_state::ShownFile;

#[derive(Debug, Default)]
pub(super) struct Body {
    values: Map<String, Value>,
    pub(super) file: Option<ShownFile>,
}

impl Body {
    pub(super) fn read(headers: &HeaderMap, body: &Bytes) -> Result<Self, String> {
        let mime = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
        if let Some((_, boundary)) = mime.split_once("boundary=") {
            return Ok(Self::form(body, boundary.trim_matches('"')));
        }
        if body.is_empty() {
            return Ok(Self::default());
        }
        let values = serde_json::from_slice(body)
            .map_err(|error| format!("Bad Request: can't parse body: {error}"))?;
        Ok(Self { values, file: None })
    }

    fn form(body: &[u8], boundary: &str) -> Self {
        let mut form = Self::default();
        let line = format!("--{boundary}");
        let mut starts: Vec<usize> = memmem::find_iter(body, line.as_bytes()).collect();
        starts.push(body.len());
        for pair in starts.windows(2) {
            let &[start, end] = pair else { continue };
            let part = body.get(start + line.len()..end).unwrap_or_default();
            form.part(&String::from_utf8_lossy(part));
        }
        form
    }

    fn part(&mut self, part: &str) {
        let Some((head, content)) = part.split_once("\r\n\r\n") else { return };
        let content = content.strip_suffix("\r\n").unwrap_or(content);
        let disposition = header_of(head, "content-disposition").unwrap_or_default();
        if let Some(name) = parameter(disposition, "filename") {
            let mime = header_of(head, "content-type").unwrap_or("application/octet-stream").to_owned();
            self.file = Some(ShownFile { name, mime, text: content.to_owned() });
        } else if let Some(name) = parameter(disposition, "name") {
            let value = serde_json::from_str(content).unwrap_or_else(|_| content.into());
            self.values.insert(name, value);
        }
    }

    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|it| !it.is_null())
    }

    /// A text; in a form it may look like a number.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.value(key).map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned))
    }

    pub(super) fn number(&self, key: &str) -> Option<i64> {
        let value = self.value(key)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }
}

/// A header of a part, ignoring case.
fn header_of<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    headers.find(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// A parameter of a header, with or without quotes.
fn parameter(header: &str, name: &str) -> Option<String> {
    let mut parameters = header.split(';').filter_map(|it| it.split_once('='));
    parameters.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_split_into_fields() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"chat_id\"\r\n\r\n7\r\n--x\r\n\
                    content-disposition:form-data;name=\"document\";filename=a.diff\r\n\
                    content-type:text/x-diff\r\n\r\n-a\r\n+b\r\n--x--\r\n";
        let form = Body::form(body.as_bytes(), "x");
        assert_eq!(form.number("chat_id"), Some(7));
        let file = form.file.unwrap();
        assert_eq!(
            (file.name.as_str(), file.mime.as_str(), file.text.as_str()),
            ("a.diff", "text/x-diff", "-a\r\n+b")
        );
    }
}
