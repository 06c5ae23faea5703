//! Calls to a server that may die at any moment and restart at another address.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tokio::{sync::watch, time::timeout};

/// Timeout of a call; an abort waits for idle.
const CALL: Duration = Duration::from_secs(30);
/// Time that a client waits for the next server.
const NEXT: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The string field `id` of the body.
    pub(crate) fn id(&self) -> Option<String> {
        self.body.get("id").and_then(Value::as_str).map(ToOwned::to_owned)
    }

    pub(crate) fn list(&self) -> &[Value] {
        self.body.as_array().map(Vec::as_slice).unwrap_or_default()
    }
}

/// A call without an answer: it may have been carried out or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

/// A client of the server that is currently running.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    http: reqwest::Client,
    address: watch::Receiver<String>,
}

impl Line {
    pub(crate) fn new(address: watch::Receiver<String>) -> Self {
        Self { http: testkit::calls::http(), address }
    }

    pub(crate) fn url(&self) -> String {
        self.address.borrow().clone()
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Lost> {
        self.call(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Answer, Lost> {
        self.call(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Answer, Lost> {
        self.call(Method::DELETE, path, None).await
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, Lost> {
        let mut call = self.http.request(method, format!("{}{path}", self.url())).timeout(CALL);
        if let Some(body) = body {
            call = call.json(body);
        }
        let answer = call.send().await.map_err(|_| Lost)?;
        let status = answer.status().as_u16();
        let text = answer.text().await.map_err(|_| Lost)?;
        Ok(Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::Null) })
    }

    /// Returns a counter of `/metrics`, or 0 if the server does not have it.
    pub(crate) async fn counter(&self, name: &str) -> Result<u64, Lost> {
        let call = self.http.get(format!("{}/metrics", self.url())).timeout(CALL);
        let metrics = call.send().await.map_err(|_| Lost)?.text().await.map_err(|_| Lost)?;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        Ok(value.unwrap_or(0))
    }

    /// Posts to each next server until one answers; also returns how often the call was sent again.
    pub(crate) async fn post_until_answered(&self, path: &str, body: &Value) -> (Result<Answer, Lost>, u32) {
        let mut resent = 0;
        loop {
            let url = self.url();
            let answer = self.post(path, body).await;
            if answer.is_ok() || !self.wait_for_next(&url).await {
                return (answer, resent);
            }
            resent += 1;
        }
    }

    /// Waits until another server runs; returns false if none starts in time.
    pub(crate) async fn wait_for_next(&self, url: &str) -> bool {
        let mut address = self.address.clone();
        let next = timeout(NEXT, address.wait_for(|now| now != url)).await;
        matches!(next, Ok(Ok(_)))
    }
}
