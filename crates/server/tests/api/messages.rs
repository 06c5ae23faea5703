//! Messages and their parts.

use http::header;
use insta::assert_json_snapshot;
use serde_json::{Value, json};

use crate::world::{World, prompt};

#[tokio::test]
async fn messages_come_oldest_first_with_their_parts() {
    let world = World::new();
    let id = world.session().await;
    world.post(&format!("/session/{id}/message"), prompt("hello")).await;
    let list = world.get(&format!("/session/{id}/message")).await;
    assert_json_snapshot!(world.redact(&list));
    let message = list[1]["info"]["id"].as_str().unwrap();
    assert_eq!(world.get(&format!("/session/{id}/message/{message}")).await, list[1]);
    world.expect(404, "GET", &format!("/session/{id}/message/msg_nothing"), None).await;
    world.expect(404, "GET", "/session/ses_nobody/message", None).await;
}

#[tokio::test]
async fn open_text_is_there_while_it_streams() {
    let world = World::new();
    let id = world.session().await;
    world.submit(&id, "wait").await;
    let text = |list: &Value| list[1]["parts"][1]["text"].as_str().map(str::to_owned);
    let path = format!("/session/{id}/message");
    world.until(&path, |list| text(list).as_deref() == Some("Waiting")).await;
    world.expect(200, "POST", &format!("/session/{id}/abort"), None).await;
}

#[tokio::test]
async fn pages_go_back_from_the_newest() {
    let world = World::new();
    let id = world.session().await;
    for _ in 0..5 {
        let quiet = json!({ "noReply": true, "parts": [{ "type": "text", "text": "x" }] });
        world.post(&format!("/session/{id}/message"), quiet).await;
    }
    let path = format!("/session/{id}/message");
    let all: Vec<Value> = world.get(&path).await.as_array().unwrap().clone();
    assert_eq!(all.len(), 5);
    assert_eq!(world.get(&format!("{path}?limit=0")).await, json!(all));

    let (mut seen, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let before = cursor.map_or_else(String::new, |cursor| format!("&before={cursor}"));
        let answer = world.call("GET", &format!("{path}?limit=2{before}"), None).await;
        assert_eq!(answer.status, 200);
        let page = answer.json().as_array().unwrap().clone();
        seen.splice(0..0, page);
        let next = answer.headers.get("x-next-cursor").map(|next| next.to_str().unwrap().to_owned());
        let link = answer.headers.get(header::LINK).map(|link| link.to_str().unwrap().to_owned());
        assert_eq!(link, next.as_ref().map(|next| format!("<{path}?limit=2&before={next}>; rel=\"next\"")));
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, all);

    let refused = world.expect(400, "GET", &format!("{path}?before=x"), None).await;
    assert_eq!(refused["data"]["kind"], "Query");
    world.expect(400, "GET", &format!("{path}?limit=2&before=x"), None).await;
    world.expect(400, "GET", &format!("{path}?limit=-1"), None).await;
}

#[tokio::test]
async fn a_message_can_be_deleted_when_idle() {
    let world = World::new();
    let id = world.session().await;
    let answer = world.post(&format!("/session/{id}/message"), prompt("hello")).await;
    let path = format!("/session/{id}/message/{}", answer["info"]["id"].as_str().unwrap());
    world.submit(&id, "wait").await;
    world.until("/session/status", |status| *status != json!({})).await;
    let busy = world.expect(409, "DELETE", &path, None).await;
    assert_eq!((&busy["_tag"], &busy["sessionID"]), (&json!("SessionBusyError"), &json!(id)));
    world.expect(200, "POST", &format!("/session/{id}/abort"), None).await;
    assert_eq!(world.expect(200, "DELETE", &path, None).await, json!(true));
    world.expect(404, "DELETE", &path, None).await;
    world.expect(404, "GET", &path, None).await;
}

#[tokio::test]
async fn a_part_can_be_replaced_and_deleted() {
    let world = World::new();
    let id = world.session().await;
    let answer = world.post(&format!("/session/{id}/message"), prompt("hello")).await;
    let mut part = answer["parts"][1].clone();
    let message = part["messageID"].as_str().unwrap().to_owned();
    let path = format!("/session/{id}/message/{message}/part/{}", part["id"].as_str().unwrap());
    part["text"] = json!("Better");
    assert_eq!(world.expect(200, "PATCH", &path, part.clone()).await, part);
    let stored = world.get(&format!("/session/{id}/message/{message}")).await;
    assert_eq!(stored["parts"][1], part);

    let mut other = part.clone();
    other["id"] = json!("prt_other");
    assert_eq!(world.expect(400, "PATCH", &path, other).await["data"]["kind"], "Payload");
    let mut odd = part.clone();
    odd["type"] = json!("song");
    world.expect(400, "PATCH", &path, odd).await;
    let mut broken = part.clone();
    broken["text"] = json!(5);
    let refused = world.expect(400, "PATCH", &path, broken).await;
    assert_json_snapshot!(refused);

    assert_eq!(world.expect(200, "DELETE", &path, None).await, json!(true));
    world.expect(404, "DELETE", &path, None).await;
    world.expect(404, "PATCH", &path, part).await;
}
