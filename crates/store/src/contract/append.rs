//! Appending: positions, expected heads, one order for all observers.

use std::sync::Arc;

use engine::ports::{Appended, StoreFailure};
use serde_json::json;

use super::*;

pub(crate) async fn events_get_positions_in_commit_order(subject: &Subject) {
    let first = subject.append("ses_a", 0, vec![created("ses_a"), busy("ses_a")]).await.unwrap();
    assert_eq!(first, Appended { head: 2, position: 2 });
    let second = subject.append("ses_b", 0, vec![created("ses_b")]).await.unwrap();
    assert_eq!(second, Appended { head: 1, position: 3 });
    let third = subject.append("ses_a", 2, vec![idle("ses_a")]).await.unwrap();
    assert_eq!(third, Appended { head: 3, position: 4 });
    let (_, head) = subject.reads.session(&id("ses_a")).await.unwrap().unwrap();
    assert_eq!(head, 3);
}

pub(crate) async fn a_writer_that_is_behind_is_refused(subject: &Subject) {
    subject.say("ses_a", vec![busy("ses_a")]).await;
    for expected in [0, 1, 3, u64::MAX] {
        let refused = subject.append("ses_a", expected, vec![idle("ses_a")]).await.unwrap_err();
        assert_eq!(refused.failure, StoreFailure::Conflict, "{refused}");
    }
    assert_eq!(subject.reads.statuses(None).await.unwrap().len(), 1);
    assert_eq!(subject.reads.bounds().await.unwrap(), (1, 2));
    assert_eq!(subject.seen.positions(), [1, 2]);
    // A refused commit uses no position.
    let next = subject.append("ses_a", 2, vec![idle("ses_a")]).await.unwrap();
    assert_eq!(next, Appended { head: 3, position: 3 });
}

pub(crate) async fn a_session_begins_with_its_creation(subject: &Subject) {
    let refused = subject.append("ses_a", 0, vec![busy("ses_a")]).await.unwrap_err();
    assert_eq!(refused.failure, StoreFailure::Conflict);
    let refused = subject.append("ses_a", 1, vec![created("ses_a")]).await.unwrap_err();
    assert_eq!(refused.failure, StoreFailure::Conflict);
    assert_eq!(subject.reads.bounds().await.unwrap(), (1, 0));
    subject.append("ses_a", 0, vec![created("ses_a")]).await.unwrap();
}

pub(crate) async fn an_empty_commit_returns_the_head(subject: &Subject) {
    subject.say("ses_a", vec![]).await;
    let asked = subject.append("ses_a", 1, vec![]).await.unwrap();
    assert_eq!(asked, Appended { head: 1, position: 1 });
    assert_eq!(subject.append("ses_a", 0, vec![]).await.unwrap_err().failure, StoreFailure::Conflict);
    assert_eq!(subject.append("ses_b", 0, vec![]).await.unwrap_err().failure, StoreFailure::Conflict);
    assert_eq!(subject.seen.positions(), [1]);
}

pub(crate) async fn the_observer_knows_before_the_writer(subject: &Subject) {
    for expected in 0..20 {
        let event = if expected == 0 { created("ses_a") } else { busy("ses_a") };
        let appended = subject.append("ses_a", expected, vec![event]).await.unwrap();
        assert_eq!(subject.seen.newest(), appended.position);
    }
}

pub(crate) async fn commits_of_many_sessions_have_one_order(subject: &Subject) {
    const SESSIONS: usize = 8;
    const COMMITS: u64 = 40;
    let writers = (0..SESSIONS).map(|writer| {
        let (log, seen) = (Arc::clone(&subject.log), Arc::clone(&subject.seen));
        tokio::spawn(async move {
            let name = format!("ses_{writer}");
            let mut head = 0;
            while head < COMMITS {
                let first = if head == 0 { created(&name) } else { busy(&name) };
                let appended = log.append(commit(&name, head, vec![first, idle(&name)])).await.unwrap();
                assert_eq!(appended.head, head + 2);
                assert!(seen.newest() >= appended.position, "acknowledged before it was published");
                head = appended.head;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let total = SESSIONS as u64 * COMMITS;
    assert_eq!(subject.seen.positions(), (1..=total).collect::<Vec<_>>());
    assert_eq!(subject.reads.bounds().await.unwrap(), (1, total));
    // Events of one commit are neighbours.
    let kinds = subject.seen.kinds();
    let stored: Vec<String> = subject.everything().await.iter().map(|event| kind(&event.json)).collect();
    assert_eq!(stored, kinds.iter().map(|(_, kind)| kind.clone()).collect::<Vec<_>>());
    for pair in subject.seen.0.lock().unwrap().chunks(2) {
        assert_eq!(pair[0].session, pair[1].session);
    }
}

pub(crate) async fn two_writers_cannot_both_win(subject: &Subject) {
    subject.say("ses_a", vec![]).await;
    let race = (0..8).map(|_| {
        let log = Arc::clone(&subject.log);
        tokio::spawn(async move { log.append(commit("ses_a", 1, vec![idle("ses_a")])).await })
    });
    let mut won = 0;
    for racer in race.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            Ok(appended) => {
                won += 1;
                assert_eq!(appended, Appended { head: 2, position: 2 });
            }
            Err(refused) => assert_eq!(refused.failure, StoreFailure::Conflict),
        }
    }
    assert_eq!(won, 1);
}

pub(crate) async fn a_writer_of_another_epoch_is_refused_alone(subject: &Subject) {
    let open = text("ses_a", "msg_1", "prt_1", "before", None);
    subject.say("ses_a", vec![answer("ses_a", "msg_1", "msg_0", 1, None), saved(&open)]).await;
    let old = || Fence { workspace: here(), epoch: Alone::EPOCH + 7 };
    let commits = (0..9).map(|number| {
        let (log, name) = (Arc::clone(&subject.log), format!("ses_{number}"));
        let fence = if number == 4 { old() } else { fence(here()) };
        tokio::spawn(
            async move { log.append(Commit { fence, ..commit(&name, 0, vec![created(&name)]) }).await },
        )
    });
    for (number, commit) in commits.collect::<Vec<_>>().into_iter().enumerate() {
        let failure = commit.await.unwrap().map_err(|error| error.failure).err();
        assert_eq!(failure, (number == 4).then_some(StoreFailure::Fenced), "{number}");
    }
    let behind = Commit { fence: old(), ..commit("ses_a", 1, vec![idle("ses_a")]) };
    let refused = subject.log.append(behind).await.unwrap_err();
    assert_eq!(refused.failure, StoreFailure::Fenced, "the reason why it is behind");
    let late = text("ses_a", "msg_1", "prt_1", "after", None);
    let refused = subject.log.checkpoint(old(), vec![late]).await.unwrap_err();
    assert_eq!(refused.failure, StoreFailure::Fenced, "{refused}");
    let part = subject.reads.part(&id("ses_a"), &id("msg_1"), &id("prt_1")).await.unwrap().unwrap();
    assert_eq!(part.text(), Some("before"));
    assert_eq!(subject.seen.newest(), 11, "nothing of it was stored or published");
}

pub(crate) async fn the_log_keeps_the_bytes(subject: &Subject) {
    let event =
        updated("ses_a", json!({ "title": "Grüße, \u{1f980} \u{0} \"quoted\"", "extra": [1, 2.5, null] }));
    let json = event.json.clone();
    subject.say("ses_a", vec![event]).await;
    assert_eq!(subject.everything().await[1].json, json);
    assert_eq!(subject.seen.0.lock().unwrap()[1].json, json);
}

fn kind(json: &[u8]) -> String {
    let event: protocol::Event = serde_json::from_slice(json).unwrap();
    event.body.kind().to_owned()
}

pub(crate) async fn commits_of_a_family_are_stored_together_or_not_at_all(subject: &Subject) {
    for session in ["ses_a", "ses_b", "ses_c"] {
        subject.say(session, vec![busy(session)]).await;
    }
    let delete = |session, expected| commit(session, expected, vec![idle(session), deleted(session)]);
    let behind = vec![delete("ses_a", 2), delete("ses_b", 1)];
    let refused = subject.log.append_all(behind).await.unwrap_err();
    assert_eq!(refused.failure, StoreFailure::Conflict);
    let fence = Fence { workspace: here(), epoch: Alone::EPOCH + 7 };
    let stale = vec![Commit { fence, ..delete("ses_a", 2) }, delete("ses_b", 2)];
    let refused = subject.log.append_all(stale).await.unwrap_err();
    assert_eq!(refused.failure, StoreFailure::Fenced);
    assert_eq!((subject.reads.count().await.unwrap(), subject.seen.newest()), (3, 6));

    let family = vec![delete("ses_a", 2), delete("ses_b", 2)];
    let appended = subject.log.append_all(family).await.unwrap();
    assert_eq!(appended, Appended { head: 4, position: 10 });
    assert_eq!(subject.seen.positions(), (1..=10).collect::<Vec<_>>());
    assert_eq!(subject.reads.count().await.unwrap(), 1);
    let left: Vec<u64> = subject.everything().await.iter().map(|event| event.position).collect();
    assert_eq!(left, [5, 6, 8, 10], "the events of ses_c and the two deletions");
}
