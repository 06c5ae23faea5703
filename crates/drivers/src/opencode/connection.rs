//! The connection of a turn to OpenCode: the server, its events, and the session there.

use std::fmt;
use std::time::Duration;

use client::{Client, EventStream, Scope};

use engine::session::Turn;
use futures::stream::StreamExt;
use net::chain;
use protocol::{EventBody, SessionId};

use super::run::in_time;
use super::server::Lease;
use super::{OpenCode, Timeouts, wire};
use crate::external::{IdleEvent, KeptProcess, Opened};

/// A connection to the session of a turn. Its lease keeps the server running.
pub struct SessionConnection {
    pub(super) lease: Lease,
    pub(super) client: Client,
    pub(super) session: SessionId,
    /// The server's events, until the turn takes them.
    pub(super) stream: Option<EventStream>,
}

impl fmt::Debug for SessionConnection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SessionConnection").field("session", &self.session).finish_non_exhaustive()
    }
}

/// A connection serves one turn and is not kept, so that the server can stop when no turn needs it.
impl KeptProcess for SessionConnection {
    async fn rest(&mut self) -> IdleEvent {
        std::future::pending().await
    }

    async fn stop(self) {}
}

/// Finds the server, listens to its events, and resumes the session with this id or creates one.
pub(super) async fn open(
    agent: &OpenCode,
    turn: &Turn,
    resume: Option<&str>,
) -> Result<Opened<SessionConnection>, String> {
    let directory = &turn.session.directory;
    let lease = agent.server.lease(directory).await?;
    let client = lease.client.clone().in_directory(directory);
    let Timeouts { call, lost, .. } = agent.timeouts;
    let stream = in_time(call, "the event stream of OpenCode did not open", listen(&client, lost)).await?;
    let opening = Box::pin(session(agent, &client, resume));
    let (session, lost) = in_time(call, "OpenCode did not open the session", opening).await?;
    let note = Some(session.to_string());
    Ok(Opened { process: SessionConnection { lease, client, session, stream: Some(stream) }, note, lost })
}

/// Begins to listen. No later event is missed.
async fn listen(client: &Client, lost: Duration) -> Result<EventStream, String> {
    let mut stream = client.events_within(Scope::Directory, None, lost);
    loop {
        match stream.next().await {
            Some(Ok(received)) if matches!(received.event.body, EventBody::ServerConnected(_)) => {
                return Ok(stream);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                return Err(format!("cannot open the event stream of OpenCode: {}", chain(&error)));
            }
            None => return Err("the event stream of OpenCode ended at once".to_owned()),
        }
    }
}

/// Resumes the session with this id at OpenCode, or creates one. Tells why a session could not be resumed.
async fn session(
    agent: &OpenCode,
    client: &Client,
    resume: Option<&str>,
) -> Result<(SessionId, Option<String>), String> {
    let mut lost = None;
    if let Some(known) = resume.and_then(|known| known.parse().ok()) {
        match client.session(&known).await {
            Ok(session) => return Ok((session.id, None)),
            Err(error) if error.status().is_some_and(|status| status < 500) => lost = Some(chain(&error)),
            Err(error) => return Err(format!("cannot read the session from OpenCode: {}", chain(&error))),
        }
    }
    let created = client.create_session(&wire::session(agent.options.program.mode)).await;
    let created = created.map_err(|error| format!("OpenCode cannot create a session: {}", chain(&error)))?;
    Ok((created.id, lost))
}
