//! The Slack adapter: receives by Socket Mode or by the Events API, and sends through the Web API.
//!
//! In a channel each thread is a place; a direct message is one place as a whole. Progress is shown as the status
//! of a thread.

mod blocks;
mod errors;
mod events;
mod files;
mod signature;
mod socket;
mod status;
mod text;
mod updates;
mod web;
mod wire;

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use errors::ApiError;
use signature::Signature;
use socket::Backoff;
use status::Statuses;
use updates::Identity;
use web::Web;
use wire::Delivery;

use crate::{
    Adapter, AdapterError, Attachment, Features, Inbox, Place, Post, Sent,
    adapter::AdapterFuture,
    settings::{self, Secret},
    webhook::{Call, Reply},
};

pub const CHANNEL: &str = "slack";

/// Slack allows about fifty edits per minute for all chats together.
const EDIT_PACE: Duration = Duration::from_secs(3);

/// A Slack app in one workspace.
#[derive(Debug)]
pub struct Slack {
    web: Web,
    source: UpdateSource,
    /// Requested once, when it is first needed.
    me: OnceCell<Identity>,
    statuses: Statuses,
}

/// The way in which updates arrive.
#[derive(Debug)]
enum UpdateSource {
    /// Baton connects to Slack with this token.
    Socket(Secret),
    /// Slack calls the webhook and signs the calls.
    Calls(Signature),
}

/// The answer to a posted message.
#[derive(Deserialize)]
struct Posted {
    ts: String,
}

/// The user that a token belongs to.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner {
    user_id: Option<String>,
}

impl Slack {
    /// Creates the adapter. Makes no call yet.
    pub fn new(settings: &settings::Slack) -> Result<Self, AdapterError> {
        present(settings)?;
        let source = match (&settings.app_token, &settings.signing_secret) {
            (Some(token), _) => UpdateSource::Socket(token.clone()),
            (None, Some(secret)) => UpdateSource::Calls(Signature::new(secret)),
            (None, None) => {
                let reason =
                    "slack needs an appToken (for Socket Mode) or a signingSecret (for the Events API)";
                return Err(AdapterError::Refused(reason.to_owned()));
            }
        };
        Ok(Self { web: Web::new(settings)?, source, me: OnceCell::new(), statuses: Statuses::default() })
    }

    /// The app's own user.
    async fn identity(&self) -> Result<&Identity, ApiError> {
        self.me
            .get_or_try_init(|| async {
                let Owner { user_id } = self.web.call("auth.test", &[]).await?;
                Ok(Identity { user: user_id })
            })
            .await
    }

    /// Stores a delivery if it concerns the app. It must not be acknowledged before this returns.
    async fn take(&self, delivery: &Delivery, inbox: &Inbox) -> Result<(), String> {
        let me = self.identity().await.map_err(|error| error.fault.to_string())?;
        let Some(mut update) = updates::update(delivery, me, inbox.now()) else { return Ok(()) };
        self.statuses.correct(&mut update);
        inbox.accept(update).await.map_err(|error| error.to_string())
    }

    async fn listen(&self, inbox: &Inbox) -> AdapterError {
        let mut backoff = Backoff::default();
        while let Err(error) = self.identity().await {
            inbox.lost(CHANNEL, error.fault.to_string());
            if let Err(fault) = backoff.wait("auth.test", error).await {
                return fault;
            }
        }
        match &self.source {
            UpdateSource::Socket(token) => socket::listen(self, token, inbox).await,
            UpdateSource::Calls(_) => {
                inbox.connected(CHANNEL);
                std::future::pending().await
            }
        }
    }

    async fn say(&self, place: &Place, post: &Post) -> Result<Sent, AdapterError> {
        if let Some(file) = &post.file {
            return self.share(place, post, file).await;
        }
        let (text, blocks) = (blocks::text(post), json!(blocks::blocks(post)).to_string());
        let mut fields = vec![
            ("channel", place.chat.as_str()),
            ("text", &text),
            // An agent's answer may have many links, whose previews would bury it.
            ("unfurl_links", "false"),
            ("unfurl_media", "false"),
        ];
        fields.extend(place.thread.as_deref().map(|thread| ("thread_ts", thread)));
        if !post.buttons.is_empty() {
            fields.push(("blocks", &blocks));
        }
        let posted: Posted = self.web.call("chat.postMessage", &fields).await?;
        Ok(Sent(posted.ts))
    }

    async fn change(&self, place: &Place, sent: &Sent, post: &Post) -> Result<(), AdapterError> {
        let (text, blocks) = (blocks::text(post), json!(blocks::blocks(post)).to_string());
        // Without this field Slack keeps the old blocks with their buttons.
        let fields =
            [("channel", place.chat.as_str()), ("ts", &sent.0), ("text", &text), ("blocks", &blocks)];
        let _: Value = self.web.call("chat.update", &fields).await?;
        Ok(())
    }

    async fn take_back(&self, place: &Place, sent: &Sent) -> Result<(), AdapterError> {
        let gone = if sent.0.starts_with('F') {
            self.web.call::<Value>("files.delete", &[("file", &sent.0)]).await
        } else {
            self.web.call("chat.delete", &[("channel", &place.chat), ("ts", &sent.0)]).await
        };
        match gone {
            Err(error) if !error.is(&["message_not_found", "file_deleted", "file_not_found"]) => {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }
}

/// Refuses an empty secret, for instance from an unset variable: with an empty key any caller could sign calls.
fn present(settings: &settings::Slack) -> Result<(), AdapterError> {
    let values = [
        ("botToken", Some(&settings.bot_token)),
        ("appToken", settings.app_token.as_ref()),
        ("signingSecret", settings.signing_secret.as_ref()),
    ];
    match values.iter().find(|(_, value)| value.is_some_and(|value| value.reveal().trim().is_empty())) {
        Some((name, _)) => Err(AdapterError::Refused(format!(
            "`{name}` is empty; if it comes from {{env:NAME}}, check that NAME is set"
        ))),
        None => Ok(()),
    }
}

impl Adapter for Slack {
    fn channel(&self) -> &'static str {
        CHANNEL
    }

    fn features(&self) -> Features {
        Features {
            typing: Some(status::REFRESH),
            edit: Some(EDIT_PACE),
            buttons: blocks::BUTTONS,
            threads: true,
            streaming: true,
            files: Some(files::LONGEST),
            text: blocks::TEXT,
        }
    }

    fn receive<'a>(&'a self, inbox: &'a Inbox) -> BoxFuture<'a, AdapterError> {
        Box::pin(self.listen(inbox))
    }

    fn is_called(&self) -> bool {
        matches!(self.source, UpdateSource::Calls(_))
    }

    fn webhook<'a>(&'a self, call: Call, inbox: &'a Inbox) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            match &self.source {
                UpdateSource::Calls(signature) => self.called(signature, &call, inbox).await,
                UpdateSource::Socket(_) => Reply::absent(),
            }
        })
    }

    fn send<'a>(&'a self, place: &'a Place, post: &'a Post) -> AdapterFuture<'a, Sent> {
        Box::pin(self.say(place, post))
    }

    fn edit<'a>(&'a self, place: &'a Place, sent: &'a Sent, post: &'a Post) -> AdapterFuture<'a, ()> {
        Box::pin(self.change(place, sent, post))
    }

    fn remove<'a>(&'a self, place: &'a Place, sent: &'a Sent) -> AdapterFuture<'a, ()> {
        Box::pin(self.take_back(place, sent))
    }

    fn typing<'a>(
        &'a self,
        place: &'a Place,
        message: Option<&'a str>,
        words: &'a str,
    ) -> AdapterFuture<'a, ()> {
        Box::pin(self.statuses.show(&self.web, place, message, words))
    }

    fn stop_typing<'a>(&'a self, place: &'a Place) -> AdapterFuture<'a, ()> {
        Box::pin(self.statuses.clear(&self.web, place))
    }

    fn download<'a>(&'a self, file: &'a Attachment, limit: u64) -> AdapterFuture<'a, Bytes> {
        Box::pin(self.web.get(&file.reference, limit))
    }

    fn split(&self, text: &str) -> Vec<String> {
        blocks::split(text)
    }
}
