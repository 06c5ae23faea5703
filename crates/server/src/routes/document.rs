//! The OpenAPI document and the metrics.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, header};
use protocol::Extra;

use crate::{
    metrics,
    openapi::{self, Class, Gives, Method, Operation, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Node, "/doc", "doc.get", document).summary("Get this OpenAPI document"),
        Route::opaque(Class::Node, Method::Get, "/metrics", "metrics.get", metrics::metrics)
            .summary("Get metrics in the format of Prometheus")
            .gives_metrics(),
    ]
}

/// The document, built once: it does not change while the server runs.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| openapi::document().to_string().into());

async fn document() -> Document {
    Document(DOCUMENT.clone())
}

/// The serialised document.
struct Document(Bytes);

impl IntoResponse for Document {
    fn into_response(self) -> Response {
        let kind = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, kind)], self.0).into_response()
    }
}

impl Gives for Document {
    fn describe(operation: &mut Operation) {
        operation.gives::<Extra>(&[]);
    }
}
