//! Shows requests of all sessions that belong to a place, even if no prompt of that place runs: a subagent may
//! continue after its parent is idle, another client may have started the turn, and a request may be older than the
//! gateway.

use std::time::Duration;

use client::view::Request;
use futures::StreamExt;
use protocol::{EventBody, SessionId};
use tokio::time::sleep;

use super::{Router, start::Failure};
use crate::Place;

/// Pause before reconnecting to the server; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Maximum depth of a child below the place's session.
const DEPTH: usize = 16;

/// A message to a worker about a request.
#[derive(Debug)]
pub(super) enum Note {
    /// A request is open.
    Asked(Box<Request>),
    /// A request is closed.
    Settled(String),
}

impl Router {
    /// Watches the server's events and shows every request in its place. Never returns.
    pub async fn watch(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let mut events = self.0.context.feed.watch_requests();
            while let Some(Ok(received)) = events.next().await {
                let why = match self.note(received.event.body).await {
                    Ok(()) => {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                    Err(Failure::Server(error)) => error.to_string(),
                    Err(Failure::Ledger(error)) => error.to_string(),
                };
                tracing::warn!(why, "cannot process a request; retrying");
                // A new connection reads all open requests again.
                break;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn note(&self, event: EventBody) -> Result<(), Failure> {
        match event {
            EventBody::ServerConnected(_) => self.catch_up().await,
            EventBody::PermissionAsked(request) => self.asked(Request::Permission(request)).await,
            EventBody::QuestionAsked(request) => self.asked(Request::Question(request)).await,
            EventBody::PermissionReplied(it) => self.settled(it.request_id.as_str()).await,
            EventBody::QuestionReplied(it) => self.settled(it.request_id.as_str()).await,
            EventBody::QuestionRejected(it) => self.settled(it.request_id.as_str()).await,
            _ => Ok(()),
        }
    }

    /// Compares the open requests with those shown, after a new connection.
    async fn catch_up(&self) -> Result<(), Failure> {
        let context = &self.0.context;
        // The shown requests are read first, so that a request asked in between is not taken for closed.
        let shown = context.ledger.all_open_asks().await?;
        let permissions = context.client.permissions().await?.into_iter().map(Request::Permission);
        let questions = context.client.questions().await?.into_iter().map(Request::Question);
        let requests: Vec<Request> = permissions.chain(questions).collect();
        for (id, place) in shown {
            if !requests.iter().any(|request| request.id() == id) {
                self.hand(place, Note::Settled(id));
            }
        }
        for request in requests {
            self.asked(request).await?;
        }
        Ok(())
    }

    async fn asked(&self, request: Request) -> Result<(), Failure> {
        if let Some(place) = self.place_of(&request).await? {
            self.hand(place, Note::Asked(Box::new(request)));
        }
        Ok(())
    }

    async fn settled(&self, id: &str) -> Result<(), Failure> {
        let shown = self.0.context.ledger.all_open_asks().await?;
        if let Some((id, place)) = shown.into_iter().find(|(known, _)| known == id) {
            self.hand(place, Note::Settled(id));
        }
        Ok(())
    }

    /// The place of the asking session, or of one of its ancestors.
    async fn place_of(&self, request: &Request) -> Result<Option<Place>, Failure> {
        let context = &self.0.context;
        let mut next: Option<SessionId> = Some(request.session().clone());
        for _ in 0..DEPTH {
            let Some(session) = next else { return Ok(None) };
            let place = context.ledger.place_of(&session).await?;
            if place.is_some() {
                return Ok(place);
            }
            next = match request.root().filter(|root| **root != session) {
                Some(root) => Some(root.clone()),
                None if request.root().is_some() => None,
                None => match context.client.session(&session).await {
                    Err(error) if error.status() == Some(404) => None,
                    found => found?.parent_id,
                },
            };
        }
        Ok(None)
    }

    /// Leaves a note for the worker of a place and wakes it.
    fn hand(&self, place: Place, note: Note) {
        if self.0.context.adapters.contains_key(&place.channel) {
            self.0.notes.lock().entry(place.clone()).or_default().push(note);
            self.attend(place);
        }
    }
}
