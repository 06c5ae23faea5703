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
    Abilities, Attachment, Content, Fault, Inbox, Sender, Sent, Update,
    adapter::Answer,
    split::{Limit, Unit},
    words::LATE,
};

/// A service that succeeds unless a fault is planned, and records every call.
struct Service {
    done: watch::Sender<Vec<String>>,
    faults: Mutex<VecDeque<Fault>>,
    can_edit: bool,
}

impl Service {
    fn new(can_edit: bool, faults: impl IntoIterator<Item = Fault>) -> Arc<Self> {
        let faults = Mutex::new(faults.into_iter().collect());
        Arc::new(Self { done: watch::Sender::default(), faults, can_edit })
    }

    fn note<T>(&self, what: String, result: T) -> Result<T, Fault> {
        let fault = lock(&self.faults).pop_front();
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

    fn abilities(&self) -> Abilities {
        Abilities {
            typing: None,
            edit: self.can_edit.then_some(Duration::ZERO),
            buttons: 0,
            threads: false,
            streaming: true,
            files: None,
            text: Limit { length: 1_000, unit: Unit::Character },
        }
    }

    fn receive<'a>(&'a self, _inbox: &'a Inbox) -> BoxFuture<'a, Fault> {
        Box::pin(std::future::pending())
    }

    fn send<'a>(&'a self, place: &'a Place, post: &'a Post) -> Answer<'a, Sent> {
        let sent = Sent(post.text.clone());
        let elsewhere = if place.chat == "1" { String::new() } else { format!(" in {}", place.chat) };
        Box::pin(std::future::ready(self.note(format!("send {}{elsewhere}", post.text), sent)))
    }

    fn edit<'a>(&'a self, _place: &'a Place, sent: &'a Sent, post: &'a Post) -> Answer<'a, ()> {
        Box::pin(std::future::ready(self.note(format!("edit {} -> {}", sent.0, post.text), ())))
    }

    fn remove<'a>(&'a self, _place: &'a Place, sent: &'a Sent) -> Answer<'a, ()> {
        Box::pin(std::future::ready(self.note(format!("remove {}", sent.0), ())))
    }

    fn typing<'a>(&'a self, _: &'a Place, _: Option<&'a str>, _: &'a str) -> Answer<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn download<'a>(&'a self, _file: &'a Attachment, _limit: u64) -> Answer<'a, Bytes> {
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

struct World {
    ledger: Arc<Ledger>,
    couriers: Couriers,
    service: Arc<Service>,
    news: mpsc::Receiver<Place>,
    _directory: tempfile::TempDir,
}

impl World {
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
    let busy = Fault::Busy { after: Duration::from_millis(20) };
    let world = World::new(Service::new(true, [busy]));
    world.say(&["one", "two", "three"]).await;
    let done = world.service.until("send three").await;
    assert_eq!(done, ["in vain: send one", "send one", "send two", "send three"]);
}

#[tokio::test]
async fn a_post_that_may_have_arrived_is_not_sent_again_but_its_note_is() {
    let uncertain = Fault::Uncertain("the connection broke".into());
    let world = World::new(Service::new(true, [uncertain.clone(), uncertain.clone(), uncertain]));
    world.say(&["one", "two"]).await;
    let done = world.service.until(&format!("send {DOUBT}")).await;
    let in_vain = format!("in vain: send {DOUBT}");
    assert_eq!(done, ["in vain: send one", "in vain: send two", &in_vain, &format!("send {DOUBT}")]);
}

#[tokio::test]
async fn a_note_being_sent_when_the_gateway_died_is_sent_again() {
    let world = World::new(Service::new(true, []));
    let ids = world.ledger.say(&place(), vec![Post::text("one")]).await.unwrap();
    let note = Post { may_repeat: true, ..Post::text(DOUBT) };
    world.ledger.uncertain(ids[0], &place(), note).await.unwrap();
    let queued = world.ledger.next_post(&place()).await.unwrap().unwrap();
    world.ledger.sending(queued.id).await.unwrap();
    world.couriers.wake(&place());
    assert_eq!(world.service.until(&format!("send {DOUBT}")).await, [format!("send {DOUBT}")]);
}

#[tokio::test]
async fn a_post_being_sent_when_the_gateway_died_is_not_sent_again() {
    let world = World::new(Service::new(true, []));
    let posts = vec![Post::text("one"), Post::text("two")];
    let ids = world.ledger.say(&place(), posts).await.unwrap();
    world.ledger.sending(ids[0]).await.unwrap();
    world.couriers.wake(&place());
    let done = world.service.until(&format!("send {DOUBT}")).await;
    assert_eq!(done, ["send two", &format!("send {DOUBT}")]);
}

#[tokio::test]
async fn a_held_post_is_sent_when_the_user_writes() {
    let world = World::new(Service::new(true, [Fault::Closed("too late".into())]));
    world.say(&["one"]).await;
    world.service.until("in vain: send one").await;
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
    while world.ledger.next_post(&place()).await.unwrap().is_some() {}
    world.ledger.accept(update).await.unwrap();
    world.couriers.wake(&place());
    let done = world.service.until("send one").await;
    assert_eq!(done, ["in vain: send one", &format!("send {LATE}"), "send one"]);
}

#[tokio::test]
async fn a_refused_post_does_not_hold_up_the_others() {
    let world = World::new(Service::new(true, [Fault::Refused("no".into())]));
    world.say(&["one", "two"]).await;
    assert_eq!(world.service.until("send two").await, ["in vain: send one", "send two"]);
}

#[tokio::test]
async fn a_progress_message_is_edited_and_deleted() {
    let world = World::new(Service::new(true, []));
    world.show("a");
    world.service.until("send a").await;
    world.show("b");
    world.service.until("edit a -> b").await;
    world.couriers.show(&place(), Showing::default());
    world.service.until("remove a").await;
    // The courier ends, and a new one starts when there is work.
    world.say(&["one"]).await;
    world.service.until("send one").await;
}

#[tokio::test]
async fn without_edits_each_new_line_is_sent() {
    let world = World::new(Service::new(false, []));
    world.show("a");
    world.service.until("send a").await;
    world.show("a\nb");
    assert_eq!(world.service.until("send b").await, ["send a", "send b"]);
}

#[tokio::test]
async fn an_answer_replaces_its_preview() {
    let world = World::new(Service::new(true, []));
    let preview = Some("Hel".to_owned());
    world.couriers.show(&place(), Showing { preview, ..Showing::default() });
    world.service.until("send Hel").await;
    let posts = vec![Post { is_answer: true, ..Post::text("Hello.") }, Post::text("More.")];
    world.ledger.say(&place(), posts).await.unwrap();
    world.couriers.wake(&place());
    assert_eq!(world.service.until("send More.").await, ["send Hel", "edit Hel -> Hello.", "send More."]);
}

#[tokio::test]
async fn a_post_is_replaced_once_it_was_sent() {
    let world = World::new(Service::new(true, [Fault::Busy { after: Duration::from_millis(20) }]));
    let ids = world.say(&["Allow?"]).await;
    world.couriers.replace(&place(), ids[0], Post::text("Allowed."));
    let done = world.service.until("edit Allow? -> Allowed.").await;
    assert_eq!(done, ["in vain: send Allow?", "send Allow?", "edit Allow? -> Allowed."]);
}

#[tokio::test]
async fn a_sent_post_that_cannot_be_stored_is_not_uncertain() {
    let world = World::new(Service::new(true, []));
    world.ledger.refuse("UPDATE", "posts", "NEW.state = 'sent'").await;
    world.say(&["one"]).await;
    world.service.until("send one").await;
    for _ in 0..20 {
        world.ledger.next_post(&place()).await.ok();
    }
    world.ledger.relent().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(5)).await;
    tokio::time::resume();
    world.say(&["two"]).await;
    assert_eq!(world.service.until("send two").await, ["send one", "send two"]);
}

#[tokio::test]
async fn the_next_gateway_deletes_a_leftover_progress_message() {
    let refused = Fault::Refused("message can't be deleted".into());
    for (faults, last) in [(vec![], "remove a".to_owned()), (vec![refused], format!("edit a -> {OVER}"))] {
        let world = World::new(Service::new(true, []));
        world.show("a");
        world.service.until("send a").await;
        while world.ledger.shown(&place()).await.unwrap().is_none() {}
        world.couriers.stop().await;
        assert_eq!(world.ledger.open_places().await.unwrap(), [place()]);
        lock(&world.service.faults).extend(faults);
        let adapter: Arc<dyn Adapter> = Arc::clone(&world.service) as Arc<dyn Adapter>;
        let next = Couriers::new(Inbox::new(Arc::clone(&world.ledger)).0, &[adapter]);
        next.wake(&place());
        world.service.until(&last).await;
        while !world.ledger.open_places().await.unwrap().is_empty() {}
    }
}

#[tokio::test]
async fn an_answer_that_replaced_its_preview_is_not_deleted() {
    let world = World::new(Service::new(true, []));
    world.couriers.show(&place(), Showing { preview: Some("Hel".to_owned()), ..Showing::default() });
    world.service.until("send Hel").await;
    world.ledger.say(&place(), vec![Post { is_answer: true, ..Post::text("Hello.") }]).await.unwrap();
    world.couriers.wake(&place());
    world.service.until("edit Hel -> Hello.").await;
    assert_eq!(world.ledger.shown(&place()).await.unwrap(), None);
}

#[tokio::test]
async fn a_post_refused_by_a_moved_chat_is_sent_to_its_new_id() {
    let mut world = World::new(Service::new(true, [Fault::Moved { into: "2".into() }]));
    world.say(&["one", "two"]).await;
    for _ in 0..2 {
        let place = world.news.recv().await.unwrap();
        world.couriers.wake(&place);
    }
    let done = world.service.until("send two in 2").await;
    assert_eq!(done, ["in vain: send one", "send one in 2", "send two in 2"]);
}
