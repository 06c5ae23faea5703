//! Waiting prompts.

use serde_json::{Value, json};

use crate::harness::{Harness, prompt};

/// A busy session with two waiting prompts.
async fn busy(harness: &Harness) -> (String, [String; 2]) {
    let session = harness.session().await;
    harness.submit(&session, "wait").await;
    for text in ["hello", "todo"] {
        harness.submit(&session, text).await;
    }
    let queue = harness.get(&format!("/session/{session}/queue")).await;
    let id = |index: usize| queue[index]["messageID"].as_str().unwrap().to_owned();
    (session, [id(0), id(1)])
}

fn texts(queue: &Value) -> Vec<&str> {
    queue.as_array().unwrap().iter().map(|it| it["parts"][0]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn waiting_prompts_are_listed_changed_and_withdrawn() {
    for harness in [Harness::new(), Harness::on_disk()] {
        let (session, [first, second]) = busy(&harness).await;
        let path = format!("/session/{session}/queue");
        let queue = harness.get(&path).await;
        insta::assert_json_snapshot!("queue", harness.redact(&queue));
        let patch =
            json!({ "position": 0, "delivery": "queue", "parts": [{ "type": "text", "text": "new" }] });
        let changed = harness.expect(200, "PATCH", &format!("{path}/{second}"), patch).await;
        assert_eq!((&changed["delivery"], &changed["parts"][0]["text"]), (&json!("queue"), &json!("new")));
        assert_eq!(texts(&harness.get(&path).await), ["new", "hello"]);
        let withdrawn = harness.expect(200, "DELETE", &format!("{path}/{first}"), None).await;
        assert_eq!(withdrawn["parts"][0]["text"], "hello");
        assert_eq!(texts(&harness.get(&path).await), ["new"]);
        let gone = harness.expect(404, "DELETE", &format!("{path}/{first}"), None).await;
        assert_eq!(gone["name"], "NotFoundError");
        harness.post(&format!("/session/{session}/abort"), json!({})).await;
        let late = harness.expect(409, "PATCH", &format!("{path}/{second}"), json!({})).await;
        assert_eq!(late["_tag"], "ConflictError");
        assert_eq!(harness.get(&path).await, json!([]));
    }
}

#[tokio::test]
async fn a_withdrawn_prompt_answers_its_caller_with_a_conflict() {
    let harness = Harness::new();
    let (session, [first, _]) = busy(&harness).await;
    let path = format!("/session/{session}");
    let body = json!({ "messageID": first, "parts": prompt("hello")["parts"] });
    let submit = format!("{path}/message");
    let (waited, _) = tokio::join!(harness.expect(409, "POST", &submit, body.clone()), async {
        // Before the withdrawal the call waits for its prompt; after it, the call is refused. Both end as a conflict.
        harness.expect(200, "DELETE", &format!("{path}/queue/{first}"), None).await
    });
    assert_eq!((&waited["_tag"], &waited["resource"]), (&json!("ConflictError"), &json!(first)));
    let late = harness.expect(409, "POST", &format!("{path}/prompt_async"), body).await;
    assert_eq!(late["resource"], json!(first), "a repetition does not bring it back");
}
