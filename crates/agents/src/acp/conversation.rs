//! A conversation with an agent's program: how it begins or goes on, what is kept of it between turns, and what can be
//! chosen about it.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AuthMethod, ClientRequest, InitializeResponse, LoadSessionResponse, McpServer, NewSessionResponse,
    PromptCapabilities, SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigSelect, SessionConfigSelectOptions, SessionModeState,
};
use protocol::config::PermissionMode;
use protocol::{MessageError, Rest, Session};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::link::Link;
use super::options::Options;
use super::translate::is_work;
use super::wire::{Models, Notice, read};
use super::{limits, mcp, mend, outgoing};
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
    choices: Choices,
}

/// What can be chosen about a session.
#[derive(Debug, Default)]
struct Choices {
    modes: Option<SessionModeState>,
    options: Vec<SessionConfigOption>,
    models: Models,
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
        let greeting = InitializeResponse::new(ProtocolVersion::V1);
        let mut opening = Opening { options, directory, link, greeting };
        opening.greet().await?;
        let resumed = match note {
            Some(note) => opening.resume(note).await?,
            None => Resumed::Never,
        };
        let (note, choices, memory) = match resumed {
            Resumed::Again(note, choices) => (note, *choices, Memory::Kept),
            Resumed::Never => opening.begin().await.map(|(note, choices)| (note, choices, Memory::Kept))?,
            Resumed::Unknown => opening.begin().await.map(|(note, choices)| (note, choices, Memory::Lost))?,
        };
        let able = opening.greeting.agent_capabilities.prompt_capabilities;
        let mut conversation =
            Self { link: opening.link, note, able, heard: VecDeque::new(), stopped: false, choices };
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
        let Some(modes) = &self.choices.modes else { return Ok(()) };
        let offered = |name: &&&str| modes.available_modes.iter().any(|mode| *mode.id.0 == ***name);
        let Some(mode) = names.iter().find(offered) else { return Ok(()) };
        if *modes.current_mode_id.0 == **mode {
            return Ok(());
        }
        self.set(&outgoing::set_mode(&self.note.session, mode), options).await
    }

    /// Chooses a model, if it is not the one that is chosen already.
    pub(super) async fn choose_model(&mut self, model: &str, options: &Options) -> Result<(), MessageError> {
        if model == DEFAULT_MODEL {
            return Ok(());
        }
        if self.choices.model() == Some(model) {
            return Ok(());
        }
        if !self.choices.offered().contains(&model) {
            return Err(self.no_model(model, options));
        }
        let request = match self.choices.option() {
            Some((id, _)) => outgoing::set_option(&self.note.session, id, model),
            None => outgoing::set_model(&self.note.session, model),
        };
        self.set(&request, options).await?;
        self.choices.chose(model);
        Ok(())
    }

    fn no_model(&self, model: &str, options: &Options) -> MessageError {
        let known: Vec<&str> = self.choices.offered().into_iter().take(limits::SHOWN_MODELS).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        MessageError::unknown(format!(
            "{} does not offer the model \"{model}\"; choose \"{DEFAULT_MODEL}\" or one of: {known}",
            options.id()
        ))
    }

    async fn set(&mut self, request: &ClientRequest, options: &Options) -> Result<(), MessageError> {
        match self.link.ask(request, options.patience.start).await {
            Ok(_) => Ok(()),
            Err(error) => Err(complaint(&mut self.link, &error, options, &[]).await),
        }
    }

    /// Tells the agent to stop what it does.
    pub(super) async fn cancel(&self, options: &Options) -> Result<(), Error> {
        let notification = outgoing::cancel(&self.note.session);
        let params = outgoing::value(&notification);
        self.link.peer.notify(notification.method(), params, options.patience.interrupt).await
    }

    /// Whether a message is about this conversation.
    pub(super) fn concerns(&self, notice: &Notice) -> bool {
        *notice.session.0 == *self.note.session
    }

    /// What it says while no turn listens: whether that is the beginning of one.
    fn is_woken_by(&self, incoming: &Incoming) -> bool {
        match incoming {
            Incoming::Asked(_) => true,
            Incoming::Told { method, params } if method == "session/update" => Notice::read(params.clone())
                .is_ok_and(|notice| self.concerns(&notice) && is_work(&notice.update)),
            Incoming::Told { .. } | Incoming::Malformed(_) => false,
        }
    }
}

impl Choices {
    /// The option that is the model.
    fn option(&self) -> Option<(&str, &SessionConfigSelect)> {
        self.options.iter().find_map(|option| match &option.kind {
            SessionConfigKind::Select(select) if is_model(option) => Some((&*option.id.0, select)),
            _ => None,
        })
    }

    /// The model that is chosen.
    fn model(&self) -> Option<&str> {
        match self.option() {
            Some((_, select)) => Some(&select.current_value.0),
            None => self.models.current_model_id.as_deref(),
        }
    }

    /// The models that can be chosen.
    fn offered(&self) -> Vec<&str> {
        match self.option().map(|(_, select)| &select.options) {
            Some(SessionConfigSelectOptions::Ungrouped(values)) => {
                values.iter().map(|value| &*value.value.0).collect()
            }
            Some(SessionConfigSelectOptions::Grouped(groups)) => {
                groups.iter().flat_map(|group| &group.options).map(|value| &*value.value.0).collect()
            }
            Some(_) => Vec::new(),
            None => self.models.available_models.iter().map(|known| known.model_id.as_str()).collect(),
        }
    }

    fn chose(&mut self, model: &str) {
        self.models.current_model_id = Some(model.to_owned());
        for option in self.options.iter_mut().filter(|option| is_model(option)) {
            if let SessionConfigKind::Select(select) = &mut option.kind {
                select.current_value = model.to_owned().into();
            }
        }
    }
}

fn is_model(option: &SessionConfigOption) -> bool {
    *option.id.0 == *"model" || option.category == Some(SessionConfigOptionCategory::Model)
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
    directory: &'a str,
    link: Link,
    greeting: InitializeResponse,
}

enum Resumed {
    Again(Note, Box<Choices>),
    /// The agent does not know the session any more.
    Unknown,
    /// There was nothing to go on with.
    Never,
}

impl Opening<'_> {
    async fn greet(&mut self) -> Result<(), MessageError> {
        let request = outgoing::greeting();
        let answer = self.ask(&request, self.options.patience.start).await?;
        self.greeting = serde_json::from_value(answer).map_err(|error| self.nonsense(&request, &error))?;
        let (version, ours) = (self.greeting.protocol_version, ProtocolVersion::V1);
        if version != ours {
            return Err(MessageError::unknown(format!(
                "{} speaks version {version} of the Agent Client Protocol, and only version {ours} is understood here",
                self.options.id(),
            )));
        }
        Ok(())
    }

    fn servers(&self) -> Vec<McpServer> {
        mcp::servers(&self.options.servers, &self.greeting.agent_capabilities.mcp_capabilities)
    }

    async fn begin(&mut self) -> Result<(Note, Choices), MessageError> {
        let request = outgoing::begin(self.directory, self.servers());
        let answer = self.ask(&request, self.options.patience.start * 2).await?;
        if answer.is_object() && answer.get("sessionId").is_none_or(Value::is_null) {
            let message = format!("{} began a session and did not name it", self.options.id());
            return Err(MessageError::unknown(message));
        }
        let models = Models::of(&answer);
        let opened: NewSessionResponse =
            read(answer, mend::opened).map_err(|error| self.nonsense(&request, &error))?;
        let note = Note { session: opened.session_id.to_string(), cost: 0.0 };
        let options = opened.config_options.unwrap_or_default();
        Ok((note, Choices { modes: opened.modes, options, models }))
    }

    async fn resume(&mut self, note: Note) -> Result<Resumed, MessageError> {
        let able = &self.greeting.agent_capabilities;
        // Loading repeats the whole conversation, which is known here.
        let request = match (&able.session_capabilities.resume, able.load_session) {
            (Some(_), _) => outgoing::resume(&note.session, self.directory, self.servers()),
            (None, true) => outgoing::load(&note.session, self.directory, self.servers()),
            (None, false) => return Ok(Resumed::Unknown),
        };
        match self.link.ask(&request, self.options.patience.start * 2).await {
            Ok(answer) => {
                let models = Models::of(&answer);
                // The answer to `session/resume` has the same fields.
                let opened: LoadSessionResponse = read(answer, mend::opened).unwrap_or_default();
                let options = opened.config_options.unwrap_or_default();
                Ok(Resumed::Again(note, Box::new(Choices { modes: opened.modes, options, models })))
            }
            Err(Error::Refused { fault, .. }) if fault.code != LOGIN => Ok(Resumed::Unknown),
            Err(error) => Err(self.complaint(&error).await),
        }
    }

    async fn ask(&mut self, request: &ClientRequest, deadline: Duration) -> Result<Value, MessageError> {
        match self.link.ask(request, deadline).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.complaint(&error).await),
        }
    }

    fn nonsense(&self, request: &ClientRequest, error: &serde_json::Error) -> MessageError {
        let (id, method) = (self.options.id(), request.method());
        MessageError::unknown(format!("{id} gave no sensible answer to {method}: {error}"))
    }

    async fn complaint(&mut self, error: &Error) -> MessageError {
        complaint(&mut self.link, error, self.options, &self.greeting.auth_methods).await
    }
}

/// What is told when an agent did not do what it was asked for.
pub(super) async fn complaint(
    link: &mut Link,
    error: &Error,
    options: &Options,
    logins: &[AuthMethod],
) -> MessageError {
    match error {
        Error::Refused { fault, .. } if fault.code == LOGIN => {
            let ways: Vec<&str> = logins.iter().map(|way| way.description().unwrap_or(way.name())).collect();
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
