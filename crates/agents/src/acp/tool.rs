//! One tool call, put together from what an agent says about it bit by bit.

use std::collections::BTreeMap;

use protocol::part::FilePart;
use protocol::{AgentEvent, Extra, Todo};
use serde_json::{Value, json};
use workspace::diff::{self, FileDiff};

use super::limits;
use super::wire::{self, Block, Content, Kind, Location, Status};

/// A tool call. What an update does not mention stays as it was.
#[derive(Debug, Default)]
pub(super) struct Tool {
    id: String,
    name: Option<String>,
    title: Option<String>,
    kind: Option<Kind>,
    status: Option<Status>,
    input: Option<Value>,
    output: Option<Value>,
    content: Vec<Content>,
    locations: Vec<Location>,
    /// What a command wrote, by an agent that tells it beside the protocol.
    heard: String,
    /// The call that this one is part of.
    parent: Option<String>,
    /// How far the session knows of it.
    shown: Shown,
    /// What it was told last, so that it is not told again.
    told: Option<AgentEvent>,
}

/// What the session has been told about a call.
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

    /// Whether the agent has said that it is over.
    fn is_ended(&self) -> bool {
        matches!(self.status, Some(Status::Completed | Status::Failed))
    }

    /// Takes in what is new.
    pub(super) fn amend(&mut self, call: wire::ToolCall) {
        let claude = call.meta.get("claudeCode");
        let said = |field: &str| claude?.get(field)?.as_str().map(str::to_owned);
        let name = call.name.or_else(|| said("toolName"));
        // The first title of an agent that names its tools in no other way is their name.
        let named = self.title.is_none().then(|| call.title.clone().filter(|title| is_name(title))).flatten();
        self.name = self.name.take().or(name).or(named);
        self.parent = self.parent.take().or_else(|| said("parentToolUseId"));
        if let Some(delta) = call.meta.pointer("/terminal_output_delta/data").and_then(Value::as_str) {
            self.hear(delta);
        }
        self.title = call.title.or(self.title.take());
        self.kind = call.kind.or(self.kind);
        self.status = call.status.or(self.status);
        self.input = call.raw_input.or(self.input.take());
        self.output = call.raw_output.or(self.output.take());
        self.content = call.content.unwrap_or(std::mem::take(&mut self.content));
        self.locations = call.locations.unwrap_or(std::mem::take(&mut self.locations));
    }

    fn hear(&mut self, delta: &str) {
        let room = limits::OUTPUT.saturating_sub(self.heard.len());
        self.heard.push_str(start(delta, room));
    }

    /// What the session is to be told now. `terminals` is what commands have written that the agent lets us run.
    pub(super) fn tell(&mut self, terminals: &BTreeMap<String, String>) -> Vec<AgentEvent> {
        if self.is_over() {
            return Vec::new();
        }
        let mut events = Vec::new();
        let over = self.is_ended();
        let input = self.input();
        // A call whose input is still being written is pending, whatever else is known of it.
        if over && self.shown == Shown::Running && self.told_input() == Some(&input) {
            // Its end says the rest.
        } else if over || self.status == Some(Status::InProgress) || !input.is_empty() {
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

    /// The input that was told last.
    fn told_input(&self) -> Option<&Extra> {
        match &self.told {
            Some(AgentEvent::ToolRunning { input, .. }) => Some(input),
            _ => None,
        }
    }

    fn running(&self, input: Extra, terminals: &BTreeMap<String, String>) -> AgentEvent {
        let mut metadata = self.metadata();
        // What it comes to in the end is told with its end.
        let output = if self.is_ended() { String::new() } else { self.text(terminals) };
        if self.kind == Some(Kind::Execute) && !output.is_empty() {
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
        if self.status == Some(Status::Failed) {
            let error =
                if text.is_empty() { "The tool failed and did not say why.".to_owned() } else { text };
            return vec![AgentEvent::ToolFailed { call, error, metadata: Some(self.metadata()) }];
        }
        let mut metadata = self.metadata();
        if self.kind == Some(Kind::Execute) {
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

    /// The tool's name, as clients know tools that do such things.
    pub(super) fn tool(&self) -> String {
        let known = match self.kind {
            Some(Kind::Read) => "read",
            Some(Kind::Edit) => "edit",
            Some(Kind::Delete) => "delete",
            Some(Kind::Move) => "move",
            Some(Kind::Search) => "grep",
            Some(Kind::Execute) => "bash",
            Some(Kind::Fetch) => "webfetch",
            Some(Kind::Think | Kind::Other) | None => {
                return self.name.as_deref().map_or_else(|| "tool".to_owned(), familiar);
            }
        };
        known.to_owned()
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        self.kind
    }

    pub(super) fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// What it was called with; with the names clients look for, where the agent uses others.
    pub(super) fn input(&self) -> Extra {
        let mut input = match &self.input {
            Some(Value::Object(input)) => input.clone(),
            Some(Value::Null) | None => Extra::new(),
            Some(other) => Extra::from_iter([("input".to_owned(), other.clone())]),
        };
        match self.kind {
            Some(Kind::Execute) => {
                if let Some(command) = self.command() {
                    input.insert("command".to_owned(), command.into());
                }
            }
            Some(Kind::Read | Kind::Edit | Kind::Delete | Kind::Move) => {
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

    /// The files a call is about.
    pub(super) fn files(&self) -> Vec<String> {
        let named = ["filePath", "file_path", "path", "abs_path"];
        let input = named.iter().find_map(|key| self.input.as_ref()?.get(key)?.as_str());
        let shown = self.content.iter().filter_map(|content| match content {
            Content::Diff { path, .. } => Some(path.as_str()),
            _ => None,
        });
        let located = self.locations.iter().map(|location| location.path.as_str());
        let mut files: Vec<String> = Vec::new();
        for file in shown.chain(located).chain(input) {
            if !files.iter().any(|known| known == file) {
                files.push(file.to_owned());
            }
        }
        files
    }

    /// The address a call is about.
    pub(super) fn url(&self) -> Option<&str> {
        self.input.as_ref()?.get("url")?.as_str()
    }

    /// The changes that it shows.
    pub(super) fn diffs(&self) -> impl Iterator<Item = FileDiff> + '_ {
        self.content.iter().filter_map(|content| match content {
            Content::Diff { path, old_text, new_text } => {
                Some(diff::unified(path, old_text.as_deref().unwrap_or_default(), new_text))
            }
            _ => None,
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

    /// What came of it, in words.
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
                Content::Content { content } => words(content),
                Content::Terminal { terminal_id } => terminals.get(terminal_id).cloned(),
                Content::Diff { .. } | Content::Other => None,
            })
            .collect();
        let text = if shown.is_empty() { self.heard.clone() } else { shown.join("\n") };
        start(&text, limits::OUTPUT).to_owned()
    }

    fn attachments(&self) -> Vec<FilePart> {
        let image = |content: &Content| match content {
            Content::Content { content: Block::Image { data, mime } } if data.len() <= limits::IMAGE => {
                Some(FilePart {
                    mime: mime.clone(),
                    filename: None,
                    url: format!("data:{mime};base64,{data}"),
                    source: None,
                    extra: Extra::new(),
                })
            }
            _ => None,
        };
        self.content.iter().filter_map(image).collect()
    }

    /// The todo list, from an agent that has a tool for it.
    fn todos(&self) -> Option<Vec<Todo>> {
        if self.tool() != "todowrite" {
            return None;
        }
        let todos = self.input.as_ref()?.get("todos")?;
        serde_json::from_value(todos.clone()).ok()
    }
}

/// What a piece of content says.
pub(super) fn words(block: &Block) -> Option<String> {
    match block {
        Block::Text { text } => Some(text.clone()),
        Block::ResourceLink { uri, name } if name.is_empty() => Some(uri.clone()),
        Block::ResourceLink { uri, name } => Some(format!("[{name}]({uri})")),
        Block::Resource { resource } => Some(resource.text.clone().unwrap_or_else(|| resource.uri.clone())),
        Block::Image { .. } | Block::Other => None,
    }
}

/// The beginning of a text, at most so many bytes.
fn start(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

fn is_name(title: &str) -> bool {
    !title.is_empty() && title.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// The name that clients know a tool by.
fn familiar(name: &str) -> String {
    match name {
        "Agent" | "Task" => "task".to_owned(),
        "AskUserQuestion" => "question".to_owned(),
        "TodoWrite" => "todowrite".to_owned(),
        _ => name.to_owned(),
    }
}
