//! What a prompt becomes before it is stored. What is attached is read now, so that the conversation holds what was
//! there when it was said; mentions of agents are explained to the model.
//!
//! A file is attached without asking anybody, so only what the agent may read without asking is. What cannot be
//! attached is told to the model and to people, and the prompt goes on without it; only what is too large to be sent
//! to any model refuses the prompt.

mod address;
mod attach;

use engine::ports::{Draft, Prepared};
use protocol::MessageError;
use protocol::agent::AgentMode;
use protocol::part::{AgentPart, FilePart, TextPart};
use protocol::prompt::{PartInput, PartInputBody};

use self::attach::Desk;
use super::{Inner, limits};

/// The media type of a directory.
const DIRECTORY: &str = "application/x-directory";

/// What one part becomes.
#[derive(Debug, Default)]
struct Piece {
    /// Told to the model beside the part.
    told: Vec<String>,
    /// The part itself, unless it could not be attached; several if there is more in it than one can hold.
    bodies: Vec<PartInputBody>,
    /// Told to people.
    warning: Option<String>,
}

impl Piece {
    /// A part with words beside it.
    fn told(told: impl IntoIterator<Item = String>, body: PartInputBody) -> Self {
        Self { told: told.into_iter().collect(), bodies: vec![body], warning: None }
    }

    /// Something that could not be attached.
    fn missing(name: &str, why: &str) -> Self {
        let sentence = format!("{name} could not be attached: {why}");
        Self { told: vec![sentence.clone()], bodies: Vec::new(), warning: Some(sentence) }
    }
}

/// Completes a prompt, or says why it cannot be accepted.
pub(super) async fn prepare(inner: &Inner, draft: Draft<'_>) -> Result<Prepared, String> {
    let files = draft.parts.iter().filter(|part| matches!(part.body, PartInputBody::File(_))).count();
    if files > limits::ATTACHMENTS {
        let most = limits::ATTACHMENTS;
        return Err(format!("a prompt may have at most {most} files attached, this one has {files}"));
    }
    let mut desk = Desk::new(inner, draft.session, draft.agent, draft.approved)?;
    let mut prepared = Prepared::default();
    for PartInput { mut id, body } in draft.parts {
        let piece = match body {
            PartInputBody::File(file) => desk.file(file).await?,
            PartInputBody::Agent(mention) => mentioned(inner, mention),
            body => Piece::told([], body),
        };
        prepared.parts.extend(piece.told.into_iter().map(synthetic));
        prepared.parts.extend(piece.bodies.into_iter().map(|body| PartInput { id: id.take(), body }));
        prepared.warnings.extend(piece.warning.map(MessageError::unknown));
    }
    Ok(prepared)
}

/// Whether a file is told to the model as text beside it, and not by itself.
pub(super) fn is_shown_as_text(mime: &str) -> bool {
    mime == DIRECTORY || is_text(mime)
}

/// Whether what has this media type can be read.
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

/// Explains a mention to the model. Only a subagent can be handed something.
fn mentioned(inner: &Inner, mention: AgentPart) -> Piece {
    let known = inner.agent(&mention.name);
    if !known.is_some_and(|agent| agent.mode != AgentMode::Primary && agent.hidden != Some(true)) {
        let name = &mention.name;
        let warning = Some(format!("@{name} was not called: there is no such subagent"));
        return Piece { warning, ..Piece::told([], PartInputBody::Agent(mention)) };
    }
    let told = format!(
        "The user mentioned the subagent {0}: hand what is asked above to it, with the task tool and the \
         subagent_type \"{0}\". Its prompt has to say all that it needs to know.",
        mention.name
    );
    Piece::told([told], PartInputBody::Agent(mention))
}

fn synthetic(text: String) -> PartInput {
    let text = TextPart { text, synthetic: Some(true), ..TextPart::default() };
    PartInput { id: None, body: PartInputBody::Text(text) }
}

/// What a file is called in sentences.
fn name(file: &FilePart) -> &str {
    // The content of a `data:` address is no name.
    let address = if file.url.starts_with("data:") { "a file" } else { &file.url };
    file.filename.as_deref().filter(|name| !name.is_empty()).unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_is_told_from_what_is_looked_at() {
        for mime in ["text/plain", "TEXT/CSV; charset=utf-8", "application/json", "image/svg+xml", DIRECTORY]
        {
            assert!(is_shown_as_text(mime), "{mime}");
        }
        for mime in ["image/png", "application/pdf", "application/octet-stream", "", "json"] {
            assert!(!is_shown_as_text(mime), "{mime}");
        }
    }
}
