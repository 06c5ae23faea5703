//! A conversation with an agent's program: how it begins or goes on, what is kept of it between turns, and what can be
//! chosen about it.

use std::collections::VecDeque;
use std::path::Path;

use protocol::config::PermissionMode;
use protocol::{MessageError, Rest, Session};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::link::Link;
use super::options::Options;
use super::translate::is_work;
use super::wire::{self, Greeting, Notice, Opened, PromptCapabilities};
use super::{limits, mcp};
use crate::external::{Kept, Launch, Rested};
use crate::jsonrpc::{Error, Fault, Incoming};
use crate::roster::DEFAULT_MODEL;

/// The code of an agent that wants somebody to log in.
const LOGIN: i64 = -32000;

/// What is noted about a session, so that its conversation can go on with another process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    /// What the agent calls it.
    pub(super) session: String,
    /// What it has cost so far, in dollars.
    #[serde(default)]
    pub(super) cost: f64,
}

impl Note {
    /// What was noted about a session.
    pub(super) fn of(session: &Session, agent: &str) -> Option<Self> {
        serde_json::from_str(session.note(agent)?).ok()
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A conversation with a running program.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) link: Link,
    pub(super) note: Note,
    pub(super) able: PromptCapabilities,
    /// What it has said since the last turn that is part of the next one.
    pub(super) heard: VecDeque<Incoming>,
    /// Whether what it does now still belongs to a turn that was stopped.
    pub(super) stopped: bool,
    opened: Opened,
}

/// Whether an agent remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    Kept,
    Lost,
}

impl Conversation {
    /// Starts a program and begins a conversation, or goes on with the one that was noted.
    pub(super) async fn open(
        options: &Options,
        directory: &str,
        note: Option<Note>,
    ) -> Result<(Self, Memory), MessageError> {
        let Some((program, args)) = options.command.split_first() else {
            return Err(MessageError::unknown(format!("no command is configured for {}", options.id())));
        };
        let mut launch = Launch::new(program, args, Path::new(directory));
        launch.environment =
            options.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
        launch.hidden = options.hidden.iter().map(Into::into).collect();
        launch.bounds = options.bounds;
        let link = Link::start(&launch).map_err(|failure| MessageError::unknown(failure.to_string()))?;
        let mut opening = Opening { options, link, greeting: Greeting::default() };
        opening.greet().await?;
        let params = json!({
            "cwd": directory,
            "mcpServers": mcp::servers(&options.servers, opening.greeting.agent_capabilities.mcp_capabilities),
        });
        let resumed = match note {
            Some(note) => opening.resume(note, params.clone()).await?,
            None => Resumed::Never,
        };
        let (note, opened, memory) = match resumed {
            Resumed::Again(note, opened) => (note, *opened, Memory::Kept),
            Resumed::Never => {
                opening.begin(params).await.map(|(note, opened)| (note, opened, Memory::Kept))?
            }
            Resumed::Unknown => {
                opening.begin(params).await.map(|(note, opened)| (note, opened, Memory::Lost))?
            }
        };
        let able = opening.greeting.agent_capabilities.prompt_capabilities;
        let mut conversation =
            Self { link: opening.link, note, able, heard: VecDeque::new(), stopped: false, opened };
        conversation.choose_mode(options).await?;
        Ok((conversation, memory))
    }

    /// Lets the agent work in the mode that comes closest to what it may do without asking.
    async fn choose_mode(&mut self, options: &Options) -> Result<(), MessageError> {
        let names: &[&str] = match options.mode {
            PermissionMode::Ask => return Ok(()),
            PermissionMode::AcceptEdits => &["acceptEdits", "accept-edits", "auto_edit", "autoEdit"],
            PermissionMode::Bypass => &["bypassPermissions", "agent-full-access", "yolo"],
            PermissionMode::Plan => &["plan", "read-only"],
        };
        let offered = |name: &&&str| self.opened.modes.available_modes.iter().any(|mode| mode.id == **name);
        let Some(mode) = names.iter().find(offered) else { return Ok(()) };
        if self.opened.modes.current_mode_id.as_deref() == Some(mode) {
            return Ok(());
        }
        self.set("session/set_mode", json!({ "modeId": mode }), options).await?;
        self.opened.modes.current_mode_id = Some((*mode).to_owned());
        Ok(())
    }

    /// Chooses a model, if it is not the one that is chosen already.
    pub(super) async fn choose_model(&mut self, model: &str, options: &Options) -> Result<(), MessageError> {
        if model == DEFAULT_MODEL {
            return Ok(());
        }
        let is_model = |option: &&wire::ConfigOption| {
            option.id == "model" || option.category.as_deref() == Some("model")
        };
        if let Some(option) = self.opened.config_options.iter().find(is_model) {
            if option.current_value.as_deref() == Some(model) {
                return Ok(());
            }
            if !option.offers(model) {
                return Err(self.no_model(model, options));
            }
            let id = option.id.clone();
            self.set("session/set_config_option", json!({ "configId": id, "value": model }), options).await?;
            for option in self.opened.config_options.iter_mut().filter(|option| option.id == id) {
                option.current_value = Some(model.to_owned());
            }
            return Ok(());
        }
        if self.opened.models.current_model_id.as_deref() == Some(model) {
            return Ok(());
        }
        if !self.opened.models.available_models.iter().any(|known| known.model_id == model) {
            return Err(self.no_model(model, options));
        }
        self.set("session/set_model", json!({ "modelId": model }), options).await?;
        self.opened.models.current_model_id = Some(model.to_owned());
        Ok(())
    }

    fn no_model(&self, model: &str, options: &Options) -> MessageError {
        let listed = self
            .opened
            .config_options
            .iter()
            .filter(|option| option.id == "model")
            .flat_map(|option| &option.options);
        let listed = listed.filter_map(|value| value.value.as_deref());
        let models = self.opened.models.available_models.iter().map(|known| known.model_id.as_str());
        let known: Vec<&str> = listed.chain(models).take(limits::SHOWN_MODELS).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        MessageError::unknown(format!(
            "{} does not offer the model \"{model}\"; choose \"{DEFAULT_MODEL}\" or one of: {known}",
            options.id()
        ))
    }

    async fn set(&mut self, method: &str, params: Value, options: &Options) -> Result<(), MessageError> {
        let params = with(params, "sessionId", self.note.session.as_str());
        let answer = self.link.ask(method, params, options.patience.start).await;
        match answer {
            Ok(_) => Ok(()),
            Err(error) => Err(complaint(&mut self.link, &error, options, &[]).await),
        }
    }

    /// Whether a message is about this conversation.
    pub(super) fn concerns(&self, notice: &Notice) -> bool {
        notice.session_id == self.note.session
    }

    /// What it says while no turn listens: whether that is the beginning of one.
    fn is_woken_by(&self, incoming: &Incoming) -> bool {
        match incoming {
            Incoming::Asked(_) => true,
            Incoming::Told { method, params } if method == "session/update" => Notice::deserialize(params)
                .is_ok_and(|notice| self.concerns(&notice) && is_work(&notice.update)),
            Incoming::Told { .. } | Incoming::Malformed(_) => false,
        }
    }
}

impl Kept for Conversation {
    async fn rest(&mut self) -> Rested {
        loop {
            let Some(incoming) = self.link.inbox.next().await else {
                return Rested::Ended(self.link.failure().await);
            };
            // A request that is dropped here is answered with an error.
            if self.is_woken_by(&incoming) && !self.stopped {
                self.heard.push_back(incoming);
                return Rested::Woke("The agent began to work by itself.".to_owned());
            }
        }
    }

    async fn stop(self) {
        self.link.stop().await;
    }
}

/// A program that was started and does not yet have a session.
struct Opening<'a> {
    options: &'a Options,
    link: Link,
    greeting: Greeting,
}

enum Resumed {
    Again(Note, Box<Opened>),
    /// The agent does not know the session any more.
    Unknown,
    /// There was nothing to go on with.
    Never,
}

impl Opening<'_> {
    async fn greet(&mut self) -> Result<(), MessageError> {
        let params = json!({
            "protocolVersion": wire::VERSION,
            "clientCapabilities": {
                "fs": { "readTextFile": true, "writeTextFile": true },
                "terminal": true,
                "elicitation": { "form": {} },
            },
            "clientInfo": { "name": "baton", "title": "Baton", "version": env!("CARGO_PKG_VERSION") },
        });
        self.greeting = self.ask("initialize", params, self.options.patience.start).await?;
        let version = self.greeting.protocol_version;
        if version != wire::VERSION {
            return Err(MessageError::unknown(format!(
                "{} speaks version {version} of the Agent Client Protocol, and only version {} is understood here",
                self.options.id(),
                wire::VERSION
            )));
        }
        Ok(())
    }

    async fn begin(&mut self, params: Value) -> Result<(Note, Opened), MessageError> {
        let opened: Opened = self.ask("session/new", params, self.options.patience.start * 2).await?;
        let Some(session) = opened.session_id.clone() else {
            return Err(MessageError::unknown(format!(
                "{} began a session and did not name it",
                self.options.id()
            )));
        };
        Ok((Note { session, cost: 0.0 }, opened))
    }

    async fn resume(&mut self, note: Note, params: Value) -> Result<Resumed, MessageError> {
        let able = &self.greeting.agent_capabilities;
        // Loading repeats the whole conversation, which is known here.
        let method = match (&able.session_capabilities.resume, able.load_session) {
            (Some(_), _) => "session/resume",
            (None, true) => "session/load",
            (None, false) => return Ok(Resumed::Unknown),
        };
        let params = with(params, "sessionId", note.session.as_str());
        match self.link.ask(method, params, self.options.patience.start * 2).await {
            Ok(answer) => {
                let opened = Opened::deserialize(answer).unwrap_or_default();
                Ok(Resumed::Again(note, Box::new(opened)))
            }
            Err(Error::Refused { fault, .. }) if fault.code != LOGIN => Ok(Resumed::Unknown),
            Err(error) => Err(self.complaint(&error).await),
        }
    }

    async fn ask<T: for<'de> Deserialize<'de>>(
        &mut self,
        method: &str,
        params: Value,
        deadline: std::time::Duration,
    ) -> Result<T, MessageError> {
        match self.link.ask(method, params, deadline).await {
            Ok(answer) => T::deserialize(answer).map_err(|error| {
                MessageError::unknown(format!(
                    "{} gave no sensible answer to {method}: {error}",
                    self.options.id()
                ))
            }),
            Err(error) => Err(self.complaint(&error).await),
        }
    }

    async fn complaint(&mut self, error: &Error) -> MessageError {
        complaint(&mut self.link, error, self.options, &self.greeting.auth_methods).await
    }
}

/// Parameters with one more.
fn with(mut params: Value, key: &str, value: &str) -> Value {
    if let Some(params) = params.as_object_mut() {
        params.insert(key.to_owned(), value.into());
    }
    params
}

/// What is told when an agent did not do what it was asked for.
pub(super) async fn complaint(
    link: &mut Link,
    error: &Error,
    options: &Options,
    logins: &[wire::AuthMethod],
) -> MessageError {
    match error {
        Error::Refused { fault, .. } if fault.code == LOGIN => {
            let ways: Vec<&str> =
                logins
                    .iter()
                    .map(|way| {
                        if way.description.is_empty() { way.name.as_str() } else { way.description.as_str() }
                    })
                    .collect();
            let ways = if ways.is_empty() { String::new() } else { format!(" ({})", ways.join("; or ")) };
            let message = format!("{} wants somebody to log in first{ways}: {}", options.id(), reason(fault));
            MessageError::ProviderAuth { provider_id: options.id().to_owned(), message, extra: Rest::NONE }
        }
        Error::Refused { fault, .. } => MessageError::unknown(reason(fault)),
        Error::Ended { .. } => MessageError::unknown(link.failure().await),
        other => MessageError::unknown(format!("{}: {other}", options.id())),
    }
}

/// Why an agent refused, with the details that some put beside the message.
fn reason(fault: &Fault) -> String {
    let details = fault.data.as_ref().and_then(|data| match data {
        Value::String(text) => Some(text.as_str()),
        data => ["details", "message"].iter().find_map(|key| data.get(key)?.as_str()),
    });
    match details.filter(|details| !fault.message.contains(details)) {
        Some(details) => format!("{}: {details}", fault.message),
        None => fault.message.clone(),
    }
}
