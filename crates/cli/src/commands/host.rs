//! Executes the calls of a command in this process's engine or on a server.

use std::{collections::VecDeque, path::Path, sync::Arc};

use client::{Client, Provider};
use engine::{Sessions, Stream, StreamItem, bus::Scope, ports::Listing};
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use project::Directories;
use protocol::{
    Event, Millis, PermissionId, QuestionId, Session, SessionId,
    prompt::{CommandInput, PromptInput, SessionInput},
    request::{Answers, PermissionReply},
};
use server::{Instances as _, project::Projects};

use crate::{
    args::{self, Run},
    environment,
    exit::Failure,
    logging, terminal,
    wiring::{self, Engine, Purpose, Unavailable},
};

pub(super) type Events = BoxStream<'static, Result<Event, Failure>>;

/// The session to use.
#[derive(Debug)]
pub(super) enum Choice {
    New,
    Latest,
    This(String),
}

impl Choice {
    pub(super) fn of(options: &Run) -> Self {
        match &options.session {
            Some(id) => Self::This(id.clone()),
            None if options.resume => Self::Latest,
            None => Self::New,
        }
    }
}

/// A reply to a request of the agent.
#[derive(Debug)]
pub(super) enum Reply {
    Permission(PermissionId, PermissionReply),
    Question(QuestionId, Answers),
    Dismissed(QuestionId),
}

/// The executor of calls: an engine in this process or a server.
#[derive(Debug, Clone)]
pub(super) enum Host {
    Local { sessions: Sessions, directories: Arc<Directories> },
    Remote(Client),
}

impl Host {
    /// An engine in this process.
    pub(super) fn local(engine: &Engine) -> Self {
        Self::Local { sessions: engine.sessions.clone(), directories: Arc::clone(&engine.instances) }
    }

    /// The server at `address`, an engine in this process, or the server that owns the data directory.
    pub(super) async fn open(
        options: &args::Engine,
        address: Option<&str>,
        here: &Path,
        purpose: Purpose,
    ) -> Result<(Self, Option<Engine>), Failure> {
        if let Some(address) = address {
            return Ok((Self::Remote(environment::client(address)?), None));
        }
        let places = wiring::places(options)?;
        let target =
            if options.print_logs { logging::Target::Terminal } else { logging::Target::File(&places.log) };
        logging::start(&target, options.log_level);
        match Box::pin(wiring::engine(options, here, purpose, None)).await {
            Ok(engine) => Ok((Self::local(&engine), Some(engine))),
            Err(Unavailable::Owned { address: Some(address), .. }) => {
                if terminal::is_watched() && purpose == Purpose::Run {
                    terminal::note(&format!("using the server at {address}"));
                }
                Ok((Self::Remote(environment::client(&address)?), None))
            }
            Err(owned @ Unavailable::Owned { .. }) => {
                Err(Failure::from(owned).hint("use --attach URL to connect to a running server"))
            }
            Err(unavailable) => Err(unavailable.into()),
        }
    }

    /// Selects the directory, which a server needs with each call.
    pub(super) fn at(self, directory: &str) -> Self {
        match self {
            Self::Remote(client) => Self::Remote(client.in_directory(directory)),
            local @ Self::Local { .. } => local,
        }
    }

    /// The providers that can be called in a directory.
    pub(super) async fn providers(&self, directory: &str) -> Result<Vec<Provider>, Failure> {
        match self {
            Self::Local { directories, .. } => {
                let instance = directories.find(directory).await;
                let instance = instance.map_err(|invalid| Failure::usage(invalid.message))?;
                let read = |listed: &protocol::provider::Provider| Provider {
                    id: listed.id.clone(),
                    source: Some(listed.source),
                    variables: listed.env.clone(),
                    models: listed.models.keys().cloned().collect(),
                };
                Ok(instance.providers.iter().map(read).collect())
            }
            Self::Remote(client) => Ok(client.clone().in_directory(directory).providers().await?),
        }
    }

    /// Warnings about a directory's configuration, one line each.
    pub(super) async fn diagnostics(&self, directory: &str) -> Result<Vec<String>, Failure> {
        let found = match self {
            Self::Local { directories, .. } => {
                let found = directories.diagnostics(directory).await;
                found.map_err(|invalid| Failure::usage(invalid.message))?
            }
            Self::Remote(client) => client.clone().in_directory(directory).diagnostics().await?,
        };
        Ok(found.iter().map(ToString::to_string).collect())
    }

    /// Sessions of a directory, or of all, most recently updated first: at most `limit` that were updated before a
    /// time, without children.
    pub(super) async fn sessions(
        &self,
        directory: Option<&str>,
        before: Option<Millis>,
        limit: usize,
    ) -> Result<Vec<Session>, Failure> {
        Ok(match self {
            Self::Local { sessions, .. } => {
                let listing = Listing {
                    workspace: directory.map(|directory| sessions.workspace(directory)),
                    roots: true,
                    updated_before: before,
                    limit: Some(limit),
                    ..Listing::default()
                };
                sessions.list(listing).await?
            }
            Self::Remote(client) => {
                let client = client.clone();
                let client = directory.into_iter().fold(client, Client::in_directory);
                client.sessions_before(before, limit).await?
            }
        })
    }

    /// Finds the chosen session; none for a new one.
    pub(super) async fn find(&self, choice: &Choice, here: &str) -> Result<Option<Session>, Failure> {
        match choice {
            Choice::New => Ok(None),
            Choice::Latest => match self.latest(here).await? {
                Some(session) => Ok(Some(session)),
                None => Err(Failure::usage("there is no session in this directory to continue")),
            },
            Choice::This(id) => {
                let id = id.parse().map_err(|_| {
                    Failure::usage(format!("\"{id}\" is not a session id (they look like ses_…)"))
                        .hint("`baton sessions` lists the sessions of this directory")
                })?;
                Ok(Some(match self {
                    Self::Local { sessions, .. } => sessions.get(&id).await?,
                    Self::Remote(client) => client.session(&id).await?,
                }))
            }
        }
    }

    /// Copies a session with all its messages.
    pub(super) async fn fork(&self, id: &SessionId) -> Result<Session, Failure> {
        Ok(match self {
            Self::Local { sessions, .. } => sessions.fork(id, None).await?,
            Self::Remote(client) => client.fork_session(id, None).await?,
        })
    }

    pub(super) async fn create(&self, directory: &str, title: Option<String>) -> Result<Session, Failure> {
        let input = SessionInput { title, ..SessionInput::default() };
        Ok(match self {
            Self::Local { sessions, .. } => {
                sessions.create(Projects::default().find(directory).await.home(), input).await?
            }
            Self::Remote(client) => client.create_session(&input).await?,
        })
    }

    pub(super) async fn delete(&self, id: &SessionId) -> Result<(), Failure> {
        match self {
            Self::Local { sessions, .. } => sessions.delete(id).await.map_err(Failure::from),
            Self::Remote(client) => client.delete_session(id).await.map_err(Failure::from),
        }
    }

    /// Deletes a session and its children if none of them was used since a time. Returns false if one was, or if the
    /// session is gone already.
    pub(super) async fn delete_unused(&self, id: &SessionId, since: Millis) -> Result<bool, Failure> {
        match self {
            Self::Local { sessions, .. } => match sessions.delete_unused(id, since).await {
                Err(engine::Error::Busy(_) | engine::Error::NotFound { .. }) => Ok(false),
                deleted => deleted.map(|()| true).map_err(Failure::from),
            },
            Self::Remote(client) => match client.delete_unused_session(id, since).await {
                Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(false),
                deleted => deleted.map(|()| true).map_err(Failure::from),
            },
        }
    }

    async fn latest(&self, here: &str) -> Result<Option<Session>, Failure> {
        let Self::Remote(client) = self else { return Ok(self.sessions(Some(here), None, 1).await?.pop()) };
        let all = client.clone().in_directory(here).sessions().await?;
        Ok(all.into_iter().find(|session| session.parent_id.is_none() && session.directory == here))
    }

    /// Subscribes to the directory's events. The stream misses nothing that happens after this returns.
    pub(super) async fn events(&self, directory: &str) -> Result<Events, Failure> {
        match self {
            Self::Local { sessions, .. } => {
                let scope = sessions.scope(directory);
                let stream = sessions.subscribe(scope.clone(), None).await?;
                let local =
                    Local { sessions: sessions.clone(), scope, stream, ready: VecDeque::new(), seen: None };
                Ok(stream::try_unfold(local, Local::next).boxed())
            }
            Self::Remote(client) => {
                let mut events = client.events(client::Scope::Directory, None);
                // The first event confirms the subscription; the server sends everything that follows.
                events.next().await.transpose()?;
                Ok(events.map_ok(|received| received.event).map_err(Failure::from).boxed())
            }
        }
    }

    pub(super) async fn submit(&self, id: &SessionId, prompt: PromptInput) -> Result<(), Failure> {
        match self {
            Self::Local { sessions, .. } => {
                sessions.submit(id, prompt).await.map(drop).map_err(Failure::from)
            }
            Self::Remote(client) => client.prompt_async(id, &prompt).await.map_err(Failure::from),
        }
    }

    /// Runs a slash command and waits for its answer.
    pub(super) async fn command(&self, id: &SessionId, command: CommandInput) -> Result<(), Failure> {
        match self {
            Self::Local { sessions, .. } => {
                sessions.command(id, command).await.map(drop).map_err(Failure::from)
            }
            Self::Remote(client) => client.command(id, &command).await.map(drop).map_err(Failure::from),
        }
    }

    pub(super) async fn abort(&self, id: &SessionId) -> Result<(), Failure> {
        match self {
            Self::Local { sessions, .. } => sessions.abort(id).await.map_err(Failure::from),
            Self::Remote(client) => client.abort(id).await.map_err(Failure::from),
        }
    }

    /// Stops the turn because this program ends. A local engine shuts down; on a server the turn is aborted.
    pub(super) async fn interrupt(&self, id: &SessionId) -> Result<(), Failure> {
        match self {
            Self::Local { sessions, .. } => {
                sessions.shutdown().await;
                Ok(())
            }
            Self::Remote(client) => client.abort(id).await.map_err(Failure::from),
        }
    }

    pub(super) async fn is_idle(&self, id: &SessionId) -> Result<bool, Failure> {
        let busy = match self {
            Self::Local { sessions, .. } => sessions.statuses(None).await?,
            Self::Remote(client) => client.statuses().await?,
        };
        Ok(busy.get(id).is_none_or(protocol::SessionStatus::is_idle))
    }

    /// Sends a reply. A request that another client has already answered is no error.
    pub(super) async fn reply(&self, reply: Reply) -> Result<(), Failure> {
        match self {
            Self::Local { sessions, .. } => {
                let replied = match &reply {
                    Reply::Permission(id, reply) => sessions.reply_permission(id, *reply, None).await,
                    Reply::Question(id, answers) => sessions.reply_question(id, answers.clone()).await,
                    Reply::Dismissed(id) => sessions.reject_question(id).await,
                };
                match replied {
                    Err(engine::Error::NoRequest { .. }) => Ok(()),
                    replied => replied.map_err(Failure::from),
                }
            }
            Self::Remote(client) => {
                let replied = match &reply {
                    Reply::Permission(id, reply) => client.reply_permission(id, *reply, None).await,
                    Reply::Question(id, answers) => client.reply_question(id, answers.clone()).await,
                    Reply::Dismissed(id) => client.reject_question(id).await,
                };
                match replied {
                    Err(error) if error.status() == Some(404) => Ok(()),
                    replied => replied.map_err(Failure::from),
                }
            }
        }
    }
}

/// Event stream of the local engine.
struct Local {
    sessions: Sessions,
    scope: Scope,
    stream: Stream,
    ready: VecDeque<Arc<engine::bus::Frame>>,
    /// Position of the last durable event, for resuming.
    seen: Option<u64>,
}

impl Local {
    async fn next(mut self) -> Result<Option<(Event, Self)>, Failure> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                self.seen = frame.position.or(self.seen);
                let event = serde_json::from_slice(frame.json());
                let event =
                    event.map_err(|error| Failure::error(format!("cannot decode an event: {error}")))?;
                return Ok(Some((event, self)));
            }
            match self.stream.next().await? {
                StreamItem::Frames(frames) => self.ready = frames.into(),
                // Our output blocked for too long; after resuming, the text of open parts is sent again.
                StreamItem::Lagged(_) => {
                    let stream = self.sessions.subscribe(self.scope.clone(), self.seen).await;
                    self.stream = stream?;
                }
                StreamItem::End => return Ok(None),
            }
        }
    }
}
