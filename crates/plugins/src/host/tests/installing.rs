//! Plugins while their packages are being installed, and plugins that are required.

use engine::ports::hooks::{ToolArgs, ToolBefore};

use super::*;

/// An installer that waits until the test writes to the pipe `go`, and then puts the packages in place.
const INSTALLER: &str = r#"#!/bin/sh
go=$(dirname "$0")/go
mkfifo "$go" 2>/dev/null
read -r _ < "$go"
for package in @opencode-ai/plugin amaro; do
  mkdir -p "node_modules/$package" && echo '{}' > "node_modules/$package/package.json"
done
"#;

impl Harness {
    /// A world without the packages that the host needs.
    fn bare(cases: &str) -> Self {
        let harness = Self::new(cases);
        std::fs::remove_dir_all(install::home(harness.place.path())).unwrap();
        let installer = harness.place.path().join("npm");
        std::fs::write(&installer, INSTALLER).unwrap();
        std::fs::set_permissions(&installer, std::fs::Permissions::from_mode(0o755)).unwrap();
        harness
    }

    /// Lets the installer go on.
    async fn install(&self) {
        let go = self.place.path().join("go");
        // Opening a pipe waits for its reader.
        tokio::task::spawn_blocking(move || std::fs::write(go, "now\n")).await.unwrap().unwrap();
    }
}

fn required(spec: &str, more: &Value) -> Plugin {
    serde_json::from_value(json!([spec, more])).unwrap()
}

async fn run_tool(host: &Host) -> Result<Value, String> {
    let input = json!({ "tool": "bash", "sessionID": "ses_1", "callID": "call_1" });
    let input: ToolBefore = serde_json::from_value(input).unwrap();
    let output = ToolArgs { args: json!({ "command": "ls" }) };
    let hooks: &dyn Hooks = &host.members().remove(0);
    let answer = hooks.admit(&input, output).await;
    answer.map(|output| output.args).map_err(|refusal| refusal.to_string())
}

#[tokio::test]
async fn plain_javascript_runs_while_packages_are_installed() {
    let harness = Harness::bare(r#"hook:*) answer '{"text":"changed"}';;"#);
    let mut settings = harness.settings(2);
    settings.plugins[0].spec = "file:///0.js".to_owned();
    let host = harness.started(settings).await;
    assert_eq!((text(&host, 0).await.as_str(), wants(&host, 1)), ("changed", false));
    assert_eq!(host.pending(), ["file:///1.ts"]);
    harness.install().await;
    let mut state = host.0.shared.state.subscribe();
    let complete = state.wait_for(|state| matches!(state, State::Running(running) if !running.is_early));
    timeout(PATIENCE, complete).await.unwrap().unwrap();
    assert_eq!((text(&host, 0).await.as_str(), wants(&host, 1)), ("changed", true));
    assert!(host.pending().is_empty());
    assert_eq!(harness.reports(), Vec::<String>::new());
}

#[tokio::test]
async fn without_plain_javascript_everything_is_pending() {
    let harness = Harness::bare("");
    let host = Host::start(harness.settings(1));
    assert_eq!(host.pending(), ["file:///0.ts"]);
    harness.install().await;
    assert!(host.settled(PATIENCE).await);
    assert!(host.pending().is_empty());
}

#[tokio::test]
async fn a_required_plugin_is_waited_for_and_does_not_see_the_mark() {
    let harness = Harness::bare("hook:*) answer '{\"args\":{}}';;");
    let mut settings = harness.settings(0);
    settings.plugins = vec![required("file:///0.ts", &json!({ "baton.required": true, "level": 3 }))];
    let host = Host::start(settings);
    let (missing, ()) = tokio::join!(host.lacks(PATIENCE), harness.install());
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(harness.heard("load")[0]["options"], json!({ "level": 3 }));
    assert_eq!(run_tool(&host).await, Ok(json!({})));
}

#[tokio::test]
async fn no_tool_runs_without_a_required_plugin() {
    let broken = Harness::new("load:*) fail 'no way';;");
    let mut settings = broken.settings(0);
    settings.plugins = vec![required("file:///0.ts", &json!({ "baton.required": true }))];
    let host = broken.started(settings).await;
    assert_eq!(host.lacks(PATIENCE).await, ["file:///0.ts"]);
    assert_eq!(run_tool(&host).await.unwrap_err(), "the plugin file:///0.ts is required and does not run");
    let wrong = Harness::new("hook:*) answer 7;;");
    let mut settings = wrong.settings(0);
    settings.plugins = vec![required("file:///0.ts", &json!({ "baton.required": true }))];
    let host = wrong.started(settings).await;
    assert_eq!(run_tool(&host).await.unwrap_err(), "the plugin file:///0.ts is required and does not answer");
    // Without the mark, a plugin that fails changes nothing.
    let host = wrong.started(wrong.settings(1)).await;
    assert_eq!(run_tool(&host).await, Ok(json!({ "command": "ls" })));
}
