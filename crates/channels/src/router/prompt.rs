//! Turns a message and its files into a prompt.
//!
//! Files that a model can read are part of the prompt, up to a limit. Other files are saved, and the prompt names
//! their paths.

use std::path::{Path, PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use protocol::{
    Extra,
    part::FilePart,
    prompt::{PartInput, PartInputBody, PromptInput},
};

use super::command::{self, Command};
use crate::{Adapter, AdapterError, Attachment, Content, Update, ledger::UpdateId, words};

/// Maximum size of a downloaded file in bytes.
pub(super) const MAX_FILE: u64 = 20_000_000;

/// Limit of inline files per prompt, in bytes. Base64 adds a third, and servers accept bodies of 10 MiB.
const MAX_INLINE: usize = 6 << 20;

/// A longer text is saved as a file as well.
const MAX_TEXT: usize = 200_000;

/// Maximum length of a quoted message, in characters.
const MAX_QUOTE: usize = 1_000;

/// The prompt made from an update.
#[derive(Debug)]
pub(super) struct PreparedPrompt {
    pub(super) prompt: PromptInput,
    /// Notes for the user about files that are missing.
    pub(super) notes: Vec<String>,
}

/// Makes a prompt from an update and downloads its files.
pub(super) async fn make(
    adapter: &dyn Adapter,
    folder: &Path,
    id: UpdateId,
    update: &Update,
) -> PreparedPrompt {
    let Content::Message { text, files } = &update.content else {
        return PreparedPrompt { prompt: PromptInput::text(""), notes: Vec::new() };
    };
    let mut maker =
        PromptBuilder { folder, id, lines: Vec::new(), parts: Vec::new(), inline: 0, notes: Vec::new() };
    // `/new words` begins a session with these words.
    let text = match command::parse(text) {
        Some(Command::New(words)) => words,
        _ => text.clone(),
    };
    let mut words = text.clone();
    if text.len() > MAX_TEXT {
        words = words::excerpt(&text, 1_000);
        maker.keep("message.txt", "text/plain", text.as_bytes(), 0).await;
    }
    for (index, file) in (1..).zip(files) {
        maker.take(adapter, file, index).await;
    }
    for line in &maker.lines {
        words = format!("{words}\n\n{line}");
    }
    if let Some(quoted) = &update.quoted {
        words = format!("{}\n\n{words}", quote(quoted));
    }
    let mut prompt = PromptInput::text(words.trim());
    prompt.parts.append(&mut maker.parts);
    PreparedPrompt { prompt, notes: maker.notes }
}

/// A quoted message, as Markdown.
fn quote(text: &str) -> String {
    let lines: Vec<String> = words::clip(text, MAX_QUOTE).lines().map(|line| format!("> {line}")).collect();
    format!("In reply to:\n{}", lines.join("\n"))
}

struct PromptBuilder<'a> {
    folder: &'a Path,
    id: UpdateId,
    /// Lines about the files, added to the prompt.
    lines: Vec<String>,
    parts: Vec<PartInput>,
    /// Bytes of inline files so far.
    inline: usize,
    notes: Vec<String>,
}

impl PromptBuilder<'_> {
    async fn take(&mut self, adapter: &dyn Adapter, file: &Attachment, index: usize) {
        if file.size.is_some_and(|size| size > MAX_FILE) {
            return self.miss(file, &format!("it is larger than {}", words::size(MAX_FILE)));
        }
        match adapter.download(file, MAX_FILE).await {
            Ok(bytes) if is_readable(&file.mime) && self.inline + bytes.len() <= MAX_INLINE => {
                self.inline += bytes.len();
                self.parts.push(inline(file, &bytes));
            }
            Ok(bytes) => self.keep(&file.name, &file.mime, &bytes, index).await,
            Err(AdapterError::Refused(reason)) => self.miss(file, &reason),
            Err(fault) => self.miss(file, &fault.to_string()),
        }
    }

    /// Saves a file where an agent on this machine can read it.
    async fn keep(&mut self, name: &str, mime: &str, bytes: &[u8], index: usize) {
        let path = self.folder.join(file_name(self.id, index, name));
        let size = words::size(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        match write(&path, bytes).await {
            Ok(()) => self.lines.push(format!("Attached file: {} ({mime}, {size})", path.display())),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot save a file");
                self.notes.push(format!("The file “{name}” could not be saved on the server."));
            }
        }
    }

    fn miss(&mut self, file: &Attachment, why: &str) {
        self.lines.push(format!("(The file “{}” could not be fetched: {why}.)", file.name));
        self.notes.push(format!("I could not fetch “{}”: {why}.", file.name));
    }
}

async fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        tokio::fs::create_dir_all(folder).await?;
    }
    tokio::fs::write(path, bytes).await
}

fn inline(file: &Attachment, bytes: &Bytes) -> PartInput {
    let mime = plain(&file.mime);
    // Servers read the content of `text/plain` and do not know every other text type.
    let mime = if is_text(mime) { "text/plain" } else { mime };
    PartInput {
        id: None,
        body: PartInputBody::File(FilePart {
            mime: mime.to_owned(),
            filename: Some(file.name.clone()),
            url: format!("data:{mime};base64,{}", STANDARD.encode(bytes)),
            source: None,
            extra: Extra::new(),
        }),
    }
}

/// A media type without its parameters.
fn plain(mime: &str) -> &str {
    mime.split(';').next().unwrap_or_default().trim()
}

/// True if a model can read files of this type.
fn is_readable(mime: &str) -> bool {
    let mime = plain(mime);
    is_text(mime)
        || matches!(mime, "application/pdf" | "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

fn is_text(mime: &str) -> bool {
    mime.starts_with("text/")
        || matches!(
            mime,
            "application/json"
                | "application/xml"
                | "application/yaml"
                | "application/x-yaml"
                | "application/toml"
                | "application/javascript"
                | "application/x-sh"
        )
}

/// A unique file name that cannot leave its directory.
fn file_name(id: UpdateId, index: usize, name: &str) -> PathBuf {
    let safe: String = name
        .chars()
        .map(|it| if it.is_alphanumeric() || matches!(it, '.' | '-' | '_') { it } else { '_' })
        .take(80)
        .collect();
    PathBuf::from(format!("{id}-{index}-{}", safe.trim_start_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_folder() {
        assert_eq!(file_name(7, 1, "../../etc/passwd"), Path::new("7-1-_.._etc_passwd"));
        assert_eq!(file_name(7, 2, "Größe 1.pdf"), Path::new("7-2-Größe_1.pdf"));
    }

    #[test]
    fn readable_files_are_known_by_their_type() {
        for mime in
            ["text/plain", "text/x-rust; charset=utf-8", "image/png", "application/pdf", "application/json"]
        {
            assert!(is_readable(mime), "{mime}");
        }
        for mime in ["audio/ogg", "application/zip", "video/mp4", "image/svg+xml", ""] {
            assert!(!is_readable(mime), "{mime}");
        }
    }
}
