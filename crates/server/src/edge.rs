//! Middleware around every route: logging, answers for unknown paths and for panics, and compression.

use std::{any::Any, panic::AssertUnwindSafe};

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use http::{Extensions, HeaderMap, Method, StatusCode, Uri, Version, header};
use tokio::time::Instant;
use tower_http::{
    CompressionLevel,
    compression::{
        CompressionLayer,
        predicate::{Predicate, SizeAbove},
    },
};

use crate::{
    App, Error,
    error::{self, Fault},
    web,
};

/// Smallest response that is worth compressing, in bytes.
const MIN_COMPRESSED: u64 = 1024;

pub(crate) fn around(router: Router<App>) -> Router<App> {
    router
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(middleware::from_fn(survive))
        .layer(middleware::from_fn(error::tell))
        .layer(middleware::from_fn(web::tell_build))
        .layer(middleware::from_fn(log))
        .layer(compression())
}

/// Compresses large JSON responses; the list of all providers shrinks from megabytes to a tenth. Event streams
/// are excluded, because their events must leave at once and compression would buffer them.
fn compression() -> CompressionLayer<impl Predicate> {
    let large = SizeAbove::new(MIN_COMPRESSED).and(is_json);
    CompressionLayer::new().gzip(true).quality(CompressionLevel::Fastest).compress_when(large)
}

fn is_json(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// OpenCode answers unknown paths with its web page, which its own client treats as a fatal error.
async fn no_such_path(uri: Uri) -> Error {
    Error::plain(Fault::NotFound, format!("There is nothing at {}.", uri.path()))
}

async fn no_such_method(method: Method, uri: Uri) -> Error {
    Error::plain(Fault::MethodNotAllowed, format!("{} cannot be called with {method}.", uri.path()))
}

/// Turns a panic of one handler into an error response, so that other calls on the connection survive.
async fn survive(call: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(call)).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            Error::broken(&format!("a handler panicked: {}", panic_message(&*panic))).into_response()
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Logs one line per call. The query is omitted, because it may contain a password.
async fn log(call: Request, next: Next) -> Response {
    let (method, path, start) = (call.method().clone(), call.uri().path().to_owned(), Instant::now());
    let response = next.run(call).await;
    let (status, elapsed) = (response.status().as_u16(), start.elapsed());
    tracing::debug!(%method, path, status, ?elapsed, "call");
    response
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, routing::get};
    use tower::ServiceExt;

    use super::*;

    async fn panics() -> Error {
        panic!("secret of the house")
    }

    #[tokio::test]
    async fn a_panic_becomes_an_answer() {
        let router = Router::new().route("/", get(panics)).layer(middleware::from_fn(survive));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains("err_") && !body.contains("secret"), "{body}");
    }
}
