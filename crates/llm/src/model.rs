//! The one trait a provider implements.

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::{Error, ModelEvent, Request};

/// What a model says, one event at a time. Dropping the stream ends the call.
pub type EventStream = BoxStream<'static, Result<ModelEvent, Error>>;

/// Something that answers requests.
///
/// The outer future covers everything up to the response headers, so that a refused call (a bad key, a rate
/// limit) is an error of the call and not of the stream. An error inside the stream is its last item.
/// Implementations do not retry and set no deadlines: both belong to the caller, which can show the wait.
pub trait Model: Send + Sync {
    /// Whether there is a model of this name, as far as can be told without asking the provider.
    fn knows(&self, model: &str) -> bool;

    /// Starts one call.
    fn stream(&self, request: Request) -> BoxFuture<'static, Result<EventStream, Error>>;
}
