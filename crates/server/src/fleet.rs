//! One node of several behind one URL: passes a call on to the node that owns its workspace.
//!
//! Every route has a [`Class`](crate::openapi::Class). A node answers calls to the record from the database. For a call
//! to a session or a directory it finds the workspace ([`target`]) and asks the engine for the owner; if that is another
//! node, it passes the call on as it is, body, event stream and WebSocket included ([`wire`]). The entry node has
//! authenticated the client and removes the client's credentials; the owner trusts a token that both nodes have agreed on
//! by a key that all nodes share ([`issuer`], [`token`]).
//!
//! A call takes one hop. A node that is asked by another one and does not own the workspace answers 421, and the entry
//! node looks for the owner once more. A server that has its record for itself installs none of this.

mod arrival;
mod call;
mod errors;
mod forward;
mod issuer;
mod key;
mod target;
mod token;
mod wire;

use std::{fmt, sync::Arc};

use axum::Router;
use serde::{Deserialize, Serialize};

pub(crate) use arrival::{Arrival, Offered, is_handshake};
pub(crate) use forward::{RouteLayer, pass};
pub use key::{Key, WeakKey};

use crate::{App, terminals::Tickets};
use issuer::TokenIssuer;
use token::Tokens;
use wire::Wire;

/// This server as a node of a fleet.
#[derive(Debug)]
pub struct Options {
    /// The name of this node.
    pub node: String,
    /// The number of this process among the processes of the node.
    pub incarnation: u64,
    /// The key that all nodes share. Without one, this node passes no call on and accepts none from other nodes.
    pub key: Option<Key>,
}

/// One process of a node, as the other nodes name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Process {
    node: String,
    incarnation: u64,
}

/// The part of a node that talks to the other nodes. Cheap to clone.
#[derive(Clone)]
pub struct Forwarding(Arc<Inner>);

struct Inner {
    process: Process,
    issuer: Option<TokenIssuer>,
    tokens: Tokens,
    wire: Wire,
    /// The tickets of this node's terminals, and those that other nodes have issued through it.
    tickets: Tickets,
}

impl fmt::Debug for Forwarding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Forwarding").field("process", &self.0.process).finish_non_exhaustive()
    }
}

impl Forwarding {
    pub(crate) fn new(options: Options, tickets: Tickets) -> Self {
        let Options { node, incarnation, key } = options;
        let process = Process { node, incarnation };
        let issuer = key.clone().map(|key| TokenIssuer::new(process.clone(), key));
        let tokens = Tokens::new(process.clone(), key);
        Self(Arc::new(Inner { process, issuer, tokens, wire: Wire::default(), tickets }))
    }

    /// The routes by which two nodes agree on a token.
    pub(crate) fn routes(&self) -> Router<App> {
        self.0.issuer.as_ref().map_or_else(Router::new, TokenIssuer::routes)
    }
}
