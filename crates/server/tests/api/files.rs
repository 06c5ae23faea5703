//! Files: search, listing, content and patches.

use engine::StreamItem;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Exit, Spec};

use crate::harness::{CLOSED, Harness};

async fn git(harness: &Harness, command: &str) {
    let command = format!("-c user.name=Test -c user.email=test@example.com {command}");
    let spec =
        Spec::new("git", harness.tree.path(), std::time::Duration::from_secs(20)).args(command.split(' '));
    let done = process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    assert_eq!(done.exit, Exit::Code(0), "{}", done.output.text());
}

fn write(harness: &Harness, path: &str, text: impl AsRef<[u8]>) {
    let path = harness.tree.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A repository with two files, one of which changed after the commit.
async fn repository() -> Harness {
    let harness = Harness::new();
    write(&harness, ".gitignore", "*.log\n");
    write(&harness, "src/main.rs", "fn main() {\n    hello();\n}\n");
    git(&harness, "init -q -b main").await;
    git(&harness, "add -A").await;
    git(&harness, "commit -q -m first").await;
    write(&harness, "src/main.rs", "fn main() {\n    goodbye();\n}\n");
    write(&harness, "notes.log", "hello\n");
    write(&harness, "new.txt", "one\ntwo\n");
    harness
}

#[tokio::test]
async fn lines_and_names_are_found() {
    let harness = repository().await;
    let found = harness.get("/find?pattern=good(bye)").await;
    let expected = json!([{
        "path": { "text": "src/main.rs" },
        "lines": { "text": "    goodbye();" },
        "line_number": 2,
        "absolute_offset": 12,
        "submatches": [{ "match": { "text": "goodbye" }, "start": 4, "end": 11 }],
    }]);
    assert_eq!(found, expected);
    assert_eq!(harness.get("/find?pattern=hello").await, json!([]), "an ignored file was searched");
    harness.expect(400, "GET", "/find?pattern=(", None).await;
    harness.expect(400, "GET", "/find", None).await;

    assert_eq!(harness.get("/find/file?query=mrs").await, json!(["src/main.rs"]));
    assert_eq!(harness.get("/find/file?query=src&type=directory").await, json!(["src/"]));
    assert_eq!(harness.get("/find/file?query=src&dirs=false").await, json!(["src/main.rs"]));
    assert_eq!(harness.get("/find/file?query=&limit=1").await.as_array().unwrap().len(), 1);
    assert_eq!(harness.get("/find/symbol?query=main").await, json!([]));
    let found = harness.get("/api/fs/find?query=main&limit=20").await;
    assert_eq!(found["data"], json!([{ "path": "src/main.rs", "type": "file" }]));
    assert_eq!(found["location"]["directory"], json!(harness.directory()));
}

#[tokio::test]
async fn a_listing_includes_and_marks_ignored_entries() {
    let harness = repository().await;
    let top = harness.get("/file?path=").await;
    let names: Vec<_> =
        top.as_array().unwrap().iter().map(|node| (&node["name"], &node["ignored"])).collect();
    let expected = [("src", false), (".gitignore", false), ("new.txt", false), ("notes.log", true)];
    assert_eq!(json!(names), json!(expected));
    let inside = harness.get("/file?path=src").await;
    assert_eq!(inside[0]["path"], "src/main.rs");
    assert_eq!(inside[0]["absolute"], json!(format!("{}/src/main.rs", harness.directory())));
    let listed = harness.get("/api/fs/list?path=src").await;
    assert_eq!(listed["data"], json!([{ "path": "src/main.rs", "type": "file" }]));
}

#[tokio::test]
async fn a_file_is_shown_with_its_difference() {
    let harness = repository().await;
    let file = harness.get("/file/content?path=src/main.rs").await;
    assert_eq!(
        (&file["type"], &file["content"]),
        (&json!("text"), &json!("fn main() {\n    goodbye();\n}\n"))
    );
    assert!(file["diff"].as_str().unwrap().contains("-    hello();\n+    goodbye();\n"), "{file}");
    let hunk = &file["patch"]["hunks"][0];
    assert_eq!(hunk["lines"], json!([" fn main() {", "-    hello();", "+    goodbye();", " }"]));
    assert_eq!((&hunk["oldStart"], &hunk["newLines"]), (&json!(1), &json!(3)));
    assert_eq!(harness.get("/file/content?path=.gitignore").await.get("diff"), None);

    write(&harness, "picture.png", b"\x89PNG\r\n\x1a\n\0\0");
    let picture = harness.get("/file/content?path=picture.png").await;
    assert_eq!((&picture["encoding"], &picture["mimeType"]), (&json!("base64"), &json!("image/png")));
    let status = harness.get("/file/status").await;
    assert_eq!(status[2], json!({ "path": "src/main.rs", "added": 1, "removed": 1, "status": "modified" }));
}

#[tokio::test]
async fn paths_outside_the_directory_are_refused() {
    let harness = repository().await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(outside.path(), harness.tree.path().join("link")).unwrap();
    let absolute = outside.path().join("secret").to_str().unwrap().to_owned();
    let paths = ["../secret", "link/secret", "link", &absolute, ".git/config", "src/../.git", "%00"];
    for route in ["/file", "/file/content", "/api/fs/list"] {
        for path in paths {
            let refused = harness.expect(400, "GET", &format!("{route}?path={path}"), None).await;
            assert!(!refused.to_string().contains("\"secret\""), "{refused}");
        }
    }
    harness.expect(404, "GET", "/file/content?path=missing", None).await;
    assert_eq!(harness.get("/find?pattern=secret").await, json!([]));
}

#[tokio::test]
async fn changes_can_be_applied_in_another_directory() {
    let harness = repository().await;
    let status = harness.get("/vcs/status").await;
    assert_eq!(status[0], json!({ "file": "new.txt", "additions": 2, "deletions": 0, "status": "added" }));
    let diff = harness.get("/vcs/diff?mode=git&context=0").await;
    assert!(diff[1]["patch"].as_str().unwrap().contains("@@ -2 +2 @@"), "{diff}");
    assert_eq!(harness.get("/vcs/diff?mode=branch").await.as_array().unwrap().len(), 2);
    harness.expect(400, "GET", "/vcs/diff?mode=other", None).await;

    let raw = harness.call("GET", "/vcs/diff/raw", None).await;
    assert_eq!(raw.headers["content-type"], "text/x-diff; charset=utf-8");
    let patch = json!({ "patch": String::from_utf8(raw.bytes).unwrap() });
    git(&harness, "checkout -q -- src/main.rs").await;
    std::fs::remove_file(harness.tree.path().join("new.txt")).unwrap();
    assert_eq!(harness.post("/vcs/apply", patch.clone()).await, json!({ "applied": true }));
    assert_eq!(std::fs::read_to_string(harness.tree.path().join("new.txt")).unwrap(), "one\ntwo\n");
    let refused = harness.expect(400, "POST", "/vcs/apply", patch.clone()).await;
    assert_eq!(
        (&refused["name"], &refused["data"]["reason"]),
        (&json!("VcsApplyError"), &json!("not-clean"))
    );
    let nowhere = Harness::new().expect(400, "POST", "/vcs/apply", patch).await;
    assert_eq!(nowhere["data"]["reason"], "non-git");
}

#[tokio::test]
async fn a_terminal_is_controlled_by_events() {
    let harness = Harness::new();
    let session = harness.session().await;
    let scope = harness.sessions.scope(&harness.directory());
    let mut stream = harness.sessions.subscribe(scope, None).await.unwrap();
    let toast = json!({ "message": "hi", "variant": "info", "duration": 5_000 });
    let calls = [
        ("append-prompt", json!({ "text": "hi" }), "tui.prompt.append", json!({ "text": "hi" })),
        ("open-help", json!({}), "tui.command.execute", json!({ "command": "help.show" })),
        (
            "execute-command",
            json!({ "command": "session_new" }),
            "tui.command.execute",
            json!({ "command": "session.new" }),
        ),
        ("show-toast", json!({ "message": "hi", "variant": "info" }), "tui.toast.show", toast),
        (
            "select-session",
            json!({ "sessionID": session }),
            "tui.session.select",
            json!({ "sessionID": session }),
        ),
        (
            "publish",
            json!({ "type": "tui.prompt.append", "properties": { "text": "x" } }),
            "tui.prompt.append",
            json!({ "text": "x" }),
        ),
    ];
    for (call, body, kind, properties) in calls {
        assert_eq!(harness.post(&format!("/tui/{call}"), body).await, json!(true));
        let Ok(StreamItem::Frames(frames)) = stream.next().await else { panic!("no event for {call}") };
        let event: Value = serde_json::from_slice(frames[0].json()).unwrap();
        assert_eq!((&event["type"], &event["properties"]), (&json!(kind), &properties), "{call}");
    }
    harness.expect(400, "POST", "/tui/execute-command", json!({ "command": "nothing" })).await;
    harness.expect(400, "POST", "/tui/publish", json!({ "type": "session.idle", "properties": {} })).await;
    harness.expect(404, "POST", "/tui/select-session", json!({ "sessionID": "ses_gone" })).await;
}

#[tokio::test]
async fn no_route_shows_closed_paths() {
    let harness = repository().await;
    let (canary, top) = ("canary-5170", harness.directory());
    write(&harness, &format!("{CLOSED}/auth.json"), format!("{{\"key\": \"{canary}\"}}\n"));
    std::os::unix::fs::symlink(harness.tree.path().join(CLOSED), harness.tree.path().join("link")).unwrap();
    std::os::unix::fs::symlink("/proc/self", harness.tree.path().join("process")).unwrap();
    for directory in [format!("{top}/{CLOSED}"), format!("{top}/link"), "/proc/self".into(), "/dev".into()] {
        for route in [
            "/file/content?path=auth.json",
            "/file?path=",
            "/find?pattern=key",
            "/session?x=",
            "/pty?x=",
            "/vcs/diff?mode=git",
        ] {
            harness.expect(400, "GET", &format!("{route}&directory={directory}"), None).await;
        }
        let location = format!("location[directory]={directory}");
        harness.expect(400, "GET", &format!("/api/fs/read/auth.json?{location}"), None).await;
        harness.expect(400, "POST", &format!("/session?directory={directory}"), Some(json!({}))).await;
        let body = json!({ "location": { "directory": directory } });
        harness.expect(400, "POST", "/api/session", Some(body)).await;
        harness.expect(400, "POST", "/pty", Some(json!({ "cwd": directory }))).await;
    }
    for path in [format!("{CLOSED}/auth.json"), "link/auth.json".into(), "process/environ".into()] {
        harness.expect(400, "GET", &format!("/file/content?path={path}"), None).await;
        harness.expect(400, "GET", &format!("/api/fs/read/{path}"), None).await;
    }
    harness.expect(400, "GET", "/file?path=link", None).await;
    for route in [
        "/find?pattern=canary".to_owned(),
        "/find/file?query=auth".to_owned(),
        "/api/fs/find?query=auth".to_owned(),
        "/vcs/diff?mode=git".to_owned(),
        "/vcs/status".to_owned(),
        "/file/status".to_owned(),
    ] {
        let shown = harness.get(&route).await.to_string();
        assert!(!shown.contains(canary) && !shown.contains("auth.json"), "{route} {shown}");
    }
}
