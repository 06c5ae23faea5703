//! Runs the cases of `cases.json`, which the web page's fold is tested with, too.

use std::collections::BTreeMap;

use protocol::{Event, EventBody, SessionStatus};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Activity, Badge, Request, SessionView};

const SESSION: &str = "ses_parent";

#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
struct Step {
    event: Option<Value>,
    open: Option<bool>,
    resync: Option<Resync>,
    #[serde(default)]
    expect: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct Resync {
    statuses: BTreeMap<String, SessionStatus>,
    requests: Vec<Value>,
}

fn event(value: &Value) -> EventBody {
    let mut value = value.clone();
    value["id"] = "evt_1".into();
    serde_json::from_value::<Event>(value).unwrap().body
}

fn request(value: &Value) -> Request {
    match event(value) {
        EventBody::PermissionAsked(request) => Request::Permission(request),
        EventBody::QuestionAsked(request) => Request::Question(request),
        other => panic!("not a request: {other:?}"),
    }
}

fn take(view: &mut SessionView, step: &Step) {
    if let Some(body) = &step.event {
        view.apply(&event(body));
    }
    if let Some(is_open) = step.open {
        view.set_open(is_open);
    }
    if let Some(Resync { statuses, requests }) = &step.resync {
        view.resync(statuses.get(SESSION), requests.iter().map(request).collect());
    }
}

/// The field of a view under the name that the cases use.
fn shown(view: &SessionView, field: &str) -> Value {
    match field {
        "activity" => json!(match view.activity() {
            Activity::Idle { .. } => "idle",
            Activity::Working => "busy",
            Activity::Retrying { .. } => "retry",
        }),
        "badge" => json!(match view.badge() {
            Badge::Idle => "idle",
            Badge::Unread => "unread",
            Badge::Working => "working",
            Badge::Retrying => "retrying",
            Badge::Permission => "permission",
            Badge::Question => "question",
        }),
        "requests" => view.requests().iter().map(Request::id).collect(),
        "queue" => view.queue_length().into(),
        "unread" => view.is_unread().into(),
        "tokens" => view.tokens().map_or(Value::Null, |tokens| {
            let cache = json!({ "read": tokens.cache.read, "write": tokens.cache.write });
            json!({
                "input": tokens.input, "output": tokens.output, "reasoning": tokens.reasoning, "cache": cache,
            })
        }),
        other => panic!("a case expects an unknown field: {other}"),
    }
}

#[test]
fn every_shared_case_holds() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("cases.json")).unwrap();
    for Case { name, steps } in cases {
        let mut view = SessionView::new(SESSION.parse().unwrap());
        for (index, step) in steps.iter().enumerate() {
            take(&mut view, step);
            for (field, expected) in &step.expect {
                assert_eq!(shown(&view, field), *expected, "{name}: {field} after step {}", index + 1);
            }
        }
    }
}
