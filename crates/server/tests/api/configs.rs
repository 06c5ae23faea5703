//! Changes of the configuration: what reaches the wiring, the response, and the events for clients.

use std::sync::{Arc, Mutex};

use engine::{
    StreamItem,
    bus::{Place, Scope},
    ports::hooks::{Environment, HookCall, HookPoint, Hooked, Hooks},
};
use futures::future::{BoxFuture, ready};
use protocol::{Rest, login::Login, provider::Provider, trust::Trust};
use serde_json::{Map, Value, json};
use server::{
    Instance, Instances,
    instance::{Invalid, Refused, Unchanged},
};

use crate::harness::Harness;

/// A requested change: its directory and its content.
type Asked = (Option<String>, Value);

/// Records changes and refuses some.
#[derive(Debug, Default)]
struct Wiring {
    asked: Mutex<Vec<Asked>>,
    trusted: Mutex<Option<String>>,
}

impl Instances for Wiring {
    fn find<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Arc<Instance>, Invalid>> {
        Box::pin(ready(Ok(Arc::default())))
    }

    fn others<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Provider>, Invalid>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn hooks<'a>(&'a self, _: &'a Place) -> BoxFuture<'a, Arc<dyn Hooks>> {
        Box::pin(ready(Arc::new(Shaper) as Arc<dyn Hooks>))
    }

    fn forget(&self, _: Option<&str>) {}

    fn user_config(&self) -> BoxFuture<'_, Result<Value, Invalid>> {
        Box::pin(ready(Ok(json!({ "username": "ada", "apiKey": "sk-secret" }))))
    }

    fn configure<'a>(
        &'a self,
        directory: Option<&'a str>,
        change: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Value, Unchanged>> {
        let answer = match change.get("model").and_then(Value::as_str) {
            Some("invalid") => {
                Err(Invalid { path: Some("/a/opencode.json".into()), message: "line 3".into() }.into())
            }
            Some("refused") => Err(Refused::Unfit("not like this".into()).into()),
            Some("full") => Err(Refused::Full("no space is left".into()).into()),
            _ => Ok(Value::Object(change.clone())),
        };
        self.asked.lock().unwrap().push((directory.map(ToOwned::to_owned), change.into()));
        Box::pin(ready(answer))
    }

    fn trust<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Trust, Invalid>> {
        let by = self.trusted.lock().unwrap().clone();
        Box::pin(ready(Ok(Trust {
            directory: directory.to_owned(),
            trusted: by.is_some(),
            by,
            command: format!("baton trust {directory}"),
            withheld: Vec::new(),
            extra: Rest::NONE,
        })))
    }

    fn set_trust<'a>(&'a self, directory: &'a str, trusted: bool) -> BoxFuture<'a, Result<(), Refused>> {
        *self.trusted.lock().unwrap() = trusted.then(|| directory.to_owned());
        Box::pin(ready(Ok(())))
    }

    fn log_in<'a>(&'a self, _: &'a str, _: Option<Login>) -> BoxFuture<'a, Result<(), Refused>> {
        Box::pin(ready(Ok(())))
    }
}

/// Adds a variable to every process, and one with an invalid name.
struct Shaper;

impl Hooks for Shaper {
    fn wants(&self, point: HookPoint) -> bool {
        point == HookPoint::ShellEnv
    }

    fn call<'a>(&'a self, call: HookCall<'a>) -> Hooked<'a> {
        let (input, output) = call.typed::<Environment>().unwrap();
        assert!(input.session_id.is_none() && input.call_id.is_none());
        for (name, value) in [("SHAPED", input.cwd.as_str()), ("MINE", "a plugin's"), ("NO=NAME", "x")] {
            output.env.insert(name.to_owned(), value.to_owned());
        }
        Box::pin(ready(Ok(())))
    }
}

#[tokio::test]
async fn a_terminal_gets_variables_from_hooks_and_the_clients_take_precedence() {
    let harness = Harness::with(Arc::new(Wiring::default()));
    let script = "printf '%s %s' \"$SHAPED\" \"$MINE\" > said.part && mv said.part said; read line";
    let body = json!({ "command": "/bin/sh", "args": ["-c", script], "env": { "MINE": "the client's" } });
    let made = harness.post("/pty", body).await;
    let said = std::path::Path::new(&harness.directory()).join("said");
    let written = async {
        while !said.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), written).await.unwrap();
    let said = std::fs::read_to_string(said).unwrap();
    assert_eq!(said, format!("{} the client's", harness.directory()));
    let path = format!("/pty/{}", made["id"].as_str().unwrap());
    assert_eq!(harness.expect(200, "DELETE", &path, None).await, json!(true));
}

fn secret() -> Value {
    json!({ "username": "ada", "provider": { "acme": { "options": { "apiKey": "sk-secret", "region": "eu" } } } })
}

#[tokio::test]
async fn a_change_arrives_with_its_secrets_and_the_response_omits_them() {
    let wiring = Arc::new(Wiring::default());
    let harness = Harness::with(wiring.clone());
    let shown = json!({ "username": "ada", "provider": { "acme": { "options": { "region": "eu" } } } });
    assert_eq!(harness.expect(200, "PATCH", "/config", secret()).await, shown);
    assert_eq!(harness.expect(200, "PATCH", "/global/config", secret()).await, shown);
    assert_eq!(harness.get("/global/config").await, json!({ "username": "ada" }));
    let asked = wiring.asked.lock().unwrap().clone();
    assert_eq!(asked, [(Some(harness.directory()), secret()), (None, secret())]);
}

#[tokio::test]
async fn a_refused_change_is_an_error_and_publishes_no_event() {
    let harness = Harness::with(Arc::new(Wiring::default()));
    let mut stream = harness.sessions.subscribe(Scope::default(), None).await.unwrap();
    for path in ["/config", "/global/config"] {
        let invalid = harness.expect(400, "PATCH", path, json!({ "model": "invalid" })).await;
        let expected = json!({ "path": "/a/opencode.json", "message": "line 3" });
        assert_eq!((&invalid["name"], &invalid["data"]), (&json!("ConfigInvalidError"), &expected));
        let refused = harness.expect(400, "PATCH", path, json!({ "model": "refused" })).await;
        assert_eq!(
            (&refused["name"], &refused["data"]["message"]),
            (&json!("BadRequest"), &json!("not like this"))
        );
        let full = harness.expect(507, "PATCH", path, json!({ "model": "full" })).await;
        assert_eq!(full["name"], "InsufficientStorage");
        harness.expect(200, "PATCH", path, json!({})).await;
        harness.expect(400, "PATCH", path, json!([])).await;
        harness.expect(400, "PATCH", path, None).await;
    }
    harness.expect(200, "PATCH", "/config", json!({ "username": "ada" })).await;
    harness.expect(200, "PATCH", "/global/config", json!({ "username": "ada" })).await;
    let mut told = Vec::new();
    while told.len() < 2 {
        let Ok(StreamItem::Frames(frames)) = stream.next().await else { panic!("no event") };
        let kinds = frames.iter().map(|frame| serde_json::from_slice::<Value>(frame.json()).unwrap());
        told.extend(kinds.map(|event| event["type"].as_str().unwrap().to_owned()));
    }
    assert_eq!(told, ["server.instance.disposed", "global.disposed"]);
}

#[tokio::test]
async fn trust_is_shown_granted_and_revoked_with_events_for_clients() {
    let harness = Harness::with(Arc::new(Wiring::default()));
    let mut stream = harness.sessions.subscribe(Scope::default(), None).await.unwrap();
    let here = harness.directory();
    let shown = |trusted: bool| {
        let mut shown = json!({
            "directory": here, "trusted": trusted, "command": format!("baton trust {here}"), "withheld": [],
        });
        if trusted {
            shown["by"] = here.clone().into();
        }
        shown
    };
    assert_eq!(harness.get("/trust").await, shown(false));
    assert_eq!(harness.expect(200, "POST", "/trust", None).await, shown(true));
    assert_eq!(harness.get("/trust").await, shown(true));
    assert_eq!(harness.expect(200, "DELETE", "/trust", None).await, shown(false));
    harness.expect(400, "POST", "/trust?directory=relative", None).await;
    let mut told = Vec::new();
    while told.len() < 2 {
        let Ok(StreamItem::Frames(frames)) = stream.next().await else { panic!("no event") };
        let kinds = frames.iter().map(|frame| serde_json::from_slice::<Value>(frame.json()).unwrap());
        told.extend(kinds.map(|event| event["type"].as_str().unwrap().to_owned()));
    }
    assert_eq!(told, ["server.instance.disposed"; 2]);
}

#[tokio::test]
async fn the_server_does_not_upgrade_itself() {
    let harness = Harness::new();
    let refused = harness.expect(501, "POST", "/global/upgrade", json!({ "target": "2.0.0" })).await;
    assert_eq!(refused["name"], "NotImplemented");
    harness.expect(400, "POST", "/global/upgrade", json!({})).await;
}
