//! The connections to other nodes: passes one call on and its answer back, without buffering either.
//!
//! A client's credentials stay on the node that has checked them, and headers that belong to one connection are not passed
//! on. A WebSocket becomes two connections whose bytes are copied in both directions.

use std::{error::Error as _, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use engine::ports::Peer;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header,
    request::Parts,
};
use hyper::{body::Incoming, upgrade};
use hyper_util::{
    client::legacy::{Client, Error as ClientError, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use protocol::WorkspaceId;
use serde::Serialize;
use tokio::{io::copy_bidirectional, time::timeout};

use super::arrival::{OFFERED, TOKEN, WORKSPACE};

/// Time to connect to a node.
const CONNECT: Duration = Duration::from_secs(3);
/// Idle time after which a connection is closed, less than the called node's
/// [`HEADER_READ`](crate::serve::HEADER_READ).
const IDLE: Duration = Duration::from_secs(15);
/// Idle connections that are kept for each node.
const MAX_IDLE: usize = 32;
/// Silence of the other machine's kernel before the first probe, and between probes: a node whose machine has vanished is
/// noticed after three of them.
const PROBE: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;
/// Time for a message of a greeting.
const GREETING: Duration = Duration::from_secs(5);
/// Largest answer to a greeting in bytes.
const MAX_ANSWER: usize = 16 * 1024;

/// Headers that belong to one connection.
const HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers that concern the client and the entry node only: its credentials, the page that calls, and names that only a
/// node may give.
const PRIVATE: [HeaderName; 12] = [
    header::AUTHORIZATION,
    header::COOKIE,
    header::HOST,
    header::ORIGIN,
    header::REFERER,
    header::EXPECT,
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("sec-fetch-mode"),
    HeaderName::from_static("sec-fetch-dest"),
    TOKEN,
    WORKSPACE,
    OFFERED,
];

/// The parameter of a query in which a browser sends a password with an event stream.
const PASSWORD: &str = "auth_token";

/// The reason why a node gave no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// No connection: nothing has happened.
    Unreachable,
    /// The connection ended before the answer: the call may have had its effect.
    Lost,
    /// The called process does not own the workspace, or is not the one that was meant. Nothing has happened.
    NotOwner,
    /// The called node does not know this one. Nothing has happened.
    Unknown,
    WrongKey,
    NoKey,
    /// The answer is none that a node gives.
    Odd(String),
}

/// A pool of connections to other nodes.
pub(super) struct Wire(Client<HttpConnector, Body>);

impl Default for Wire {
    fn default() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_keepalive(Some(PROBE));
        connector.set_keepalive_interval(Some(PROBE));
        connector.set_keepalive_retries(Some(PROBES));
        #[cfg(target_os = "linux")]
        connector.set_tcp_user_timeout(Some(PROBE * PROBES));
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_idle_timeout(IDLE).pool_max_idle_per_host(MAX_IDLE);
        Self(client.pool_timer(TokioTimer::new()).build(connector))
    }
}

/// The headers that the entry node adds to a call.
pub(super) struct EntryHeaders<'a> {
    pub(super) token: &'a str,
    pub(super) workspace: &'a WorkspaceId,
    pub(super) offered: Option<&'a str>,
}

impl Wire {
    /// Passes a call on. `client` is the client's end of a connection that is to become a WebSocket.
    pub(super) async fn pass(
        &self,
        peer: &Peer,
        call: &Parts,
        body: Body,
        added: EntryHeaders<'_>,
        client: Option<upgrade::OnUpgrade>,
    ) -> Result<Response<Body>, Failure> {
        let mut request = Request::new(body);
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = address(peer, &call.uri)?;
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = headers(&call.headers, &added, client.is_some())?;
        let response = self.0.request(request).await.map_err(|error| failure(&error))?;
        match response.status() {
            StatusCode::MISDIRECTED_REQUEST => Err(Failure::NotOwner),
            StatusCode::UNAUTHORIZED => Err(Failure::Unknown),
            StatusCode::SWITCHING_PROTOCOLS => match client {
                Some(client) => Ok(join(response, client)),
                None => Err(Failure::Odd("an upgrade that was not asked for".into())),
            },
            _ => Ok(answer(response)),
        }
    }

    /// Sends one message of a greeting.
    pub(super) async fn post(
        &self,
        peer: &Peer,
        path: &'static str,
        message: &impl Serialize,
    ) -> Result<Bytes, Failure> {
        let body = serde_json::to_vec(message).map_err(|error| Failure::Odd(error.to_string()))?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(address(peer, &Uri::from_static(path))?)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|error| Failure::Odd(error.to_string()))?;
        let exchange = async {
            // A greeting has no effect, so it never matters whether the other side has seen it.
            let response = self.0.request(request).await.map_err(|_| Failure::Unreachable)?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::MISDIRECTED_REQUEST => return Err(Failure::NotOwner),
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
                    return Err(Failure::Unknown);
                }
                status => return Err(Failure::Odd(format!("status {status} to a greeting"))),
            }
            let body = axum::body::to_bytes(Body::new(response.into_body()), MAX_ANSWER);
            body.await.map_err(|_| Failure::Unreachable)
        };
        timeout(GREETING, exchange).await.unwrap_or(Err(Failure::Unreachable))
    }
}

/// A call that never left may be repeated. If a connection breaks in the middle, the outcome is unknown.
fn failure(error: &ClientError) -> Failure {
    let is_unsent = error.is_connect()
        || error
            .source()
            .and_then(|cause| cause.downcast_ref::<hyper::Error>())
            .is_some_and(hyper::Error::is_canceled);
    tracing::debug!(%error, is_unsent, "a call to another node failed");
    if is_unsent { Failure::Unreachable } else { Failure::Lost }
}

/// The address of a call on another node, without the password that its query may contain.
fn address(peer: &Peer, uri: &Uri) -> Result<Uri, Failure> {
    let base = peer.address.trim_end_matches('/');
    let is_kept = |pair: &&str| pair.split('=').next() != Some(PASSWORD);
    let query = uri.query().unwrap_or_default().split('&').filter(is_kept).collect::<Vec<_>>().join("&");
    let query = if query.is_empty() { query } else { format!("?{query}") };
    let address = format!("{base}{}{query}", uri.path()).parse::<Uri>();
    address.map_err(|error| Failure::Odd(format!("the address {base:?}: {error}")))
}

fn headers(given: &HeaderMap, added: &EntryHeaders<'_>, is_socket: bool) -> Result<HeaderMap, Failure> {
    let mut headers = without_hops(given);
    for name in &PRIVATE {
        headers.remove(name);
    }
    if is_socket {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    }
    let stamps =
        [(TOKEN, Some(added.token)), (WORKSPACE, Some(added.workspace.as_str())), (OFFERED, added.offered)];
    for (name, value) in stamps {
        if let Some(value) = value {
            let mut value = HeaderValue::from_str(value).map_err(|error| Failure::Odd(error.to_string()))?;
            value.set_sensitive(name == TOKEN);
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

/// Removes the headers of one connection, including those that `Connection` names.
fn without_hops(given: &HeaderMap) -> HeaderMap {
    let mut headers = given.clone();
    let named = given.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    for name in named.flat_map(|value| value.split(',')) {
        headers.remove(name.trim());
    }
    for name in &HOP {
        headers.remove(name);
    }
    headers
}

fn answer(response: Response<Incoming>) -> Response<Body> {
    let (parts, body) = response.into_parts();
    let mut answer = Response::new(Body::new(body));
    *answer.status_mut() = parts.status;
    *answer.headers_mut() = without_hops(&parts.headers);
    // This node writes its own.
    answer.headers_mut().remove(header::DATE);
    answer
}

/// Answers a client that its connection is a WebSocket now, and copies the bytes of both connections until one ends.
fn join(response: Response<Incoming>, client: upgrade::OnUpgrade) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = response.headers().clone();
    answer.headers_mut().remove(header::DATE);
    let owner = upgrade::on(response);
    tokio::spawn(async move {
        let Ok((client, owner)) = tokio::try_join!(client, owner) else { return };
        let ended = copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(owner)).await;
        tracing::debug!(?ended, "a WebSocket through this node ended");
    });
    answer
}
