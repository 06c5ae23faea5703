//! Converts items of Codex into OpenCode's tools, so that clients show them like those of the native loop.

use protocol::{AgentEvent, Extra};
use serde_json::{Value, json};

use super::super::wire::{Agents, Body, Change, Command, FileChange, Progress, ToolCall};

/// Largest tool output that is kept, in bytes.
const MAX_OUTPUT: usize = 256 * 1024;

/// The tool that runs commands.
pub(super) const COMMAND: &str = "bash";

/// The error of a call that the user has declined.
const DECLINED: &str = "The user rejected permission to use this specific tool call.";

/// The known state of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Tool {
    pub(in super::super) name: String,
    pub(in super::super) title: String,
    pub(in super::super) input: Extra,
    /// Metadata for clients.
    pub(in super::super) metadata: Extra,
    /// The files that the call changes.
    pub(in super::super) files: Vec<String>,
    status: Progress,
    output: Option<String>,
    error: Option<String>,
}

impl Tool {
    /// Converts an item. None if it is not a tool.
    pub(super) fn of(body: &Body, directory: &str) -> Option<Self> {
        Some(match body {
            Body::Command(command) => Self::command(command),
            Body::Change(FileChange { changes, status }) => {
                let output = format!("Patch applied:\n{}", list(changes, directory));
                Self { status: *status, output: Some(output), ..Self::change(changes, directory) }
            }
            Body::Tool(call) => Self::call(call),
            Body::Search(search) => {
                let input = object(json!({ "query": search.query }));
                Self { status: Progress::Completed, ..Self::named("websearch", &search.query, input) }
            }
            Body::Image(image) => {
                let input = object(json!({ "filePath": image.path }));
                let title = relative(&image.path, directory);
                Self { status: Progress::Completed, ..Self::named("read", title, input) }
            }
            Body::Agents(agents) => Self::agents(agents),
            Body::User | Body::Text(_) | Body::Reasoning(_) | Body::Compaction | Body::Other(_) => {
                return None;
            }
        })
    }

    fn named(name: &str, title: &str, input: Extra) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            input,
            metadata: Extra::new(),
            files: Vec::new(),
            status: Progress::Running,
            output: None,
            error: None,
        }
    }

    fn command(command: &Command) -> Self {
        let line = command_line(&command.line, command.actions.iter().map(|it| it.command.as_str()));
        let mut input = object(json!({ "command": line }));
        if let Some(cwd) = &command.cwd {
            input.insert("workdir".into(), cwd.as_str().into());
        }
        let mut metadata = Extra::new();
        if let Some(exit) = command.exit_code {
            metadata.insert("exit".into(), exit.into());
        }
        // A command with a non-zero exit code has run, so the call has completed and its metadata contains the code.
        let ran = command.status == Progress::Failed && command.exit_code.is_some();
        Self {
            metadata,
            status: if ran { Progress::Completed } else { command.status },
            output: command.aggregated_output.clone(),
            ..Self::named(COMMAND, &line, input)
        }
    }

    pub(super) fn change(changes: &[Change], directory: &str) -> Self {
        let names: Vec<&str> = changes.iter().map(|change| relative(&change.path, directory)).collect();
        let patches: Vec<String> = changes.iter().map(patch).collect();
        let shown = changes.iter().zip(&patches).map(|(change, patch)| shown(change, patch, directory));
        let metadata = json!({ "diff": patches.concat(), "files": shown.collect::<Vec<_>>() });
        Self {
            metadata: object(metadata),
            files: changes
                .iter()
                .flat_map(|change| [Some(&change.path), change.kind.move_path.as_ref()])
                .flatten()
                .cloned()
                .collect(),
            ..Self::named("apply_patch", &names.join(", "), object(json!({ "patchText": patches.concat() })))
        }
    }

    fn call(call: &ToolCall) -> Self {
        let name = match &call.server {
            Some(server) => format!("{server}_{}", call.tool),
            None => call.tool.clone(),
        };
        let input = match &call.arguments {
            Value::Object(arguments) => arguments.clone(),
            Value::Null => Extra::new(),
            other => object(json!({ "arguments": other })),
        };
        let content = call.result.as_ref().map(|result| &result.content).or(call.content_items.as_ref());
        Self {
            status: call.status,
            output: content.map(|content| texts(content)),
            error: call.error.as_ref().map(|error| error.message.clone()),
            ..Self::named(&name, &call.tool, input)
        }
    }

    /// A call that starts, prompts or awaits a subagent.
    fn agents(agents: &Agents) -> Self {
        let prompt = agents.prompt.as_deref().unwrap_or_default();
        let line = prompt.lines().next().filter(|line| !line.is_empty());
        let title = line.or(agents.name.as_deref()).unwrap_or(&agents.tool);
        let input = json!({ "description": title, "prompt": prompt, "subagent_type": agents.tool });
        let said = agents.states.values().filter_map(|state| state.get("message")?.as_str());
        let metadata = json!({ "threads": agents.receiver_thread_ids });
        Self {
            metadata: object(metadata),
            status: agents.status,
            output: Some(said.collect::<Vec<_>>().join("\n")),
            ..Self::named("task", title, object(input))
        }
    }

    pub(super) fn running(&self, call: &str, progress: &str) -> AgentEvent {
        let mut metadata = self.metadata.clone();
        if !progress.is_empty() {
            metadata.insert("output".into(), progress.into());
        }
        AgentEvent::ToolRunning {
            call: call.into(),
            tool: self.name.clone(),
            input: self.input.clone(),
            title: Some(self.title.clone()),
            metadata: (!metadata.is_empty()).then_some(metadata),
        }
    }

    /// The files that the completed call has changed.
    pub(super) fn changed(&self) -> Vec<String> {
        if self.status == Progress::Completed { self.files.clone() } else { Vec::new() }
    }

    /// The event for the end of the call. `progress` is the streamed output, for an item without its own.
    pub(super) fn ended(self, call: String, progress: String) -> AgentEvent {
        let mut output = self.output.filter(|output| !output.is_empty()).unwrap_or(progress);
        keep_end(&mut output, MAX_OUTPUT);
        let mut metadata = self.metadata;
        let error = match self.status {
            Progress::Completed | Progress::Running | Progress::Other => {
                if self.name == COMMAND {
                    metadata.insert("output".into(), output.as_str().into());
                }
                let title = self.title;
                return AgentEvent::ToolCompleted { call, output, title, metadata, attachments: Vec::new() };
            }
            Progress::Declined => DECLINED.to_owned(),
            Progress::Interrupted => engine::transcript::ABORTED_TOOL.to_owned(),
            Progress::Failed => self.error.unwrap_or_else(|| format!("{} failed. {output}", self.name)),
        };
        AgentEvent::ToolFailed { call, error, metadata: (!metadata.is_empty()).then_some(metadata) }
    }
}

/// The command without the shell that Codex wraps around it.
pub(in super::super) fn command_line<'a>(whole: &str, actions: impl Iterator<Item = &'a str>) -> String {
    let mut actions: Vec<&str> = actions.filter(|command| !command.is_empty()).collect();
    actions.dedup();
    match actions.as_slice() {
        [only] => (*only).to_owned(),
        _ => whole.to_owned(),
    }
}

/// Shortens a text to its last `most` bytes.
pub(super) fn keep_end(text: &mut String, most: usize) {
    if text.len() <= most {
        return;
    }
    let from = text.len() - most;
    let at = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text.drain(..at);
}

pub(in super::super) fn relative<'a>(path: &'a str, directory: &str) -> &'a str {
    path.strip_prefix(directory).and_then(|path| path.strip_prefix('/')).unwrap_or(path)
}

/// A change as a unified diff. Codex sends only the content of a new or removed file.
fn patch(change: &Change) -> String {
    let (old, new) = match change.kind.name.as_str() {
        "add" => ("/dev/null", change.path.as_str()),
        "delete" => (change.path.as_str(), "/dev/null"),
        _ => (change.path.as_str(), change.kind.move_path.as_deref().unwrap_or(&change.path)),
    };
    let lines = change.diff.lines().count();
    let marked = |mark: &str| change.diff.lines().flat_map(|line| [mark, line, "\n"]).collect::<String>();
    let body = match change.kind.name.as_str() {
        _ if change.diff.starts_with("@@") || change.diff.is_empty() => change.diff.clone(),
        "add" => format!("@@ -0,0 +1,{lines} @@\n{}", marked("+")),
        "delete" => format!("@@ -1,{lines} +0,0 @@\n{}", marked("-")),
        _ => change.diff.clone(),
    };
    format!("--- {old}\n+++ {new}\n{body}")
}

fn shown(change: &Change, patch: &str, directory: &str) -> Value {
    let count = |mark: char| patch.lines().skip(2).filter(|line| line.starts_with(mark)).count();
    let target = change.kind.move_path.as_deref();
    let mut shown = json!({
        "filePath": change.path,
        "relativePath": relative(target.unwrap_or(&change.path), directory),
        "type": if target.is_some() { "move" } else { change.kind.name.as_str() },
        "patch": patch,
        "additions": count('+'),
        "deletions": count('-'),
    });
    if let (Some(target), Some(shown)) = (target, shown.as_object_mut()) {
        shown.insert("movePath".into(), target.into());
    }
    shown
}

fn list(changes: &[Change], directory: &str) -> String {
    let line = |change: &Change| {
        let target = change.kind.move_path.as_deref();
        let letter = match (change.kind.name.as_str(), target) {
            ("add", _) => 'A',
            ("delete", _) => 'D',
            (_, Some(_)) => 'R',
            _ => 'M',
        };
        format!("{letter} {}", relative(target.unwrap_or(&change.path), directory))
    };
    changes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The text of an MCP result.
fn texts(content: &[Value]) -> String {
    let text = |item: &Value| match item.get("text").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => format!("[{}]", item.get("type").and_then(Value::as_str).unwrap_or("content")),
    };
    content.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn object(value: Value) -> Extra {
    match value {
        Value::Object(object) => object,
        _ => Extra::new(),
    }
}
