//! A chat service in memory that records its messages.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use tokio::sync::watch;

use crate::{
    Adapter, AdapterError, Attachment, Button, Features, Inbox, Place, Post, Sent,
    adapter::AdapterFuture,
    split::{Limit, Unit},
};

/// A message in a chat, as a user sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) place: Place,
    pub(super) post: Post,
}

#[derive(Debug, Default)]
struct Seen {
    lines: Vec<Line>,
    /// Hints that were shown to users who tapped a button.
    confirm_tap: Vec<(String, Option<String>)>,
    files: HashMap<String, Bytes>,
}

pub(super) struct Chat {
    features: Features,
    seen: Mutex<Seen>,
    changes: watch::Sender<u64>,
}

impl Chat {
    pub(super) fn new(change: impl FnOnce(&mut Features)) -> Arc<Self> {
        let mut features = Features {
            typing: Some(Duration::from_secs(4)),
            edit: Some(Duration::from_millis(1)),
            buttons: 8,
            threads: true,
            streaming: false,
            files: Some(1 << 20),
            text: Limit { length: 4_096, unit: Unit::Utf16 },
        };
        change(&mut features);
        Arc::new(Self { features, seen: Mutex::default(), changes: watch::Sender::new(0) })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        let result = change(&mut self.seen.lock().unwrap());
        self.changes.send_modify(|count| *count += 1);
        result
    }

    /// Adds a file that can be downloaded.
    pub(super) fn put(&self, reference: &str, bytes: &'static [u8]) {
        self.change(|seen| seen.files.insert(reference.to_owned(), Bytes::from_static(bytes)));
    }

    /// Deletes the messages that contain `words`.
    pub(super) fn forget(&self, words: &str) {
        self.change(|seen| {
            for line in seen.lines.iter_mut().filter(|line| line.post.text.contains(words)) {
                "gone".clone_into(&mut line.place.chat);
            }
        });
    }

    /// The visible messages of a place.
    pub(super) fn lines(&self, place: &Place) -> Vec<Post> {
        let seen = self.seen.lock().unwrap();
        seen.lines.iter().filter(|line| line.place == *place).map(|line| line.post.clone()).collect()
    }

    /// Number of visible messages of a place that contain `words`.
    pub(super) fn count(&self, place: &Place, words: &str) -> usize {
        self.lines(place).iter().filter(|post| post.text.contains(words)).count()
    }

    /// Waits for a message that contains `words`.
    pub(super) async fn until(&self, place: &Place, words: &str) -> Post {
        self.wait(|| self.lines(place).into_iter().find(|post| post.text.contains(words)))
            .await
            .unwrap_or_else(|| panic!("no message contains {words:?} in {place}: {:#?}", self.lines(place)))
    }

    /// Waits until `count` messages contain `words`.
    pub(super) async fn until_count(&self, place: &Place, words: &str, count: usize) {
        let found = self.wait(|| (self.count(place, words) == count).then_some(())).await;
        assert!(found.is_some(), "{words:?} is there {} times", self.count(place, words));
    }

    /// Waits for a message with the button.
    pub(super) async fn until_button(&self, place: &Place, label: &str) -> Post {
        let has = |post: &Post| post.buttons.iter().any(|button| button.label == label);
        let found = self.wait(|| self.lines(place).into_iter().find(has)).await;
        found.unwrap_or_else(|| panic!("there is no button {label:?}: {:#?}", self.lines(place)))
    }

    /// Waits for the hint that confirms a tap.
    pub(super) async fn until_understood(&self, receipt: &str) -> Option<String> {
        let told = || {
            let seen = self.seen.lock().unwrap();
            seen.confirm_tap.iter().find(|(known, _)| known == receipt).map(|(_, words)| words.clone())
        };
        self.wait(told).await.unwrap_or_else(|| panic!("the tap {receipt} was not confirmed"))
    }

    async fn wait<T>(&self, found: impl Fn() -> Option<T>) -> Option<T> {
        let mut changes = self.changes.subscribe();
        let waiting = async {
            loop {
                if let Some(found) = found() {
                    return found;
                }
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.ok()
    }
}

/// The token of the post's button with this label.
pub(super) fn button(post: &Post, label: &str) -> String {
    let found = post.buttons.iter().find(|Button { label: known, .. }| known == label);
    found.unwrap_or_else(|| panic!("there is no {label:?} in {post:#?}")).token.clone()
}

impl Adapter for Chat {
    fn channel(&self) -> &'static str {
        "test"
    }

    fn features(&self) -> Features {
        self.features
    }

    fn receive<'a>(&'a self, _inbox: &'a Inbox) -> BoxFuture<'a, AdapterError> {
        Box::pin(std::future::pending())
    }

    fn send<'a>(&'a self, place: &'a Place, post: &'a Post) -> AdapterFuture<'a, Sent> {
        let number = self.change(|seen| {
            seen.lines.push(Line { place: place.clone(), post: post.clone() });
            seen.lines.len() - 1
        });
        Box::pin(ready(Ok(Sent(number.to_string()))))
    }

    fn edit<'a>(&'a self, _place: &'a Place, sent: &'a Sent, post: &'a Post) -> AdapterFuture<'a, ()> {
        let number: usize = sent.0.parse().unwrap();
        self.change(|seen| seen.lines[number].post = post.clone());
        Box::pin(ready(Ok(())))
    }

    fn remove<'a>(&'a self, _place: &'a Place, sent: &'a Sent) -> AdapterFuture<'a, ()> {
        let number: usize = sent.0.parse().unwrap();
        self.change(|seen| "gone".clone_into(&mut seen.lines[number].place.chat));
        Box::pin(ready(Ok(())))
    }

    fn typing<'a>(
        &'a self,
        _place: &'a Place,
        _message: Option<&'a str>,
        _words: &'a str,
    ) -> AdapterFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    fn confirm_tap<'a>(&'a self, receipt: &'a str, words: Option<&'a str>) -> AdapterFuture<'a, ()> {
        self.change(|seen| seen.confirm_tap.push((receipt.to_owned(), words.map(str::to_owned))));
        Box::pin(ready(Ok(())))
    }

    fn download<'a>(&'a self, file: &'a Attachment, _limit: u64) -> AdapterFuture<'a, Bytes> {
        let found = self.seen.lock().unwrap().files.get(&file.reference).cloned();
        Box::pin(ready(found.ok_or_else(|| AdapterError::Refused("there is no such file".to_owned()))))
    }
}
