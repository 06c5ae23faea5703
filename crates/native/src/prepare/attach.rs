//! Reads attachments, within limits and within the agent's permissions.

use std::path::{Path, PathBuf};

use protocol::part::FilePart;
use protocol::prompt::PartInputBody;
use protocol::request::Rule;
use protocol::{Extra, Session};
use serde_json::Value;
use supervision::gate;
use supervision::mcp::Content;
use supervision::permission::{Pattern, PermissionCheck, Permissions, Verdict};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use workspace::files::{self, Listing, LocatedPath, Media, Page, Root, Window};
use workspace::output::{self, End};

use super::address::Address;
use super::{DIRECTORY, PreparedPart, is_text, name};
use crate::{Inner, agent, limits, tools};

/// The error for an attachment that could not be read in time.
const TIMED_OUT: &str = "reading it timed out";

/// The kinds of files.
enum FileContents {
    Text(Page),
    Media(Media),
    Directory(Listing),
}

/// Reads the attachments of one prompt.
pub(super) struct AttachmentReader<'a> {
    inner: &'a Inner,
    session: &'a Session,
    permissions: Permissions,
    /// The deadline for reading all attachments.
    deadline: Instant,
    /// The size of the attachments so far that are not text, in base64.
    attached: usize,
}

impl<'a> AttachmentReader<'a> {
    /// Fails if the agent is unknown: the rules of another agent must not decide what it may read.
    pub(super) fn new(
        inner: &'a Inner,
        session: &'a Session,
        agent: &str,
        approved: Vec<Rule>,
    ) -> Result<Self, String> {
        let rules = agent::rules(inner.known_agent(agent)?, session);
        let permissions = Permissions::new(rules, approved);
        let deadline = Instant::now() + limits::ATTACH_TIME;
        Ok(Self { inner, session, permissions, deadline, attached: 0 })
    }

    /// Reads one attachment. An error refuses the prompt.
    pub(super) async fn file(&mut self, file: FilePart) -> Result<PreparedPart, String> {
        if is_resource(&file) {
            return self.resource(file).await;
        }
        match Address::parse(&file.url) {
            Ok(Address::Data(data)) if is_text(&file.mime) => Ok(match data.text() {
                Ok(text) => {
                    let notes = [format!("The user attached {}:", name(&file)), text];
                    PreparedPart::with_notes(notes, PartInputBody::File(file))
                }
                Err(why) => PreparedPart::missing(name(&file), &why),
            }),
            Ok(Address::Data(data)) => {
                self.count_size(name(&file), data.size())?;
                let url = data.embedded(&file.mime);
                Ok(PreparedPart::with_notes([], PartInputBody::File(FilePart { url, ..file })))
            }
            Ok(Address::Web) => Ok(web(file)),
            Ok(Address::File(path, window)) => self.local(file, path, window).await,
            Err(why) => Ok(PreparedPart::missing(name(&file), &why)),
        }
    }

    /// Reads a resource of an MCP server.
    async fn resource(&mut self, file: FilePart) -> Result<PreparedPart, String> {
        let contents = match self.fetch(&file).await {
            Ok(contents) => contents,
            Err(why) => return Ok(PreparedPart::missing(name(&file), &why)),
        };
        let (mut words, mut found) = (Vec::new(), Vec::new());
        for content in contents {
            match content {
                Content::Text(text) => words.push(text),
                Content::File(media) => {
                    self.count_size(name(&file), media.url.len())?;
                    found.push(FilePart { mime: media.mime, url: media.url, ..file.clone() });
                }
            }
        }
        let mut notes = Vec::new();
        if !words.is_empty() || found.is_empty() {
            notes = vec![format!("The user attached {}:", name(&file)), self.shortened(words.join("\n\n"))];
        }
        if found.is_empty() {
            found.push(FilePart { mime: "text/plain".to_owned(), ..file });
        }
        Ok(PreparedPart {
            notes,
            bodies: found.into_iter().map(PartInputBody::File).collect(),
            warning: None,
        })
    }

    /// Gets a resource from its server, if the agent may read it without asking.
    async fn fetch(&self, file: &FilePart) -> Result<Vec<Content>, String> {
        let source = file.source.as_ref();
        let named = |key: &str| Some(source?.get(key)?.as_str()?.to_owned());
        let (Some(server), Some(uri)) = (named("clientName"), named("uri")) else {
            return Err("its source must name the MCP server (clientName) and the resource (uri)".to_owned());
        };
        self.refuse_closed(&uri).await?;
        self.permit(&read_check(format!("mcp:{server}:{uri}")))?;
        match timeout_at(self.deadline, self.inner.options.mcp.read(&server, &uri)).await {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(_) => Err(TIMED_OUT.to_owned()),
        }
    }

    /// Refuses a URI that names a closed file: an MCP server that reads it would expose it.
    async fn refuse_closed(&self, uri: &str) -> Result<(), String> {
        let Ok(Address::File(path, _)) = Address::parse(uri) else { return Ok(()) };
        let closed = self.inner.options.tools.closed.clone();
        let checked = until_deadline(self.deadline, move || {
            Root::new(Path::new("/"))?.without(&closed)?.locate(&path.to_string_lossy()).map(drop)
        });
        checked.await?.map_err(|error| error.to_string())
    }

    /// Cuts a text to the length that a tool would show.
    fn shortened(&self, text: String) -> String {
        match output::cut(&text, self.inner.options.tools.output, End::Head) {
            Some(cut) => format!("{}\n\n[The rest of {} bytes is left out.]", cut.shown, text.len()),
            None => text,
        }
    }

    /// Reads a file of this machine.
    async fn local(
        &mut self,
        file: FilePart,
        path: PathBuf,
        window: Option<Window>,
    ) -> Result<PreparedPart, String> {
        let place = match self.locate(&path).await {
            Ok(place) => place,
            Err(why) => return Ok(PreparedPart::missing(name(&file), &why)),
        };
        let path = place.path.clone();
        let found =
            match until_deadline(self.deadline, move || read_path(&path, window.unwrap_or_default())).await {
                Ok(Ok(found)) => found,
                Ok(Err(files::Error::MediaTooLarge { size, .. })) => {
                    let size = usize::try_from(size).unwrap_or(usize::MAX).div_ceil(3).saturating_mul(4);
                    return Err(too_large(name(&file), size, self.size_limit()));
                }
                Ok(Err(error)) => return Ok(PreparedPart::missing(name(&file), &error.to_string())),
                Err(why) => return Ok(PreparedPart::missing(name(&file), &why)),
            };
        let attached = |kind: &str| format!("The user attached the {kind} {}:", place.path.display());
        let (notes, part) = match found {
            FileContents::Text(page) => {
                let text = tools::numbered(&place.path, &page);
                (vec![attached("file"), text], FilePart { mime: "text/plain".to_owned(), ..file })
            }
            FileContents::Directory(listing) => {
                let text = tools::entries(&place.path, &listing);
                (vec![attached("directory"), text], FilePart { mime: DIRECTORY.to_owned(), ..file })
            }
            FileContents::Media(media) => {
                let embedded = tools::embedded(&place.path, &media);
                self.count_size(name(&file), embedded.url.len())?;
                let filename = file.filename.or(embedded.filename);
                (Vec::new(), FilePart { mime: embedded.mime, url: embedded.url, filename, ..file })
            }
        };
        Ok(PreparedPart::with_notes(notes, PartInputBody::File(part)))
    }

    /// Resolves a path, if the agent may read it without asking.
    async fn locate(&self, path: &Path) -> Result<LocatedPath, String> {
        let directory = PathBuf::from(&self.session.directory);
        let top = PathBuf::from(self.session.worktree());
        let tools = self.inner.options.tools.clone();
        let path = path.to_string_lossy().into_owned();
        let found = until_deadline(self.deadline, move || {
            let root = Root::within(&directory, &top)?.without(&tools.closed)?;
            let place = root.locate(&path)?;
            let relative = root.relative(&place.path);
            let known = place.inside || tools.readable().any(|readable| place.path.starts_with(readable));
            let outside = match place.path.parent() {
                _ if known => None,
                Some(parent) if !place.path.is_dir() => Some(parent.to_owned()),
                _ => Some(place.path.clone()),
            };
            Ok::<_, files::Error>((place, relative, outside))
        });
        let (place, relative, outside) = found.await?.map_err(|error| error.to_string())?;
        for check in outside
            .map(|outside| gate::external_directory_check(&[outside]))
            .into_iter()
            .chain([read_check(relative)])
        {
            self.permit(&check)?;
        }
        Ok(place)
    }

    /// Fails unless the rules allow it without asking.
    fn permit(&self, check: &PermissionCheck) -> Result<(), String> {
        match self.permissions.judge(check) {
            Verdict::Allowed | Verdict::Confined => Ok(()),
            Verdict::Ask => Err(format!(
                "the rules require asking before it is read ({}); the agent can read it with its own tool, which asks",
                check.permission
            )),
            Verdict::Denied(_) => Err(format!("the rules deny reading it ({})", check.permission)),
        }
    }

    /// Counts the size of an attachment that is not text.
    fn count_size(&mut self, name: &str, size: usize) -> Result<(), String> {
        if size > self.size_limit() {
            return Err(too_large(name, size, self.size_limit()));
        }
        self.attached = self.attached.saturating_add(size);
        if self.attached > limits::ATTACHMENTS_TOTAL {
            let most = limits::ATTACHMENTS_TOTAL;
            return Err(format!(
                "the prompt's attachments together are too large: more than {most} bytes in base64"
            ));
        }
        Ok(())
    }

    fn size_limit(&self) -> usize {
        self.inner.options.attachment.min(limits::ATTACHMENT)
    }
}

/// The permission to read a subject.
fn read_check(what: String) -> PermissionCheck {
    PermissionCheck {
        permission: "read".into(),
        patterns: vec![Pattern::plain(what)],
        always: Vec::new(),
        metadata: Extra::new(),
    }
}

/// Returns true if it is a resource of an MCP server.
fn is_resource(file: &FilePart) -> bool {
    let kind = file.source.as_ref().and_then(|source| source.get("type")).and_then(Value::as_str);
    kind == Some("resource")
}

/// An attachment on the web. Providers fetch pictures and documents themselves; text is left to the agent.
fn web(file: FilePart) -> PreparedPart {
    let notes = is_text(&file.mime)
        .then(|| format!("The user attached {}. It was not fetched; do so if it matters.", file.url));
    PreparedPart::with_notes(notes, PartInputBody::File(file))
}

fn too_large(name: &str, size: usize, most: usize) -> String {
    format!(
        "{name} is too large to be attached: {size} bytes in base64, the limit is {most}; attach a smaller file"
    )
}

/// Reads a path. Blocks.
fn read_path(path: &Path, window: Window) -> Result<FileContents, files::Error> {
    if path.is_dir() {
        return files::list(path).map(FileContents::Directory);
    }
    if let Some(media) = files::media(path)? {
        return Ok(FileContents::Media(media));
    }
    files::read(path, window).map(FileContents::Text)
}

/// Waits for blocking work until the deadline, because a network share whose server is gone never answers.
async fn until_deadline<T: Send + 'static>(
    deadline: Instant,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    match timeout_at(deadline, spawn_blocking(work)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(format!("reading it failed ({error})")),
        Err(_) => Err(TIMED_OUT.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_share_that_does_not_answer_is_not_waited_for() {
        let (answer, share) = mpsc::channel::<()>();
        let read = until_deadline(Instant::now() + Duration::from_millis(20), move || share.recv());
        assert_eq!(read.await.unwrap_err(), TIMED_OUT);
        drop(answer);
    }
}
