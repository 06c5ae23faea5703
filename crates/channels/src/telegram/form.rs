//! A form with a file, as `multipart/form-data`.

use std::fmt::Write as _;

use crate::Document;

/// A form under construction.
#[derive(Debug)]
pub(super) struct Form {
    boundary: String,
    body: String,
}

impl Form {
    pub(super) fn new() -> Self {
        // A random boundary cannot occur in a text that was written before.
        Self { boundary: format!("baton-{:032x}", rand::random::<u128>()), body: String::new() }
    }

    pub(super) fn field(&mut self, name: &str, value: &str) {
        self.part(&format!("name=\"{name}\""), "text/plain; charset=utf-8", value);
    }

    pub(super) fn file(&mut self, name: &str, file: &Document) {
        let plain =
            |text: &str| text.replace(|it: char| it.is_control() || matches!(it, '"' | '\\' | '/'), "_");
        let head = format!("name=\"{name}\"; filename=\"{}\"", plain(&file.name));
        self.part(&head, &file.mime.replace(|it: char| it.is_control(), ""), &file.text);
    }

    fn part(&mut self, head: &str, mime: &str, value: &str) {
        let boundary = &self.boundary;
        // Writing to a string does not fail.
        let _ = write!(
            self.body,
            "--{boundary}\r\nContent-Disposition: form-data; {head}\r\nContent-Type: {mime}\r\n\r\n{value}\r\n"
        );
    }

    /// Returns the media type and the body.
    pub(super) fn finish(self) -> (String, String) {
        let Self { boundary, body } = self;
        (format!("multipart/form-data; boundary={boundary}"), format!("{body}--{boundary}--\r\n"))
    }
}
