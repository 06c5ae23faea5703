//! The trait that a provider implements.

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::{Error, ModelEvent, Request, catalogue};

/// Events of a call. Dropping the stream ends the call.
pub type EventStream = BoxStream<'static, Result<ModelEvent, Error>>;

/// A provider of models.
///
/// The outer future covers everything up to the response headers, so that a refused call (a bad key, a rate
/// limit) is an error of the call and not of the stream. An error inside the stream is its last item.
/// Implementations do not retry: that belongs to the caller, which can show the wait. They end a wait that takes too long
/// with [`Error::Stalled`]: only they can tell a keep-alive from a word, so callers set no deadlines of their own.
pub trait Model: Send + Sync {
    /// Returns true if this model exists, as far as can be told without asking the provider.
    fn knows(&self, model: &str) -> bool;

    /// Limits, prices and abilities of a model, if known.
    fn about(&self, model: &str) -> Option<&catalogue::Model> {
        let _ = model;
        None
    }

    /// Starts one call.
    fn stream(&self, request: Request) -> BoxFuture<'static, Result<EventStream, Error>>;
}
