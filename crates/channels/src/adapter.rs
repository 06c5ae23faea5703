//! The interface between the gateway and one chat service.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{
    Attachment, Inbox, Place, Post, split,
    webhook::{Call, Reply},
};

/// The future of a call to a chat service.
pub type AdapterFuture<'a, T> = BoxFuture<'a, Result<T, AdapterError>>;

/// One chat service. An adapter knows its wire format and its limits, and nothing of sessions.
///
/// The caller makes the calls for one place one after the other. An adapter neither queues nor retries: its
/// [`AdapterError`] tells the caller whether a retry can help.
pub trait Adapter: Send + Sync {
    /// The channel's name, as in [`Place::channel`].
    fn channel(&self) -> &'static str;

    fn features(&self) -> Features;

    /// Minimum time between two edits of a message in this place, if it differs from place to place.
    fn edit_pace(&self, _place: &Place) -> Option<Duration> {
        self.features().edit
    }

    /// Receives updates until dropped, and stores each in the inbox before acknowledging it. Reconnects when a
    /// connection breaks. Returns only on a fault that no retry can fix, such as a wrong token. An adapter that
    /// only receives by webhook registers it if necessary, and then waits forever.
    fn receive<'a>(&'a self, inbox: &'a Inbox) -> BoxFuture<'a, AdapterError>;

    /// True if the service delivers updates by webhook, which needs a listener.
    fn is_called(&self) -> bool {
        false
    }

    /// Handles a webhook call to `/{channel}`: checks its signature, stores the updates in the inbox, and only then
    /// returns success. Ignores the content of a call whose signature is wrong.
    fn webhook<'a>(&'a self, _call: Call, _inbox: &'a Inbox) -> BoxFuture<'a, Reply> {
        Box::pin(std::future::ready(Reply::absent()))
    }

    /// Sends a post and returns the service's id of the message.
    fn send<'a>(&'a self, place: &'a Place, post: &'a Post) -> AdapterFuture<'a, Sent>;

    /// Replaces the content of a sent message, and removes its buttons if the new post has none. It is not a fault
    /// if the content stays the same.
    fn edit<'a>(&'a self, _place: &'a Place, _sent: &'a Sent, _post: &'a Post) -> AdapterFuture<'a, ()> {
        Box::pin(std::future::ready(Err(AdapterError::Refused(
            "this service cannot edit messages".to_owned(),
        ))))
    }

    /// Deletes a sent message.
    fn remove<'a>(&'a self, _place: &'a Place, _sent: &'a Sent) -> AdapterFuture<'a, ()> {
        Box::pin(std::future::ready(Err(AdapterError::Refused(
            "this service cannot delete messages".to_owned(),
        ))))
    }

    /// Shows a "typing" indicator for the duration [`Features::typing`]. `message` is the user's last message
    /// here, which some services require; `words` describes the activity, for services that display it.
    fn typing<'a>(
        &'a self,
        place: &'a Place,
        message: Option<&'a str>,
        words: &'a str,
    ) -> AdapterFuture<'a, ()>;

    /// Removes the typing indicator, for services where it does not expire by itself.
    fn stop_typing<'a>(&'a self, _place: &'a Place) -> AdapterFuture<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Confirms a button tap to the service, with a short text for the user if there is one.
    fn confirm_tap<'a>(&'a self, _receipt: &'a str, _words: Option<&'a str>) -> AdapterFuture<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Downloads a file of at most `limit` bytes.
    fn download<'a>(&'a self, file: &'a Attachment, limit: u64) -> AdapterFuture<'a, Bytes>;

    /// Splits a text into pieces that fit into one message each.
    fn split(&self, text: &str) -> Vec<String> {
        split::pieces(text, self.features().text)
    }
}

/// Features and limits of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Interval at which the typing indicator must be repeated; `None` if the service has none.
    pub typing: Option<Duration>,
    /// Minimum time between two edits of a message; `None` if messages cannot be edited.
    pub edit: Option<Duration>,
    /// Maximum number of buttons of a message.
    pub buttons: usize,
    /// True if a chat can have topics or threads.
    pub threads: bool,
    /// True if an answer can be shown while it grows.
    pub streaming: bool,
    /// Maximum size of a file to send, in bytes; `None` if files cannot be sent.
    pub files: Option<u64>,
    /// Maximum length of a message.
    pub text: split::Limit,
}

/// The service's id of a sent message, needed to edit or delete it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent(pub String);

/// A failed call to a chat service. Each variant states whether the service may have carried out the call: only
/// calls that were certainly not carried out are retried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdapterError {
    /// Not carried out: rate limit. Retry after the given time.
    #[error("the service asks to wait {} s", after.as_secs_f32().ceil())]
    Busy { after: Duration },
    /// Not carried out: the service cannot be reached or reports an outage. Retry.
    #[error("the service cannot be reached: {0}")]
    Unreachable(String),
    /// Not carried out: the service only delivers messages after the user has written. Retry when they have.
    #[error("the service delivers messages only after the user has written: {0}")]
    Closed(String),
    /// Not carried out: the chat has a new id. Retry there.
    #[error("the chat has moved to {into}")]
    Moved {
        /// The new id of the chat.
        into: String,
    },
    /// Not carried out, and a retry would fail again.
    #[error("the service refused: {0}")]
    Refused(String),
    /// Unknown: the connection broke or the call timed out after it was sent.
    #[error("the service may or may not have carried out the call: {0}")]
    Uncertain(String),
}
