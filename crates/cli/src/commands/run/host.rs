//! Executes the turn in this process's engine or on a server.

use std::{collections::VecDeque, sync::Arc};

use client::Client;
use engine::{Sessions, Stream, StreamItem, bus::Scope, ports::Listing};
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use protocol::{
    Event, PermissionId, QuestionId, Session, SessionId,
    prompt::{PromptInput, SessionInput},
    request::{Answers, PermissionReply},
};
use server::project::Projects;

use crate::{args::Run, exit::Failure};

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

/// The executor of the turn: an engine in this process or a server.
#[derive(Debug, Clone)]
pub(super) enum Host {
    Local(Sessions),
    Remote(Client),
}

impl Host {
    /// Selects the directory, which a server needs with each call.
    pub(super) fn at(self, directory: &str) -> Self {
        match self {
            Self::Remote(client) => Self::Remote(client.in_directory(directory)),
            local @ Self::Local(_) => local,
        }
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
                let id = id.parse().map_err(|error| Failure::usage(format!("{error}")))?;
                Ok(Some(match self {
                    Self::Local(sessions) => sessions.get(&id).await?,
                    Self::Remote(client) => client.session(&id).await?,
                }))
            }
        }
    }

    pub(super) async fn create(&self, directory: &str) -> Result<Session, Failure> {
        let input = SessionInput::default();
        Ok(match self {
            Self::Local(sessions) => {
                sessions.create(Projects::default().find(directory).await.home(), input).await?
            }
            Self::Remote(client) => client.create_session(&input).await?,
        })
    }

    pub(super) async fn delete(&self, id: &SessionId) -> Result<(), Failure> {
        match self {
            Self::Local(sessions) => sessions.delete(id).await.map_err(Failure::from),
            Self::Remote(client) => client.delete_session(id).await.map_err(Failure::from),
        }
    }

    async fn latest(&self, here: &str) -> Result<Option<Session>, Failure> {
        let all = match self {
            Self::Local(sessions) => {
                let directory = Some(here.to_owned());
                let listing = Listing { directory, roots: true, limit: Some(1), ..Listing::default() };
                sessions.list(listing).await?
            }
            Self::Remote(client) => client.clone().in_directory(here).sessions().await?,
        };
        Ok(all.into_iter().find(|session| session.parent_id.is_none() && session.directory == here))
    }

    /// Subscribes to the directory's events. The stream misses nothing that happens after this returns.
    pub(super) async fn events(&self, directory: &str) -> Result<Events, Failure> {
        match self {
            Self::Local(sessions) => {
                let scope = Scope { directory: Some(directory.into()) };
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
            Self::Local(sessions) => sessions.submit(id, prompt).await.map(drop).map_err(Failure::from),
            Self::Remote(client) => client.prompt_async(id, &prompt).await.map_err(Failure::from),
        }
    }

    pub(super) async fn abort(&self, id: &SessionId) -> Result<(), Failure> {
        match self {
            Self::Local(sessions) => sessions.abort(id).await.map_err(Failure::from),
            Self::Remote(client) => client.abort(id).await.map_err(Failure::from),
        }
    }

    /// Stops the turn because this program ends. A local engine shuts down; on a server the turn is aborted.
    pub(super) async fn interrupt(&self, id: &SessionId) -> Result<(), Failure> {
        match self {
            Self::Local(sessions) => {
                sessions.shutdown().await;
                Ok(())
            }
            Self::Remote(client) => client.abort(id).await.map_err(Failure::from),
        }
    }

    pub(super) async fn is_idle(&self, id: &SessionId) -> Result<bool, Failure> {
        let busy = match self {
            Self::Local(sessions) => sessions.statuses(None).await?,
            Self::Remote(client) => client.statuses().await?,
        };
        Ok(busy.get(id).is_none_or(protocol::SessionStatus::is_idle))
    }

    /// Sends a reply. A request that another client has already answered is no error.
    pub(super) async fn reply(&self, reply: Reply) -> Result<(), Failure> {
        match self {
            Self::Local(sessions) => {
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
