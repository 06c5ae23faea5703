//! Checks that any sequence of commits gives the same answers from every store.

use engine::ports::{Cursor, Direction, Listing, Page, Search, StoreFailure, Stretch};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{TestCaseError, TestRunner},
};
use protocol::Part;
use serde_json::json;

use super::*;

const SESSIONS: [&str; 3] = ["ses_a", "ses_b", "ses_c"];
const MESSAGES: [&str; 4] = ["msg_1", "msg_2", "msg_3", "msg_4"];
const PARTS: [&str; 3] = ["prt_1", "prt_2", "prt_3"];
const REQUESTS: [(&str, &str); 2] = [("per_1", "que_1"), ("per_2", "que_2")];
const APPROVALS: [&str; 4] = ["psv_1", "psv_2", "psv_3", "psv_4"];
const TITLES: [&str; 4] = ["Fix it", "fix IT", "Ünïcode", "100%"];
const PATHS: [Option<&str>; 4] = [None, Some(""), Some("src"), Some("src/deep")];

/// One operation on a store. Numbers choose from the short lists above, so that operations collide.
#[derive(Debug, Clone)]
enum Step {
    /// A commit to a session; `off` is added to the correct expectation.
    Commit {
        session: usize,
        create: bool,
        off: u64,
        events: Vec<[usize; 5]>,
    },
    Checkpoint(Vec<[usize; 4]>),
    Forget(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let event = [0..20_usize, 0..4, 0..4, 0..4, 0..4];
    let commit = (0..3_usize, any::<bool>(), prop_oneof![9 => Just(0_u64), 1 => 1..3_u64], vec(event, 0..6))
        .prop_map(|(session, create, off, events)| Step::Commit { session, create, off, events });
    let checkpoint = vec([0..3_usize, 0..4, 0..3, 0..4], 0..4).prop_map(Step::Checkpoint);
    let forget = (0..4_usize).prop_map(Step::Forget);
    vec(prop_oneof![12 => commit, 2 => checkpoint, 1 => forget], 1..40)
}

fn part(session: &str, message: usize, part: usize, flavour: usize) -> Part {
    let end = flavour.is_multiple_of(2).then_some(1);
    text(session, MESSAGES[message], PARTS[part % 3], TITLES[flavour], end)
}

fn event_of(session: &str, [kind, a, b, c, d]: [usize; 5]) -> Encoded {
    let message = MESSAGES[a];
    let (permission_id, question_id) = REQUESTS[a % 2];
    let fields = json!({
        "title": TITLES[a], "projectID": if b == 0 { "p" } else { "q" },
        "time": { "created": 1, "updated": c },
    });
    let fields = merge(fields, PATHS[d].map_or(json!({}), |path| json!({ "path": path })));
    let fields = merge(fields, if a == b { json!({ "parentID": SESSIONS[c % 3] }) } else { json!({}) });
    let completed = d.is_multiple_of(2).then_some(5);
    let created = i64::try_from(b).unwrap();
    match kind {
        0 => updated(session, fields),
        1 => created_with(session, fields),
        2 if a == 0 => deleted(session),
        2 | 3 => user(session, message, created),
        4 => answer(session, message, MESSAGES[c], created, completed),
        5 if c == 0 => message_removed(session, message),
        5..=7 => saved(&part(session, a, b, c)),
        8 => part_removed(session, message, PARTS[b % 3]),
        9 => todos(session, &TITLES[..a]),
        10 if b == 0 => idle(session),
        10 => busy(session),
        11 => permission(session, permission_id, TITLES[b]),
        12 => question(session, question_id),
        13 if b == 0 => permitted(session, permission_id),
        13 if b == 3 => permitted_always(session, permission_id, &[(APPROVALS[c], DIRECTORY, TITLES[d])]),
        13 if b == 1 => answered(session, question_id),
        13 => rejected(session, question_id),
        14 => queued(session, message, if b.is_multiple_of(2) { "steer" } else { "queue" }),
        15 => started(session, message),
        16 => withdrawn(session, message),
        18 => seen(session, u64::try_from(a).unwrap()),
        17 => {
            let mut order = MESSAGES.map(|message| (message, if c == 0 { "steer" } else { "queue" }));
            order.rotate_left(b);
            order.swap(0, d);
            rearranged(session, &order[a..])
        }
        _ => ended(session, message),
    }
}

/// Performs a step and returns its result in a comparable form.
async fn take(subject: &Subject, step: &Step) -> Result<Appended, StoreFailure> {
    match step {
        Step::Commit { session, create, off, events } => {
            let name = SESSIONS[*session];
            let found = subject.reads.session(&id(name)).await.unwrap();
            let head = found.as_ref().map_or(0, |(_, head)| *head);
            let mut events: Vec<Encoded> = events.iter().map(|event| event_of(name, *event)).collect();
            if *create && found.is_none() {
                events.insert(0, created(name));
            }
            let workspace = if *session == 2 { there() } else { here() };
            let commit = Commit { fence: fence(workspace), ..commit(name, head + off, events) };
            subject.log.append(commit).await.map_err(|refused| refused.failure)
        }
        Step::Checkpoint(parts) => {
            let parts = parts.iter().map(|[session, a, b, c]| part(SESSIONS[*session], *a, *b, *c)).collect();
            subject.log.checkpoint(fence(here()), parts).await.map_err(|refused| refused.failure)?;
            Ok(Appended { head: 0, position: 0 })
        }
        Step::Forget(which) => {
            let known = subject.log.forget(&id(APPROVALS[*which])).await;
            Ok(Appended { head: known.map_err(|refused| refused.failure)?.into(), position: 0 })
        }
    }
}

/// The answers to every query, as text.
async fn answers(subject: &Subject) -> Vec<String> {
    let reads = &subject.reads;
    let mut answers = Vec::new();
    macro_rules! ask {
        ($question:expr) => {
            answers.push(format!("{}: {:?}", stringify!($question), $question.await.unwrap()))
        };
    }
    for session in SESSIONS.map(id::<SessionId>) {
        ask!(reads.session(&session));
        ask!(reads.workspace(&session));
        ask!(reads.open(&session));
        ask!(reads.todos(&session));
        ask!(reads.prompts(&session));
        ask!(reads.status(&session));
        ask!(reads.requests_of(&session));
        ask!(reads.last_answer(&session, None));
        for limit in [None, Some(2)] {
            ask!(reads.messages(&session, Page { before: None, limit }));
            let before = Some(Cursor { created: 2, id: id("msg_2") });
            ask!(reads.messages(&session, Page { before, limit }));
        }
        ask!(reads.newest_summary(&session));
        for (limit, bytes) in [(usize::MAX, usize::MAX), (2, 900)] {
            let place = Cursor { created: 2, id: id("msg_2") };
            let whole =
                |direction| Stretch { after: None, before: None, direction, limit, bytes, bulk: false };
            ask!(reads.stretch(&session, whole(Direction::Backward)));
            ask!(
                reads.stretch(&session, Stretch { after: Some(place.clone()), ..whole(Direction::Forward) })
            );
            ask!(reads.nth_before(&session, Some(place.clone()), 2));
            ask!(reads.nth_after(&session, place, 2));
        }
        for message in MESSAGES.map(id) {
            ask!(reads.message(&session, &message));
            ask!(reads.last_answer(&session, Some(&message)));
            ask!(reads.is_withdrawn(&session, &message));
            for part in PARTS.map(id) {
                ask!(reads.part(&session, &message, &part));
            }
        }
    }
    for words in [vec!["fix"], vec!["ünï"], vec!["100"], vec!["it", "fi"]] {
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        ask!(reads.find(Search { words: words.clone(), before: None, limit: 3 }));
        ask!(reads.find(Search { words, before: Some(3), limit: 9 }));
    }
    for workspace in [None, Some(&here()), Some(&there())] {
        ask!(reads.statuses(workspace));
        ask!(reads.requests(workspace));
        ask!(reads.approvals(workspace));
        ask!(reads.unfinished(workspace));
        ask!(reads.sessions(Listing { workspace: workspace.cloned(), ..Listing::default() }));
    }
    ask!(reads.bounds());
    ask!(reads.count());
    let all = Listing::default;
    let text = |text: &str| Some(text.to_owned());
    ask!(reads.sessions(all()));
    ask!(reads.sessions(Listing { limit: Some(2), ..all() }));
    ask!(reads.sessions(Listing { roots: true, ..all() }));
    ask!(reads.sessions(Listing { parent: Some(id("ses_a")), ..all() }));
    ask!(reads.sessions(Listing { project: text("p"), ..all() }));
    ask!(reads.sessions(Listing { path: text("src"), ..all() }));
    ask!(reads.sessions(Listing { search: text("IX"), updated_since: Some(1), ..all() }));
    ask!(reads.sessions(Listing { search: text("ÜNÏ"), ..all() }));
    for event in subject.everything().await {
        answers.push(format!("{event:?}"));
    }
    answers.push(format!("{:?}", subject.seen.kinds()));
    answers
}

/// Performs the steps on a store and on the reference, and compares all answers.
async fn compare(subject: Subject, steps: &[Step]) -> Result<(), TestCaseError> {
    let reference = Subject::memory();
    for step in steps {
        prop_assert_eq!(take(&subject, step).await, take(&reference, step).await);
    }
    prop_assert_eq!(answers(&subject).await, answers(&reference).await);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_answers_like_memory(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(compare(Subject::sqlite(), &steps))?;
    }
}

#[test]
fn postgres_answers_like_memory() {
    let Some(databases) = Databases::start() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut runner = TestRunner::new(ProptestConfig { cases: 24, ..ProptestConfig::default() });
    let ran = runner
        .run(&steps(), |steps| runtime.block_on(async { compare(databases.subject().await, &steps).await }));
    ran.unwrap();
}
