//! Calls that clients make at start.

use axum::{body::Body, http::Request};
use engine::{StreamItem, bus::Scope};
use insta::assert_json_snapshot;
use serde_json::{Value, json};

use crate::harness::Harness;

#[tokio::test]
async fn a_client_gets_everything_it_needs_at_start() {
    let harness = Harness::new();
    for path in [
        "/global/health",
        "/config",
        "/config/providers",
        "/provider",
        "/agent",
        "/command",
        "/path",
        "/project",
        "/project/current",
        "/mcp",
        "/lsp",
        "/formatter",
        "/vcs",
        "/project/global/directories",
        "/experimental/capabilities",
        "/experimental/console",
        "/experimental/console/orgs",
        "/experimental/workspace",
        "/experimental/workspace/adapter",
        "/experimental/workspace/status",
    ] {
        let answer = harness.get(path).await;
        assert!(!answer.to_string().contains("sk-secret"), "{path} gives a secret away: {answer}");
        insta::with_settings!({ description => path, omit_expression => true }, {
            assert_json_snapshot!(format!("start{}", path.replace('/', "_")), harness.redact(&answer));
        });
    }
}

#[tokio::test]
async fn a_server_without_a_chat_gateway_has_no_channels() {
    assert_eq!(Harness::new().get("/channel").await, json!([]));
}

#[tokio::test]
async fn the_list_of_providers_is_compressed_and_sent_only_if_changed() {
    let harness = Harness::new();
    let ask = async |headers: &[(&str, &str)]| {
        let mut call = Request::get("/provider");
        for (name, value) in headers {
            call = call.header(*name, *value);
        }
        harness.send(call.body(Body::empty()).unwrap()).await
    };
    let plain = ask(&[]).await;
    assert_eq!(plain.json()["connected"], json!(["demo"]));
    assert_eq!(plain.headers["cache-control"], "private, no-cache");
    let small = ask(&[("accept-encoding", "br, gzip")]).await;
    assert_eq!(
        (&small.headers["content-encoding"], &small.headers["content-type"]),
        (&"gzip".parse().unwrap(), &"application/json".parse().unwrap())
    );
    assert!(small.bytes.starts_with(b"\x1f\x8b"), "{:?}", small.bytes);
    let tag = plain.headers["etag"].to_str().unwrap();
    for (given, status) in [(tag, 304), (&format!("\"x\", {tag}"), 304), ("\"x\"", 200)] {
        let answer = ask(&[("if-none-match", given)]).await;
        assert_eq!((answer.status.as_u16(), answer.bytes.is_empty()), (status, status == 304), "{given}");
        assert_eq!(answer.headers["etag"], tag);
    }
}

#[tokio::test]
async fn the_directory_comes_from_the_query_or_a_header() {
    let harness = Harness::new();
    let odd = harness.tree.path().join("a b%20c ä");
    std::fs::create_dir(&odd).unwrap();
    let odd = odd.canonicalize().unwrap().to_str().unwrap().to_owned();
    let encoded = odd.replace('%', "%25").replace(' ', "%20").replace('ä', "%C3%A4");
    let by_header =
        Request::get("/path").header("x-opencode-directory", &encoded).body(Body::empty()).unwrap();
    assert_eq!(harness.send(by_header).await.json()["directory"], json!(odd));
    let twice = encoded.replace('%', "%25");
    assert_eq!(harness.get(&format!("/path?directory={twice}")).await["directory"], json!(odd));
    let both = Request::get("/path?directory=/").header("x-opencode-directory", &encoded);
    assert_eq!(harness.send(both.body(Body::empty()).unwrap()).await.json()["directory"], "/");
    assert_eq!(harness.get("/path?directory=").await["directory"], json!(harness.directory()));
}

#[tokio::test]
async fn a_directory_that_is_none_is_refused() {
    let harness = Harness::new();
    let mut refusals = Vec::new();
    for given in
        ["relative", "/no/such/place", "/etc/passwd", "/tmp%00", "../../etc", "%ff", "/etc/passwd/.."]
    {
        let refused = harness.expect(400, "GET", &format!("/path?directory={given}"), None).await;
        assert_eq!(refused["data"]["kind"], "Query");
        refusals.push(refused["data"]["message"].clone());
    }
    assert_json_snapshot!(refusals);
    let header = Request::get("/path").header("x-opencode-directory", b"/\xff".as_slice());
    let answer = harness.send(header.body(Body::empty()).unwrap()).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["data"]["kind"]), (400, &json!("Headers")));
    harness.expect(400, "GET", "/path?directory=/&directory=/tmp", None).await;
}

#[tokio::test]
async fn projects_follow_from_sessions() {
    let harness = Harness::new();
    let session = harness.post("/session", json!({})).await;
    let current = harness.get("/project/current").await;
    assert_eq!(current["id"], session["projectID"]);
    assert_eq!(current["time"]["created"], session["time"]["created"]);
    let all = harness.get("/project").await;
    assert_eq!(all[0]["id"], session["projectID"]);
    assert_eq!(all[0]["worktree"], current["worktree"]);
}

#[tokio::test]
async fn changes_of_a_project_are_kept_and_published() {
    let harness = Harness::on_disk();
    let session = harness.post("/session", json!({})).await;
    let path = format!("/project/{}", session["projectID"].as_str().unwrap());
    let mut stream = harness.sessions.subscribe(Scope::default(), None).await.unwrap();
    let note = json!({ "name": "Home", "icon": { "color": "red" }, "commands": { "start": "make" } });
    let named = harness.expect(200, "PATCH", &path, note.clone()).await;
    let Ok(StreamItem::Frames(frames)) = stream.next().await else { panic!("no event") };
    let announced: Value = serde_json::from_slice(frames[0].json()).unwrap();
    assert_eq!((&announced["type"], &announced["properties"]), (&json!("project.updated"), &named));
    harness.expect(200, "PATCH", &path, json!({ "icon": { "url": "https://example.com/a.png" } })).await;
    for project in [harness.get("/project/current").await, harness.get("/project").await[0].clone()] {
        assert_eq!((&project["name"], &project["commands"]), (&note["name"], &note["commands"]));
        assert_eq!(project["icon"], json!({ "color": "red", "url": "https://example.com/a.png" }));
    }
    let gone = harness.expect(404, "PATCH", "/project/nobody", json!({ "name": "x" })).await;
    assert_eq!((&gone["_tag"], &gone["projectID"]), (&json!("ProjectNotFoundError"), &json!("nobody")));
    harness.expect(400, "PATCH", &path, json!({ "name": "x".repeat(300_000) })).await;
}

#[tokio::test]
async fn initialising_a_repository_takes_effect_at_once() {
    let harness = Harness::new();
    assert_eq!(harness.get("/project/current").await["worktree"], "/");
    let made = harness.expect(200, "POST", "/project/git/init", None).await;
    assert_eq!((&made["worktree"], &made["vcs"]), (&json!(harness.directory()), &json!("git")));
    assert_eq!(harness.get("/project/current").await["worktree"], made["worktree"]);
    harness.expect(200, "POST", "/project/git/init", None).await;
    let id = made["id"].as_str().unwrap();
    let directories = harness.get(&format!("/project/{id}/directories")).await;
    assert_eq!(directories, json!([{ "directory": harness.directory() }]));
    assert_eq!(harness.get("/project/nobody/directories").await, json!([]));
    harness.expect(400, "POST", "/project/git/init?directory=/", None).await;
}

#[tokio::test]
async fn clients_may_write_to_the_log() {
    let harness = Harness::new();
    for level in ["debug", "info", "warn", "error"] {
        let entry = json!({ "service": "tui", "level": level, "message": "hi", "extra": { "a": 1 } });
        assert_eq!(harness.post("/log", entry).await, json!(true));
    }
    harness.expect(400, "POST", "/log", json!({ "service": "tui", "level": "loud", "message": "" })).await;
}
