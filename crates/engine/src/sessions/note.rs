//! The users' notes about projects: name, icon and start command.

use std::collections::BTreeMap;

use protocol::project::ProjectNote;

use super::Sessions;
use crate::{Error, limits::MAX_NOTE};

impl Sessions {
    /// All notes, by project id.
    pub async fn notes(&self) -> Result<BTreeMap<String, ProjectNote>, Error> {
        Ok(self.shared.reads.notes().await?)
    }

    /// Amends a project's note. Resolves with the whole note, once it is stored durably.
    pub async fn note(&self, project: &str, newer: ProjectNote) -> Result<ProjectNote, Error> {
        let icon = newer.icon.iter().flat_map(|icon| [&icon.url, &icon.r#override, &icon.color]);
        let start = newer.commands.iter().map(|commands| &commands.start);
        let texts = icon.chain(start).chain([&newer.name]).flatten();
        let length: usize = texts.map(String::len).sum();
        if length > MAX_NOTE {
            let message =
                format!("name, icon and start command have {length} bytes together; the limit is {MAX_NOTE}");
            return Err(Error::Invalid(message));
        }
        Ok(self.shared.log.note(project, newer).await?)
    }
}
