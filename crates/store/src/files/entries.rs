//! Agents, modes and commands in markdown files of a configuration directory.
//!
//! The path below the directory is the name (`agent/review/security.md` is the agent `review/security`), unless the
//! front matter sets one. The contents are merged like the same keys of a configuration file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use protocol::{
    Extra,
    agent::{Command, CommandSource},
    config::Config,
};
use serde_json::{Map, Value, json};

use super::{
    Trace, markdown, normal,
    problem::{Problem, Source},
    schema, walk,
};

/// The agents, modes and commands of a configuration directory.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// The entries in the format of a configuration file.
    pub(super) config: Map<String, Value>,
    /// The file of each entry, by key and name.
    pub(super) origins: BTreeMap<(String, String), PathBuf>,
    pub(super) read: Vec<PathBuf>,
    /// Errors that make the configuration invalid.
    pub(super) wrong: Vec<Problem>,
    pub(super) odd: Vec<Problem>,
    /// The searched files and directories.
    pub(super) trace: Trace,
}

/// Reads the markdown files of a configuration directory.
pub(super) fn read(directory: &Path) -> Entries {
    let mut entries = Entries::default();
    for folder in ["command", "commands"] {
        for path in entries.pages(&directory.join(folder), walk::MAX_DEPTH) {
            entries.add(&path, &directory.join(folder), "command", &schema::COMMAND, |entry, body| {
                entry.remove("name");
                entry.insert("template".into(), body.into());
            });
        }
    }
    for folder in ["agent", "agents"] {
        for path in entries.pages(&directory.join(folder), walk::MAX_DEPTH) {
            entries.add(&path, &directory.join(folder), "agent", &schema::AGENT, |entry, body| {
                normal::agent(entry);
                entry.insert("prompt".into(), body.into());
            });
        }
    }
    for folder in ["mode", "modes"] {
        for path in entries.pages(&directory.join(folder), 1) {
            entries.add(&path, &directory.join(folder), "agent", &schema::AGENT, |entry, body| {
                normal::agent(entry);
                entry.insert("prompt".into(), body.into());
                entry.insert("mode".into(), "primary".into());
            });
        }
    }
    entries
}

impl Entries {
    fn pages(&mut self, directory: &Path, depth: usize) -> Vec<PathBuf> {
        let is_page = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
        walk::traced_files(directory, depth, &is_page, &mut self.trace)
    }

    fn add(
        &mut self,
        path: &Path,
        folder: &Path,
        key: &str,
        expected: &schema::Expected,
        complete: impl FnOnce(&mut Map<String, Value>, String),
    ) {
        self.read.push(path.to_owned());
        self.trace.note(path);
        let page = match markdown::read(path) {
            Ok(page) => page,
            Err(problem) => return self.wrong.push(problem),
        };
        let source = Source::File(path.to_owned());
        let findings = schema::check(&page.data, expected, &source);
        self.odd.extend(findings.odd);
        if !findings.wrong.is_empty() {
            return self.wrong.extend(findings.wrong);
        }
        let Value::Object(mut entry) = page.data.into_value() else { return };
        let named = entry.get("name").and_then(Value::as_str).map(ToOwned::to_owned);
        let Some(name) = named.or_else(|| name(path, folder)) else {
            let message = "the file's name is not valid UTF-8, so it cannot name an entry";
            return self.wrong.push(Problem::about(&source, None, message));
        };
        complete(&mut entry, page.body);
        self.origins.insert((key.to_owned(), name.clone()), path.to_owned());
        let entries = self.config.entry(key).or_insert_with(|| json!({}));
        if let Some(entries) = entries.as_object_mut() {
            entries.insert(name, Value::Object(entry));
        }
    }
}

/// The path of a file below a folder, without its extension.
fn name(path: &Path, folder: &Path) -> Option<String> {
    let below = path.strip_prefix(folder).ok()?.with_extension("");
    let steps: Option<Vec<&str>> = below.iter().map(|step| step.to_str()).collect();
    steps.map(|steps| steps.join("/"))
}

/// A configuration's commands, in the form that clients list.
pub fn commands(config: &Config) -> Vec<Command> {
    let command = |(name, command): (&String, &protocol::config::CommandConfig)| Command {
        name: name.clone(),
        description: command.description.clone(),
        agent: command.agent.clone(),
        model: command.model.clone(),
        source: Some(CommandSource::Command),
        template: command.template.clone(),
        subtask: command.subtask,
        hints: hints(&command.template),
        extra: Extra::new(),
    };
    config.command.iter().map(command).collect()
}

/// The placeholders of a template: numbers in order, then `$ARGUMENTS`.
fn hints(template: &str) -> Vec<String> {
    let number = |rest: &str| {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..digits).and_then(|digits| digits.parse::<u32>().ok())
    };
    let mut numbers: Vec<u32> = template.split('$').skip(1).filter_map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let everything = template.contains("$ARGUMENTS").then(|| "$ARGUMENTS".to_owned());
    numbers.into_iter().map(|number| format!("${number}")).chain(everything).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_the_placeholders_of_a_template() {
        let cases: [(&str, &[&str]); 4] = [
            ("nothing $ here", &[]),
            ("$2 then $1, $2 and $10", &["$1", "$2", "$10"]),
            ("all of $ARGUMENTS", &["$ARGUMENTS"]),
            ("$ARGUMENTS $1x", &["$1", "$ARGUMENTS"]),
        ];
        for (template, expected) in cases {
            assert_eq!(hints(template), expected, "{template}");
        }
    }
}
