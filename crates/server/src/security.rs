//! Access control in front of every route, including unknown ones.
//!
//! A call passes three checks. Its `Host` must be a name of this server; otherwise a web page could point its
//! own name at the loopback address (DNS rebinding) and read everything. If a browser reports a page (`Origin`,
//! `Sec-Fetch-Site`), its origin must be allowed; otherwise any page in the user's browser could start a shell.
//! And the caller must be the user this server runs as, or know the password.
//!
//! A browser sends the password once, to `POST /web/login`, and a cookie from then on. The files of the web page need
//! neither, because they contain no secret.

mod browsers;
mod caller;
#[cfg(target_os = "linux")]
mod diagnosis;
mod guesses;
mod origin;
mod password;
mod peer;
mod sockets;

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use protocol::{
    Rest,
    wire_error::{NamedError, TaggedError, WireError},
};
use serde_json::json;

use crate::{
    error::Fault,
    fleet::{Arrival, Forwarding, is_handshake},
    terminals::Tickets,
    web,
};
pub use browsers::{Browser, BrowserStorage, Browsers};
pub use caller::Caller;
use guesses::Guesses;
pub use password::Credentials;
pub(crate) use peer::Peer;
pub(crate) use peer::Source;

/// The routes that also answer callers without the password.
const HEALTH: &str = "/global/health";
const READY: &str = "/baton/ready";
/// Seconds for which a browser may cache a preflight response.
const PREFLIGHT_AGE: &str = "86400";
/// Methods that an allowed page may use.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
/// Additional response headers that a page may read.
const EXPOSED_HEADERS: &str = "x-next-cursor, link";

/// Error for callers of another user when no password is set.
pub(crate) const OTHER_USER: &str =
    "this server was started without a password and serves only the user it runs as";

/// Access rules of a server.
#[derive(Debug, Clone)]
pub struct AccessPolicy {
    credentials: Option<Credentials>,
    guesses: Arc<Guesses>,
    tickets: Tickets,
    browsers: Browsers,
    hosts: Vec<String>,
    origins: Vec<String>,
    /// Knows the other nodes of a fleet.
    fleet: Option<Forwarding>,
}

/// An invalid policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Without a password, every user of the network could run commands here.
    #[error("listening on {0} needs a password, because other machines can reach that address")]
    Exposed(IpAddr),
    /// The configured origin is not one.
    #[error("\"{0}\" is not an origin; write it like https://app.example or http://localhost:3000")]
    Origin(String),
    /// Not a host name.
    #[error("\"{0}\" is not a host name")]
    Host(String),
}

impl AccessPolicy {
    /// The policy of a server on the loopback interface: its own user, local names, its own pages.
    pub fn local() -> Self {
        Self {
            credentials: None,
            guesses: Arc::default(),
            tickets: Tickets::default(),
            browsers: Browsers::default(),
            hosts: Vec::new(),
            origins: Vec::new(),
            fleet: None,
        }
    }

    /// True if only the user this server runs as may connect, because no password is set.
    pub fn is_own_user_only(&self) -> bool {
        self.credentials.is_none()
    }

    /// Requires these credentials from every caller, including the server's own user.
    #[must_use]
    pub fn with_credentials(self, credentials: Option<Credentials>) -> Self {
        Self { credentials, ..self }
    }

    /// Accepts tickets in place of the password, each for the terminal it was issued for. A browser cannot send
    /// a password with a WebSocket.
    #[must_use]
    pub fn with_tickets(self, tickets: Tickets) -> Self {
        Self { tickets, ..self }
    }

    /// Accepts the cookies of these browsers in place of the password.
    #[must_use]
    pub fn with_browsers(self, browsers: Browsers) -> Self {
        Self { browsers, ..self }
    }

    /// Accepts calls that other nodes of a fleet pass on. They have checked the client, so nothing else is checked.
    #[must_use]
    pub fn with_fleet(self, fleet: Option<Forwarding>) -> Self {
        Self { fleet, ..self }
    }

    /// Accepts an additional host name.
    pub fn allow_host(mut self, host: &str) -> Result<Self, Error> {
        let name = origin::host_name(host).ok_or_else(|| Error::Host(host.to_owned()))?;
        self.hosts.push(name);
        Ok(self)
    }

    /// Allows pages of an additional origin to call. There is no wildcard.
    pub fn allow_origin(mut self, origin: &str) -> Result<Self, Error> {
        let origin = origin::configured(origin).ok_or_else(|| Error::Origin(origin.to_owned()))?;
        self.origins.push(origin);
        Ok(self)
    }

    /// Refuses to listen on an address that other machines can reach without a password.
    pub fn check_bind(&self, address: IpAddr) -> Result<(), Error> {
        match &self.credentials {
            None if !address.to_canonical().is_loopback() => Err(Error::Exposed(address)),
            _ => Ok(()),
        }
    }
}

/// Adds the policy in front of every route, including unknown ones.
pub fn layer(router: Router, policy: AccessPolicy) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::new(policy), guard))
}

async fn guard(State(policy): State<Arc<AccessPolicy>>, request: Request, next: Next) -> Response {
    let request = match &policy.fleet {
        None => request,
        Some(fleet) => match sort(fleet, &policy, request) {
            Sender::Client(request) => request,
            Sender::Node(request) => return next.run(request).await,
            Sender::Stranger(error) => return error.into_response(),
        },
    };
    let (call, body) = request.into_parts();
    let mut response = match admit(&policy, &call).await {
        Ok(Admitted::Page) => next.run(Request::from_parts(call, body)).await,
        Ok(admitted @ (Admitted::Call | Admitted::Anonymous)) => {
            let page = origin::of(&call.headers).cloned();
            let mut request = Request::from_parts(call, body);
            let is_signed_in = matches!(admitted, Admitted::Call);
            request.extensions_mut().insert(caller::Access { policy: policy.clone(), is_signed_in });
            let mut response = next.run(request).await;
            if let Some(page) = page {
                share(response.headers_mut(), page);
            }
            response
        }
        Ok(Admitted::Preflight(page)) => preflight(&call.headers, page),
        Err(refusal) => refusal.answer(&call.headers, call.extensions.get::<Peer>()),
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The sender of a call to a node of a fleet.
enum Sender {
    /// The policy decides about it.
    Client(Request),
    Node(Request),
    /// It claims to be a node and is none.
    Stranger(crate::Error),
}

/// Tells nodes from clients. Neither `Host` nor `Origin` matters: no web page knows a token.
fn sort(fleet: &Forwarding, policy: &Arc<AccessPolicy>, request: Request) -> Sender {
    let (mut call, body) = request.into_parts();
    match fleet.arrival(&call.headers) {
        Arrival::Client if is_handshake(&call) => Sender::Node(Request::from_parts(call, body)),
        Arrival::Client => Sender::Client(Request::from_parts(call, body)),
        Arrival::Node(arrived) => {
            call.extensions.insert(arrived);
            call.extensions.insert(caller::Access { policy: Arc::clone(policy), is_signed_in: true });
            Sender::Node(Request::from_parts(call, body))
        }
        Arrival::Unknown(error) => Sender::Stranger(error),
    }
}

enum Admitted {
    Call,
    /// A file of the web page, which any browser may load.
    Page,
    /// A call without the password to a route that says how to sign in, or that the server is up.
    Anonymous,
    /// A browser asks whether the page may call at all.
    Preflight(HeaderValue),
}

/// Longest host name in DNS, in characters.
const MAX_HOST: usize = 253;

enum Refusal {
    Host,
    Origin,
    /// Unknown caller. The origin, if there is one, is allowed, so its page may learn that a password is
    /// required.
    Stranger(&'static str),
    /// Too many wrong passwords, and the time to wait.
    Guessing(Duration),
}

async fn admit(policy: &AccessPolicy, call: &Parts) -> Result<Admitted, Refusal> {
    let peer = call.extensions.get::<Peer>();
    if !origin::host_is_ours(call, &policy.hosts, peer.map(Peer::local)) {
        return Err(Refusal::Host);
    }
    // A link from another site may open the page; frames and scripts of other sites are refused by its headers.
    if web::is_page(call) && (policy.credentials.is_some() || is_own_user(peer).await) {
        return Ok(Admitted::Page);
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
        return match check_password(policy, credentials, call, peer).await {
            Err(Refusal::Stranger(_)) if caller::needs_no_password(call) => Ok(Admitted::Anonymous),
            result => result.map(|()| Admitted::Call),
        };
    }
    if is_own_user(peer).await { Ok(Admitted::Call) } else { Err(Refusal::Stranger(OTHER_USER)) }
}

async fn is_own_user(peer: Option<&Peer>) -> bool {
    match peer {
        Some(peer) => peer.is_own_user().await,
        None => false,
    }
}

/// Admits a call with the password, or with a ticket or a browser's cookie in its place.
async fn check_password(
    policy: &AccessPolicy,
    credentials: &Credentials,
    call: &Parts,
    peer: Option<&Peer>,
) -> Result<(), Refusal> {
    const WANTED: &str = "this server requires a user name and a password";
    if policy.tickets.open(&call.uri) {
        return Ok(());
    }
    if caller::cookie(&call.headers).is_some_and(|token| policy.browsers.knows(credentials.key(), token)) {
        return Ok(());
    }
    let given = password::given(call).ok_or(Refusal::Stranger(WANTED))?;
    verify(policy, peer, || credentials.match_token(&given), WANTED).await
}

/// Checks a password unless its source has to wait after wrong ones.
///
/// The server's own user never has to wait: such a process could do more than guess. Nor does a connection whose last
/// password was right, so that one client behind a proxy cannot lock out another.
async fn verify(
    policy: &AccessPolicy,
    peer: Option<&Peer>,
    is_right: impl FnOnce() -> bool,
    wanted: &'static str,
) -> Result<(), Refusal> {
    let (source, is_own) = match peer {
        Some(peer) => (peer.source().await, peer.is_own_user().await),
        None => (Source::Unknown, false),
    };
    let is_exempt = is_own || peer.is_some_and(Peer::has_proved);
    if let Some(wait) = policy.guesses.wait(source).filter(|_| !is_exempt) {
        return Err(Refusal::Guessing(wait));
    }
    let is_right = is_right();
    if let Some(peer) = peer {
        peer.prove(is_right);
    }
    if is_right {
        return Ok(());
    }
    if !is_own {
        policy.guesses.wrong(source);
    }
    Err(Refusal::Stranger(wanted))
}

impl Refusal {
    fn answer(self, asked: &HeaderMap, peer: Option<&Peer>) -> Response {
        let tagged = |status, error| (status, WireError::Tagged(error));
        let wait = if let Self::Guessing(wait) = &self { Some(*wait) } else { None };
        let (status, error) = match self {
            Self::Host => tagged(StatusCode::FORBIDDEN, forbidden(&unknown_host(asked))),
            Self::Origin => tagged(
                StatusCode::FORBIDDEN,
                forbidden(
                    "this origin is not allowed; start the server with --cors ORIGIN to allow it, for example \
                     --cors http://localhost:5173",
                ),
            ),
            Self::Stranger(message) => tagged(
                StatusCode::UNAUTHORIZED,
                TaggedError::Unauthorized { message: message.to_owned(), extra: Rest::NONE },
            ),
            Self::Guessing(wait) => (StatusCode::TOO_MANY_REQUESTS, too_many_guesses(wait)),
        };
        let remote = peer.map(Peer::remote);
        tracing::info!(%status, ?remote, ?error, "refused a call");
        let mut response = (status, Json(error)).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED && !origin::is_call_of_a_page(asked) {
            let basic = HeaderValue::from_static("Basic realm=\"Secure Area\"");
            headers.insert(header::WWW_AUTHENTICATE, basic);
        }
        if let Some(wait) = wait {
            headers.insert(header::RETRY_AFTER, whole_seconds(wait).into());
        }
        if status != StatusCode::FORBIDDEN
            && let Some(page) = origin::of(asked)
        {
            share(headers, page.clone());
        }
        response
    }
}

fn too_many_guesses(wait: Duration) -> WireError {
    let seconds = whole_seconds(wait);
    let message = format!("too many wrong passwords from your address; try again in {seconds} seconds");
    let (name, data) = (Fault::Overloaded.name().into(), json!({ "message": message }));
    WireError::Named(NamedError::Other { name, data })
}

/// Rounds a wait up to seconds, so that a client does not retry too early.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Names the host that the call asked for, so that its user knows what to allow.
fn unknown_host(asked: &HeaderMap) -> String {
    let given = asked.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = given.map(|host| host.rsplit_once(':').map_or(host, |(name, _)| name)).unwrap_or_default();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    if host.is_empty() || host.len() > MAX_HOST || !host.chars().all(is_name) {
        return "unknown Host; start the server with --allow-host NAME to accept a name".to_owned();
    }
    format!("unknown Host \"{host}\"; start the server with --allow-host {host} to accept it")
}

fn forbidden(message: &str) -> TaggedError {
    TaggedError::Forbidden { message: message.to_owned(), extra: Rest::NONE }
}

/// Lets the page read the response.
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
