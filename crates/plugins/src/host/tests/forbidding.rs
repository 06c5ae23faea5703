//! An exception before a tool call forbids the call; other failures do not. These tests use the real host, because
//! the host tells the two apart.

use engine::ports::hooks::{ToolArgs, ToolBefore};

use super::*;

/// Protects a file, and misbehaves when it is called for others.
const PLUGIN: &str = r#"
export const Protect = async () => ({
  "tool.execute.before": async (input, output) => {
    const path = output.args.filePath
    output.args.seen = true
    if (path.endsWith(".env")) throw new Error("Do not read .env files")
    if (path === "typo") output.missing.property = 1
    if (path === "circle") output.args.circle = output
    if (path === "shape") output.args = undefined
    if (path === "hangs") await new Promise(() => {})
    if (path === "exits") process.exit(3)
  },
})
"#;

/// The installed runtime, if there is one.
#[expect(clippy::disallowed_methods, reason = "the test looks where a user's shell would")]
fn runtime() -> Option<Runtime> {
    Runtime::find(&std::env::var_os("PATH")?)
}

/// A host with the plugin; `None` where no runtime is installed, which the end-to-end tests require anyway.
async fn protected(harness: &Harness) -> Option<Host> {
    let file = harness.place.path().join("protect.js");
    std::fs::write(&file, PLUGIN).unwrap();
    let mut settings = harness.settings(0);
    settings.runtime = Some(runtime()?);
    settings.plugins = vec![Plugin { spec: format!("file://{}", file.display()), options: None }];
    settings.limits.hook = Duration::from_secs(2);
    Some(harness.started(settings).await)
}

async fn read(host: &Host, path: &str) -> Result<Value, String> {
    let input = json!({ "tool": "read", "sessionID": "ses_1", "callID": "call_1" });
    let input: ToolBefore = serde_json::from_value(input).unwrap();
    let output = ToolArgs { args: json!({ "filePath": path }) };
    let hooks: &dyn Hooks = &host.members().remove(0);
    let answer = hooks.admit(&input, output).await;
    answer.map(|output| output.args).map_err(|refusal| refusal.to_string())
}

#[tokio::test]
async fn a_thrown_error_forbids_the_call_and_is_not_a_failure() {
    let harness = Harness::new("");
    let Some(host) = protected(&harness).await else { return };
    for _ in 0..2 {
        assert_eq!(read(&host, "a/.env").await, Err("Do not read .env files".to_owned()));
    }
    assert_eq!(read(&host, "a.txt").await, Ok(json!({ "filePath": "a.txt", "seen": true })));
    // A programming error in a plugin looks the same, and must not allow a call that the plugin should stop.
    let mistake = read(&host, "typo").await.unwrap_err();
    assert!(mistake.contains("undefined"), "{mistake}");
    assert_eq!(harness.reports(), Vec::<String>::new());
}

#[tokio::test]
async fn any_other_failure_allows_the_call_and_is_reported_once() {
    for (path, why) in [
        ("circle", "circular"),
        ("shape", "its result has the wrong shape"),
        ("hangs", "it takes longer than 2 s"),
        ("exits", "the plugin host exited"),
    ] {
        let harness = Harness::new("");
        let Some(host) = protected(&harness).await else { return };
        assert_eq!(read(&host, path).await, Ok(json!({ "filePath": path })), "{path}");
        harness.reported("failed in its hook tool.execute.before").await;
        let reports = harness.reports();
        let [report] = &reports.iter().filter(|report| report.contains("before")).collect::<Vec<_>>()[..]
        else {
            panic!("{reports:?}")
        };
        assert!(report.contains(why), "{report}");
        if path == "exits" {
            harness.reported("exited and is restarted").await;
            again(&host).await;
        }
        // An overdue plugin is not called before it has answered.
        assert_eq!(read(&host, "a/.env").await.is_err(), path != "hangs", "{path}");
    }
}
