//! Sends files: requests an upload address from Slack, uploads the content, and shares the file.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Slack, blocks};
use crate::{AdapterError, Document, Place, Post, Sent};

/// Maximum size of a file to send, in bytes.
pub(super) const LONGEST: u64 = 64 << 20;

/// Slack's answer to a request for an upload address.
#[derive(Deserialize)]
struct Expected {
    upload_url: String,
    file_id: String,
}

impl Slack {
    /// Sends a file with its caption. Returns the file's id, because Slack does not report the message's id.
    pub(super) async fn share(
        &self,
        place: &Place,
        post: &Post,
        file: &Document,
    ) -> Result<Sent, AdapterError> {
        let length = file.text.len().to_string();
        let fields = [("filename", file.name.as_str()), ("length", &length)];
        let expected: Expected =
            self.web.call("files.getUploadURLExternal", &fields).await.map_err(unseen)?;
        self.web.put(&expected.upload_url, file.text.clone()).await.map_err(unseen)?;
        let files = json!([{"id": expected.file_id, "title": file.name}]).to_string();
        let mut fields = vec![("files", files.as_str()), ("channel_id", &place.chat)];
        fields.extend(place.thread.as_deref().map(|thread| ("thread_ts", thread)));
        let blocks = blocks::blocks(post);
        let (caption, blocks) =
            (blocks::text(post), if blocks.is_empty() { None } else { Some(json!(blocks).to_string()) });
        match &blocks {
            Some(blocks) => fields.push(("blocks", blocks)),
            None if caption.is_empty() => {}
            None => fields.push(("initial_comment", &caption)),
        }
        let _: Value = self.web.call("files.completeUploadExternal", &fields).await?;
        Ok(Sent(expected.file_id))
    }
}

/// Before it is shared, a file is invisible, so all steps up to then can be retried.
fn unseen(error: impl Into<AdapterError>) -> AdapterError {
    match error.into() {
        AdapterError::Uncertain(reason) => AdapterError::Unreachable(reason),
        fault => fault,
    }
}
