//! Stale owners, dead owners, strangers and different keys.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use engine::ports::{Owner, Peer};
use serde_json::{Value, json};
use server::fleet::Key;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::node::{Pair, Start, key};

fn hello() -> Value {
    json!({ "parts": [{ "type": "text", "text": "hello" }] })
}

/// Replaces ids that differ in each run.
fn shown(mut body: Value) -> Value {
    for name in ["workspace", "id"] {
        if let Some(id) = body["data"].get(name).and_then(Value::as_str).map(str::to_owned) {
            let text = body.to_string().replace(&id, &format!("[{name}]"));
            body = serde_json::from_str(&text).unwrap();
        }
    }
    body
}

/// A proxy in front of a node. When it is armed, it passes the next call that matches on, and ends the connection
/// instead of passing its answer back.
struct Proxy {
    port: u16,
    is_armed: Arc<AtomicBool>,
}

impl Proxy {
    async fn before(port: u16, pattern: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (at, is_armed) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let armed = is_armed.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let node = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(relay(client, node, pattern, armed.clone()));
            }
        });
        Self { port: at, is_armed }
    }
}

async fn relay(mut client: TcpStream, mut node: TcpStream, pattern: &str, armed: Arc<AtomicBool>) {
    let (mut up, mut down, mut is_marked) = (vec![0; 65_536], vec![0; 65_536], false);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(read @ 1..) = read else { return };
                is_marked |= String::from_utf8_lossy(&up[..read]).contains(pattern);
                node.write_all(&up[..read]).await.unwrap();
            }
            read = node.read(&mut down) => {
                let Ok(read @ 1..) = read else { return };
                if is_marked && armed.swap(false, Ordering::SeqCst) {
                    return;
                }
                client.write_all(&down[..read]).await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_own_the_workspace_refuses_and_the_entry_node_looks_once_more() {
    let Pair { a, b, fleet, other, .. } = Pair::start().await;
    let id = b.session().await;
    let (workspace, path) = (b.workspace(), format!("/session/{id}"));
    let third = Peer { node: "c".into(), incarnation: 1, address: "http://127.0.0.1:9".into() };
    other.owners(&workspace, [Owner::Peer(third)]);
    let before = b.seen().len();
    let moving = a.call("PATCH", &path, json!({ "title": "x" })).await;
    assert_eq!((moving.status.as_u16(), moving.headers["retry-after"].to_str().unwrap()), (503, "5"));
    assert_eq!(b.seen().len(), before + 2, "asked twice");
    insta::assert_json_snapshot!("the_owner_changes", shown(moving.body));
    let token = b.token();
    let headers = [("x-baton-fleet", token.as_str()), ("x-baton-workspace", workspace.as_str())];
    let direct = b.send("PATCH", &path, json!({ "title": "x" }), &headers).await;
    assert_eq!(direct.status, 421);
    insta::assert_json_snapshot!("not_the_owner", shown(direct.body));
    // The second look finds that this node has become the owner.
    fleet.owners(&workspace, [Owner::Peer(b.peer()), Owner::Here]);
    let changed = a.expect(200, "PATCH", &path, json!({ "title": "taken over" })).await;
    assert_eq!(changed["title"], "taken over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_for_a_node_that_is_away_or_out_of_reach_get_503_and_reading_works() {
    let Pair { a, b, fleet, .. } = Pair::start().await;
    let id = b.session().await;
    let (workspace, peer, path) = (b.workspace(), b.peer(), format!("/session/{id}"));
    drop(b);
    let unreachable = Peer { address: "http://127.0.0.1:9".into(), ..peer };
    fleet.owners(&workspace, [Owner::Peer(unreachable)]);
    let refused = a.call("POST", &format!("{path}/prompt_async"), hello()).await;
    assert_eq!((refused.status.as_u16(), refused.headers["retry-after"].to_str().unwrap()), (503, "5"));
    insta::assert_json_snapshot!("out_of_reach", shown(refused.body));
    fleet.owners(&workspace, [Owner::Away { node: "b".into() }]);
    let away = a.call("POST", &format!("{path}/message"), hello()).await;
    assert_eq!((away.status.as_u16(), away.headers["retry-after"].to_str().unwrap()), (503, "5"));
    insta::assert_json_snapshot!("away", shown(away.body));
    let newer =
        a.expect(503, "POST", &format!("/api{path}/prompt"), json!({ "prompt": { "text": "hello" } })).await;
    insta::assert_json_snapshot!("away_in_the_newer_family", newer);
    a.expect(503, "GET", &format!("/file?path=.&workspace={workspace}"), None).await;
    a.expect(200, "GET", &path, None).await;
    a.expect(200, "GET", &format!("{path}/message"), None).await;
    a.expect(200, "GET", &format!("/session?workspace={workspace}"), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_whose_answer_is_lost_is_offered_again_and_counts_once() {
    let Pair { a, b, fleet, .. } = Pair::start().await;
    let id = b.session().await;
    let proxy = Proxy::before(b.port, "/message").await;
    fleet.owners(&b.workspace(), [Owner::Peer(b.peer_at(proxy.port))]);
    proxy.is_armed.store(true, Ordering::SeqCst);
    let before = b.seen().len();
    let answer = a.expect(200, "POST", &format!("/session/{id}/message"), hello()).await;
    assert_eq!(answer["info"]["role"], "assistant");
    let offers: Vec<_> =
        b.seen().split_off(before).into_iter().map(|head| head.headers["x-baton-offered"].clone()).collect();
    assert!(offers.len() == 2 && offers[0] == offers[1], "{offers:?}");
    let messages = a.expect(200, "GET", &format!("/session/{id}/message"), None).await;
    assert_eq!(messages.as_array().unwrap().len(), 2, "one prompt and one answer");
    assert_eq!(messages[0]["info"]["id"].as_str().unwrap(), offers[0].to_str().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_session_whose_answer_is_lost_exists_once() {
    let Pair { a, b, fleet, .. } = Pair::start().await;
    b.session().await;
    let proxy = Proxy::before(b.port, "POST /session").await;
    fleet.owners(&b.workspace(), [Owner::Peer(b.peer_at(proxy.port))]);
    proxy.is_armed.store(true, Ordering::SeqCst);
    let made = a.expect(200, "POST", &format!("/session?workspace={}", b.workspace()), json!({})).await;
    let list = a.expect(200, "GET", &format!("/session?workspace={}", b.workspace()), None).await;
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert!(list.as_array().unwrap().iter().any(|session| session["id"] == made["id"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_dies_with_a_prompt_leaves_no_doubt() {
    let Pair { a, b, fleet, .. } = Pair::start().await;
    let id = b.session().await;
    let proxy = Proxy::before(b.port, "/session/").await;
    let peer = b.peer_at(proxy.port);
    let dies = || [Owner::Peer(peer.clone()), Owner::Away { node: "b".into() }];
    fleet.owners(&b.workspace(), dies());
    proxy.is_armed.store(true, Ordering::SeqCst);
    a.expect(204, "POST", &format!("/session/{id}/prompt_async"), hello()).await;
    fleet.owners(&b.workspace(), dies());
    proxy.is_armed.store(true, Ordering::SeqCst);
    let stored = a.expect(503, "POST", &format!("/session/{id}/message"), hello()).await;
    insta::assert_json_snapshot!("stored_and_not_answered", shown(stored));
    // A call of another kind may have happened, so it is not repeated.
    fleet.owners(&b.workspace(), dies());
    proxy.is_armed.store(true, Ordering::SeqCst);
    let lost = a.expect(502, "PATCH", &format!("/session/{id}"), json!({ "title": "maybe" })).await;
    insta::assert_json_snapshot!("may_have_happened", shown(lost));
    let session = a.expect(200, "GET", &format!("/session/{id}"), None).await;
    assert_eq!(session["title"], "maybe");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_different_keys_refuse_each_other_and_say_so() {
    let other = Some(Key::new("another key of the same length..").unwrap());
    let Pair { a, b, .. } = Pair::of(Start { key: other, ..Start::of("a") }, Start::of("b")).await;
    let id = b.session().await;
    let refused = a.expect(502, "PATCH", &format!("/session/{id}"), json!({ "title": "x" })).await;
    insta::assert_json_snapshot!("another_key", shown(refused));
    let Pair { a, b, .. } = Pair::of(Start { key: None, ..Start::of("a") }, Start::of("b")).await;
    let id = b.session().await;
    let refused = a.expect(502, "PATCH", &format!("/session/{id}"), json!({ "title": "x" })).await;
    insta::assert_json_snapshot!("no_key_here", shown(refused));
    let Pair { a, b, .. } = Pair::of(Start::of("a"), Start { key: None, ..Start::of("b") }).await;
    let id = b.session().await;
    let refused = a.expect(502, "PATCH", &format!("/session/{id}"), json!({ "title": "x" })).await;
    insta::assert_json_snapshot!("no_key_there", shown(refused));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_ends_with_the_process_that_issued_it_and_a_new_one_is_agreed_on() {
    let Pair { a, b, fleet, memory, .. } = Pair::start().await;
    let id = b.session().await;
    let path = format!("/session/{id}");
    let title = json!({ "title": "x" });
    a.expect(200, "PATCH", &path, title.clone()).await;
    let old = b.token();
    let accepted = b.send("PATCH", &path, title.clone(), &[("x-baton-fleet", &old)]).await;
    assert_eq!(accepted.status, 200);
    let again = Start { name: "b", incarnation: 2, key: Some(key()) };
    let bus = Arc::new(engine::bus::Bus::new(fleet.clone()));
    let next = super::node::Node::start(again, memory, bus).await;
    let refused = next.send("PATCH", &path, title.clone(), &[("x-baton-fleet", &old)]).await;
    assert_eq!(refused.status, 401);
    insta::assert_json_snapshot!("an_old_token", refused.body);
    // The workspace of the older process, which the new one has taken over.
    fleet.owners(&b.workspace(), [Owner::Peer(next.peer()), Owner::Here]);
    a.expect(200, "PATCH", &path, title).await;
    assert_eq!(next.seen().len(), 2);
    for forged in ["", "guess", old.as_str()] {
        let refused = a.send("GET", "/session", None, &[("x-baton-fleet", forged)]).await;
        assert_eq!(refused.status, 401, "{forged:?}");
    }
}
