//! What people say about projects.

use std::collections::BTreeMap;

use protocol::project::ProjectNote;

use super::Sessions;
use crate::{Error, limits::MAX_NOTE};

impl Sessions {
    /// What people said about projects, by the project's id.
    pub async fn notes(&self) -> Result<BTreeMap<String, ProjectNote>, Error> {
        Ok(self.shared.reads.notes().await?)
    }

    /// Amends what was said about a project; resolves with all that was said, once it is stored for good.
    pub async fn note(&self, project: &str, newer: ProjectNote) -> Result<ProjectNote, Error> {
        let icon = newer.icon.iter().flat_map(|icon| [&icon.url, &icon.r#override, &icon.color]);
        let start = newer.commands.iter().map(|commands| &commands.start);
        let texts = icon.chain(start).chain([&newer.name]).flatten();
        let length: usize = texts.map(String::len).sum();
        if length > MAX_NOTE {
            let message = format!("a name, an icon and a command of {length} bytes are more than {MAX_NOTE}");
            return Err(Error::Invalid(message));
        }
        Ok(self.shared.log.note(project, newer).await?)
    }
}
