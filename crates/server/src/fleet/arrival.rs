//! A call of another node, as the called node sees it.

use std::{convert::Infallible, str::FromStr};

use axum::extract::FromRequestParts;
use http::{HeaderMap, HeaderName, Method, request::Parts};
use protocol::{PtyId, WorkspaceId};

use super::{
    Forwarding,
    issuer::{GREET, PROVE},
};

/// The token by which a node knows another one.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-baton-fleet");
/// The workspace that the entry node has found for the call.
pub(super) const WORKSPACE: HeaderName = HeaderName::from_static("x-baton-workspace");
/// The id that the entry node has given a prompt or a session without one.
pub(super) const OFFERED: HeaderName = HeaderName::from_static("x-baton-offered");

/// A call that another node has passed on. Only the access policy creates it, from a valid token.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(super) workspace: Option<WorkspaceId>,
    offered: Option<String>,
}

impl Arrived {
    /// A call that this node works on itself after another node has died with it.
    pub(super) fn offering(id: &str) -> Self {
        Self { workspace: None, offered: Some(id.to_owned()) }
    }
}

/// The sender of a call, by its headers.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A client.
    Client,
    Node(Arrived),
    /// A caller with a token that this node does not know.
    Unknown(crate::Error),
}

impl Forwarding {
    /// Tells clients, nodes and strangers apart. The headers that nodes send mean nothing without a valid token.
    pub(crate) fn arrival(&self, headers: &HeaderMap) -> Arrival {
        let Some(token) = headers.get(TOKEN) else { return Arrival::Client };
        let issuer = self.0.issuer.as_ref();
        let node = token.to_str().ok().and_then(|token| issuer?.holder(token));
        if node.is_none() {
            return Arrival::Unknown(super::errors::unknown_token());
        }
        let text = |name: HeaderName| headers.get(name)?.to_str().ok();
        let workspace = text(WORKSPACE).and_then(|id| id.parse().ok());
        Arrival::Node(Arrived { workspace, offered: text(OFFERED).map(str::to_owned) })
    }

    /// Remembers a ticket that another node has issued for one of its terminals, so that this node lets its holder pass.
    pub(super) fn admit(&self, ticket: String, terminal: PtyId) {
        self.0.tickets.admit(ticket, terminal);
    }
}

/// Returns true for the calls by which a node proves that it knows the key. They need no password.
pub(crate) fn is_handshake(call: &Parts) -> bool {
    call.method == Method::POST && [GREET, PROVE].contains(&call.uri.path())
}

/// The id that the entry node has given a prompt or a session. It offers the same one again after the death of an owner,
/// so an id that exists already is not stored twice.
#[derive(Debug)]
pub(crate) struct Offered<I>(pub(crate) Option<I>);

impl<I: FromStr, S: Sync> FromRequestParts<S> for Offered<I> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let arrived = parts.extensions.get::<Arrived>();
        Ok(Self(arrived.and_then(|arrived| arrived.offered.as_ref()?.parse().ok())))
    }
}
