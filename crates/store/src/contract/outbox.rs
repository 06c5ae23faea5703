//! The outbox: notices that wait for receivers.

use engine::{
    limits::MAX_NOTICES,
    ports::{Notice, Outbox},
};

use super::{Subject, id};

fn notice(receiver: &str, session: &str, event: &str, due: i64) -> Notice {
    Notice {
        receiver: receiver.into(),
        id: id(event),
        session: id(session),
        body: format!("{{\"about\":\"{event}\"}}"),
        created: 1,
        attempts: 0,
        due,
    }
}

async fn heads(outbox: &dyn Outbox, receiver: &str) -> Vec<String> {
    let heads = outbox.heads(receiver, 100).await.unwrap();
    heads.into_iter().map(|notice| notice.id.to_string()).collect()
}

pub(crate) async fn the_log_is_read_from_where_it_was_left(subject: &Subject) {
    let outbox = &*subject.outbox;
    assert_eq!(outbox.read_upto().await.unwrap(), None);
    outbox.put(7, Vec::new()).await.unwrap();
    outbox.put(9, vec![notice("a", "ses_1", "evt_1", 0)]).await.unwrap();
    assert_eq!(outbox.read_upto().await.unwrap(), Some(9));
}

pub(crate) async fn notices_of_a_session_are_delivered_in_order(subject: &Subject) {
    let outbox = &*subject.outbox;
    let first = notice("a", "ses_1", "evt_1", 5);
    let all = vec![
        first.clone(),
        notice("a", "ses_1", "evt_2", 0),
        notice("a", "ses_2", "evt_3", 3),
        notice("b", "ses_1", "evt_1", 0),
    ];
    outbox.put(1, all).await.unwrap();
    assert_eq!(outbox.heads("a", 100).await.unwrap()[1], first);
    assert_eq!(heads(outbox, "a").await, ["evt_3", "evt_1"], "the second one of a session waits");
    assert_eq!(outbox.heads("a", 1).await.unwrap().len(), 1);
    outbox.postpone("a", &id("evt_1"), 2, 1).await.unwrap();
    assert_eq!(heads(outbox, "a").await, ["evt_1", "evt_3"], "soonest due first");
    assert_eq!(outbox.heads("a", 1).await.unwrap()[0].attempts, 2);
    outbox.remove("a", &id("evt_1")).await.unwrap();
    assert_eq!(heads(outbox, "a").await, ["evt_2", "evt_3"]);
    assert_eq!(heads(outbox, "b").await, ["evt_1"], "another receiver has its own");
}

pub(crate) async fn a_notice_is_put_once(subject: &Subject) {
    let outbox = &*subject.outbox;
    outbox.put(1, vec![notice("a", "ses_1", "evt_1", 0)]).await.unwrap();
    outbox.postpone("a", &id("evt_1"), 3, 9).await.unwrap();
    outbox.put(1, vec![notice("a", "ses_1", "evt_1", 0)]).await.unwrap();
    let kept = outbox.heads("a", 100).await.unwrap();
    assert_eq!((kept.len(), kept[0].attempts), (1, 3));
    // Postponing or removing a notice that does not exist is not an error.
    outbox.postpone("a", &id("evt_2"), 1, 1).await.unwrap();
    outbox.remove("a", &id("evt_2")).await.unwrap();
}

pub(crate) async fn notices_of_removed_receivers_are_deleted(subject: &Subject) {
    let outbox = &*subject.outbox;
    outbox.put(4, vec![notice("a", "ses_1", "evt_1", 0), notice("b", "ses_1", "evt_1", 0)]).await.unwrap();
    outbox.retain(vec!["b".into()]).await.unwrap();
    assert!(heads(outbox, "a").await.is_empty());
    assert_eq!(heads(outbox, "b").await, ["evt_1"]);
    assert_eq!(outbox.read_upto().await.unwrap(), Some(4));
    outbox.retain(Vec::new()).await.unwrap();
    assert!(heads(outbox, "b").await.is_empty());
    assert_eq!(outbox.read_upto().await.unwrap(), None);
}

pub(crate) async fn the_oldest_notices_above_the_limit_are_dropped(subject: &Subject) {
    let outbox = &*subject.outbox;
    let many = |from: usize, count: usize| {
        let each = (from..from + count).map(|number| notice("a", "ses_1", &format!("evt_{number}"), 0));
        each.collect::<Vec<_>>()
    };
    outbox.put(1, vec![notice("b", "ses_1", "evt_b", 0)]).await.unwrap();
    assert_eq!(outbox.put(2, many(0, MAX_NOTICES)).await.unwrap(), 0);
    assert_eq!(outbox.put(3, many(MAX_NOTICES, 3)).await.unwrap(), 3);
    assert_eq!(heads(outbox, "a").await, ["evt_3"]);
    assert_eq!(heads(outbox, "b").await, ["evt_b"]);
}
