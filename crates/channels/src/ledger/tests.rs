//! Tests of the ledger on a real file.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicI64, Ordering},
};

use protocol::request::QuestionRequest;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{Accepted, Content, Place, Post, Sender, Sent, Update};

struct Harness {
    directory: TempDir,
    now: Arc<AtomicI64>,
}

impl Harness {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), now: Arc::new(AtomicI64::new(1_000_000)) }
    }

    fn clock(&self) -> Clock {
        let now = Arc::clone(&self.now);
        Arc::new(move || now.load(Ordering::Relaxed))
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("channels.db")
    }

    fn open(&self) -> Ledger {
        Ledger::open(&self.path(), self.clock()).unwrap()
    }
}

impl Ledger {
    /// Makes changes of a table fail as on a full disk, which rolls back the whole transaction.
    pub(crate) async fn refuse(&self, change: &str, table: &str, when: &str) {
        let name = format!("refuse_{}_{table}", change.to_lowercase());
        let trigger = format!(
            "CREATE TEMP TRIGGER {name} BEFORE {change} ON {table} WHEN {when}
             BEGIN SELECT RAISE(ROLLBACK, 'no space is left'); END"
        );
        self.with(move |tables| Ok(tables.execute_batch(&trigger)?)).await.unwrap();
    }

    /// Ends the failures of [`Ledger::refuse`].
    pub(crate) async fn relent(&self) {
        let drop_all = |tables: &Connection| {
            let mut query = tables.prepare("SELECT name FROM temp.sqlite_schema WHERE type = 'trigger'")?;
            let names: Vec<String> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            drop(query);
            Ok(names
                .iter()
                .try_for_each(|name| tables.execute_batch(&format!("DROP TRIGGER temp.{name}")))?)
        };
        // It may share a commit with a change that is refused.
        while let Err(error) = self.with(drop_all).await {
            assert!(matches!(error, Error::Undone), "{error}");
        }
    }
}

fn place() -> Place {
    Place { channel: "telegram".into(), chat: "7".into(), thread: None }
}

fn ada() -> Sender {
    Sender { id: "1".into(), name: "Ada".into() }
}

fn update(id: &str) -> Update {
    Update {
        id: id.into(),
        alias: None,
        quoted: None,
        replies_to: None,
        album: None,
        place: place(),
        sender: ada(),
        is_direct: true,
        is_addressed: true,
        message: None,
        sent: 0,
        content: Content::Message { text: format!("say {id}"), files: Vec::new() },
    }
}

fn question() -> QuestionRequest {
    serde_json::from_value(json!({"id": "que_1", "sessionID": "ses_1", "questions": []})).unwrap()
}

#[tokio::test]
async fn an_update_is_accepted_once_also_under_its_alias() {
    let ledger = Harness::new().open();
    assert_eq!(ledger.accept(update("a")).await.unwrap(), Accepted::New);
    assert_eq!(ledger.accept(update("a")).await.unwrap(), Accepted::Known);
    let named = |id: &str| Update { alias: Some("C1:17.2".into()), ..update(id) };
    assert_eq!(ledger.accept(named("b")).await.unwrap(), Accepted::New);
    assert_eq!(ledger.accept(named("c")).await.unwrap(), Accepted::Known);
    assert_eq!(ledger.open_updates(&place()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn unfinished_updates_survive_a_restart_in_order() {
    let harness = Harness::new();
    let run = Run { session: "ses_1".parse().unwrap(), prompt: "msg_1".parse().unwrap() };
    {
        let ledger = harness.open();
        for id in ["a", "b", "c"] {
            ledger.accept(update(id)).await.unwrap();
        }
        let open = ledger.open_updates(&place()).await.unwrap();
        ledger.done(open[0].id, &place(), vec![Post::text("answer a")]).await.unwrap();
        ledger.run(open[1].id, run.clone()).await.unwrap();
        assert_eq!(ledger.retry(open[1].id, 5).await.unwrap(), 1);
    }
    let ledger = harness.open();
    let open = ledger.open_updates(&place()).await.unwrap();
    assert_eq!(open.iter().map(|pending| pending.update.id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!((&open[0].state, open[0].attempts, open[0].due), (&State::Running(run), 1, 5));
    assert_eq!(ledger.open_places().await.unwrap(), [place()]);
    assert_eq!(ledger.next_post(&place()).await.unwrap().unwrap().post.text, "answer a");
}

#[tokio::test]
async fn finishing_an_update_twice_answers_it_once() {
    let ledger = Harness::new().open();
    ledger.accept(update("a")).await.unwrap();
    let id = ledger.open_updates(&place()).await.unwrap()[0].id;
    for _ in 0..2 {
        ledger.done(id, &place(), vec![Post::text("answer")]).await.unwrap();
    }
    let first = ledger.next_post(&place()).await.unwrap().unwrap();
    ledger.sent(first.id, Sent("9".into())).await.unwrap();
    assert_eq!(ledger.next_post(&place()).await.unwrap(), None);
    assert_eq!(ledger.sent_id(first.id).await.unwrap(), Some(Sent("9".into())));
}

#[tokio::test]
async fn a_post_that_was_being_sent_is_known_to_be_uncertain() {
    let harness = Harness::new();
    {
        let ledger = harness.open();
        let ids = ledger.say(&place(), vec![Post::text("one"), Post::text("two")]).await.unwrap();
        ledger.sending(ids[0]).await.unwrap();
    }
    let ledger = harness.open();
    let first = ledger.next_post(&place()).await.unwrap().unwrap();
    assert!(first.is_uncertain);
    ledger.uncertain(first.id, &place(), Post::text("a note")).await.unwrap();
    let second = ledger.next_post(&place()).await.unwrap().unwrap();
    assert!(!second.is_uncertain && second.post.text == "two");
    ledger.postpone(second.id, 77).await.unwrap();
    let second = ledger.next_post(&place()).await.unwrap().unwrap();
    assert_eq!((second.attempts, second.due), (1, 77));
}

#[tokio::test]
async fn a_late_post_is_held_until_the_user_writes() {
    let harness = Harness::new();
    let ledger = harness.open();
    let posts = vec![Post::text("one"), Post::text("two"), Post::text("three")];
    let ids = ledger.say(&place(), posts).await.unwrap();
    ledger.hold(ids[0], ledger.now()).await.unwrap();
    // The service accepted this post and later reported it as undelivered.
    let taken = Sent("9".into());
    let change = async || ledger.hold_sent(&place(), &taken, ledger.now()).await.unwrap();
    assert_eq!(change().await, Held::Unknown);
    ledger.sending(ids[1]).await.unwrap();
    assert_eq!(change().await, Held::TooEarly);
    ledger.sent(ids[1], taken.clone()).await.unwrap();
    assert_eq!(change().await, Held::Yes);
    assert_eq!(change().await, Held::Unknown);
    // After a day the ledger forgets sent posts, but not held ones.
    harness.now.fetch_add(2 * 24 * 60 * 60 * 1_000, Ordering::Relaxed);
    ledger.sent(ids[2], Sent("10".into())).await.unwrap();
    assert_eq!(ledger.sent_id(ids[2]).await.unwrap(), None, "a sent post is forgotten");
    assert_eq!(ledger.next_post(&place()).await.unwrap(), None);
    assert!(ledger.open_places().await.unwrap().is_empty());
    ledger.accept(update("a")).await.unwrap();
    for text in [crate::words::LATE, "one", "two"] {
        let next = ledger.next_post(&place()).await.unwrap().unwrap();
        assert_eq!(next.post.text, text);
        ledger.sent(next.id, Sent("11".into())).await.unwrap();
    }
    assert_eq!(ledger.next_post(&place()).await.unwrap(), None);
}

#[tokio::test]
async fn a_post_refused_while_the_user_writes_is_not_held() {
    let harness = Harness::new();
    let ledger = harness.open();
    let ids = ledger.say(&place(), vec![Post::text("one"), Post::text("two")]).await.unwrap();
    let since = ledger.now();
    harness.now.fetch_add(10, Ordering::Relaxed);
    ledger.accept(update("a")).await.unwrap();
    ledger.hold(ids[0], since).await.unwrap();
    assert_eq!(ledger.next_post(&place()).await.unwrap().unwrap().post.text, "one");
    ledger.sent(ids[0], Sent("9".into())).await.unwrap();
    assert_eq!(ledger.hold_sent(&place(), &Sent("9".into()), since).await.unwrap(), Held::Due);
    // A post for a user who never writes is held for a while, not forever.
    ledger.hold(ids[0], ledger.now() + 1).await.unwrap();
    harness.now.fetch_add(31 * 24 * 60 * 60 * 1_000, Ordering::Relaxed);
    ledger.sent(ids[1], Sent("10".into())).await.unwrap();
    ledger.accept(update("b")).await.unwrap();
    assert_eq!(ledger.next_post(&place()).await.unwrap(), None);
}

#[tokio::test]
async fn updates_that_come_together_are_stored_together() {
    let ledger = Harness::new().open();
    ledger.accept(update("b")).await.unwrap();
    let elsewhere = Update { place: Place { chat: "8".into(), ..place() }, ..update("d") };
    let places = ledger.accept_all(vec![update("a"), update("b"), elsewhere.clone()]).await.unwrap();
    assert_eq!(places.into_iter().collect::<Vec<_>>(), [place(), elsewhere.place.clone()]);
    let open = ledger.open_updates(&place()).await.unwrap();
    assert_eq!(open.iter().map(|pending| pending.update.id.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    assert!(ledger.accept_all(vec![elsewhere]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_request_is_shown_once_and_settled_once() {
    let ledger = Harness::new().open();
    let ask = Ask {
        place: place(),
        asked: Asked::Question(question()),
        answers: Vec::new(),
        marked: BTreeSet::new(),
        expires: 5,
    };
    let shown = |number: i64| vec![Post::text("long"), Post::text(format!("question {number}"))];
    assert!(ledger.ask(ask.clone(), shown).await.unwrap());
    assert!(!ledger.ask(ask.clone(), shown).await.unwrap());
    assert_eq!(ledger.all_open_asks().await.unwrap(), [("que_1".to_owned(), place())]);
    let (number, open, post) = ledger.open_asks(&place()).await.unwrap().remove(0);
    assert_eq!(open, ask);
    let next = Ask { answers: vec![vec!["yes".into()]], ..ask };
    ledger.accept(update("a")).await.unwrap();
    let by = ledger.open_updates(&place()).await.unwrap()[0].id;
    ledger.advance(number, next.clone(), Post::text("and now?"), by).await.unwrap();
    let (_, open, second) = ledger.open_asks(&place()).await.unwrap().remove(0);
    assert!(open == next && second > post);
    assert!(ledger.open_updates(&place()).await.unwrap().is_empty(), "one answer answers one question");
    assert_eq!(ledger.settle("que_1").await.unwrap(), second);
    assert_eq!(ledger.settle("que_1").await.unwrap(), None);
    assert!(ledger.open_asks(&place()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_code_pairs_one_user_and_guesses_are_limited() {
    let harness = Harness::new();
    let ledger = harness.open();
    // A code can be created while the gateway runs.
    let visitor = Ledger::visit(&harness.path(), harness.clock()).unwrap();
    let code = visitor.new_code(true).await.unwrap();
    let roles = Roles { prompt: true, approve: true };
    assert_eq!(ledger.roles("telegram", "1").await.unwrap(), None);
    let said = format!(" {} ", code.to_lowercase());
    assert_eq!(ledger.pair("telegram", &ada(), &said).await.unwrap(), Paired::Yes(roles));
    assert_eq!(ledger.roles("telegram", "1").await.unwrap(), Some(roles));
    let eve = Sender { id: "2".into(), name: "Eve".into() };
    for _ in 0..5 {
        assert_eq!(ledger.pair("telegram", &eve, &code).await.unwrap(), Paired::Wrong);
    }
    let other = ledger.new_code(false).await.unwrap();
    assert_eq!(ledger.pair("telegram", &eve, &other).await.unwrap(), Paired::TooOften);
    harness.now.fetch_add(60 * 60 * 1_000 + 1, Ordering::Relaxed);
    assert_eq!(ledger.pair("telegram", &eve, &other).await.unwrap(), Paired::Wrong, "it has expired");
    assert!(ledger.unpair("telegram", "1").await.unwrap());
    assert!(ledger.users().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_second_gateway_is_refused() {
    let harness = Harness::new();
    let _ledger = harness.open();
    let error = Ledger::open(&harness.path(), harness.clock()).unwrap_err();
    assert!(error.to_string().contains("another gateway"), "{error}");
}

#[tokio::test]
async fn a_failure_undoes_its_own_work_and_not_that_of_others() {
    let ledger = Harness::new().open();
    let failing = ledger.with(|tables| -> Result<(), Error> {
        tables.execute("INSERT INTO bookmarks VALUES ('a', 'b')", [])?;
        Ok(tables.execute_batch("no such statement")?)
    });
    let (failed, kept) = tokio::join!(failing, ledger.set_bookmark("c", "d".into()));
    assert!(failed.is_err() && kept.is_ok());
    assert_eq!(ledger.bookmark("a").await.unwrap(), None);
    assert_eq!(ledger.bookmark("c").await.unwrap().as_deref(), Some("d"));
}

#[tokio::test]
async fn a_failed_change_leaves_nothing_behind() {
    let ledger = Harness::new().open();
    ledger.refuse("INSERT", "updates", "NEW.name = 'b'").await;
    // While the thread is blocked here, the other jobs gather.
    let (go_on, gate) = std::sync::mpsc::channel::<()>();
    let holding = ledger.with(move |_| {
        gate.recv().unwrap();
        Ok(())
    });
    let going = async { go_on.send(()).unwrap() };
    let [a, b, c] = ["a", "b", "c"].map(|id| ledger.accept(update(id)));
    let (_, a, b, c, ()) = futures::join!(holding, a, b, c, going);
    let stored: Vec<String> =
        ledger.open_updates(&place()).await.unwrap().into_iter().map(|pending| pending.update.id).collect();
    for (name, result) in [("a", a), ("b", b), ("c", c)] {
        assert_eq!(
            result.is_ok(),
            stored.iter().any(|it| it == name),
            "{name}: {result:?}, stored {stored:?}"
        );
    }
    ledger.relent().await;
    assert_eq!(ledger.accept(update("b")).await.unwrap(), Accepted::New);
}

#[tokio::test]
async fn a_full_disk_has_its_own_error() {
    let ledger = Harness::new().open();
    let limit = |tables: &Connection| Ok(tables.query_row("PRAGMA max_page_count = 1", [], |_| Ok(()))?);
    ledger.with(limit).await.unwrap();
    let long =
        Update { content: Content::Message { text: "x".repeat(1 << 20), files: Vec::new() }, ..update("a") };
    let error = ledger.accept(long).await.unwrap_err();
    assert!(matches!(error, Error::Full), "{error}");
    assert!(error.to_string().contains("no space is left"), "{error}");
    let room =
        |tables: &Connection| Ok(tables.query_row("PRAGMA max_page_count = 100000", [], |_| Ok(()))?);
    ledger.with(room).await.unwrap();
    assert_eq!(ledger.accept(update("a")).await.unwrap(), Accepted::New);
}

#[tokio::test]
async fn a_session_is_found_in_the_place_where_it_runs_or_was_last_used() {
    let ledger = Harness::new().open();
    let session: protocol::SessionId = "ses_1".parse().unwrap();
    assert_eq!(ledger.place_of(&session).await.unwrap(), None);
    let at = |chat: &str| Place { chat: chat.into(), ..place() };
    for (chat, heard) in [("8", 1), ("9", 2)] {
        let id = session.clone();
        let change = move |state: &mut PlaceState| (state.session, state.heard) = (Some(id), Some(heard));
        ledger.change_place_state(&at(chat), change).await.unwrap();
    }
    assert_eq!(ledger.place_of(&session).await.unwrap(), Some(at("9")));
    ledger.accept(update("a")).await.unwrap();
    let pending = ledger.open_updates(&place()).await.unwrap();
    ledger
        .run(pending[0].id, Run { session: session.clone(), prompt: "msg_1".parse().unwrap() })
        .await
        .unwrap();
    assert_eq!(ledger.place_of(&session).await.unwrap(), Some(place()));
}
