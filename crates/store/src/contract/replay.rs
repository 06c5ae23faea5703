//! Replaying the log.

use engine::ports::StoreFailure;

use super::*;

fn span(after: u64, upto: u64) -> Span {
    Span { after, upto, workspace: None, limit: usize::MAX }
}

async fn positions(subject: &Subject, span: Span) -> Vec<u64> {
    subject.reads.replay(span).await.unwrap().iter().map(|event| event.position).collect()
}

pub(crate) async fn a_span_is_open_below_and_closed_above(subject: &Subject) {
    subject.say("ses_a", vec![busy("ses_a"), idle("ses_a"), busy("ses_a")]).await;
    assert_eq!(positions(subject, span(0, u64::MAX)).await, [1, 2, 3, 4]);
    assert_eq!(positions(subject, span(1, 3)).await, [2, 3]);
    assert_eq!(positions(subject, span(4, u64::MAX)).await, [0; 0]);
    assert_eq!(positions(subject, span(3, 3)).await, [0; 0]);
    assert_eq!(positions(subject, span(3, 1)).await, [0; 0]);
    assert_eq!(positions(subject, span(u64::MAX, u64::MAX)).await, [0; 0]);
}

pub(crate) async fn a_workspace_sees_its_own_events(subject: &Subject) {
    for (session, workspace) in [("ses_a", here()), ("ses_b", there()), ("ses_c", here())] {
        let commit = Commit {
            project: format!("project of {workspace}").into(),
            fence: fence(workspace),
            ..commit(session, 0, vec![created(session), busy(session)])
        };
        subject.log.append(commit).await.unwrap();
    }
    let only = Span { workspace: Some(here()), ..span(1, u64::MAX) };
    let events = subject.reads.replay(only.clone()).await.unwrap();
    assert_eq!(events.iter().map(|event| event.position).collect::<Vec<_>>(), [2, 5, 6]);
    assert!(events.iter().all(|event| event.workspace == here() && &*event.directory == DIRECTORY));
    assert!(events.iter().all(|event| &*event.project == "project of wrk_here"));
    assert_eq!(positions(subject, Span { limit: 2, ..only }).await, [2, 5]);
    let seen: Vec<_> = subject.seen.0.lock().unwrap().iter().map(|event| event.workspace.clone()).collect();
    assert_eq!(seen, [here(), here(), there(), there(), here(), here()]);
}

pub(crate) async fn a_limit_cuts_and_the_next_span_continues(subject: &Subject) {
    subject.say("ses_a", vec![busy("ses_a"), idle("ses_a"), busy("ses_a"), idle("ses_a")]).await;
    let mut found = Vec::new();
    loop {
        let after = found.last().copied().unwrap_or(0);
        let page = positions(subject, Span { limit: 2, ..span(after, 4) }).await;
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    assert_eq!(found, [1, 2, 3, 4]);
    assert_eq!(positions(subject, Span { limit: 0, ..span(0, 4) }).await, [0; 0]);
}

pub(crate) async fn a_session_has_a_history_of_its_own(subject: &Subject) {
    let numbers = async |session: &str, after, limit| -> Vec<u64> {
        let events = subject.reads.events(&session.parse().unwrap(), after, limit).await.unwrap();
        events.into_iter().map(|(number, _)| number).collect()
    };
    subject.say("ses_a", vec![busy("ses_a")]).await;
    subject.say("ses_b", vec![]).await;
    subject.say("ses_a", vec![idle("ses_a")]).await;
    assert_eq!(numbers("ses_a", 0, usize::MAX).await, [1, 2, 3]);
    assert_eq!(numbers("ses_a", 1, 1).await, [2]);
    assert_eq!(numbers("ses_a", 3, 9).await, [0; 0]);
    assert_eq!(numbers("ses_b", 0, 9).await, [1]);
    assert_eq!(numbers("ses_none", 0, 9).await, [0; 0]);
    let last = subject.reads.events(&"ses_a".parse().unwrap(), 2, 1).await.unwrap();
    let replayed = subject.everything().await;
    assert_eq!(last.first().map(|(_, json)| json), replayed.last().map(|event| &event.json));
}

pub(crate) async fn an_empty_log_has_bounds(subject: &Subject) {
    assert_eq!(subject.reads.bounds().await.unwrap(), (1, 0));
    assert!(subject.everything().await.is_empty());
    subject.say("ses_a", vec![]).await;
    assert_eq!(subject.reads.bounds().await.unwrap(), (1, 1));
}

pub(crate) async fn a_deletion_stays_in_the_log(subject: &Subject) {
    subject.say("ses_a", vec![busy("ses_a")]).await;
    subject.say("ses_b", vec![]).await;
    subject.say("ses_a", vec![idle("ses_a"), deleted("ses_a")]).await;
    assert_eq!(positions(subject, span(0, u64::MAX)).await, [3, 5]);
    // A client that has seen position 1 has missed nothing that could still be replayed.
    assert_eq!(subject.reads.bounds().await.unwrap(), (1, 5));
    assert_eq!(subject.seen.positions(), [1, 2, 3, 4, 5]);
    let late = subject.append("ses_a", 4, vec![idle("ses_a")]).await.unwrap_err();
    assert_eq!(late.failure, StoreFailure::Conflict);
}

pub(crate) async fn a_replay_equals_the_observed_events(subject: &Subject) {
    subject.say("ses_a", vec![user("ses_a", "msg_1", 1), queued("ses_a", "msg_1", "steer")]).await;
    subject.say("ses_b", vec![todos("ses_b", &["one"])]).await;
    let stored = subject.everything().await;
    let seen = subject.seen.0.lock().unwrap();
    assert_eq!(stored.len(), seen.len());
    for (stored, seen) in stored.iter().zip(seen.iter()) {
        assert_eq!(stored.position, seen.position);
        assert_eq!(stored.workspace, seen.workspace);
        assert_eq!(stored.directory, seen.directory);
        assert_eq!(stored.project, seen.project);
        assert_eq!(stored.json, seen.json);
    }
}
