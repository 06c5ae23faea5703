//! Sessions: list, create, read, change, delete, abort and fork.

use insta::assert_json_snapshot;
use serde_json::{Value, json};

use crate::harness::{Harness, prompt};

#[tokio::test]
async fn a_session_can_be_created_with_and_without_a_body() {
    let harness = Harness::new();
    let bare = harness.expect(200, "POST", "/session", None).await;
    let full = harness
        .post(
            "/session",
            json!({
                "parentID": bare["id"], "title": "Mine", "agent": "plan", "metadata": { "x": [1] },
                "model": { "id": "demo", "providerID": "demo" },
                "permission": [{ "permission": "bash", "pattern": "*", "action": "ask" }],
            }),
        )
        .await;
    assert_json_snapshot!(harness.redact(&json!([bare, full])));
}

#[tokio::test]
async fn a_child_of_an_unknown_session_is_not_created() {
    let harness = Harness::new();
    let answer = harness.expect(404, "POST", "/session", json!({ "parentID": "ses_nobody" })).await;
    assert_json_snapshot!(answer);
}

fn titles(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|session| session["title"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn lists_are_filtered_as_asked() {
    let harness = Harness::new();
    let inside = harness.tree.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let inside = inside.canonicalize().unwrap().to_str().unwrap().to_owned();
    let top = harness.post("/session", json!({ "title": "Top" })).await;
    harness.post(&format!("/session?directory={inside}"), json!({ "title": "Inside" })).await;
    harness.post("/session", json!({ "title": "Child", "parentID": top["id"] })).await;

    let here = harness.directory();
    assert_eq!(titles(&harness.get("/session").await).len(), 3);
    assert_eq!(titles(&harness.get(&format!("/session?directory={inside}")).await), ["Inside"]);
    assert_eq!(titles(&harness.get(&format!("/session?directory={here}&scope=project")).await).len(), 3);
    let path = inside.trim_start_matches('/');
    assert_eq!(titles(&harness.get(&format!("/session?path={path}")).await), ["Inside"]);
    assert_eq!(titles(&harness.get("/session?search=iLD").await), ["Child"]);
    assert_eq!(titles(&harness.get("/session?roots=true").await).len(), 2);
    assert_eq!(titles(&harness.get("/session?limit=1").await).len(), 1);
    assert_eq!(titles(&harness.get("/session?start=99999999999999").await).len(), 0);
}

#[tokio::test]
async fn a_session_can_be_read_changed_and_deleted() {
    let harness = Harness::new();
    let id = harness.session().await;
    let path = format!("/session/{id}");
    let patch = json!({ "title": "New", "metadata": { "a": 1 }, "time": { "archived": 5 } });
    let changed = harness.expect(200, "PATCH", &path, patch).await;
    assert_eq!((&changed["title"], &changed["time"]["archived"]), (&json!("New"), &json!(5)));
    let rules = json!({ "permission": [{ "permission": "edit", "pattern": "*", "action": "deny" }] });
    let changed = harness.expect(200, "PATCH", &path, rules).await;
    assert_eq!(harness.get(&path).await, changed);
    assert_eq!(changed["metadata"], json!({ "a": 1 }));

    assert_eq!(harness.expect(200, "DELETE", &path, None).await, json!(true));
    let gone = harness.expect(404, "GET", &path, None).await;
    assert_eq!(gone["name"], "NotFoundError");
    assert_eq!(gone["data"]["message"], format!("Session not found: {id}"));
}

#[tokio::test]
async fn deleting_a_busy_session_stops_it() {
    let harness = Harness::new();
    let id = harness.session().await;
    harness.submit(&id, "wait").await;
    assert_eq!(harness.expect(200, "DELETE", &format!("/session/{id}"), None).await, json!(true));
    assert_eq!(harness.get("/session/status").await, json!({}));
}

#[tokio::test]
async fn a_session_is_deleted_on_condition_that_it_was_not_used_since() {
    let harness = Harness::new();
    let id = harness.session().await;
    let path = format!("/session/{id}");
    let updated = harness.get(&path).await["time"]["updated"].as_i64().unwrap();
    let used = harness.expect(409, "DELETE", &format!("{path}?unusedSince={updated}"), None).await;
    assert_eq!(used["_tag"], "SessionBusyError");
    harness.expect(400, "DELETE", &format!("{path}?unusedSince=soon"), None).await;
    harness.submit(&id, "wait").await;
    harness.expect(409, "DELETE", &format!("{path}?unusedSince=99999999999999"), None).await;
    harness.expect(200, "POST", &format!("{path}/abort"), None).await;
    harness.expect(200, "DELETE", &format!("{path}?unusedSince=99999999999999"), None).await;
    harness.expect(404, "DELETE", &format!("{path}?unusedSince=99999999999999"), None).await;
}

#[tokio::test]
async fn status_lists_the_sessions_of_the_directory_that_are_not_idle() {
    let harness = Harness::new();
    let id = harness.session().await;
    assert_eq!(harness.get("/session/status").await, json!({}));
    harness.submit(&id, "wait").await;
    let busy = harness.until("/session/status", |status| *status != json!({})).await;
    assert_eq!(busy[&id]["type"], "busy");
    assert_eq!(harness.get("/session/status?directory=/").await, json!({}));
    assert_eq!(harness.expect(200, "POST", &format!("/session/{id}/abort"), None).await, json!(true));
    assert_eq!(harness.get("/session/status").await, json!({}));
}

#[tokio::test]
async fn aborting_an_unknown_session_is_true_as_in_opencode() {
    let harness = Harness::new();
    assert_eq!(harness.expect(200, "POST", "/session/ses_nobody/abort", None).await, json!(true));
    assert_eq!(harness.expect(400, "POST", "/session/nobody/abort", None).await["data"]["kind"], "Params");
}

#[tokio::test]
async fn children_are_listed_for_their_parent() {
    let harness = Harness::new();
    let id = harness.session().await;
    harness.post(&format!("/session/{id}/message"), prompt("child")).await;
    let children = harness.get(&format!("/session/{id}/children")).await;
    assert_eq!(titles(&children), ["A child"]);
    assert_eq!(children[0]["parentID"], json!(id));
    harness.expect(404, "GET", "/session/ses_nobody/children", None).await;
}

#[tokio::test]
async fn the_todo_list_equals_the_agents_list() {
    let harness = Harness::new();
    let id = harness.session().await;
    assert_eq!(harness.get(&format!("/session/{id}/todo")).await, json!([]));
    harness.post(&format!("/session/{id}/message"), prompt("todo")).await;
    assert_json_snapshot!(harness.get(&format!("/session/{id}/todo")).await);
    harness.expect(404, "GET", "/session/ses_nobody/todo", None).await;
}

#[tokio::test]
async fn a_diff_is_that_of_a_prompt() {
    let harness = Harness::new();
    let id = harness.session().await;
    let answer = harness.post(&format!("/session/{id}/message"), prompt("hello")).await;
    let message = answer["info"]["parentID"].as_str().unwrap();
    let path = format!("/session/{id}/diff");
    assert_eq!(harness.get(&path).await, json!([]));
    assert_eq!(harness.get(&format!("{path}?messageID={message}")).await, json!([]));
    harness.expect(404, "GET", &format!("{path}?messageID=msg_nothing"), None).await;
    harness.expect(400, "GET", &format!("{path}?messageID=nothing"), None).await;
    harness.expect(404, "GET", "/session/ses_nobody/diff", None).await;
}

#[tokio::test]
async fn a_fork_copies_earlier_messages() {
    let harness = Harness::new();
    let id = harness.session().await;
    harness.expect(200, "PATCH", &format!("/session/{id}"), json!({ "title": "Mine" })).await;
    harness.post(&format!("/session/{id}/message"), prompt("hello")).await;
    let second = harness.post(&format!("/session/{id}/message"), prompt("hello again")).await;

    let whole = harness.expect(200, "POST", &format!("/session/{id}/fork"), None).await;
    assert_eq!(whole["title"], "Mine (fork #1)");
    assert_eq!(whole.get("parentID"), None);
    let fork = whole["id"].as_str().unwrap();
    assert_eq!(harness.get(&format!("/session/{fork}/message")).await.as_array().unwrap().len(), 4);

    let before = json!({ "messageID": second["info"]["parentID"] });
    let half = harness.post(&format!("/session/{id}/fork"), before).await;
    let fork = half["id"].as_str().unwrap();
    assert_eq!(harness.get(&format!("/session/{fork}/message")).await.as_array().unwrap().len(), 2);
    harness.expect(404, "POST", &format!("/session/{id}/fork"), json!({ "messageID": "msg_nothing" })).await;
    harness.expect(404, "POST", "/session/ses_nobody/fork", None).await;
}

#[tokio::test]
async fn a_revert_can_be_undone_and_becomes_final_with_the_next_prompt() {
    let harness = Harness::new();
    let id = harness.session().await;
    harness.post(&format!("/session/{id}/message"), prompt("hello")).await;
    let answer = harness.post(&format!("/session/{id}/message"), prompt("hello again")).await;
    let (revert, unrevert) = (format!("/session/{id}/revert"), format!("/session/{id}/unrevert"));
    let marked = harness.post(&revert, json!({ "messageID": answer["info"]["id"] })).await;
    assert_eq!(marked["revert"], json!({ "messageID": answer["info"]["parentID"] }), "with its prompt");
    let back = harness.expect(200, "POST", &unrevert, None).await;
    assert_eq!(back.get("revert"), None, "{back}");

    harness.post(&revert, json!({ "messageID": answer["info"]["parentID"] })).await;
    harness.post(&format!("/session/{id}/message"), prompt("something else")).await;
    assert_eq!(harness.get(&format!("/session/{id}/message")).await.as_array().unwrap().len(), 4);
    let path = format!("/session/{id}/message/{}", answer["info"]["id"].as_str().unwrap());
    harness.expect(404, "GET", &path, None).await;
    assert_eq!(harness.get(&format!("/session/{id}")).await.get("revert"), None);

    harness.expect(404, "POST", &revert, json!({ "messageID": "msg_nothing" })).await;
    harness.expect(400, "POST", &revert, json!({ "partID": "prt_1" })).await;
    harness.expect(404, "POST", "/session/ses_nobody/unrevert", None).await;
    harness.submit(&id, "wait").await;
    let busy = harness.expect(409, "POST", &unrevert, None).await;
    assert_eq!(busy["_tag"], "SessionBusyError");
}

#[tokio::test]
async fn a_session_is_marked_as_seen_without_a_change_of_its_time() {
    for harness in [Harness::new(), Harness::on_disk()] {
        let session = harness.session().await;
        let path = format!("/session/{session}");
        let before = harness.get(&path).await;
        assert_eq!(before.get("seen"), None);
        harness.expect(200, "PUT", &format!("{path}/seen"), json!({ "cursor": 1 })).await;
        let after = harness.get(&path).await;
        assert_eq!((&after["seen"], &after["time"]), (&json!(1), &before["time"]));
        assert_eq!(harness.get("/session").await[0]["seen"], 1, "lists have the mark, too");
        harness.expect(200, "PATCH", &path, json!({ "title": "other" })).await;
        assert_eq!(harness.get(&path).await["seen"], 1);
        harness.expect(200, "PUT", &format!("{path}/seen"), json!({ "cursor": 0 })).await;
        assert_eq!(harness.get(&path).await["seen"], 0, "unread again");
        harness.expect(400, "PUT", &format!("{path}/seen"), json!({ "cursor": 1_000_000 })).await;
        harness.expect(404, "PUT", "/session/ses_none/seen", json!({ "cursor": 0 })).await;
    }
}

#[tokio::test]
async fn a_family_is_listed_from_its_root_with_totals() {
    let harness = Harness::new();
    let root = harness.session().await;
    harness.post(&format!("/session/{root}/message"), prompt("child")).await;
    let child = harness.get(&format!("/session/{root}/children")).await[0]["id"].as_str().unwrap().to_owned();
    let grandchild = harness.post("/session", json!({ "parentID": child })).await;
    harness.submit(&child, "wait").await;
    let family = harness.get(&format!("/session/{}/family", grandchild["id"].as_str().unwrap())).await;
    assert_eq!(family, harness.get(&format!("/session/{root}/family")).await, "the same for every member");
    let members = family["sessions"].as_array().unwrap();
    let ids: Vec<&str> = members.iter().map(|member| member["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [root.as_str(), &child, grandchild["id"].as_str().unwrap()]);
    assert_eq!(members[1]["status"]["type"], "busy");
    assert_eq!(members[2]["status"]["type"], "idle");
    let sum: u64 = members.iter().filter_map(|member| member["tokens"]["input"].as_u64()).sum();
    assert!(sum > 0 && family["tokens"]["input"] == sum, "{family}");
    harness.post(&format!("/session/{child}/abort"), json!({})).await;
    harness.expect(404, "GET", "/session/ses_none/family", None).await;
}
