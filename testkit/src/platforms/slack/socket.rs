//! The server of Socket Mode.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{
        Query, State as Shared,
        ws::{Message, WebSocket, WebSocketUpgrade},
    },
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::Slack;

/// Interval of pings.
const PING: Duration = Duration::from_secs(5);
/// Time from the announcement to the closing of a connection.
const WARNING: Duration = Duration::from_secs(10);

/// An instruction for a connection's task.
#[derive(Debug)]
enum Order {
    Send(String),
    Close,
    /// Breaks the connection without a close frame.
    Cut,
}

#[derive(Debug)]
pub(super) struct Line {
    pub number: u64,
    /// True if its closing was announced.
    pub is_leaving: bool,
    orders: mpsc::UnboundedSender<Order>,
}

impl Line {
    /// Queues a frame; returns false if the connection has ended.
    pub(super) fn send(&self, frame: String) -> bool {
        self.orders.send(Order::Send(frame)).is_ok()
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Ticket {
    #[serde(default)]
    ticket: String,
}

/// Accepts a connection, if its one-time address was not used before.
pub(super) async fn connect(
    Shared(slack): Shared<Arc<Slack>>,
    Query(Ticket { ticket }): Query<Ticket>,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !slack.lock().tickets.remove(&ticket) {
        slack.service_state.problem("a connection with an unknown or used address");
        return StatusCode::UNAUTHORIZED.into_response();
    }
    upgrade.on_upgrade(move |socket| serve(slack, socket))
}

async fn serve(slack: Arc<Slack>, mut socket: WebSocket) {
    let (orders, mut inbox) = mpsc::unbounded_channel();
    let hello = json!({
        "type": "hello", "connection_info": {"app_id": "A1"}, "num_connections": slack.lock().lines.len() + 1,
        "debug_info": {"host": "fake", "approximate_connection_time": 18_060},
    });
    if socket.send(Message::text(hello.to_string())).await.is_err() {
        return;
    }
    let number = slack.attach(orders);
    let mut pings = interval(PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            order = inbox.recv() => match order {
                Some(Order::Send(frame)) => if socket.send(Message::text(frame)).await.is_err() { break },
                // The other side answers with a close frame, and that ends the connection.
                Some(Order::Close) => if socket.send(Message::Close(None)).await.is_err() { break },
                Some(Order::Cut) | None => break,
            },
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => slack.heard(&text),
                Some(Ok(Message::Binary(_))) => slack.service_state.problem("a binary frame"),
                // The WebSocket library answers pings and close frames.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_))) => {}
                Some(Err(_)) | None => break,
            },
            _ = pings.tick() => if socket.send(Message::Ping("ping".into())).await.is_err() { break },
        }
    }
    slack.detach(number);
}

impl Slack {
    /// Registers a connection, sends the waiting updates, and closes the connections whose closing was announced.
    fn attach(self: &Arc<Self>, orders: mpsc::UnboundedSender<Order>) -> u64 {
        let mut inner = self.lock();
        inner.count += 1;
        let number = inner.count;
        for line in inner.lines.iter().filter(|line| line.is_leaving) {
            let _ = line.orders.send(Order::Close);
        }
        inner.lines.push(Line { number, is_leaving: false, orders });
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        self.service_state.change(|_| {});
        for item in waiting {
            self.pass(item);
        }
        number
    }

    /// Removes a connection and sends its unacknowledged updates over another.
    fn detach(self: &Arc<Self>, number: u64) {
        let mut inner = self.lock();
        inner.lines.retain(|line| line.number != number);
        let lost: Vec<_> = inner.open.extract_if(.., |_, sent| sent.line == number).collect();
        inner.settled.extend(lost.iter().map(|(envelope, _)| envelope.clone()));
        drop(inner);
        self.service_state.change(|_| {});
        for (_, sent) in lost {
            self.pass(sent.item.again());
        }
    }

    fn heard(&self, text: &str) {
        let frame = serde_json::from_str::<Value>(text).unwrap_or_default();
        match frame.get("envelope_id").and_then(Value::as_str) {
            Some(envelope) => self.acknowledged(envelope),
            None => self.service_state.problem(format!("a frame that acknowledges nothing: {text}")),
        }
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        self.lock().lines.len()
    }

    /// Announces that all connections will be closed.
    pub fn disconnect(self: &Arc<Self>) {
        let frame =
            json!({"type": "disconnect", "reason": "warning", "debug_info": {"host": "fake"}}).to_string();
        let mut inner = self.lock();
        let leaving: Vec<u64> = inner.lines.iter().map(|line| line.number).collect();
        for line in &mut inner.lines {
            line.is_leaving = line.send(frame.clone());
        }
        drop(inner);
        let slack = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(WARNING).await;
            let inner = slack.lock();
            for line in inner.lines.iter().filter(|line| leaving.contains(&line.number)) {
                let _ = line.orders.send(Order::Close);
            }
        });
    }

    /// Breaks all connections without notice.
    pub fn cut(&self) {
        for line in &self.lock().lines {
            let _ = line.orders.send(Order::Cut);
        }
    }
}
