//! A process with one ACP session: its start, its resumption, and its modes and models.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AuthMethod, ClientRequest, InitializeResponse, LoadSessionResponse, McpServer, NewSessionResponse,
    PromptCapabilities, SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigSelect, SessionConfigSelectOptions, SessionModeState,
};
use futures::FutureExt;
use protocol::config::PermissionMode;
use protocol::{MessageError, Rest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::Options;
use super::translate::is_work;
use super::turn::Progress;
use super::wire::{self, Models, Notice, read};
use super::{lenient, limits, mcp, outgoing};
use crate::external::{Broken, IdleEvent, KeptProcess, Opened};
use crate::jsonrpc::{self, Dialect, Error, ErrorObject, Incoming, RpcProcess};
use crate::roster::DEFAULT_MODEL;

/// The error code of an agent without a login.
const LOGIN: i64 = -32000;

/// The note in a session, with which another process can resume the conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The agent's id of its session.
    pub(super) session: String,
    /// The cost so far, in dollars.
    #[serde(default)]
    pub(super) cost: f64,
}

impl Note {
    /// Reads a note. Returns none if the note is invalid.
    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// A process with one ACP session.
#[derive(Debug)]
pub struct Conversation {
    pub(super) link: RpcProcess,
    pub(super) options: Arc<Options>,
    pub(super) note: Note,
    pub(super) able: PromptCapabilities,
    /// Messages that arrived since the last turn and belong to the next one.
    pub(super) unread: VecDeque<Incoming>,
    /// The last turn was stopped, so that messages may still belong to it.
    pub(super) is_stopped: bool,
    pub(super) turn: Progress,
    choices: Choices,
}

/// The settings that an agent offers.
#[derive(Debug, Default)]
struct Choices {
    modes: Option<SessionModeState>,
    options: Vec<SessionConfigOption>,
    models: Models,
}

impl Conversation {
    /// Starts a process and resumes the session of a note, or begins a new one.
    pub(super) async fn open(
        options: &Arc<Options>,
        directory: &str,
        note: Option<Note>,
    ) -> Result<Opened<Self>, MessageError> {
        if options.agent.program.command.is_empty() {
            return Err(MessageError::unknown(format!("no command is configured for {}", options.id())));
        }
        let launch = options.agent.launch(directory, []);
        let peer = jsonrpc::Options {
            dialect: Dialect::default(),
            methods: wire::METHODS,
            ..jsonrpc::Options::default()
        };
        let link =
            RpcProcess::open(&launch, peer).map_err(|failure| MessageError::unknown(failure.to_string()))?;
        let greeting = InitializeResponse::new(ProtocolVersion::V1);
        let mut opening = Opening { options, directory, link, greeting };
        opening.greet().await?;
        let had_note = note.is_some();
        let resumed = match note {
            Some(note) => opening.resume(note).await?,
            None => None,
        };
        let is_lost = had_note && resumed.is_none();
        let (note, choices) = match resumed {
            Some(resumed) => resumed,
            None => opening.begin().await?,
        };
        let able = opening.greeting.agent_capabilities.prompt_capabilities;
        let mut process = Self {
            link: opening.link,
            options: Arc::clone(options),
            note,
            able,
            unread: VecDeque::new(),
            is_stopped: false,
            turn: Progress::default(),
            choices,
        };
        process.choose_mode().await?;
        let lost = is_lost.then(|| "the agent no longer knows it".to_owned());
        Ok(Opened { note: Some(process.note()), process, lost })
    }

    /// The note for the session.
    pub(super) fn note(&self) -> String {
        serde_json::to_string(&self.note).unwrap_or_default()
    }

    /// The process has ended.
    pub(super) async fn lost(&mut self) -> Broken {
        // The step is open already, so another process cannot take the prompt.
        Broken::refuses(self.link.failure().await)
    }

    /// Chooses the agent's mode that comes closest to the configured permission mode.
    async fn choose_mode(&mut self) -> Result<(), MessageError> {
        let names: &[&str] = match self.options.agent.program.mode {
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
        self.set(&outgoing::set_mode(&self.note.session, mode)).await
    }

    /// Chooses a model, unless it is chosen already.
    pub(super) async fn choose_model(&mut self, model: &str) -> Result<(), MessageError> {
        if model == DEFAULT_MODEL {
            return Ok(());
        }
        if self.choices.model() == Some(model) {
            return Ok(());
        }
        if !self.choices.offered().contains(&model) {
            return Err(self.no_model(model));
        }
        let request = match self.choices.option() {
            Some((id, _)) => outgoing::set_option(&self.note.session, id, model),
            None => outgoing::set_model(&self.note.session, model),
        };
        self.set(&request).await?;
        self.choices.chose(model);
        Ok(())
    }

    fn no_model(&self, model: &str) -> MessageError {
        let known: Vec<&str> = self.choices.offered().into_iter().take(limits::SHOWN_MODELS).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        MessageError::unknown(format!(
            "{} does not offer the model \"{model}\"; choose \"{DEFAULT_MODEL}\" or one of: {known}",
            self.options.id()
        ))
    }

    async fn set(&mut self, request: &ClientRequest) -> Result<(), MessageError> {
        let deadline = self.options.agent.timeouts.start;
        call(&mut self.link, request, deadline, &self.options, &[]).await.map(drop)
    }

    /// Returns true if an update is about this session and not about that of a subagent.
    pub(super) fn concerns(&self, notice: &Notice) -> bool {
        *notice.session.0 == *self.note.session
    }

    /// Returns true if a message between turns begins a turn.
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
    /// The configuration option that selects the model.
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

impl KeptProcess for Conversation {
    async fn rest(&mut self) -> IdleEvent {
        loop {
            let Some(incoming) = self.link.next().await else {
                return IdleEvent::Ended(self.link.failure().await);
            };
            // A request that is dropped here is answered with an error.
            if self.is_woken_by(&incoming) && !self.is_stopped {
                self.unread.push_back(incoming);
                return IdleEvent::Woke("The agent began to work by itself.".to_owned());
            }
        }
    }

    async fn stop(self) {
        self.link.stop().await;
    }
}

/// A process that does not have a session yet.
struct Opening<'a> {
    options: &'a Options,
    directory: &'a str,
    link: RpcProcess,
    greeting: InitializeResponse,
}

impl Opening<'_> {
    async fn greet(&mut self) -> Result<(), MessageError> {
        let request = outgoing::greeting();
        let answer = self.ask(&request, self.options.agent.timeouts.start).await?;
        self.greeting = serde_json::from_value(answer).map_err(|error| self.nonsense(&request, &error))?;
        let (version, ours) = (self.greeting.protocol_version, ProtocolVersion::V1);
        if version != ours {
            return Err(MessageError::unknown(format!(
                "{} speaks version {version} of the Agent Client Protocol, but only version {ours} is supported",
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
        let answer = self.ask(&request, self.options.agent.timeouts.start * 2).await?;
        if answer.is_object() && answer.get("sessionId").is_none_or(Value::is_null) {
            let message = format!("{} began a session without a session id", self.options.id());
            return Err(MessageError::unknown(message));
        }
        let models = Models::of(&answer);
        let opened: NewSessionResponse =
            read(answer, lenient::opened).map_err(|error| self.nonsense(&request, &error))?;
        let note = Note { session: opened.session_id.to_string(), cost: 0.0 };
        let options = opened.config_options.unwrap_or_default();
        Ok((note, Choices { modes: opened.modes, options, models }))
    }

    /// Resumes a session. Returns none if the agent cannot, or does not know the session.
    async fn resume(&mut self, note: Note) -> Result<Option<(Note, Choices)>, MessageError> {
        let able = &self.greeting.agent_capabilities;
        // Loading replays the whole conversation, which the session already contains.
        let request = match (&able.session_capabilities.resume, able.load_session) {
            (Some(_), _) => outgoing::resume(&note.session, self.directory, self.servers()),
            (None, true) => outgoing::load(&note.session, self.directory, self.servers()),
            (None, false) => return Ok(None),
        };
        match ask(&mut self.link, &request, self.options.agent.timeouts.start * 2).await {
            Ok(answer) => {
                let models = Models::of(&answer);
                // The answer to `session/resume` has the same fields.
                let opened: LoadSessionResponse = read(answer, lenient::opened).unwrap_or_default();
                let options = opened.config_options.unwrap_or_default();
                Ok(Some((note, Choices { modes: opened.modes, options, models })))
            }
            Err(Error::Refused { fault, .. }) if fault.code != LOGIN => Ok(None),
            Err(Error::Ended { .. }) => Err(MessageError::unknown(self.link.failure().await)),
            Err(error) => Err(complaint(&error, self.options, &self.greeting.auth_methods)),
        }
    }

    async fn ask(&mut self, request: &ClientRequest, deadline: Duration) -> Result<Value, MessageError> {
        call(&mut self.link, request, deadline, self.options, &self.greeting.auth_methods).await
    }

    fn nonsense(&self, request: &ClientRequest, error: &serde_json::Error) -> MessageError {
        let (id, method) = (self.options.id(), request.method());
        MessageError::unknown(format!("{id} gave an invalid answer to {method}: {error}"))
    }
}

/// Sends a request while no message is expected; messages that arrive meanwhile are dropped.
async fn ask(link: &mut RpcProcess, request: &ClientRequest, deadline: Duration) -> Result<Value, Error> {
    let peer = link.peer().clone();
    let asking = peer.request(request.method(), outgoing::value(request), deadline);
    tokio::pin!(asking);
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut asking => break answer,
            Some(_) = link.next() => {}
        }
    };
    // Messages that came before the answer are in the inbox by now.
    while let Some(Some(_)) = link.next().now_or_never() {}
    answer
}

/// Sends a request like [`ask`], with an error for the user.
async fn call(
    link: &mut RpcProcess,
    request: &ClientRequest,
    deadline: Duration,
    options: &Options,
    logins: &[AuthMethod],
) -> Result<Value, MessageError> {
    match ask(link, request, deadline).await {
        Ok(answer) => Ok(answer),
        Err(Error::Ended { .. }) => Err(MessageError::unknown(link.failure().await)),
        Err(error) => Err(complaint(&error, options, logins)),
    }
}

/// The error for a request that the agent did not answer as expected.
pub(super) fn complaint(error: &Error, options: &Options, logins: &[AuthMethod]) -> MessageError {
    match error {
        Error::Refused { fault, .. } if fault.code == LOGIN => {
            let ways: Vec<&str> = logins.iter().map(|way| way.description().unwrap_or(way.name())).collect();
            let ways = if ways.is_empty() { String::new() } else { format!(" ({})", ways.join("; or ")) };
            let message = format!("{} needs a login{ways}: {}", options.id(), reason(fault));
            MessageError::ProviderAuth { provider_id: options.id().to_owned(), message, extra: Rest::NONE }
        }
        Error::Refused { fault, .. } => MessageError::unknown(reason(fault)),
        other => MessageError::unknown(format!("{}: {other}", options.id())),
    }
}

/// The agent's reason for a refusal, with the details that some agents put beside the message.
fn reason(fault: &ErrorObject) -> String {
    let details = fault.data.as_ref().and_then(|data| match data {
        Value::String(text) => Some(text.as_str()),
        data => ["details", "message"].iter().find_map(|key| data.get(key)?.as_str()),
    });
    match details.filter(|details| !fault.message.contains(details)) {
        Some(details) => format!("{}: {details}", fault.message),
        None => fault.message.clone(),
    }
}
