//! Worktrees that clients create, and the sessions of all projects.

use std::time::Duration;

use engine::{StreamItem, bus::Scope};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::Harness;

const PATH: &str = "/experimental/worktree";
const PATIENCE: Duration = Duration::from_secs(30);

/// Creates a worktree and waits for the event that it is ready or failed.
async fn make(harness: &Harness, input: Value) -> (Value, Value) {
    let mut events = harness.sessions.subscribe(Scope::default(), None).await.unwrap();
    let made = harness.post(PATH, input).await;
    loop {
        let next = timeout(PATIENCE, events.next()).await.unwrap();
        let Ok(StreamItem::Frames(frames)) = next else { panic!() };
        for frame in frames {
            let event: Value = serde_json::from_slice(frame.json()).unwrap();
            if event["type"].as_str().unwrap().starts_with("worktree.") {
                assert_eq!(frame.directory.as_deref(), made["directory"].as_str());
                return (made, event);
            }
        }
    }
}

#[tokio::test]
async fn a_worktree_is_made_used_reset_and_removed() {
    let harness = Harness::new();
    std::fs::write(harness.tree.path().join("file"), "one\n").unwrap();
    harness.commit().await;
    assert_eq!(harness.get(PATH).await, json!([]));

    let (made, ready) = make(&harness, json!({ "name": "Fix it!", "startCommand": "echo two >new" })).await;
    assert_eq!((&made["name"], &made["branch"]), (&json!("fix-it"), &json!("baton/fix-it")));
    assert_eq!(ready["properties"], json!({ "name": "fix-it", "branch": "baton/fix-it" }));
    let directory = made["directory"].as_str().unwrap();
    let read = |name: &str| std::fs::read_to_string(format!("{directory}/{name}")).ok();
    assert_eq!((read("file").as_deref(), read("new").as_deref()), (Some("one\n"), Some("two\n")));

    assert_eq!(harness.get(PATH).await, json!([directory]));
    // Inside and outside it is the same project with the same main worktree.
    let session = harness.post(&format!("/session?directory={directory}"), json!({})).await;
    for path in ["/project/current".to_owned(), format!("/project/current?directory={directory}")] {
        let project = harness.get(&path).await;
        assert_eq!(project["id"], session["projectID"]);
        assert_eq!(
            (&project["worktree"], &project["sandboxes"]),
            (&json!(harness.directory()), &json!([directory]))
        );
        assert_eq!(harness.get("/project").await[0]["sandboxes"], json!([directory]));
    }

    std::fs::write(format!("{directory}/file"), "three\n").unwrap();
    assert_eq!(harness.post(&format!("{PATH}/reset"), json!({ "directory": directory })).await, json!(true));
    assert_eq!((read("file").as_deref(), read("new")), (Some("one\n"), None));

    assert_eq!(harness.expect(200, "DELETE", PATH, json!({ "directory": directory })).await, json!(true));
    assert_eq!((harness.get(PATH).await, read("file")), (json!([]), None));
    let (again, _) = make(&harness, json!({ "name": "fix it" })).await;
    assert_eq!(again["branch"], "baton/fix-it", "the branch went with the worktree");
}

#[tokio::test]
async fn turns_and_terminals_in_a_worktree_end_before_it_is_removed() {
    let harness = Harness::new();
    harness.commit().await;
    let (made, _) = make(&harness, json!({})).await;
    let directory = made["directory"].as_str().unwrap();
    let session = harness.post(&format!("/session?directory={directory}"), json!({})).await;
    harness.submit(session["id"].as_str().unwrap(), "permission").await;
    harness.until(&format!("/permission?directory={directory}"), |list| *list != json!([])).await;
    let terminal =
        harness.post(&format!("/pty?directory={directory}"), json!({ "command": "/bin/cat" })).await;

    harness.expect(200, "DELETE", PATH, json!({ "directory": directory })).await;
    let process = format!("/proc/{}", terminal["pid"]);
    assert!(!std::fs::exists(process).unwrap(), "the terminal's program has ended");
    assert_eq!(harness.sessions.statuses(None).await.unwrap().len(), 0);
    assert!(!std::fs::exists(directory).unwrap());
}

#[tokio::test]
async fn a_failing_start_command_is_reported_with_its_reason() {
    let harness = Harness::new();
    harness.commit().await;
    let project = harness.get("/project/current").await;
    let path = format!("/project/{}", project["id"].as_str().unwrap());
    harness
        .expect(200, "PATCH", &path, json!({ "commands": { "start": "echo no such thing; exit 3" } }))
        .await;
    let (_, event) = make(&harness, json!({ "startCommand": "echo never reached" })).await;
    assert_eq!(event["type"], "worktree.failed");
    assert_eq!(event["properties"]["message"], "a start command failed: no such thing");
}

#[tokio::test]
async fn only_worktrees_created_by_baton_are_changed() {
    let harness = Harness::new();
    let refused = harness.expect(400, "POST", PATH, json!({})).await;
    assert_eq!(refused["name"], "WorktreeNotGitError");
    harness.commit().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let theirs = elsewhere.path().canonicalize().unwrap().join("theirs");
    let repository = workspace::git::Repository::find(harness.tree.path()).await.unwrap();
    repository.add_worktree(&theirs, "theirs").await.unwrap();
    // The list of projects is cached for a while, so this one is requested under another name.
    let here = format!("directory={}", theirs.display());
    assert_eq!(harness.get(&format!("{PATH}?{here}")).await, json!([theirs]));
    for target in [theirs.to_str().unwrap(), &harness.directory(), "/", "relative"] {
        for (method, path, name) in [
            ("DELETE", PATH.to_owned(), "WorktreeRemoveFailedError"),
            ("POST", format!("{PATH}/reset"), "WorktreeResetFailedError"),
        ] {
            let path = format!("{path}?{here}");
            let refused = harness.expect(400, method, &path, json!({ "directory": target })).await;
            assert_eq!(refused["name"], name, "{refused}");
        }
    }
    assert!(theirs.join(".git").exists());
}

#[tokio::test]
async fn sessions_of_all_projects_are_listed_page_by_page() {
    for harness in [Harness::new(), Harness::on_disk()] {
        let other = tempfile::tempdir().unwrap();
        let other = other.path().canonicalize().unwrap().to_str().unwrap().to_owned();
        let mut made = Vec::new();
        for directory in [harness.directory(), other.clone(), other.clone()] {
            let session = harness.post(&format!("/session?directory={directory}"), json!({})).await;
            let id = session["id"].as_str().unwrap().to_owned();
            // Each session gets a distinct time, so that page boundaries are unambiguous.
            let title = json!({ "title": format!("number {}", made.len()) });
            let before = session["time"]["updated"].as_i64().unwrap();
            while
                harness.expect(200, "PATCH", &format!("/session/{id}"), title.clone()).await["time"]["updated"]
                    .as_i64()
                    .unwrap()
                    <= before
            {}
            made.push(id);
        }
        let ids = |page: &Value| -> Vec<String> {
            page.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
        };
        let newest_first = [made[2].clone(), made[1].clone(), made[0].clone()];
        let all = harness.get("/experimental/session").await;
        assert_eq!(ids(&all), newest_first);
        assert_eq!(all[0]["project"], json!({ "id": "global", "worktree": "/" }));

        let page = harness.call("GET", "/experimental/session?limit=2", None).await;
        assert_eq!(ids(&page.json()), newest_first[..2]);
        let cursor = page.headers["x-next-cursor"].to_str().unwrap();
        let rest = harness.call("GET", &format!("/experimental/session?limit=2&cursor={cursor}"), None).await;
        assert_eq!(
            (ids(&rest.json()), rest.headers.get("x-next-cursor")),
            (newest_first[2..].to_vec(), None)
        );

        let here = harness.get(&format!("/experimental/session?directory={}", harness.directory())).await;
        assert_eq!(ids(&here), [made[0].clone()]);
        assert_eq!(ids(&harness.get("/experimental/session?search=BER%201").await), [made[1].clone()]);
        let archive = json!({ "time": { "archived": 1 } });
        harness.expect(200, "PATCH", &format!("/session/{}", made[2]), archive).await;
        assert_eq!(ids(&harness.get("/experimental/session").await).len(), 2);
        assert_eq!(ids(&harness.get("/experimental/session?archived=true").await).len(), 3);
    }
}

#[tokio::test]
async fn a_poll_for_the_next_call_returns_it_unchanged() {
    let harness = Harness::new();
    let next = || harness.get("/tui/control/next");
    let say = async {
        // Calls are queued only after the first poll, so this one is repeated until it arrives.
        loop {
            harness.post("/tui/append-prompt", json!({ "text": "hello" })).await;
            tokio::task::yield_now().await;
        }
    };
    let first = tokio::select! { first = next() => first, () = say => unreachable!() };
    assert_eq!(first, json!({ "path": "/tui/append-prompt", "body": { "text": "hello" } }));
    assert_eq!(harness.post("/tui/control/response", json!({ "done": true })).await, json!(true));
}
