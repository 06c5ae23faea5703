//! `read`: reads lines of a file, a picture or document, or the entries of a directory.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use protocol::Extra;
use protocol::part::FilePart;
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::files::{self, MAX_LINES, Media, Page, Window};

use super::input::whole;
use super::nearby::{self, InstructionFile};
use super::{BuiltIn, Call, Output, ToolFailure, list, object, paths};

/// Lines that clients show before a part is unfolded.
const PREVIEW: usize = 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Input {
    file_path: String,
    #[serde(default, deserialize_with = "whole")]
    offset: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    limit: Option<u64>,
}

pub(super) struct Read;

impl BuiltIn for Read {
    const NAME: &'static str = "read";
    const IS_CONCURRENT: bool = true;

    type Input = Input;

    fn description(&self) -> String {
        format!(
            "Reads a text file and returns its lines with their numbers, shows an image or PDF, or lists a directory. \
             Returns at most {MAX_LINES} lines; use offset (counted from 1) and limit for the rest of a longer file."
        )
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "filePath": { "type": "string", "description": "The file, absolute or relative to the working directory" },
                "offset": { "type": "integer", "minimum": 1, "description": "The first line to read" },
                "limit": { "type": "integer", "minimum": 1, "description": "How many lines to read" },
            },
            "required": ["filePath"],
            "additionalProperties": false,
        })
    }

    async fn run(&self, call: &Call<'_>, input: Input) -> Result<Output, ToolFailure> {
        let path = paths::locate_to_read(call, &input.file_path).await?;
        paths::permit(call, "read", &path, Extra::new()).await?;
        if path.is_dir() {
            return list::show(call, path).await;
        }
        let file = path.clone();
        let found =
            paths::blocking(move || files::media(&file).map_err(|error| missing(&file, error))).await?;
        if let Some(media) = found? {
            return attach(call, &path, &media).await;
        }
        let number = |number: Option<u64>, default| {
            number.and_then(|number| usize::try_from(number).ok()).unwrap_or(default)
        };
        let window =
            Window { offset: number(input.offset, 1).max(1), limit: number(input.limit, MAX_LINES).max(1) };
        let file = path.clone();
        let page = paths::blocking(move || files::read(&file, window)).await??;
        let output = show(&call.root.relative(&path), &path, &page);
        remind(call, &path, output).await
    }
}

/// Returns the error for a missing file, with similar names.
fn missing(path: &Path, error: files::Error) -> ToolFailure {
    let meant = match error {
        files::Error::NotFound(_) => files::alike(path),
        _ => Vec::new(),
    };
    if meant.is_empty() {
        return error.into();
    }
    let names: Vec<String> = meant.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    ToolFailure::Error(format!("{error}\n\nDid you mean one of these?\n{}", names.join("\n")))
}

/// Returns a picture or document as an attachment of the output.
async fn attach(call: &Call<'_>, path: &Path, media: &Media) -> Result<Output, ToolFailure> {
    let text = if media.is_image() { "Image read successfully" } else { "PDF read successfully" };
    let metadata = object(json!({ "preview": text, "truncated": false, "loaded": [] }));
    let mut output = Output::new(call.root.relative(path), text, metadata);
    output.attachments.push(embedded(path, media));
    remind(call, path, output).await
}

/// Converts a picture or document to a file part that contains it.
pub(crate) fn embedded(path: &Path, media: &Media) -> FilePart {
    FilePart {
        mime: media.mime.to_owned(),
        filename: path.file_name().map(|name| name.to_string_lossy().into_owned()),
        url: format!("data:{};base64,{}", media.mime, BASE64_STANDARD.encode(&media.bytes)),
        source: None,
        extra: Extra::new(),
    }
}

/// Adds the instructions of the file's directory.
async fn remind(call: &Call<'_>, path: &Path, mut output: Output) -> Result<Output, ToolFailure> {
    let nearby = nearby::nearby(call, path).await?;
    let loaded: Vec<Value> = nearby.iter().map(|nearby| nearby.path.to_string_lossy().into()).collect();
    output.text.extend(nearby.iter().map(InstructionFile::reminder));
    output.metadata.insert("loaded".to_owned(), loaded.into());
    Ok(output)
}

/// Formats lines of a file for the model.
pub(crate) fn numbered(path: &Path, page: &Page) -> String {
    let path = path.to_string_lossy();
    let mut output = format!("<path>{path}</path>\n<type>file</type>\n<content>\n");
    for (line, number) in page.lines.iter().zip(page.first..) {
        let _ = writeln!(output, "{number}: {line}");
    }
    let (first, last, total) = (page.first, page.last(), page.total);
    let _ = match (page.more(), page.full) {
        (false, _) => writeln!(output, "\n(End of file - total {total} lines)"),
        (true, false) => writeln!(
            output,
            "\n(Showing lines {first}-{last} of {total}. Use offset={} to continue.)",
            last + 1
        ),
        (true, true) => {
            let size = files::MAX_PAGE / 1024;
            writeln!(
                output,
                "\n(Output capped at {size} KB. Showing lines {first}-{last} of {total}. Use offset={} to continue.)",
                last + 1
            )
        }
    };
    output.push_str("</content>");
    output
}

fn show(title: &str, path: &Path, page: &Page) -> Output {
    let output = numbered(path, page);
    let (first, last, total) = (page.first, page.last(), page.total);
    let preview: Vec<&str> = page.lines.iter().take(PREVIEW).map(String::as_str).collect();
    let metadata = object(json!({
        "preview": preview.join("\n"),
        "truncated": page.more(),
        "loaded": [],
        "display": {
            "type": "file",
            "path": path.to_string_lossy(),
            "text": page.lines.join("\n"),
            "lineStart": first,
            "lineEnd": last,
            "totalLines": total,
            "truncated": page.more(),
        },
    }));
    Output::new(title, output, metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(first: usize, lines: &[&str], total: usize, full: bool) -> Page {
        Page { first, lines: lines.iter().map(|line| (*line).to_owned()).collect(), total, full }
    }

    #[test]
    fn a_whole_file_is_shown_in_opencodes_format() {
        let output =
            show("README.md", Path::new("/project/README.md"), &page(1, &["# Fixture", ""], 2, false));
        assert_eq!(
            output.text,
            "<path>/project/README.md</path>\n<type>file</type>\n<content>\n1: # Fixture\n2: \n\n\
             (End of file - total 2 lines)\n</content>"
        );
        insta::assert_json_snapshot!(output.metadata);
    }

    #[test]
    fn a_part_of_a_file_names_the_next_offset() {
        let output = show("a", Path::new("/a"), &page(3, &["x", "y"], 9, false));
        assert!(
            output.text.contains("(Showing lines 3-4 of 9. Use offset=5 to continue.)"),
            "{}",
            output.text
        );
        let output = show("a", Path::new("/a"), &page(3, &["x"], 9, true));
        assert!(
            output.text.contains("capped at 50 KB. Showing lines 3-3 of 9. Use offset=4"),
            "{}",
            output.text
        );
    }
}
