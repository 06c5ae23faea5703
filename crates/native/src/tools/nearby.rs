//! Instructions in subdirectories of the project, for the files there.
//!
//! The instructions of the project itself are in the system prompt. Those of a subdirectory are added to the first
//! file that is read there, and not again as long as the model can still see them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::{Message, MessageWithParts, PartBody, ToolState};
use workspace::files::{self, Root};

use super::{Call, ToolFailure, paths};
use crate::{limits, size};

/// The names of instruction files. In each directory the first of them counts.
const NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "CONTEXT.md"];

/// The part of an instruction file that the model sees, in bytes.
const MAX_TEXT: usize = 32 * 1024;

/// Instruction files that the model has seen or is about to see in this step.
#[derive(Debug, Default)]
pub(super) struct Loaded(Mutex<HashSet<PathBuf>>);

impl Loaded {
    /// Returns true if the path is new.
    fn add(&self, path: &Path) -> bool {
        self.0.lock().insert(path.to_owned())
    }

    fn has(&self, path: &Path) -> bool {
        self.0.lock().contains(path)
    }
}

/// An instruction file.
pub(super) struct InstructionFile {
    pub(super) path: PathBuf,
    text: String,
}

impl InstructionFile {
    /// Formats the instructions for the model, to follow the file that was read.
    pub(super) fn reminder(&self) -> String {
        let text = self.text.get(..self.text.floor_char_boundary(MAX_TEXT)).unwrap_or(&self.text);
        format!(
            "\n\n<system-reminder>\nInstructions from: {}\n{}\n</system-reminder>",
            self.path.display(),
            text.trim_end()
        )
    }
}

/// Returns the instructions for a file that the model has not seen yet, the most general first.
pub(super) async fn nearby(call: &Call<'_>, file: &Path) -> Result<Vec<InstructionFile>, ToolFailure> {
    let (root, path) = (call.root.clone(), file.to_owned());
    let found = paths::blocking(move || find(&root, &path)).await?;
    if found.iter().all(|nearby| call.loaded.has(&nearby.path)) {
        return Ok(Vec::new());
    }
    // The history is read only if necessary: most files have no instructions beside them.
    let mut bytes = 0;
    let recent = call.turn.recent(|message| {
        bytes += size::stored(message).bytes;
        is_summary(message) || bytes > limits::HISTORY_BYTES
    });
    if let Ok(history) = recent.await {
        for seen in visible(&history) {
            call.loaded.add(&seen);
        }
    }
    Ok(found.into_iter().filter(|nearby| call.loaded.add(&nearby.path)).collect())
}

/// Returns the instructions in the directories from that of the file up to that of the project, which is excluded.
fn find(root: &Root, file: &Path) -> Vec<InstructionFile> {
    let above = file.ancestors().skip(1);
    let between = above
        .take_while(|directory| directory.starts_with(root.directory()) && *directory != root.directory());
    let mut found: Vec<InstructionFile> = between
        .filter_map(|directory| {
            let named = |name: &str| root.resolve(&directory.join(name).to_string_lossy()).ok();
            let path = NAMES.iter().filter_map(|name| named(name)).find(|path| path.is_file())?;
            // A model that reads the instruction file itself sees it anyway.
            (path != file).then_some(path)
        })
        .filter_map(|path| Some(InstructionFile { text: files::current(&path).ok()??, path }))
        .collect();
    found.reverse();
    found
}

fn is_summary(message: &MessageWithParts) -> bool {
    matches!(&message.info, Message::Assistant(info) if info.summary == Some(true))
}

/// Returns the instruction files that came with messages the model still sees.
fn visible(history: &[Arc<MessageWithParts>]) -> Vec<PathBuf> {
    let since = history.iter().rev().take_while(|message| !is_summary(message));
    let states = since.flat_map(|message| &message.parts).filter_map(|part| match &part.body {
        PartBody::Tool(tool) if tool.tool == "read" => match &tool.state {
            ToolState::Completed(state) if state.time.compacted.is_none() => state.metadata.get("loaded"),
            _ => None,
        },
        _ => None,
    });
    let paths = states.filter_map(|loaded| loaded.as_array()).flatten();
    paths.filter_map(|path| path.as_str().map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn instructions_are_found_between_the_file_and_the_project() {
        let directory = TempDir::new().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        for (name, text) in [
            ("AGENTS.md", "top"),
            ("a/CLAUDE.md", "a"),
            ("a/CONTEXT.md", "not this"),
            ("a/b/c/AGENTS.md", "c"),
        ] {
            fs::write(top.join(name), text).unwrap();
        }
        let root = Root::new(&top).unwrap();
        let texts =
            |file: &str| find(&root, &top.join(file)).into_iter().map(|it| it.text).collect::<Vec<_>>();
        assert_eq!(texts("a/b/c/main.rs"), ["a", "c"]);
        assert_eq!(texts("a/b/main.rs"), ["a"]);
        assert_eq!(texts("a/CLAUDE.md"), Vec::<String>::new());
        assert_eq!(texts("main.rs"), Vec::<String>::new());
        assert!(find(&root, Path::new("/etc/hostname")).is_empty());
    }

    #[test]
    fn instructions_that_lead_out_of_the_project_are_not_followed() {
        let outer = TempDir::new().unwrap();
        let top = outer.path().canonicalize().unwrap().join("project");
        fs::create_dir_all(top.join("a")).unwrap();
        fs::write(outer.path().join("secret"), "key").unwrap();
        std::os::unix::fs::symlink(outer.path().join("secret"), top.join("a/AGENTS.md")).unwrap();
        assert!(find(&Root::new(&top).unwrap(), &top.join("a/main.rs")).is_empty());
    }
}
