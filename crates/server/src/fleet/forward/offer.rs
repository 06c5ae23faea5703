//! Prompts and new sessions have an id before they are passed on. If the owner dies before it answers, they are offered to
//! the next one under the same id: submitting twice has the effect of once, so the client gets one answer.

use std::time::Duration;

use axum::response::IntoResponse;
use engine::{
    Sessions,
    ports::{Owner, Peer},
};
use http::StatusCode;
use protocol::{MessageId, SessionId, WorkspaceId};
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::{RouteLayer, Step};
use crate::{
    Error,
    fleet::{arrival::Arrived, call::Call, errors, wire::Failure},
};

/// Time to find the next owner: that of a takeover after the death of a node, and as much again.
const OFFERING: Duration = Duration::from_secs(20);
/// Pause between two offers.
const PAUSE: Duration = Duration::from_millis(250);

/// Something new whose id is known before it is stored.
#[derive(Debug)]
pub(super) enum Offer {
    Prompt { session: SessionId, id: String },
    Session { id: String },
}

/// Ids that a client has chosen.
#[derive(Debug, Default, Deserialize)]
struct Chosen {
    #[serde(rename = "messageID")]
    message: Option<String>,
    id: Option<String>,
}

impl Offer {
    /// True for the routes that store something new under an id of its own.
    pub(super) fn is_possible(route: &str) -> bool {
        matches!(route, "session.prompt" | "session.prompt_async" | "v2.session.prompt")
            || Self::creates_session(route)
    }

    pub(super) fn creates_session(route: &str) -> bool {
        matches!(route, "session.create" | "v2.session.create")
    }

    /// Gives a prompt or a session an id, unless the client has chosen one.
    pub(super) fn of(route: &str, sessions: &Sessions, call: &Call) -> Option<Self> {
        if !Self::is_possible(route) {
            return None;
        }
        let chosen: Chosen = serde_json::from_slice(call.bytes()).unwrap_or_default();
        if Self::creates_session(route) {
            let chosen = chosen.id.filter(|_| route.starts_with("v2."));
            return Some(Self::Session {
                id: chosen.unwrap_or_else(|| sessions.fresh::<SessionId>().to_string()),
            });
        }
        let session =
            call.parts.uri.path().split('/').skip_while(|part| *part != "session").nth(1)?.parse().ok()?;
        let chosen = if route.starts_with("v2.") { chosen.id } else { chosen.message };
        let id = chosen.unwrap_or_else(|| sessions.fresh::<MessageId>().to_string());
        Some(Self::Prompt { session, id })
    }

    pub(super) fn id(&self) -> &str {
        match self {
            Self::Prompt { id, .. } | Self::Session { id } => id,
        }
    }

    async fn is_stored(&self, sessions: &Sessions) -> Result<bool, Error> {
        let found = match self {
            Self::Prompt { session, id } => match id.parse::<MessageId>() {
                Ok(id) => sessions.message(session, &id).await.map(|_| ()),
                Err(_) => return Ok(false),
            },
            Self::Session { id } => match id.parse::<SessionId>() {
                Ok(id) => sessions.get(&id).await.map(|_| ()),
                Err(_) => return Ok(false),
            },
        };
        match found {
            Ok(()) => Ok(true),
            Err(engine::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl RouteLayer {
    /// Offers something again whose owner has died before it answered, until a node answers or the owner is known to be
    /// away. The record tells then if it was stored.
    pub(super) async fn offer_again(
        &self,
        mut call: Call,
        workspace: &WorkspaceId,
        offer: &Offer,
        mut last: Peer,
    ) -> Result<Step, Error> {
        let until = Instant::now() + OFFERING;
        self.app.sessions.forget_owner(workspace);
        while Instant::now() < until {
            match self.app.sessions.owner_of(workspace).await? {
                Owner::Here => {
                    call.parts.extensions.insert(Arrived::offering(offer.id()));
                    return Ok(Step::Here(call.into_request()));
                }
                Owner::Away { .. } => break,
                Owner::Peer(peer) => last = peer,
            }
            match self.send(&mut call, &last, workspace, Some(offer)).await {
                Ok(response) => return Ok(Step::Answer(response)),
                Err(Failure::Unreachable | Failure::Lost | Failure::NotOwner | Failure::Unknown) => {}
                Err(failure) => return Err(errors::failed(failure, &last, workspace)),
            }
            self.app.sessions.forget_owner(workspace);
            sleep(PAUSE).await;
        }
        let is_stored = offer.is_stored(&self.app.sessions).await?;
        if is_stored && self.id == "session.prompt_async" {
            // The answer to this route says only that the prompt is stored.
            return Ok(Step::Answer(StatusCode::NO_CONTENT.into_response()));
        }
        Err(errors::not_answered(&last.node, offer.id(), is_stored))
    }
}
