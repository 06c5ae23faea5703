//! Tests of couriers with a service that records its calls.

use std::{collections::VecDeque, path::Path, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, watch};

use super::{
    work::{DOUBT, OVER},
    *,
};
use crate::{
    AdapterError, Attachment, Content, Features, Inbox, Sender, Sent, Update,
    adapter::AdapterFuture,
    split::{Limit, Unit},
    words::LATE,
};

/// A service that succeeds unless a fault is planned, and records every call.
struct Service {
    done: watch::Sender<Vec<String>>,
    faults: Mutex<VecDeque<AdapterError>>,
    can_edit: bool,
}

impl Service {
    fn new(can_edit: bool, faults: impl IntoIterator<Item = AdapterError>) -> Arc<Self> {
        let faults = Mutex::new(faults.into_iter().collect());
        Arc::new(Self { done: watch::Sender::default(), faults, can_edit })
    }

    fn note<T>(&self, what: String, result: T) -> Result<T, AdapterError> {
        let fault = self.faults.lock().pop_front();
        let what = if fault.is_some() { format!("in vain: {what}") } else { what };
        self.done.send_modify(|done| done.push(what));
        fault.map_or(Ok(result), Err)
    }

    /// Waits until `last` was done, and returns everything done so far.
    async fn until(&self, last: &str) -> Vec<String> {
        let mut done = self.done.subscribe();
        let waiting = done.wait_for(|done| done.last().is_some_and(|it| it == last));
        let found = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        found.unwrap_or_else(|_| panic!("{last:?} was not done: {:?}", self.done.borrow())).unwrap().clone()
    }
}

impl Adapter for Service {
    fn channel(&self) -> &'static str {
        "test"
    }

    fn features(&self) -> Features {
        Features {
            typing: None,
            edit: self.can_edit.then_some(Duration::ZERO),
            buttons: 0,
            threads: false,
            streaming: true,
            files: None,
            text: Limit { length: 1_000, unit: Unit::Character },
        }
    }

    fn receive<'a>(&'a self, _inbox: &'a Inbox) -> BoxFuture<'a, AdapterError> {
        Box::pin(std::future::pending())
    }

    fn send<'a>(&'a self, place: &'a Place, post: &'a Post) -> AdapterFuture<'a, Sent> {
        let sent = Sent(post.text.clone());
        let elsewhere = if place.chat == "1" { String::new() } else { format!(" in {}", place.chat) };
        Box::pin(std::future::ready(self.note(format!("send {}{elsewhere}", post.text), sent)))
    }

    fn edit<'a>(&'a self, _place: &'a Place, sent: &'a Sent, post: &'a Post) -> AdapterFuture<'a, ()> {
        Box::pin(std::future::ready(self.note(format!("edit {} -> {}", sent.0, post.text), ())))
    }

    fn remove<'a>(&'a self, _place: &'a Place, sent: &'a Sent) -> AdapterFuture<'a, ()> {
        Box::pin(std::future::ready(self.note(format!("remove {}", sent.0), ())))
    }

    fn typing<'a>(&'a self, _: &'a Place, _: Option<&'a str>, _: &'a str) -> AdapterFuture<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn download<'a>(&'a self, _file: &'a Attachment, _limit: u64) -> AdapterFuture<'a, Bytes> {
        Box::pin(std::future::ready(Ok(Bytes::new())))
    }
}

fn place() -> Place {
    Place { channel: "test".into(), chat: "1".into(), thread: None }
}

fn open(directory: &Path) -> Arc<Ledger> {
    let clock = || jiff::Timestamp::now().as_millisecond();
    Arc::new(Ledger::open(&directory.join("channels.db"), Arc::new(clock)).unwrap())
}

struct Harness {
    ledger: Arc<Ledger>,
    couriers: Couriers,
    service: Arc<Service>,
    news: mpsc::Receiver<Place>,
    _directory: tempfile::TempDir,
}

impl Harness {
    fn new(service: Arc<Service>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ledger = open(directory.path());
        let adapter: Arc<dyn Adapter> = Arc::clone(&service) as Arc<dyn Adapter>;
        let (inbox, news) = Inbox::new(Arc::clone(&ledger));
        let couriers = Couriers::new(inbox, &[adapter]);
        Self { ledger, couriers, service, news, _directory: directory }
    }

    async fn say(&self, texts: &[&str]) -> Vec<PostId> {
        let posts = texts.iter().map(|text| Post::text(*text)).collect();
        let ids = self.ledger.say(&place(), posts).await.unwrap();
        self.couriers.wake(&place());
        ids
    }

    fn show(&self, status: &str) {
        self.couriers.show(&place(), Showing { status: Some(status.to_owned()), ..Showing::default() });
    }
}

#[tokio::test]
async fn posts_keep_their_order_and_wait_when_the_service_asks() {
    let busy = AdapterError::Busy { after: Duration::from_millis(20) };
    let harness = Harness::new(Service::new(true, [busy]));
    harness.say(&["one", "two", "three"]).await;
    let done = harness.service.until("send three").await;
    assert_eq!(done, ["in vain: send one", "send one", "send two", "send three"]);
}

#[tokio::test]
async fn a_post_that_may_have_arrived_is_not_sent_again_but_its_note_is() {
    let uncertain = AdapterError::Uncertain("the connection broke".into());
    let harness = Harness::new(Service::new(true, [uncertain.clone(), uncertain.clone(), uncertain]));
    harness.say(&["one", "two"]).await;
    let done = harness.service.until(&format!("send {DOUBT}")).await;
    let in_vain = format!("in vain: send {DOUBT}");
    assert_eq!(done, ["in vain: send one", "in vain: send two", &in_vain, &format!("send {DOUBT}")]);
}

#[tokio::test]
async fn a_note_being_sent_when_the_gateway_died_is_sent_again() {
    let harness = Harness::new(Service::new(true, []));
    let ids = harness.ledger.say(&place(), vec![Post::text("one")]).await.unwrap();
    let note = Post { may_repeat: true, ..Post::text(DOUBT) };
    harness.ledger.uncertain(ids[0], &place(), note).await.unwrap();
    let queued = harness.ledger.next_post(&place()).await.unwrap().unwrap();
    harness.ledger.sending(queued.id).await.unwrap();
    harness.couriers.wake(&place());
    assert_eq!(harness.service.until(&format!("send {DOUBT}")).await, [format!("send {DOUBT}")]);
}

#[tokio::test]
async fn a_post_being_sent_when_the_gateway_died_is_not_sent_again() {
    let harness = Harness::new(Service::new(true, []));
    let posts = vec![Post::text("one"), Post::text("two")];
    let ids = harness.ledger.say(&place(), posts).await.unwrap();
    harness.ledger.sending(ids[0]).await.unwrap();
    harness.couriers.wake(&place());
    let done = harness.service.until(&format!("send {DOUBT}")).await;
    assert_eq!(done, ["send two", &format!("send {DOUBT}")]);
}

#[tokio::test]
async fn a_held_post_is_sent_when_the_user_writes() {
    let harness = Harness::new(Service::new(true, [AdapterError::Closed("too late".into())]));
    harness.say(&["one"]).await;
    harness.service.until("in vain: send one").await;
    let update = Update {
        id: "a".into(),
        alias: None,
        quoted: None,
        replies_to: None,
        album: None,
        place: place(),
        sender: Sender { id: "1".into(), name: "Ada".into() },
        is_direct: true,
        is_addressed: true,
        message: None,
        sent: 0,
        content: Content::Stop,
    };
    while harness.ledger.next_post(&place()).await.unwrap().is_some() {}
    harness.ledger.accept(update).await.unwrap();
    harness.couriers.wake(&place());
    let done = harness.service.until("send one").await;
    assert_eq!(done, ["in vain: send one", &format!("send {LATE}"), "send one"]);
}

#[tokio::test]
async fn a_refused_post_does_not_hold_up_the_others() {
    let harness = Harness::new(Service::new(true, [AdapterError::Refused("no".into())]));
    harness.say(&["one", "two"]).await;
    assert_eq!(harness.service.until("send two").await, ["in vain: send one", "send two"]);
}

#[tokio::test]
async fn a_progress_message_is_edited_and_deleted() {
    let harness = Harness::new(Service::new(true, []));
    harness.show("a");
    harness.service.until("send a").await;
    harness.show("b");
    harness.service.until("edit a -> b").await;
    harness.couriers.show(&place(), Showing::default());
    harness.service.until("remove a").await;
    // The courier ends, and a new one starts when there is work.
    harness.say(&["one"]).await;
    harness.service.until("send one").await;
}

#[tokio::test]
async fn without_edits_each_new_line_is_sent() {
    let harness = Harness::new(Service::new(false, []));
    harness.show("a");
    harness.service.until("send a").await;
    harness.show("a\nb");
    assert_eq!(harness.service.until("send b").await, ["send a", "send b"]);
}

#[tokio::test]
async fn an_answer_replaces_its_preview() {
    let harness = Harness::new(Service::new(true, []));
    let preview = Some("Hel".to_owned());
    harness.couriers.show(&place(), Showing { preview, ..Showing::default() });
    harness.service.until("send Hel").await;
    let posts = vec![Post { is_answer: true, ..Post::text("Hello.") }, Post::text("More.")];
    harness.ledger.say(&place(), posts).await.unwrap();
    harness.couriers.wake(&place());
    assert_eq!(harness.service.until("send More.").await, ["send Hel", "edit Hel -> Hello.", "send More."]);
}

#[tokio::test]
async fn a_post_is_replaced_once_it_was_sent() {
    let harness = Harness::new(Service::new(true, [AdapterError::Busy { after: Duration::from_millis(20) }]));
    let ids = harness.say(&["Allow?"]).await;
    harness.couriers.replace(&place(), ids[0], Post::text("Allowed."));
    let done = harness.service.until("edit Allow? -> Allowed.").await;
    assert_eq!(done, ["in vain: send Allow?", "send Allow?", "edit Allow? -> Allowed."]);
}

#[tokio::test]
async fn a_sent_post_that_cannot_be_stored_is_not_uncertain() {
    let harness = Harness::new(Service::new(true, []));
    harness.ledger.refuse("UPDATE", "posts", "NEW.state = 'sent'").await;
    harness.say(&["one"]).await;
    harness.service.until("send one").await;
    for _ in 0..20 {
        harness.ledger.next_post(&place()).await.ok();
    }
    harness.ledger.relent().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(5)).await;
    tokio::time::resume();
    harness.say(&["two"]).await;
    assert_eq!(harness.service.until("send two").await, ["send one", "send two"]);
}

#[tokio::test]
async fn the_next_gateway_deletes_a_leftover_progress_message() {
    let refused = AdapterError::Refused("message can't be deleted".into());
    for (faults, last) in [(vec![], "remove a".to_owned()), (vec![refused], format!("edit a -> {OVER}"))] {
        let harness = Harness::new(Service::new(true, []));
        harness.show("a");
        harness.service.until("send a").await;
        while harness.ledger.shown(&place()).await.unwrap().is_none() {}
        harness.couriers.stop().await;
        assert_eq!(harness.ledger.open_places().await.unwrap(), [place()]);
        harness.service.faults.lock().extend(faults);
        let adapter: Arc<dyn Adapter> = Arc::clone(&harness.service) as Arc<dyn Adapter>;
        let next = Couriers::new(Inbox::new(Arc::clone(&harness.ledger)).0, &[adapter]);
        next.wake(&place());
        harness.service.until(&last).await;
        while !harness.ledger.open_places().await.unwrap().is_empty() {}
    }
}

#[tokio::test]
async fn an_answer_that_replaced_its_preview_is_not_deleted() {
    let harness = Harness::new(Service::new(true, []));
    harness.couriers.show(&place(), Showing { preview: Some("Hel".to_owned()), ..Showing::default() });
    harness.service.until("send Hel").await;
    harness.ledger.say(&place(), vec![Post { is_answer: true, ..Post::text("Hello.") }]).await.unwrap();
    harness.couriers.wake(&place());
    harness.service.until("edit Hel -> Hello.").await;
    assert_eq!(harness.ledger.shown(&place()).await.unwrap(), None);
}

#[tokio::test]
async fn a_post_refused_by_a_moved_chat_is_sent_to_its_new_id() {
    let mut harness = Harness::new(Service::new(true, [AdapterError::Moved { into: "2".into() }]));
    harness.say(&["one", "two"]).await;
    for _ in 0..2 {
        let place = harness.news.recv().await.unwrap();
        harness.couriers.wake(&place);
    }
    let done = harness.service.until("send two in 2").await;
    assert_eq!(done, ["in vain: send one", "send one in 2", "send two in 2"]);
}
