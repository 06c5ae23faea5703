//! Recordings of real agents: OpenCode 1.18.33, claude-agent-acp 0.49.0 and codex-acp 2.6.0. The lists of models and
//! commands are shortened.

use std::path::Path;

use serde_json::Value;

/// A line of a recording.
pub(super) enum Line {
    /// A message to the agent.
    In(Value),
    /// A message from the agent.
    Out(Value),
}

fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/acp/tests/recordings"))
}

/// The names of all recordings.
pub(super) fn names() -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = std::fs::read_dir(directory()).unwrap().map(name).collect();
    names.sort();
    assert!(names.len() >= 35, "recordings are missing: {names:?}");
    names
}

/// The lines of a recording.
pub(super) fn read(name: &str) -> Vec<Line> {
    let text = std::fs::read_to_string(directory().join(name).with_extension("jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let message = line["msg"].take();
        if line["dir"] == "in" { Line::In(message) } else { Line::Out(message) }
    };
    text.lines().map(line).collect()
}
