//! The list of all providers, cached in compressed form.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use futures::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use protocol::{Rest, provider::AllProviders};

use crate::{
    App, Error, Instance,
    blocking::blocking,
    extract::Directory,
    instance::Here,
    listings::Packed,
    openapi::{Gives, Operation},
};

/// Clients may cache the list and must revalidate it.
const KEEP: HeaderValue = HeaderValue::from_static("private, no-cache");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const BY_ENCODING: HeaderValue = HeaderValue::from_static("accept-encoding");

pub(super) async fn list(
    State(app): State<App>,
    directory: Directory,
    Here(instance): Here,
    headers: HeaderMap,
) -> Result<Listed, Error> {
    let packed = app.listings.get(&instance, pack(&app, &directory, &instance)).await?;
    Listed::new(packed, &headers)
}

/// Builds the list on a blocking thread.
async fn pack(app: &App, directory: &Directory, instance: &Arc<Instance>) -> Result<Packed, Error> {
    let others = app.instances.others(&directory.path).await?;
    let instance = Arc::clone(instance);
    blocking(move || {
        let mut all = instance.providers.clone();
        let connected = all.iter().map(|provider| provider.id.clone()).collect();
        all.extend(others);
        let default = instance.default_models.clone();
        let list = AllProviders { all, default, connected, extra: Rest::NONE };
        Packed::new(&list).map_err(|error| Error::broken(&error))
    })
    .await
}

/// The list in the encoding that the client accepts.
pub(super) struct Listed(Response);

impl Listed {
    fn new(packed: Packed, headers: &HeaderMap) -> Result<Self, Error> {
        let tag = HeaderValue::from_str(&packed.tag).map_err(|error| Error::broken(&error))?;
        let common = [(header::ETAG, tag), (header::CACHE_CONTROL, KEEP), (header::VARY, BY_ENCODING)];
        if mentions(headers, &header::IF_NONE_MATCH, &packed.tag) {
            return Ok(Self((StatusCode::NOT_MODIFIED, common).into_response()));
        }
        let kind = [(header::CONTENT_TYPE, JSON)];
        if mentions(headers, &header::ACCEPT_ENCODING, "gzip") {
            let encoding = [(header::CONTENT_ENCODING, GZIP)];
            return Ok(Self((common, kind, encoding, Body::from(packed.gzip)).into_response()));
        }
        let length = [(header::CONTENT_LENGTH, HeaderValue::from(packed.length))];
        let json = Body::from_stream(stream::iter(packed.unpack()));
        Ok(Self((common, kind, length, json).into_response()))
    }
}

/// Returns true if a list header contains this item without the weight 0.
fn mentions(headers: &HeaderMap, name: &header::HeaderName, wanted: &str) -> bool {
    let lists = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|item| {
        let (item, weight) = item.split_once(';').unwrap_or((item, ""));
        let unwanted =
            weight.trim().strip_prefix("q=").and_then(|weight| weight.parse().ok()) == Some(0.0_f32);
        item.trim().eq_ignore_ascii_case(wanted) && !unwanted
    })
}

impl IntoResponse for Listed {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Gives for Listed {
    fn describe(operation: &mut Operation) {
        operation.gives::<AllProviders>(&[(
            "ETag",
            "Version of this list. Send it as `If-None-Match` to get 304 if the list is unchanged.",
        )]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_a_list() {
        for (value, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip;q=0.0, br", false),
            ("gzipped", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(mentions(&headers, &header::ACCEPT_ENCODING, "gzip"), expected, "{value:?}");
        }
        assert!(!mentions(&HeaderMap::new(), &header::ACCEPT_ENCODING, "gzip"));
    }
}
