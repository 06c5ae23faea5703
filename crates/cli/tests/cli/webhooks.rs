//! Webhooks from the program to a receiver.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
    time::timeout,
};

use crate::harness::Harness;

/// Longer than the first pause before a retry.
const PATIENCE: Duration = Duration::from_mins(1);

/// A receiver that refuses the first `refusals` calls.
async fn receiver(refusals: usize) -> (SocketAddr, mpsc::UnboundedReceiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut left = refusals;
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            let (headers, body) = loop {
                let mut chunk = [0; 4096];
                let read = socket.read(&mut chunk).await.unwrap_or(0);
                bytes.extend_from_slice(&chunk[..read]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let whole = text.split_once("\r\n\r\n").and_then(|(headers, body)| {
                    Some((headers.to_lowercase(), serde_json::from_str::<Value>(body).ok()?))
                });
                match whole {
                    Some(whole) => break whole,
                    None if read == 0 => return,
                    None => {}
                }
            };
            let status = if left > 0 { "503 Away" } else { "204 No Content" };
            left = left.saturating_sub(1);
            let _ =
                socket.write_all(format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n").as_bytes()).await;
            let _ = tell.send((headers, body));
        }
    });
    (address, heard)
}

fn configure(harness: &Harness, config: &Value) {
    let directory = harness.path("home/.config/opencode");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("baton.json"), config.to_string()).unwrap();
}

#[tokio::test]
async fn a_notice_that_was_refused_is_sent_again_after_a_restart() {
    let harness = Harness::new();
    let (address, mut heard) = receiver(1).await;
    let hook =
        json!({ "url": format!("http://{address}/in"), "secret": "s3cret", "private_addresses": true });
    configure(&harness, &json!({ "webhook": { "chat": hook } }));
    let ended = harness.run_with_data(&["run", "hi", "--model", "demo/simple"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (first, _) = timeout(PATIENCE, heard.recv()).await.unwrap().unwrap();
    let server = harness.serve().await;
    let (again, body) = timeout(PATIENCE, heard.recv()).await.unwrap().unwrap();
    let id = |headers: &str| {
        let line = headers.lines().find(|line| line.starts_with("webhook-id:")).unwrap();
        line.to_owned()
    };
    assert_eq!(id(&first), id(&again), "the id is the same, so the receiver can tell it is a repetition");
    assert!(again.contains("webhook-signature: v1,"), "{again}");
    assert_eq!((&body["type"], &body["data"]["reason"]), (&json!("turn.end"), &json!("completed")));
    assert_eq!(body["data"]["text"], "Hello from the demo model. All is well.");
    let shown = server.calls.get("/config").await.unwrap().to_string();
    assert!(!shown.contains("s3cret") && !shown.contains("/in"), "{shown}");
    server.stop().await;
    assert!(heard.try_recv().is_err(), "an accepted notice was sent twice");
}

#[tokio::test]
async fn a_project_cannot_configure_webhooks() {
    let harness = Harness::new();
    let (address, mut heard) = receiver(0).await;
    let hook =
        json!({ "url": format!("http://{address}/in"), "secret": "s3cret", "private_addresses": true });
    let config = json!({ "webhook": { "chat": hook } });
    std::fs::write(harness.project().join("baton.json"), config.to_string()).unwrap();
    let ended = harness.run_with_data(&["run", "hi", "--model", "demo/simple"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let log = std::fs::read_to_string(harness.data().join("log/baton.log")).unwrap();
    assert!(log.contains("ignoring a webhook of the project"), "{log}");
    assert!(heard.try_recv().is_err());
}

#[tokio::test]
async fn a_webhook_without_a_secret_is_a_reason_not_to_start() {
    let harness = Harness::new();
    configure(&harness, &json!({ "webhook": { "chat": { "url": "https://hooks.test/sk-1" } } }));
    let ended = harness.run_with_data(&["run", "hi", "--model", "demo/simple"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("the webhook chat has no `secret` to sign with"), "{ended:?}");
    assert!(!ended.stderr.contains("sk-1"), "{ended:?}");
}
