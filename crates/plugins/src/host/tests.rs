//! A host whose process is a small script that speaks the protocol, so that each test controls its behaviour
//! exactly. Real plugins are tested end to end.

mod forbidding;
mod installing;
mod providing;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::bus::Bus;
use engine::mint::Mint;
use engine::ports::hooks::{HookPoint, Hooks, Text, TextComplete};
use engine::ports::{SystemClock, SystemRandom, ToolCall, ToolCaller, ToolPermission, Tools};
use futures::future::{BoxFuture, FutureExt};
use protocol::config::Plugin;
use protocol::{EventBody, Extra};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{Host, Limits, Reporter, Runtime, Settings, State, install};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads messages and answers the usual ones; `$cases` come first.
const PEER: &str = r#"#!/bin/sh
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1" >&4; }
fail() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"%s"}}\n' "$id" "$1" >&4; }
say() { printf '%s\n' "$1" >&4; }
cd "$(dirname "$0")" || exit 1
life=$(cat lives 2>/dev/null | wc -l); echo x >> lives
while IFS= read -r line <&3; do
  id=${line#*\"id\":}; id=${id%%,*}
  method=${line#*\"method\":\"}; method=${method%%\"*}
  plugin=${line#*\"plugin\":}; plugin=${plugin%%[,\}]*}
  printf '%s\n' "$line" >> heard
  case "$method:$plugin:$life" in
    $cases
    start:*|ping:*|dispose:*) answer 1;;
    load:*) answer '{"hooks":["experimental.text.complete","event"]}';;
  esac
done
"#;

struct Harness {
    place: TempDir,
    bus: Arc<Bus>,
    reports: Arc<Mutex<Vec<String>>>,
    told: Arc<Notify>,
}

impl Harness {
    fn new(cases: &str) -> Self {
        let place = TempDir::new().unwrap();
        let script = place.path().join("node");
        std::fs::write(&script, PEER.replace("$cases", cases)).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        for package in ["@opencode-ai/plugin", "amaro"] {
            let folder = install::home(place.path()).join("node_modules").join(package);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("package.json"), "{}").unwrap();
        }
        Self { place, bus: Arc::default(), reports: Arc::default(), told: Arc::default() }
    }

    fn settings(&self, plugins: usize) -> Settings {
        let (reports, told) = (Arc::clone(&self.reports), Arc::clone(&self.told));
        let report: Reporter = Arc::new(move |text: &str| {
            reports.lock().unwrap().push(text.to_owned());
            told.notify_one();
        });
        let plugin = |number| Plugin { spec: format!("file:///{number}.ts"), options: None };
        Settings {
            runtime: Some(Runtime::Node(self.place.path().join("node"))),
            cache: self.place.path().to_owned(),
            hidden: Vec::new(),
            directory: self.place.path().to_owned(),
            worktree: self.place.path().to_owned(),
            project: json!({ "id": "global" }),
            server_url: "http://127.0.0.1:1".to_owned(),
            authorization: Some("Basic c2VjcmV0".to_owned()),
            config: json!({ "model": "a/b" }),
            plugins: (0..plugins).map(plugin).collect(),
            bus: Arc::clone(&self.bus),
            limits: Limits { pause: Duration::from_millis(1), ..Limits::default() },
            report,
            logins: Arc::new(|provider: &str| {
                let login = json!({ "type": "oauth", "access": format!("token of {provider}") });
                std::future::ready(Some(login)).boxed()
            }),
        }
    }

    async fn started(&self, settings: Settings) -> Host {
        let host = Host::start(settings);
        assert!(host.settled(PATIENCE).await, "{:?}", self.reports());
        host
    }

    fn reports(&self) -> Vec<String> {
        self.reports.lock().unwrap().clone()
    }

    async fn reported(&self, words: &str) {
        let waiting = async {
            while !self.reports().iter().any(|report| report.contains(words)) {
                self.told.notified().await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{words}: {:?}", self.reports()));
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.place.path().join(name)).unwrap_or_default()
    }

    /// The messages of this kind that the process received.
    fn heard(&self, method: &str) -> Vec<Value> {
        let all = self.file("heard");
        let all = all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|message| message["method"] == method).map(|message| message["params"].clone()).collect()
    }
}

async fn text(host: &Host, plugin: usize) -> String {
    let member = host.members().remove(plugin);
    let input: TextComplete =
        serde_json::from_value(json!({ "sessionID": "ses_1", "messageID": "msg_1", "partID": "prt_1" }))
            .unwrap();
    let hooks: &dyn Hooks = &member;
    hooks.change(&input, Text { text: "as it was".to_owned() }).await.text
}

fn wants(host: &Host, plugin: usize) -> bool {
    host.members().remove(plugin).wants(HookPoint::TextComplete)
}

/// Waits until the process is running again.
async fn again(host: &Host) {
    let mut state = host.0.shared.state.subscribe();
    let running = state.wait_for(|state| matches!(state, State::Running(_)));
    timeout(PATIENCE, running).await.unwrap().unwrap();
}

async fn dead(host: &Host) {
    let mut state = host.0.shared.state.subscribe();
    timeout(PATIENCE, state.wait_for(|state| matches!(state, State::Dead))).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_hook_changes_its_output_and_other_hooks_are_not_called() {
    let harness = Harness::new(r#"hook:*) answer '{"text":"changed"}';;"#);
    let host = harness.started(harness.settings(1)).await;
    assert!(wants(&host, 0) && !host.members()[0].wants(HookPoint::ChatMessage));
    assert_eq!(text(&host, 0).await, "changed");
    let call = harness.heard("hook").remove(0);
    let input = json!({ "sessionID": "ses_1", "messageID": "msg_1", "partID": "prt_1" });
    assert_eq!(call["name"], "experimental.text.complete");
    assert_eq!((&call["input"], &call["output"]), (&input, &json!({ "text": "as it was" })));
    assert_eq!(harness.reports(), Vec::<String>::new());
}

#[tokio::test]
async fn a_failing_hook_changes_nothing_and_is_reported_once() {
    for (cases, why) in [
        ("hook:*) fail 'no way';;", "no way"),
        (r#"hook:*) answer '{"text":7}';;"#, "its result has the wrong shape"),
    ] {
        let harness = Harness::new(cases);
        let host = harness.started(harness.settings(1)).await;
        for _ in 0..2 {
            assert_eq!(text(&host, 0).await, "as it was");
        }
        let [report] = harness.reports().try_into().unwrap();
        let expected = "the plugin file:///0.ts failed in its hook experimental.text.complete: ";
        assert!(report.starts_with(&format!("{expected}{why}")), "{report}");
    }
}

#[tokio::test]
async fn a_hanging_hook_is_skipped_until_it_returns() {
    let harness = Harness::new(
        r#"hook:0:*) if [ -z "$held" ]; then held=$id; else answer '{"text":"changed"}'; fi;;
           hook:1:*) say '{"jsonrpc":"2.0","id":'"$held"',"result":{"text":"late"}}'; answer '{"text":"other"}';;"#,
    );
    let mut settings = harness.settings(2);
    settings.limits.hook = Duration::from_millis(500);
    let host = harness.started(settings).await;
    assert_eq!(text(&host, 0).await, "as it was");
    assert_eq!(text(&host, 0).await, "as it was");
    assert_eq!(harness.heard("hook").len(), 1, "the second was not asked");
    harness.reported("takes longer than 0.5 s").await;
    // The process is alive, so the other plugin works; then the first one has answered.
    assert_eq!(text(&host, 1).await, "other");
    assert_eq!(text(&host, 0).await, "changed");
    assert_eq!(harness.file("lives"), "x\n");
}

#[tokio::test]
async fn an_unresponsive_process_is_replaced() {
    let harness = Harness::new(
        r#"hook:0:0) exec sleep 600;;
           hook:*) answer '{"text":"changed"}';;"#,
    );
    let mut settings = harness.settings(1);
    (settings.limits.hook, settings.limits.pulse) = (Duration::from_millis(500), Duration::from_millis(200));
    let host = harness.started(settings).await;
    assert_eq!(text(&host, 0).await, "as it was");
    harness.reported("did not answer a ping").await;
    again(&host).await;
    assert_eq!(text(&host, 0).await, "changed");
    assert_eq!(harness.file("lives"), "x\nx\n");
}

#[tokio::test]
async fn a_spinning_process_is_noticed_without_a_pending_call() {
    let harness = Harness::new("ping:*:0) exec sleep 600;;");
    let mut settings = harness.settings(1);
    (settings.limits.rest, settings.limits.pulse) = (Duration::from_millis(50), Duration::from_millis(400));
    let host = harness.started(settings).await;
    harness.reported("did not answer a ping").await;
    again(&host).await;
}

#[tokio::test]
async fn a_process_that_ends_is_restarted_and_its_last_output_is_reported() {
    let harness = Harness::new(
        r#"hook:0:0) echo 'goodbye, cruel world'; exit 7;;
           hook:*) answer '{"text":"changed"}';;"#,
    );
    let host = harness.started(harness.settings(1)).await;
    assert_eq!(text(&host, 0).await, "as it was");
    harness.reported("exited and is restarted: its process ended with code 7; it wrote: goodbye").await;
    again(&host).await;
    assert_eq!(text(&host, 0).await, "changed");
}

#[tokio::test]
async fn a_process_that_hangs_up_is_replaced() {
    let harness = Harness::new(
        r#"hook:0:0) exec 4>&-; sleep 600;;
           hook:*) answer '{"text":"changed"}';;"#,
    );
    let host = harness.started(harness.settings(1)).await;
    assert_eq!(text(&host, 0).await, "as it was");
    harness.reported("its output ended or cannot be parsed").await;
    again(&host).await;
    assert_eq!(text(&host, 0).await, "changed");
}

#[tokio::test]
async fn a_process_that_always_exits_is_not_restarted() {
    let harness = Harness::new("ping:*) exit 1;; hook:*) exit 1;;");
    let mut settings = harness.settings(1);
    settings.limits.deaths = 2;
    let host = harness.started(settings).await;
    for _ in 0..3 {
        again(&host).await;
        assert_eq!(text(&host, 0).await, "as it was");
        dead(&host).await;
    }
    harness.reported("it exited 3 times in a row").await;
    assert!(!wants(&host, 0) && host.list().is_empty());
    assert_eq!(text(&host, 0).await, "as it was");
    assert_eq!(harness.file("lives"), "x\nx\nx\n");
}

#[tokio::test]
async fn a_plugin_that_cannot_be_loaded_does_not_affect_the_others() {
    let harness = Harness::new(
        r#"load:0:*) fail 'it is broken';;
           load:1:*) exit 3;;
           load:2:*) sleep 600;;
           hook:*) answer '{"text":"changed"}';;"#,
    );
    let mut settings = harness.settings(4);
    settings.limits.load = Duration::from_secs(2);
    let host = harness.started(settings).await;
    let listening: Vec<bool> = (0..4).map(|plugin| wants(&host, plugin)).collect();
    assert_eq!(listening, [false, false, false, true]);
    assert_eq!(text(&host, 3).await, "changed");
    let expected = [
        "the plugin file:///0.ts cannot be loaded: it is broken",
        "the plugin file:///1.ts cannot be loaded: it ended the plugin host",
        "the plugin file:///2.ts cannot be loaded: it takes longer than 2 s",
    ];
    assert_eq!(harness.reports(), expected);
}

#[tokio::test]
async fn the_configuration_goes_through_every_plugin() {
    let harness = Harness::new(
        r#"load:*) answer '{"hooks":["config"]}';;
           config:0:*) answer '{"model":"c/d"}';;
           config:1:*) fail 'no';;
           config:2:*) case "$line" in *c/d*) answer '{"model":"e/f"}';; esac;;"#,
    );
    let host = harness.started(harness.settings(3)).await;
    assert_eq!(host.config(), Some(json!({ "model": "e/f" })));
    assert_eq!(harness.heard("config")[0]["config"], json!({ "model": "a/b" }));
    assert_eq!(harness.reports().len(), 1);
    let start = harness.heard("start").remove(0);
    assert_eq!(
        (&start["authorization"], &start["project"]["id"]),
        (&json!("Basic c2VjcmV0"), &json!("global"))
    );
    assert!(!format!("{host:?}").contains("c2VjcmV0"));
}

#[tokio::test]
async fn events_of_the_directory_arrive_in_order() {
    let harness = Harness::new(
        r#"event:*) case "$line" in *last*) say '{"method":"report","params":{"where":"it","message":"done"}}';; esac;;"#,
    );
    let host = harness.started(harness.settings(1)).await;
    let mint = Mint::new(Arc::new(SystemClock), Arc::new(SystemRandom));
    let place = |directory: &Path| harness.bus.place(directory.to_string_lossy(), "p");
    let publish = |directory: &Path, server: &str| {
        let about = Extra::from_iter([("server".to_owned(), server.into())]);
        harness.bus.publish(Some(&place(directory)), &mint.event(EventBody::McpToolsChanged(about)));
    };
    // Subscribing is the task's first act after it reports that the process runs.
    while harness.bus.stats().subscribers == 0 {
        tokio::task::yield_now().await;
    }
    for name in ["one", "two", "three"] {
        publish(harness.place.path(), name);
        publish(Path::new("/elsewhere"), "other");
    }
    publish(harness.place.path(), "last");
    harness.reported("failed in it: done").await;
    let told: Vec<_> =
        harness.heard("event").iter().map(|event| event["properties"]["server"].clone()).collect();
    assert_eq!(told, ["one", "two", "three", "last"]);
    drop(host);
}

/// Records what a tool asks for, and refuses a permission with that name.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl ToolCaller for Notes {
    fn progress(&self, title: Option<String>, _: Extra) -> BoxFuture<'_, ()> {
        self.0.lock().unwrap().push(title.unwrap_or_default());
        std::future::ready(()).boxed()
    }

    fn permission(&self, needed: ToolPermission) -> BoxFuture<'_, Result<(), String>> {
        let refused = needed.permission == "refused";
        self.0.lock().unwrap().push(needed.permission);
        std::future::ready(if refused { Err("the user said no".to_owned()) } else { Ok(()) }).boxed()
    }
}

const TOOLS: &str =
    r#"load:*) answer '{"hooks":["tool"],"tools":[{"id":"add","description":"Adds","parameters":{}}]}';;"#;

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        args: Extra::from_iter([("a".to_owned(), 1.into())]),
        session: "ses_1".parse().unwrap(),
        message: "msg_1".parse().unwrap(),
        agent: "build".to_owned(),
        call: "call_1".to_owned(),
    }
}

#[tokio::test]
async fn a_tool_reports_progress_and_asks_for_permission() {
    let cases = format!(
        r#"{TOOLS}
        tool:*) held=$id
          say '{{"method":"tool.metadata","params":{{"call":"call_1","title":"half"}}}}'
          say '{{"id":1,"method":"tool.ask","params":{{"call":"call_1","permission":"refused","patterns":["*"]}}}}';;
        *) case "$line" in *'user said no'*) id=$held; answer '{{"output":"3","title":"t"}}';; *) answer 1;; esac;;"#
    );
    let harness = Harness::new(&cases);
    let host = harness.started(harness.settings(1)).await;
    assert_eq!(host.list()[0].description, "Adds");
    let notes = Notes::default();
    let outcome = timeout(PATIENCE, host.call(call("add"), &notes)).await.unwrap().unwrap();
    assert_eq!((outcome.text.as_str(), outcome.title.as_deref()), ("3", Some("t")));
    assert_eq!(*notes.0.lock().unwrap(), ["half", "refused"]);
    let made = harness.heard("tool").remove(0);
    assert_eq!((&made["args"], &made["context"]["callID"]), (&json!({ "a": 1 }), &json!("call_1")));
    assert_eq!(host.call(call("missing"), &notes).await.unwrap_err(), "there is no tool missing");
}

#[tokio::test]
async fn a_dropped_tool_call_is_aborted() {
    let cases = format!(
        r#"{TOOLS}
        tool:*) say '{{"method":"tool.metadata","params":{{"call":"call_1","title":"going"}}}}';;
        cancel:*) say '{{"method":"report","params":{{"where":"it","message":"stopped"}}}}';;"#
    );
    let harness = Harness::new(&cases);
    let host = harness.started(harness.settings(1)).await;
    {
        let notes = Notes::default();
        let going = async {
            while notes.0.lock().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            outcome = host.call(call("add"), &notes) => panic!("{outcome:?}"),
            () = going => {}
        }
    }
    harness.reported("stopped").await;
}

#[tokio::test]
async fn plugins_are_disposed_before_the_process_ends() {
    let harness = Harness::new("");
    let host = harness.started(harness.settings(1)).await;
    host.close().await;
    assert_eq!(harness.heard("dispose").len(), 1);
    assert!(!wants(&host, 0));
}

#[tokio::test]
async fn a_missing_runtime_is_reported_and_nothing_else_happens() {
    let harness = Harness::new("");
    let host = Host::start(Settings { runtime: None, ..harness.settings(1) });
    assert!(!host.settled(PATIENCE).await);
    let [report] = harness.reports().try_into().unwrap();
    assert!(
        report.starts_with("the plugin host cannot be started: plugins need Bun, or Node 20"),
        "{report}"
    );
}
