//! A call that may be passed on: small bodies are held so that they can be sent twice, others stream.

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use http::{HeaderMap, header, request::Parts};
use hyper::upgrade::OnUpgrade;

use crate::{Error, extract::body::receive};

/// Bodies up to this size are held, so that a call can be sent again if it has not happened.
const SMALL: u64 = 64 * 1024;

#[derive(Debug)]
pub(super) struct Call {
    pub(super) parts: Parts,
    body: Held,
}

#[derive(Debug)]
enum Held {
    Whole(Bytes),
    Stream(Body),
    /// It has been sent.
    Gone,
}

impl Call {
    /// Takes a call apart. Holds its body if it is small, or if `is_whole` requires it.
    pub(super) async fn new(parts: Parts, body: Body, is_whole: bool) -> Result<Self, Error> {
        if !is_whole && !is_small(&parts.headers) {
            return Ok(Self { parts, body: Held::Stream(body) });
        }
        let mut request = Request::new(body);
        request.headers_mut().clone_from(&parts.headers);
        let (_, bytes) = receive(request).await?;
        Ok(Self { parts, body: Held::Whole(bytes.into()) })
    }

    /// The body as it is sent; `None` if it was sent before and is gone.
    pub(super) fn body(&mut self) -> Option<Body> {
        match std::mem::replace(&mut self.body, Held::Gone) {
            Held::Whole(bytes) => {
                self.body = Held::Whole(bytes.clone());
                Some(bytes.into())
            }
            Held::Stream(body) => Some(body),
            Held::Gone => None,
        }
    }

    /// The body, if it is held.
    pub(super) fn bytes(&self) -> &[u8] {
        if let Held::Whole(bytes) = &self.body { bytes } else { &[] }
    }

    /// True if the body can be sent now.
    pub(super) fn can_be_sent(&self) -> bool {
        !matches!(self.body, Held::Gone)
    }

    /// The client's end of a connection that is to become a WebSocket.
    pub(super) fn socket(&self) -> Option<OnUpgrade> {
        let upgrade = self.parts.headers.get(header::UPGRADE)?;
        let is_socket = upgrade.as_bytes().eq_ignore_ascii_case(b"websocket");
        self.parts.extensions.get().filter(|_| is_socket).cloned()
    }

    /// The call as a handler of this node reads it.
    pub(super) fn into_request(mut self) -> Request {
        let body = self.body().unwrap_or_default();
        Request::from_parts(self.parts, body)
    }
}

fn is_small(headers: &HeaderMap) -> bool {
    match headers.get(header::CONTENT_LENGTH) {
        Some(length) => length
            .to_str()
            .ok()
            .and_then(|length| length.parse().ok())
            .is_some_and(|length: u64| length <= SMALL),
        None => !headers.contains_key(header::TRANSFER_ENCODING),
    }
}
