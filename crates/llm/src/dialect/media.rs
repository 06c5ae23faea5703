//! Attachments: their kind, if the model accepts them, and the message if it does not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Abilities;
use crate::{ToolFile, ToolResult, UserContent};

/// An attachment in a form that dialects can encode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Media {
    /// Text, or a message in place of a file that the model does not accept.
    Text(String),
    /// A file with its content or address.
    File { kind: Kind, mime: String, name: Option<String>, source: Source },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Image,
    Pdf,
    Audio,
    Video,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// Content in base64.
    Data(String),
    Url(String),
}

impl Source {
    /// An address in either case.
    pub(super) fn url(&self, mime: &str) -> String {
        match self {
            Self::Data(data) => format!("data:{mime};base64,{data}"),
            Self::Url(url) => url.clone(),
        }
    }
}

/// Converts a block of a user message.
pub(super) fn of(content: &UserContent, abilities: &Abilities) -> Media {
    match content {
        UserContent::Text(text) => Media::Text(text.clone()),
        UserContent::File { mime, name, url } => file(mime, name.as_deref(), url, abilities),
    }
}

/// Converts a file of a tool's result.
pub(super) fn of_tool(file_: &ToolFile, abilities: &Abilities) -> Media {
    file(&file_.mime, file_.name.as_deref(), &file_.url, abilities)
}

/// Files of these results, for a following user message.
pub(super) fn after(results: &[ToolResult], abilities: &Abilities) -> Vec<Media> {
    let files = results.iter().flat_map(|result| &result.files);
    let files: Vec<Media> = files.map(|file| of_tool(file, abilities)).collect();
    if files.is_empty() {
        return files;
    }
    let told = Media::Text("The attachments of the tool results above:".to_owned());
    std::iter::once(told).chain(files).collect()
}

fn file(mime: &str, name: Option<&str>, url: &str, abilities: &Abilities) -> Media {
    let (mime, source) = match data(url) {
        Some((own, data)) => (if mime.is_empty() { own } else { mime }, Source::Data(data)),
        None => (mime, Source::Url(url.to_owned())),
    };
    let kind = kind(mime);
    let (allowed, word) = match kind {
        Kind::Image => (abilities.input.image, "image"),
        Kind::Pdf => (abilities.input.pdf, "pdf"),
        Kind::Audio => (abilities.input.audio, "audio"),
        Kind::Video => (abilities.input.video, "video"),
        Kind::Other => (true, "file"),
    };
    let called = || name.map_or_else(|| word.to_owned(), |name| format!("\"{name}\""));
    if !allowed {
        return Media::Text(format!(
            "ERROR: Cannot read {} (this model does not support {word} input). Inform the user.",
            called()
        ));
    }
    match &source {
        Source::Data(data) if data.is_empty() => {
            Media::Text(format!("ERROR: {} is empty or corrupted. Ask the user for a valid file.", called()))
        }
        Source::Data(data) if mime.starts_with("text/") || mime == "application/json" => {
            words(data, &called())
        }
        _ => Media::File { kind, mime: mime.to_owned(), name: name.map(str::to_owned), source },
    }
}

/// The content of a text file.
fn words(data: &str, name: &str) -> Media {
    match STANDARD.decode(data) {
        Ok(bytes) => Media::Text(format!("{name}:\n{}", String::from_utf8_lossy(&bytes))),
        Err(_) => Media::Text(format!("ERROR: {name} cannot be decoded. Inform the user.")),
    }
}

fn kind(mime: &str) -> Kind {
    match mime.split('/').next() {
        Some("image") => Kind::Image,
        Some("audio") => Kind::Audio,
        Some("video") => Kind::Video,
        _ if mime == "application/pdf" => Kind::Pdf,
        _ => Kind::Other,
    }
}

/// Media type and base64 content of a `data:` address.
fn data(url: &str) -> Option<(&str, String)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some(match head.strip_suffix(";base64") {
        Some(head) => (head.split(';').next().unwrap_or_default(), data.to_owned()),
        // Plain content; escapes are kept unchanged.
        None => (head.split(';').next().unwrap_or_default(), STANDARD.encode(data)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Modalities;

    fn read(mime: &str, url: &str) -> Media {
        let input = Modalities { text: true, image: true, ..Modalities::default() };
        file(mime, Some("a.x"), url, &Abilities { input, ..Abilities::default() })
    }

    #[test]
    fn unsupported_files_become_an_error_text() {
        let Media::Text(told) = read("application/pdf", "data:application/pdf;base64,AA==") else {
            panic!("a pdf was sent")
        };
        assert!(told.contains("does not support pdf"), "{told}");
        let Media::Text(told) = read("image/png", "data:image/png;base64,") else {
            panic!("nothing was sent")
        };
        assert!(told.contains("empty"), "{told}");
    }

    #[test]
    fn text_files_are_sent_as_text() {
        assert_eq!(read("text/csv", "data:text/csv;base64,YSxi"), Media::Text("\"a.x\":\na,b".into()));
        assert_eq!(read("", "data:text/plain,hi"), Media::Text("\"a.x\":\nhi".into()));
    }

    #[test]
    fn pictures_keep_their_data_or_their_address() {
        let Media::File { source, mime, .. } = read("image/png", "data:image/png;base64,AA==") else {
            panic!("not sent")
        };
        assert_eq!(source, Source::Data("AA==".into()));
        assert_eq!(source.url(&mime), "data:image/png;base64,AA==");
        let Media::File { source, .. } = read("image/png", "https://x.test/a.png") else {
            panic!("not sent")
        };
        assert_eq!(source, Source::Url("https://x.test/a.png".into()));
    }
}
