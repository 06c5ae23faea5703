//! What a chat service can do, and how to make it do it.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{
    Attachment, Inbox, Place, Post, split,
    webhook::{Call, Reply},
};

/// What a call to a chat service returns.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Fault>>;

/// One chat service. It knows its wire and its limits, and nothing of sessions.
///
/// Calls for one place are made one after the other, by whoever makes them; an adapter neither queues nor retries, but
/// says in its [`Fault`] what would help.
pub trait Adapter: Send + Sync {
    /// The channel's name, as in [`Place::channel`].
    fn channel(&self) -> &'static str;

    /// What it can do.
    fn abilities(&self) -> Abilities;

    /// How much time there should be between two edits of a message in a place, where that differs from place to place.
    fn edit_pace(&self, _place: &Place) -> Option<Duration> {
        self.abilities().edit
    }

    /// Receives updates and puts each into the inbox before it is acknowledged, until dropped. Connections that break
    /// are made anew. Returns only if there is no use in going on, for instance because the token is wrong. An adapter
    /// that receives by webhook alone registers it if it has to, and then waits forever.
    fn receive<'a>(&'a self, inbox: &'a Inbox) -> BoxFuture<'a, Fault>;

    /// Whether the service calls us, so that somebody has to listen.
    fn is_called(&self) -> bool {
        false
    }

    /// Answers a call of the service to `/{channel}`: checks that it is genuine, puts the updates into the inbox, and
    /// only then says yes. Nothing of an unsigned call is believed.
    fn webhook<'a>(&'a self, _call: Call, _inbox: &'a Inbox) -> BoxFuture<'a, Reply> {
        Box::pin(std::future::ready(Reply::absent()))
    }

    /// Says something.
    fn send<'a>(&'a self, place: &'a Place, post: &'a Post) -> Answer<'a, Sent>;

    /// Puts something else in the place of what was said; without buttons, if the new post has none. That nothing
    /// changes is no fault.
    fn edit<'a>(&'a self, _place: &'a Place, _sent: &'a Sent, _post: &'a Post) -> Answer<'a, ()> {
        Box::pin(std::future::ready(Err(Fault::Refused("messages cannot be edited here".to_owned()))))
    }

    /// Takes back what was said.
    fn remove<'a>(&'a self, _place: &'a Place, _sent: &'a Sent) -> Answer<'a, ()> {
        Box::pin(std::future::ready(Err(Fault::Refused("messages cannot be taken back here".to_owned()))))
    }

    /// Shows that work goes on, for as long as [`Abilities::typing`] says. `message` is the last one that the person
    /// sent here, which some services want to know; `words` say what is being done, where a service shows that.
    fn typing<'a>(&'a self, place: &'a Place, message: Option<&'a str>, words: &'a str) -> Answer<'a, ()>;

    /// Stops showing that work goes on, where that does not happen by itself.
    fn rest<'a>(&'a self, _place: &'a Place) -> Answer<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Tells the service that a button was understood, with a word for the person if there is one.
    fn understood<'a>(&'a self, _receipt: &'a str, _words: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Fetches a file, if it is not longer than `limit` bytes.
    fn download<'a>(&'a self, file: &'a Attachment, limit: u64) -> Answer<'a, Bytes>;

    /// Cuts a text into pieces that fit into one message each.
    fn split(&self, text: &str) -> Vec<String> {
        split::pieces(text, self.abilities().text)
    }
}

/// What a service can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// How often "is typing" has to be repeated to stay; none if it cannot be shown.
    pub typing: Option<Duration>,
    /// How much time there should be between two edits of a message; none if it cannot be edited.
    pub edit: Option<Duration>,
    /// How many buttons a message may have.
    pub buttons: usize,
    /// Whether a chat has topics or threads.
    pub threads: bool,
    /// Whether an answer can be shown while it grows.
    pub streaming: bool,
    /// How long a file may be that is sent; none if none can.
    pub files: Option<u64>,
    /// How long a message may be.
    pub text: split::Limit,
}

/// A message that was sent, in the service's words: enough to edit it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent(pub String);

/// Why a service did not do what it was asked. What matters is whether it may have done it after all: only what
/// certainly was not done is tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not done: too much was asked. To be tried again after a while.
    #[error("the service asks to wait {} s", after.as_secs_f32().ceil())]
    Busy {
        /// How long.
        after: Duration,
    },
    /// Not done: the service could not be reached, or said that it is out of order.
    #[error("the service cannot be reached: {0}")]
    Unreachable(String),
    /// Not done: the service wants the person to speak first. To be tried again when they have.
    #[error("the person has to write first: {0}")]
    Closed(String),
    /// Not done: the chat has become another one. To be tried again there.
    #[error("the chat has become another one: {into}")]
    Moved {
        /// The chat that it is now.
        into: String,
    },
    /// Not done, and asking again would not change that.
    #[error("the service refused: {0}")]
    Refused(String),
    /// Nobody knows: the connection broke, or time ran out, after the call was made.
    #[error("it is not known whether the service did it: {0}")]
    Uncertain(String),
}
