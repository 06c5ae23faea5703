//! Prepares a prompt before it is stored: reads attachments, so that the conversation holds their contents at the
//! time of the prompt, and explains mentions of agents to the model.
//!
//! The user is not asked about attachments, so a file is attached only if the agent may read it without asking. If
//! a file cannot be attached, the model and the user get a note, and the prompt goes on without it. Only a file
//! that is too large for any model refuses the prompt.

mod address;
mod attach;

use engine::ports::{Draft, Prepared};
use protocol::MessageError;
use protocol::agent::AgentMode;
use protocol::part::{AgentPart, FilePart, TextPart};
use protocol::prompt::{PartInput, PartInputBody};

use self::attach::AttachmentReader;
use super::{Inner, limits};

/// The media type of a directory.
const DIRECTORY: &str = "application/x-directory";

/// The result of preparing one part.
#[derive(Debug, Default)]
struct PreparedPart {
    /// Text for the model beside the part.
    notes: Vec<String>,
    /// The part itself, empty if it could not be attached. One attachment may become several parts.
    bodies: Vec<PartInputBody>,
    /// A warning for the user.
    warning: Option<String>,
}

impl PreparedPart {
    /// A part with text for the model beside it.
    fn with_notes(notes: impl IntoIterator<Item = String>, body: PartInputBody) -> Self {
        Self { notes: notes.into_iter().collect(), bodies: vec![body], warning: None }
    }

    /// An attachment that failed.
    fn missing(name: &str, why: &str) -> Self {
        let sentence = format!("cannot attach {name}: {why}");
        Self { notes: vec![sentence.clone()], bodies: Vec::new(), warning: Some(sentence) }
    }
}

/// Completes a prompt. Fails if it cannot be accepted.
pub(super) async fn prepare(inner: &Inner, draft: Draft<'_>) -> Result<Prepared, String> {
    let files = draft.parts.iter().filter(|part| matches!(part.body, PartInputBody::File(_))).count();
    if files > limits::ATTACHMENTS {
        let most = limits::ATTACHMENTS;
        return Err(format!("a prompt may have at most {most} files attached, this one has {files}"));
    }
    let mut reader = AttachmentReader::new(inner, draft.session, draft.agent, draft.approved)?;
    let mut prepared = Prepared::default();
    for PartInput { mut id, body } in draft.parts {
        let part = match body {
            PartInputBody::File(file) => reader.file(file).await?,
            PartInputBody::Agent(mention) => mentioned(inner, mention),
            body => PreparedPart::with_notes([], body),
        };
        prepared.parts.extend(part.notes.into_iter().map(synthetic));
        prepared.parts.extend(part.bodies.into_iter().map(|body| PartInput { id: id.take(), body }));
        prepared.warnings.extend(part.warning.map(MessageError::unknown));
    }
    Ok(prepared)
}

/// Returns true if the model gets a file as text beside it, and not as a file.
pub(super) fn is_shown_as_text(mime: &str) -> bool {
    mime == DIRECTORY || is_text(mime)
}

/// Returns true if a media type stands for text.
fn is_text(mime: &str) -> bool {
    const ALSO: [&str; 8] = ["json", "xml", "yaml", "x-yaml", "toml", "javascript", "x-sh", "x-shellscript"];
    let plain = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match plain.split_once('/') {
        Some(("text", _)) => true,
        Some((_, kind)) if kind.ends_with("+xml") || kind.ends_with("+json") => true,
        Some(("application", kind)) => ALSO.contains(&kind),
        _ => false,
    }
}

/// Explains a mention to the model. Only subagents can be given a task.
fn mentioned(inner: &Inner, mention: AgentPart) -> PreparedPart {
    let known = inner.agent(&mention.name);
    if !known.is_some_and(|agent| agent.mode != AgentMode::Primary && agent.hidden != Some(true)) {
        let name = &mention.name;
        let warning = Some(format!("@{name} is not a subagent, so it was not called"));
        return PreparedPart { warning, ..PreparedPart::with_notes([], PartInputBody::Agent(mention)) };
    }
    let note = format!(
        "The user mentioned the subagent {0}: give it the task above, with the task tool and the \
         subagent_type \"{0}\". Its prompt must contain everything that it needs to know.",
        mention.name
    );
    PreparedPart::with_notes([note], PartInputBody::Agent(mention))
}

fn synthetic(text: String) -> PartInput {
    let text = TextPart { text, synthetic: Some(true), ..TextPart::default() };
    PartInput { id: None, body: PartInputBody::Text(text) }
}

/// The name of a file in messages.
fn name(file: &FilePart) -> &str {
    // A `data:` URL holds the contents and is useless as a name.
    let address = if file.url.starts_with("data:") { "a file" } else { &file.url };
    file.filename.as_deref().filter(|name| !name.is_empty()).unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_distinguished_from_media_by_its_type() {
        for mime in ["text/plain", "TEXT/CSV; charset=utf-8", "application/json", "image/svg+xml", DIRECTORY]
        {
            assert!(is_shown_as_text(mime), "{mime}");
        }
        for mime in ["image/png", "application/pdf", "application/octet-stream", "", "json"] {
            assert!(!is_shown_as_text(mime), "{mime}");
        }
    }
}
