//! Who may talk to this server: a layer around every route, found or not.
//!
//! A call passes three doors. Its `Host` must be a name this server goes by, or a page of a name that was
//! pointed at the loopback address (DNS rebinding) could read everything. Its `Origin`, if it has one, must
//! be a page that is allowed here; otherwise any page in the person's browser could start a shell. And the
//! caller must be the user this server runs as, or know the password.

#[cfg(target_os = "linux")]
mod diagnosis;
mod origin;
mod password;
mod peer;
mod sockets;

use std::{net::IpAddr, sync::Arc};

use axum::{
    Json, Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use protocol::{
    Rest,
    wire_error::{TaggedError, WireError},
};

use crate::terminals::Tickets;
pub use password::Credentials;
pub use peer::Peer;

/// How long a browser may remember the answer to a preflight, in seconds.
const PREFLIGHT_AGE: &str = "86400";
/// What a page may do, if it may do anything.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
/// What a page may read of an answer beyond the ordinary.
const EXPOSED_HEADERS: &str = "x-next-cursor, link";

/// Who may talk to a server.
#[derive(Debug, Clone)]
pub struct Policy {
    credentials: Option<Credentials>,
    tickets: Tickets,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// A policy that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Everybody in the network could run commands here.
    #[error("listening on {0} needs a password, because others can reach that address")]
    Exposed(IpAddr),
    /// No origin.
    #[error("\"{0}\" is no origin; one looks like https://app.example or http://localhost:3000")]
    Origin(String),
    /// No host.
    #[error("\"{0}\" is no host name")]
    Host(String),
}

impl Policy {
    /// The policy of a server on the loopback interface: its own user, local names, local pages.
    pub fn local() -> Self {
        Self { credentials: None, tickets: Tickets::default(), hosts: Vec::new(), origins: Vec::new() }
    }

    /// Everybody needs these, the server's own user included.
    #[must_use]
    pub fn with_credentials(self, credentials: Option<Credentials>) -> Self {
        Self { credentials, ..self }
    }

    /// Instead of the password, one of these opens the terminal it was made for: a browser cannot send a password with
    /// a WebSocket.
    #[must_use]
    pub fn with_tickets(self, tickets: Tickets) -> Self {
        Self { tickets, ..self }
    }

    /// The server goes by this name, too.
    pub fn allow_host(mut self, host: &str) -> Result<Self, Error> {
        let name = origin::host_name(host).ok_or_else(|| Error::Host(host.to_owned()))?;
        self.hosts.push(name);
        Ok(self)
    }

    /// Pages of this origin may call, too. There is no wildcard.
    pub fn allow_origin(mut self, origin: &str) -> Result<Self, Error> {
        let origin = origin::configured(origin).ok_or_else(|| Error::Origin(origin.to_owned()))?;
        self.origins.push(origin);
        Ok(self)
    }

    /// Refuses to listen on an address that others can reach when nobody needs a password.
    pub fn check_bind(&self, address: IpAddr) -> Result<(), Error> {
        match &self.credentials {
            None if !address.to_canonical().is_loopback() => Err(Error::Exposed(address)),
            _ => Ok(()),
        }
    }
}

/// Puts the policy in front of every route, and of the answer to unknown ones.
pub fn layer(router: Router, policy: Policy) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::new(policy), guard))
}

async fn guard(State(policy): State<Arc<Policy>>, request: Request, next: Next) -> Response {
    let (call, body) = request.into_parts();
    let mut response = match admit(&policy, &call).await {
        Ok(Admitted::Call) => {
            let page = origin::of(&call.headers).cloned();
            let mut response = next.run(Request::from_parts(call, body)).await;
            if let Some(page) = page {
                share(response.headers_mut(), page);
            }
            response
        }
        Ok(Admitted::Preflight(page)) => preflight(&call.headers, page),
        Err(refusal) => refusal.answer(&call),
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

enum Admitted {
    Call,
    /// A browser asks first whether the page may call at all.
    Preflight(HeaderValue),
}

enum Refusal {
    Host,
    Origin,
    /// The origin, if there is one, is allowed: its page may learn that a password is wanted.
    Stranger(&'static str),
}

async fn admit(policy: &Policy, call: &Parts) -> Result<Admitted, Refusal> {
    let peer = call.extensions.get::<Peer>();
    if !origin::host_is_ours(call, &policy.hosts, peer.map(Peer::local)) {
        return Err(Refusal::Host);
    }
    if !origin::is_allowed(call, &policy.origins) {
        return Err(Refusal::Origin);
    }
    if call.method == Method::OPTIONS
        && call.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && let Some(page) = origin::of(&call.headers)
    {
        return Ok(Admitted::Preflight(page.clone()));
    }
    if let Some(credentials) = &policy.credentials {
        return if credentials.are_in(call) || policy.tickets.open(&call.uri) {
            Ok(Admitted::Call)
        } else {
            Err(Refusal::Stranger("this server wants a user name and a password"))
        };
    }
    match peer {
        Some(peer) if peer.is_own_user().await => Ok(Admitted::Call),
        _ => Err(Refusal::Stranger(
            "this server was started without a password and serves only the user it runs as",
        )),
    }
}

impl Refusal {
    fn answer(self, call: &Parts) -> Response {
        let (status, error) = match self {
            Self::Host => (
                StatusCode::FORBIDDEN,
                forbidden("this server does not go by that name; --allow-host adds names it goes by"),
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                forbidden("pages of this origin may not call here; --cors adds origins that may"),
            ),
            Self::Stranger(message) => (
                StatusCode::UNAUTHORIZED,
                TaggedError::Unauthorized { message: message.to_owned(), extra: Rest::NONE },
            ),
        };
        let remote = call.extensions.get::<Peer>().map(Peer::remote);
        tracing::info!(%status, ?remote, ?error, "refused a call");
        let mut response = (status, Json(WireError::Tagged(error))).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let basic = HeaderValue::from_static("Basic realm=\"Secure Area\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
            if let Some(page) = origin::of(&call.headers) {
                share(response.headers_mut(), page.clone());
            }
        }
        response
    }
}

fn forbidden(message: &str) -> TaggedError {
    TaggedError::Forbidden { message: message.to_owned(), extra: Rest::NONE }
}

/// Lets the page read the answer.
fn share(headers: &mut HeaderMap, page: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
}

fn preflight(asked: &HeaderMap, page: HeaderValue) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_AGE));
    if let Some(wanted) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        headers.append(header::VARY, HeaderValue::from_static("access-control-request-headers"));
    }
    response
}

#[cfg(test)]
mod tests;
