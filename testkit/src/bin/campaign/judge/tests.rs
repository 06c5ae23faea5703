//! The judge finds planted violations, and nothing in a correct round.

use serde_json::json;

use super::*;
use crate::script::Script;

fn frames(cursors: &[u64]) -> Vec<Frame> {
    cursors
        .iter()
        .map(|&cursor| Frame { cursor, digest: cursor * 7, session: Some("ses_a".into()) })
        .collect()
}

fn promises(found: &[Violation]) -> Vec<Promise> {
    found.iter().map(|violation| violation.promise).collect()
}

fn sent(script: Script, fate: Fate) -> BTreeMap<String, Prompt> {
    BTreeMap::from([(
        "msg_1".to_owned(),
        Prompt { session: "ses_a".into(), script, fate, may_be_gone: false },
    )])
}

fn told(moments: &[Moment]) -> BTreeMap<String, Vec<Moment>> {
    BTreeMap::from([("msg_1".to_owned(), moments.to_vec())])
}

fn heard() -> BTreeSet<String> {
    BTreeSet::from(["msg_1".to_owned()])
}

fn asked(step: usize, life: usize) -> Ask {
    Ask { prompt: "msg_1".into(), step, life, messages: 2 * step + 1 }
}

const DONE: [Moment; 3] = [Moment::Queued, Moment::Started, Moment::Ended(EndReason::Completed)];

fn user(id: &str) -> MessageWithParts {
    let info = json!({
        "id": id, "sessionID": "ses_a", "role": "user", "time": { "created": 1 },
        "agent": "build", "model": { "providerID": "p", "modelID": "m" },
    });
    serde_json::from_value(json!({ "info": info, "parts": [] })).unwrap()
}

fn answer(id: &str, parent: &str, completed: Option<u64>) -> MessageWithParts {
    let info = json!({
        "id": id, "sessionID": "ses_a", "role": "assistant", "parentID": parent, "mode": "build", "agent": "build",
        "path": { "cwd": "/", "root": "/" }, "cost": 0, "modelID": "m", "providerID": "p",
        "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
        "time": { "created": 1, "completed": completed },
    });
    serde_json::from_value(json!({ "info": info, "parts": [] })).unwrap()
}

fn in_session(messages: Vec<MessageWithParts>) -> BTreeMap<String, Vec<MessageWithParts>> {
    BTreeMap::from([("ses_a".to_owned(), messages)])
}

#[test]
fn a_sound_round_has_no_violation() {
    assert_eq!(log(&frames(&[1, 2, 4]), &frames(&[1, 2, 4]), &BTreeSet::new()), []);
    assert_eq!(prompts(&sent(Script::Bash, Fate::Accepted), &told(&DONE), &heard()), []);
    let messages = in_session(vec![user("msg_1"), answer("msg_2", "msg_1", Some(2))]);
    assert_eq!(sessions(&sent(Script::Bash, Fate::Accepted), &messages), []);
    let asks = [0, 1].map(|step| asked(step, 1));
    assert_eq!(steps(&asks), []);
    assert_eq!(effects("msg_1\nmsg_2\n"), []);
}

#[test]
fn a_missing_event_is_found() {
    let found = log(&frames(&[1, 3]), &frames(&[1, 2, 3]), &BTreeSet::new());
    assert_eq!(found.len(), 1);
    assert!(found[0].detail.starts_with("event 2 is in the log"), "{found:?}");
}

#[test]
fn an_event_that_the_log_lost_is_found_unless_its_session_was_deleted() {
    let (followed, replayed) = (frames(&[1, 2, 3]), frames(&[1, 3]));
    assert_eq!(promises(&log(&followed, &replayed, &BTreeSet::new())), [Promise::Resume]);
    assert_eq!(log(&followed, &replayed, &BTreeSet::from(["ses_a".to_owned()])), []);
}

#[test]
fn events_out_of_order_repeated_or_changed_are_found() {
    for followed in [frames(&[1, 3, 2]), frames(&[1, 2, 2, 3])] {
        assert_eq!(promises(&log(&followed, &frames(&[1, 2, 3]), &BTreeSet::new())), [Promise::Resume]);
    }
    let mut changed = frames(&[1, 2]);
    changed[1].digest = 0;
    assert_eq!(promises(&log(&changed, &frames(&[1, 2]), &BTreeSet::new())), [Promise::Resume]);
}

#[test]
fn a_lost_prompt_is_found() {
    let accepted = sent(Script::Bash, Fate::Accepted);
    assert_eq!(promises(&prompts(&accepted, &BTreeMap::new(), &heard())), [Promise::Accepted]);
    assert_eq!(promises(&sessions(&accepted, &in_session(Vec::new()))), [Promise::Accepted]);
    let interrupted = told(&[Moment::Queued, Moment::Ended(EndReason::Interrupted)]);
    assert_eq!(prompts(&accepted, &interrupted, &heard()).len(), 1, "accepted and not run after the restart");
    assert_eq!(prompts(&accepted, &told(&DONE), &BTreeSet::new()).len(), 1, "the model never saw it");
    assert_eq!(prompts(&accepted, &told(&DONE[..2]), &heard()).len(), 1, "never ended");
    assert_eq!(prompts(&sent(Script::Bash, Fate::Unsure), &told(&DONE), &heard()).len(), 1);
}

#[test]
fn a_prompt_that_runs_twice_is_found() {
    let twice = told(&[DONE, DONE].concat());
    assert_eq!(
        promises(&prompts(&sent(Script::Bash, Fate::Accepted), &twice, &heard())),
        [Promise::Accepted]
    );
    assert_eq!(
        prompts(&sent(Script::Ask, Fate::Accepted), &twice, &heard()),
        [],
        "an answer takes it up again"
    );
    let ended = told(&[DONE[0], DONE[1], DONE[2], DONE[2]]);
    assert_eq!(prompts(&sent(Script::Ask, Fate::Accepted), &ended, &heard()).len(), 1);
    let doubled = in_session(vec![user("msg_1"), user("msg_1")]);
    assert_eq!(
        promises(&sessions(&sent(Script::Bash, Fate::Accepted), &doubled)),
        [Promise::Order, Promise::Accepted]
    );
}

#[test]
fn a_refused_prompt_that_exists_is_found() {
    let refused = sent(Script::Bash, Fate::Refused(507));
    assert_eq!(prompts(&refused, &told(&DONE), &heard()).len(), 1);
    assert_eq!(sessions(&refused, &in_session(vec![user("msg_1")])).len(), 1);
    assert_eq!(prompts(&refused, &BTreeMap::new(), &heard()), []);
}

#[test]
fn an_open_message_is_found() {
    let messages = in_session(vec![user("msg_1"), answer("msg_2", "msg_1", None)]);
    assert_eq!(promises(&sessions(&BTreeMap::new(), &messages)), [Promise::Closed]);
}

#[test]
fn an_answer_before_its_prompt_is_found() {
    let messages = in_session(vec![answer("msg_2", "msg_1", Some(2)), user("msg_1")]);
    assert_eq!(promises(&sessions(&BTreeMap::new(), &messages)), [Promise::Order]);
}

#[test]
fn a_step_that_is_asked_for_twice_is_found() {
    let asks = [0, 0, 1].map(|step| asked(step, 1));
    assert_eq!(promises(&steps(&asks)), [Promise::Once]);
    let back = [0, 1, 0].map(|step| asked(step, 1));
    assert_eq!(promises(&steps(&back)), [Promise::Once]);
    assert_eq!(steps(&[asked(0, 1), asked(0, 2)]), [], "a crash came in between");
    assert_eq!(promises(&effects("msg_1\nmsg_2\nmsg_1\n")), [Promise::Once]);
}

#[test]
fn a_double_idle_is_found() {
    let status = |status: serde_json::Value| json!({ "type": "session.status", "properties": { "sessionID": "ses_a", "status": status } });
    let idle = json!({ "type": "session.idle", "properties": { "sessionID": "ses_a" } });
    let pair = [status(json!({ "type": "idle" })), idle];
    let mut events = vec![status(json!({ "type": "busy" }))];
    events.extend(pair.clone());
    assert_eq!(crate::follow::violations(&events), []);
    events.extend(pair);
    assert_eq!(promises(&crate::follow::violations(&events)), [Promise::OneIdle]);
}
