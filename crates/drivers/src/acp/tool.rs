//! One tool call, assembled from the updates that an agent sends about it.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    ContentBlock, Diff, EmbeddedResourceResource, ImageContent, Meta, ToolCallContent, ToolCallLocation,
    ToolCallStatus, ToolCallUpdate, ToolKind,
};
use protocol::part::FilePart;
use protocol::{AgentEvent, Extra, Todo};
use serde_json::{Value, json};
use workspace::diff::{self, FileDiff};

use super::limits;

/// A tool call. An update leaves the fields that it omits unchanged.
#[derive(Debug, Default)]
pub(super) struct Tool {
    id: String,
    name: Option<String>,
    title: Option<String>,
    kind: Option<ToolKind>,
    status: Option<ToolCallStatus>,
    input: Option<Value>,
    output: Option<Value>,
    content: Vec<ToolCallContent>,
    locations: Vec<ToolCallLocation>,
    /// The output of a command, from an agent that sends it in `_meta`.
    heard: String,
    /// The id of the call whose subagent made this call.
    parent: Option<String>,
    shown: Shown,
    /// The last event for this call, so that an identical one is not emitted again.
    told: Option<AgentEvent>,
}

/// The last state of a call that was emitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Shown {
    #[default]
    Nothing,
    Pending,
    Running,
    Over,
}

impl Tool {
    pub(super) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.shown == Shown::Over
    }

    /// Returns true for a command that the agent runs itself and that has not ended.
    pub(super) fn is_running_command(&self) -> bool {
        let is_ours = self.content.iter().any(|content| matches!(content, ToolCallContent::Terminal(_)));
        self.kind == Some(ToolKind::Execute) && !is_ours && !self.is_ended()
    }

    /// Returns true if the agent has reported the end of the call.
    fn is_ended(&self) -> bool {
        matches!(self.status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed))
    }

    /// Merges an update into the call.
    pub(super) fn amend(&mut self, call: ToolCallUpdate) {
        let ToolCallUpdate { fields: call, meta, .. } = call;
        let said = |whose: &str, field: &str| aside(meta.as_ref()?, whose, field).map(str::to_owned);
        let plain = || meta.as_ref()?.get("toolName")?.as_str().map(str::to_owned);
        let name = call.name.or_else(|| said("claudeCode", "toolName")).or_else(plain);
        // The first title of an agent that names its tools in no other way is their name.
        let named = self.title.is_none().then(|| call.title.clone().filter(|title| is_name(title))).flatten();
        self.name = self.name.take().or(name).or(named);
        self.parent = self.parent.take().or_else(|| said("claudeCode", "parentToolUseId"));
        if let Some(delta) = said("terminal_output_delta", "data") {
            self.append_output(&delta);
        }
        self.title = call.title.or(self.title.take());
        self.kind = call.kind.or(self.kind);
        self.status = call.status.or(self.status);
        self.input = call.raw_input.or(self.input.take());
        self.output = call.raw_output.or(self.output.take());
        self.content = call.content.unwrap_or(std::mem::take(&mut self.content));
        self.locations = call.locations.unwrap_or(std::mem::take(&mut self.locations));
    }

    fn append_output(&mut self, delta: &str) {
        let room = limits::OUTPUT.saturating_sub(self.heard.len());
        self.heard.push_str(start(delta, room));
    }

    /// Returns the events that are due. `terminals` holds the output of commands that Baton runs for the agent, by
    /// terminal id.
    pub(super) fn tell(&mut self, terminals: &BTreeMap<String, String>) -> Vec<AgentEvent> {
        if self.is_over() {
            return Vec::new();
        }
        let mut events = Vec::new();
        let over = self.is_ended();
        let input = self.input();
        // A call is pending while its input is still being generated.
        if over && self.shown == Shown::Running && self.told_input() == Some(&input) {
            // The event for its end carries the rest.
        } else if over || self.status == Some(ToolCallStatus::InProgress) || !input.is_empty() {
            self.shown = Shown::Running;
            let running = Some(self.running(input, terminals));
            if self.told != running {
                events.extend(running.clone());
                self.told = running;
            }
        } else if self.shown == Shown::Nothing {
            self.shown = Shown::Pending;
            events.push(AgentEvent::ToolPending { call: self.id.clone(), tool: self.tool() });
        }
        if over {
            self.shown = Shown::Over;
            events.extend(self.ended(terminals));
        }
        events
    }

    /// The input in the last event.
    fn told_input(&self) -> Option<&Extra> {
        match &self.told {
            Some(AgentEvent::ToolRunning { input, .. }) => Some(input),
            _ => None,
        }
    }

    fn running(&self, input: Extra, terminals: &BTreeMap<String, String>) -> AgentEvent {
        let mut metadata = self.metadata();
        // The event for the end of the call carries the final output.
        let output = if self.is_ended() { String::new() } else { self.text(terminals) };
        if self.kind == Some(ToolKind::Execute) && !output.is_empty() {
            metadata.insert("output".to_owned(), output.into());
        }
        AgentEvent::ToolRunning {
            call: self.id.clone(),
            tool: self.tool(),
            input,
            title: self.title.clone(),
            metadata: (!metadata.is_empty()).then_some(metadata),
        }
    }

    fn ended(&self, terminals: &BTreeMap<String, String>) -> Vec<AgentEvent> {
        let (call, text) = (self.id.clone(), self.text(terminals));
        if self.status == Some(ToolCallStatus::Failed) {
            let error =
                if text.is_empty() { "The tool failed without giving a reason.".to_owned() } else { text };
            return vec![AgentEvent::ToolFailed { call, error, metadata: Some(self.metadata()) }];
        }
        let mut metadata = self.metadata();
        if self.kind == Some(ToolKind::Execute) {
            metadata.entry("output").or_insert_with(|| text.clone().into());
        }
        let mut events = vec![AgentEvent::ToolCompleted {
            call,
            output: text,
            title: self.title.clone().unwrap_or_else(|| self.tool()),
            metadata,
            attachments: self.attachments(),
        }];
        let edited = self.diffs().map(|diff| AgentEvent::FileEdited { file: diff.file });
        events.extend(edited);
        events.extend(self.todos().map(AgentEvent::Todos));
        events
    }

    /// The name under which OpenCode's clients know this kind of tool.
    pub(super) fn tool(&self) -> String {
        let known = match self.kind {
            Some(ToolKind::Read) => "read",
            Some(ToolKind::Edit) => "edit",
            Some(ToolKind::Delete) => "delete",
            Some(ToolKind::Move) => "move",
            Some(ToolKind::Search) => "grep",
            Some(ToolKind::Execute) => "bash",
            Some(ToolKind::Fetch) => "webfetch",
            Some(_) | None => {
                return self.name.as_deref().map_or_else(|| "tool".to_owned(), familiar);
            }
        };
        known.to_owned()
    }

    pub(super) fn kind(&self) -> Option<ToolKind> {
        self.kind
    }

    pub(super) fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The input of the call, with the field names that clients expect added where the agent uses others.
    pub(super) fn input(&self) -> Extra {
        let mut input = match &self.input {
            Some(Value::Object(input)) => input.clone(),
            Some(Value::Null) | None => Extra::new(),
            Some(other) => Extra::from_iter([("input".to_owned(), other.clone())]),
        };
        match self.kind {
            Some(ToolKind::Execute) => {
                if let Some(command) = self.command() {
                    input.insert("command".to_owned(), command.into());
                }
            }
            Some(ToolKind::Read | ToolKind::Edit | ToolKind::Delete | ToolKind::Move) => {
                if let Some(path) = self.files().into_iter().next() {
                    input.entry("filePath").or_insert(path.into());
                }
            }
            _ => {}
        }
        input
    }

    /// The command line of a call that runs one.
    pub(super) fn command(&self) -> Option<String> {
        let given = ["command", "cmd"].iter().find_map(|key| self.input.as_ref()?.get(key));
        match given {
            Some(Value::String(line)) => Some(line.clone()),
            Some(Value::Array(words)) => {
                Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
            }
            _ => None,
        }
    }

    /// The files that the call names.
    pub(super) fn files(&self) -> Vec<String> {
        let named = ["filePath", "file_path", "path", "abs_path"];
        let input = named.iter().find_map(|key| self.input.as_ref()?.get(key)?.as_str());
        let shown = self.changes().map(|change| change.path.to_string_lossy());
        let located = self.locations.iter().map(|location| location.path.to_string_lossy());
        let mut files: Vec<String> = Vec::new();
        for file in shown.chain(located).chain(input.map(Into::into)) {
            if !files.iter().any(|known| *known == file) {
                files.push(file.into_owned());
            }
        }
        files
    }

    /// The URL that the call names.
    pub(super) fn url(&self) -> Option<&str> {
        self.input.as_ref()?.get("url")?.as_str()
    }

    fn changes(&self) -> impl Iterator<Item = &Diff> {
        self.content.iter().filter_map(|content| match content {
            ToolCallContent::Diff(diff) => Some(diff),
            _ => None,
        })
    }

    /// The file changes that the call reports.
    pub(super) fn diffs(&self) -> impl Iterator<Item = FileDiff> {
        self.changes().map(|change| {
            let before = change.old_text.as_deref().unwrap_or_default();
            diff::unified(&change.path.to_string_lossy(), before, &change.new_text)
        })
    }

    fn metadata(&self) -> Extra {
        let mut metadata = match self.output.as_ref().and_then(|output| output.get("metadata")) {
            Some(Value::Object(metadata)) => metadata.clone(),
            _ => Extra::new(),
        };
        if let Some(code) = self.output.as_ref().and_then(|output| output.get("exit_code")) {
            metadata.entry("exit").or_insert(code.clone());
        }
        if let Some(parent) = &self.parent {
            metadata.insert("parent".to_owned(), parent.clone().into());
        }
        if let Some(diff) = self.diffs().next()
            && !metadata.contains_key("diff")
        {
            metadata.insert("diff".to_owned(), diff.patch.clone().into());
            metadata.insert("filediff".to_owned(), json!(diff));
        }
        metadata
    }

    /// The output of the call as text.
    fn text(&self, terminals: &BTreeMap<String, String>) -> String {
        let raw = match &self.output {
            Some(Value::String(text)) => Some(text.as_str()),
            Some(Value::Object(fields)) => ["output", "error", "formatted_output", "stdout"]
                .iter()
                .find_map(|key| fields.get(*key)?.as_str()),
            _ => None,
        };
        if let Some(raw) = raw.filter(|raw| !raw.is_empty()) {
            return start(raw, limits::OUTPUT).to_owned();
        }
        let shown: Vec<String> = self
            .content
            .iter()
            .filter_map(|content| match content {
                ToolCallContent::Content(it) => words(&it.content),
                ToolCallContent::Terminal(it) => terminals.get(&*it.terminal_id.0).cloned(),
                _ => None,
            })
            .collect();
        let text = if shown.is_empty() { self.heard.clone() } else { shown.join("\n") };
        start(&text, limits::OUTPUT).to_owned()
    }

    fn attachments(&self) -> Vec<FilePart> {
        let images = self.content.iter().filter_map(|content| match content {
            ToolCallContent::Content(it) => match &it.content {
                ContentBlock::Image(image) if image.data.len() <= limits::IMAGE => Some(image),
                _ => None,
            },
            _ => None,
        });
        let file = |image: &ImageContent| FilePart {
            mime: image.mime_type.clone(),
            filename: None,
            url: format!("data:{};base64,{}", image.mime_type, image.data),
            source: None,
            extra: Extra::new(),
        };
        images.map(file).collect()
    }

    /// The todo list, if this is a call of the agent's todo tool.
    fn todos(&self) -> Option<Vec<Todo>> {
        if self.tool() != "todowrite" {
            return None;
        }
        let todos = self.input.as_ref()?.get("todos")?;
        serde_json::from_value(todos.clone()).ok()
    }
}

/// The text of a content block.
pub(super) fn words(block: &ContentBlock) -> Option<String> {
    match block {
        ContentBlock::Text(it) => Some(it.text.clone()),
        ContentBlock::ResourceLink(link) if link.name.is_empty() => Some(link.uri.clone()),
        ContentBlock::ResourceLink(link) => Some(format!("[{}]({})", link.name, link.uri)),
        ContentBlock::Resource(it) => match &it.resource {
            EmbeddedResourceResource::TextResourceContents(it) => Some(it.text.clone()),
            EmbeddedResourceResource::BlobResourceContents(it) => Some(it.uri.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Reads a field of an agent's own namespace in `_meta`.
fn aside<'a>(meta: &'a Meta, whose: &str, field: &str) -> Option<&'a str> {
    meta.get(whose)?.get(field)?.as_str()
}

/// The beginning of a text, at most `most` bytes, cut at a character boundary.
fn start(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

fn is_name(title: &str) -> bool {
    !title.is_empty() && title.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Maps an agent's name for a tool to the name that clients know.
fn familiar(name: &str) -> String {
    match name {
        "Agent" | "Task" => "task".to_owned(),
        "AskUserQuestion" => "question".to_owned(),
        "TodoWrite" => "todowrite".to_owned(),
        _ => name.to_owned(),
    }
}
