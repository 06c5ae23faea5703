//! The input of a turn: the prompt or slash command of the command line, piped text, and attached files.

use std::{path::Path, pin::pin, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use protocol::{
    Extra, MessageId, Rest,
    message::ModelRef,
    part::FilePart,
    prompt::{CommandInput, PartInput, PartInputBody, PromptInput, Sender},
};
use tokio::{io::AsyncReadExt, time::timeout};

use crate::{args::Run, exit::Failure, terminal};

/// Time without an end of standard input after which the user is told that the program waits for it.
const INPUT_NOTICE: Duration = Duration::from_secs(3);
/// Largest file that can be attached, in bytes.
const MAX_FILE: u64 = 10 * 1024 * 1024;
/// Files that models read in a form of their own, by extension.
const MEDIA: [(&str, &str); 6] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("pdf", "application/pdf"),
];

/// A prompt or a slash command.
#[derive(Debug)]
pub(super) enum Input {
    Prompt(Box<PromptInput>),
    Command(Box<CommandInput>),
}

impl Input {
    /// Reads the input that the options describe. Its message gets the id `message`.
    pub(super) async fn read(options: &Run, message: &MessageId) -> Result<Self, Failure> {
        let model = options.model.as_deref().map(model).transpose()?;
        let files = options.file.iter().map(|file| attach(file)).collect::<Result<Vec<_>, _>>()?;
        let (message_id, agent) = (Some(message.clone()), options.agent.clone());
        let variant = options.variant.clone();
        let text = text(options).await?;
        if let Some(name) = &options.command {
            return Ok(Self::Command(Box::new(CommandInput {
                message_id,
                agent,
                model: options.model.clone(),
                variant,
                command: name.trim_start_matches('/').to_owned(),
                arguments: text,
                parts: Some(files).filter(|files| !files.is_empty()),
                sender: Sender::Client,
                extra: Rest::NONE,
            })));
        }
        if text.trim().is_empty() {
            return Err(Failure::usage("the prompt is empty"));
        }
        let mut prompt = PromptInput { message_id, model, agent, variant, ..PromptInput::text(text) };
        prompt.parts.extend(files);
        Ok(Self::Prompt(Box::new(prompt)))
    }
}

/// The words of the command line, followed by standard input if that is a pipe or a file.
async fn text(options: &Run) -> Result<String, Failure> {
    let words: Vec<&str> = options.prompt.iter().map(String::as_str).collect();
    let written = if words == ["-"] { String::new() } else { words.join(" ") };
    if words.is_empty() && options.command.is_none() && !terminal::is_fed() {
        return Err(Failure::usage("there is no prompt").hint("baton run \"what is in this directory?\""));
    }
    let piped = if words == ["-"] || terminal::is_fed() { piped().await? } else { String::new() };
    Ok(match (written.is_empty(), piped.trim().is_empty()) {
        (true, _) => piped,
        (false, true) => written,
        (false, false) => format!("{written}\n\n{piped}"),
    })
}

/// Reads standard input to its end. Says so if that takes long: the writer may have forgotten to close it.
async fn piped() -> Result<String, Failure> {
    let mut text = String::new();
    let mut input = tokio::io::stdin();
    let mut read = pin!(input.read_to_string(&mut text));
    let read = if let Ok(read) = timeout(INPUT_NOTICE, &mut read).await {
        read
    } else {
        terminal::note("reading the rest of the prompt from standard input; to skip it, add `< /dev/null`");
        read.await
    };
    read.map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
    Ok(text)
}

fn model(name: &str) -> Result<ModelRef, Failure> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok(ModelRef::new(provider, model))
        }
        _ => Err(Failure::usage(format!("\"{name}\" is not a model: the provider is missing"))
            .hint("name a model as provider/model; `baton models` lists the models that can be used")),
    }
}

/// Reads a file into the prompt itself, because a server may run elsewhere.
fn attach(path: &Path) -> Result<PartInput, Failure> {
    let shown = path.display();
    let unusable = |why: String| Failure::usage(format!("cannot attach {shown}: {why}"));
    let about = std::fs::metadata(path).map_err(|error| unusable(error.to_string()))?;
    if !about.is_file() {
        return Err(unusable("it is not a file".to_owned()));
    }
    if about.len() > MAX_FILE {
        return Err(unusable(format!("it is larger than {MAX_FILE} bytes")));
    }
    let bytes = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let mime = match MEDIA.iter().find(|(known, _)| *known == ending) {
        Some((_, mime)) => mime,
        None if std::str::from_utf8(&bytes).is_ok() => "text/plain",
        None => return Err(unusable("it is not text, a picture or a PDF".to_owned())),
    };
    let file = FilePart {
        mime: mime.to_owned(),
        filename: path.file_name().map(|name| name.to_string_lossy().into_owned()),
        url: format!("data:{mime};base64,{}", STANDARD.encode(bytes)),
        source: None,
        extra: Extra::new(),
    };
    Ok(PartInput { id: None, body: PartInputBody::File(file) })
}
