//! The layer in front of a route: runs the handler here, or passes the call on to the owner of its workspace.

mod offer;

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use engine::ports::{Owner, Peer};
use http::StatusCode;
use protocol::{PtyId, WorkspaceId};
use serde_json::Value;

use super::{
    Forwarding,
    arrival::{Arrived, TOKEN},
    call::Call,
    errors,
    target::{self, NewSession, Target},
    wire::{EntryHeaders, Failure},
};
use crate::{
    App, Error,
    extract::directory::{self, Elsewhere},
    openapi::{Class, Route},
};
use offer::Offer;

/// Sends of one call: the second goes to the owner that a fresh look finds.
const SENDS: usize = 2;
/// Largest answer that contains a terminal's ticket, in bytes.
const MAX_TICKET: usize = 16 * 1024;

/// The layer of one route.
pub(crate) struct RouteLayer {
    class: Class,
    id: &'static str,
    is_stream: bool,
    names_session: bool,
    fleet: Forwarding,
    app: App,
}

/// The next step of a call.
enum Step {
    /// The handler of this node answers.
    Here(Request),
    /// Another node has answered.
    Answer(Response),
}

pub(crate) async fn pass(State(layer): State<Arc<RouteLayer>>, request: Request, next: Next) -> Response {
    match layer.decide(request).await {
        Ok(Step::Here(request)) => next.run(request).await,
        Ok(Step::Answer(response)) => response,
        Err(error) => error.into_response(),
    }
}

impl RouteLayer {
    /// The layer of a route; `None` if every node answers the route for itself.
    pub(crate) fn of(route: &Route, fleet: &Forwarding, app: &App) -> Option<Arc<Self>> {
        let (class, id, is_stream) = (route.class(), route.id(), route.is_stream());
        let names_session = route.path().contains("{sessionID}");
        let layer = Self { class, id, is_stream, names_session, fleet: fleet.clone(), app: app.clone() };
        (class != Class::Node).then(|| Arc::new(layer))
    }

    async fn decide(&self, request: Request) -> Result<Step, Error> {
        if let Some(arrived) = request.extensions().get::<Arrived>().cloned() {
            self.check(&arrived).await?;
            return Ok(Step::Here(request));
        }
        // The access policy has not let it in as a node's: passing it on would not be one hop.
        if request.headers().contains_key(TOKEN) {
            return Err(errors::unknown_token());
        }
        if self.class == Class::Record && self.names_session && !self.is_stream {
            return Ok(Step::Here(request));
        }
        let (parts, body) = request.into_parts();
        let mut call = Call::new(parts, body, Offer::is_possible(self.id)).await?;
        // The handler refuses a body that is none.
        let creates_session = Offer::creates_session(self.id);
        let new_session: Option<NewSession> =
            creates_session.then(|| serde_json::from_slice(call.bytes()).unwrap_or_default());
        let found = target::find(&self.app.sessions, &mut call.parts, new_session.as_ref()).await?;
        let Some(target) = found else { return Ok(Step::Here(call.into_request())) };
        self.name(&mut call, &target);
        if self.class == Class::Record && !self.is_stream {
            return Ok(Step::Here(call.into_request()));
        }
        self.pass_on(call, &target.workspace).await
    }

    /// Answers another node that has passed a call on: only the owner may work on it.
    async fn check(&self, arrived: &Arrived) -> Result<(), Error> {
        let Some(workspace) = &arrived.workspace else { return Ok(()) };
        let owner = match self.app.sessions.owner_of(workspace).await? {
            Owner::Here => return Ok(()),
            Owner::Peer(peer) => Some(peer.node),
            Owner::Away { .. } => None,
        };
        Err(errors::not_owner(&self.fleet.0.process, workspace, owner.as_deref()))
    }

    /// Tells the handler, here or on the owner, which directory is meant.
    fn name(&self, call: &mut Call, target: &Target) {
        let Some(directory) = &target.directory else { return };
        let names_none = directory::given(&call.parts).is_ok_and(|(given, _)| given.is_none());
        if names_none {
            directory::name(&mut call.parts.headers, directory);
        }
        if self.class == Class::Record {
            let (path, workspace) = (directory.clone(), target.workspace.clone());
            call.parts.extensions.insert(Elsewhere { path, workspace });
        }
    }

    /// Finds the owner, and passes the call on if that is another node.
    async fn pass_on(&self, mut call: Call, workspace: &WorkspaceId) -> Result<Step, Error> {
        let offer = Offer::of(self.id, &self.app.sessions, &call);
        let mut sends = 0;
        loop {
            let peer = match self.app.sessions.owner_of(workspace).await? {
                Owner::Peer(peer) => peer,
                Owner::Away { node } if !self.is_stream => return Err(errors::away(&node, workspace)),
                // Durable events of a node that is away come from the database.
                Owner::Here | Owner::Away { .. } => return Ok(Step::Here(call.into_request())),
            };
            sends += 1;
            let failure = match self.send(&mut call, &peer, workspace, offer.as_ref()).await {
                Ok(response) => return Ok(Step::Answer(response)),
                Err(failure) => failure,
            };
            if let (Failure::Lost, Some(offer)) = (&failure, &offer) {
                return self.offer_again(call, workspace, offer, peer).await;
            }
            self.app.sessions.forget_owner(workspace);
            let has_happened = match failure {
                Failure::Unreachable | Failure::NotOwner | Failure::Unknown => false,
                Failure::Lost => !call.parts.method.is_safe(),
                Failure::WrongKey | Failure::NoKey | Failure::Odd(_) => true,
            };
            if sends < SENDS && !has_happened && call.can_be_sent() {
                continue;
            }
            if self.is_stream && call.can_be_sent() {
                return Ok(Step::Here(call.into_request()));
            }
            return Err(errors::failed(failure, &peer, workspace));
        }
    }

    async fn send(
        &self,
        call: &mut Call,
        peer: &Peer,
        workspace: &WorkspaceId,
        offer: Option<&Offer>,
    ) -> Result<Response, Failure> {
        let fleet = &self.fleet.0;
        let token = fleet.tokens.get(&fleet.wire, peer).await?;
        let body = call.body().unwrap_or_default();
        let added = EntryHeaders { token: &token, workspace, offered: offer.map(Offer::id) };
        let socket = call.socket();
        let sent = fleet.wire.pass(peer, &call.parts, body, added, socket).await;
        if matches!(sent, Err(Failure::Unknown)) {
            fleet.tokens.drop(peer, &token).await;
        }
        let response = sent?;
        if self.id.ends_with("pty.connectToken") && response.status() == StatusCode::OK {
            return self.admit_ticket(call.parts.uri.path(), response).await;
        }
        Ok(response)
    }

    /// Lets the holder of a terminal's ticket pass here: a browser opens the WebSocket with the ticket alone.
    async fn admit_ticket(&self, path: &str, response: Response) -> Result<Response, Failure> {
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, MAX_TICKET).await.map_err(|_| Failure::Lost)?;
        // An answer as short as this is never compressed.
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let ticket =
            answer.get("ticket").or_else(|| answer.get("data")?.get("ticket")).and_then(Value::as_str);
        let terminal = path.rsplit('/').nth(1).and_then(|id| id.parse::<PtyId>().ok());
        if let (Some(ticket), Some(terminal)) = (ticket, terminal) {
            self.fleet.admit(ticket.to_owned(), terminal);
        }
        Ok(Response::from_parts(parts, Body::from(bytes)))
    }
}
