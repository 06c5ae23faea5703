//! The HTTP listener for webhooks of chat services.
//!
//! One listener serves all channels: `POST /telegram` goes to the adapter `telegram`, and so on. It reads the raw
//! body, up to a limit, before parsing anything, because signatures cover the bytes.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::to_bytes,
    extract::Request,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header::CONTENT_TYPE};
use tokio::net::TcpListener;

use crate::{Adapter, Inbox};

/// Maximum length of a body. Services send far less; files are downloaded separately.
pub const MAX_BODY: usize = 1 << 20;

/// One webhook call.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    /// The query string without the question mark, undecoded.
    pub query: String,
    pub headers: HeaderMap,
    /// The body as bytes, which the signature covers.
    pub body: Bytes,
}

/// The answer to a webhook call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: StatusCode,
    /// Media type of the body.
    pub mime: &'static str,
    pub body: String,
}

impl Reply {
    /// Success without a body.
    pub fn done() -> Self {
        Self::text(StatusCode::OK, "")
    }

    /// No adapter serves this path.
    pub fn absent() -> Self {
        Self::text(StatusCode::NOT_FOUND, "no webhook is configured here\n")
    }

    /// The signature or secret is wrong. The text does not say which.
    pub fn refused() -> Self {
        Self::text(StatusCode::UNAUTHORIZED, "the signature or secret is wrong\n")
    }

    /// The body cannot be parsed.
    pub fn malformed() -> Self {
        Self::text(StatusCode::BAD_REQUEST, "the body is not what this webhook expects\n")
    }

    /// The update could not be stored; the service sends it again.
    pub fn failed() -> Self {
        Self::text(StatusCode::SERVICE_UNAVAILABLE, "the update could not be stored; send it again\n")
    }

    /// A plain-text answer.
    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, mime: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// Timeout for reading a body.
const READING: Duration = Duration::from_secs(15);

/// Serves the webhooks of all adapters, until dropped.
pub async fn serve(listener: TcpListener, adapters: Vec<Arc<dyn Adapter>>, inbox: Inbox) {
    let routes = Router::new().fallback(move |request: Request| {
        let (adapters, inbox) = (adapters.clone(), inbox.clone());
        async move { answer(request, &adapters, &inbox).await }
    });
    if let Err(error) = axum::serve(listener, routes).await {
        tracing::error!(%error, "the webhook listener failed; no more webhooks are received");
    }
}

async fn answer(request: Request, adapters: &[Arc<dyn Adapter>], inbox: &Inbox) -> Response {
    let channel = request.uri().path().trim_matches('/').to_owned();
    let reply = match adapters.iter().find(|adapter| adapter.channel() == channel) {
        None => Reply::absent(),
        Some(adapter) => match read(request).await {
            Ok(call) => adapter.webhook(call, inbox).await,
            Err(reply) => reply,
        },
    };
    if !reply.status.is_success() {
        tracing::warn!(channel, status = reply.status.as_u16(), "refused a webhook call");
    }
    (reply.status, [(CONTENT_TYPE, reply.mime)], reply.body).into_response()
}

async fn read(request: Request) -> Result<Call, Reply> {
    let (head, body) = request.into_parts();
    let body = tokio::time::timeout(READING, to_bytes(body, MAX_BODY)).await;
    let too_long = |_| Reply::text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long\n");
    let body = body.map_err(|_| Reply::text(StatusCode::REQUEST_TIMEOUT, "reading the body timed out\n"))?;
    let query = head.uri.query().unwrap_or_default().to_owned();
    Ok(Call { method: head.method, query, headers: head.headers, body: body.map_err(too_long)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;

    #[tokio::test]
    async fn only_known_channels_are_served_and_bodies_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&directory.path().join("channels.db"), Arc::new(|| 0)).unwrap();
        let (inbox, _news) = Inbox::new(Arc::new(ledger));
        let settings = serde_json::json!({
            "token": "1:a", "webhook": {"url": "https://bot.test/telegram", "secret": "abc"},
        });
        let telegram = crate::telegram::Telegram::new(&serde_json::from_value(settings).unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, vec![Arc::new(telegram)], inbox));
        let post = |path: &str, body: String| {
            testkit::calls::http().post(format!("http://{address}{path}")).body(body).send()
        };
        assert_eq!(post("/nobody", String::new()).await.unwrap().status(), StatusCode::NOT_FOUND);
        assert_eq!(post("/telegram", "{}".into()).await.unwrap().status(), StatusCode::UNAUTHORIZED);
        let long = post("/telegram", "x".repeat(MAX_BODY + 1)).await.unwrap();
        assert_eq!(long.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
