//! Delivers events to the app: over a connection, or with a signed call. An update that is not acknowledged in time
//! is delivered again, at most three times.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use ring::hmac;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{PATIENCE, Slack};

/// Maximum number of redeliveries.
const RETRIES: u32 = 3;

/// The kind of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Event,
    Interaction,
    Command,
}

/// An update to deliver.
#[derive(Debug, Clone)]
pub(super) struct Item {
    kind: Kind,
    body: Value,
    attempt: u32,
}

/// An update that was sent over a connection.
#[derive(Debug)]
pub(super) struct Sent {
    pub item: Item,
    /// The number of the connection.
    pub line: u64,
}

impl Item {
    /// The same update as another attempt.
    pub(super) fn again(mut self) -> Self {
        self.attempt += 1;
        self
    }

    /// The update as a frame of Socket Mode.
    fn frame(&self, envelope: &str) -> Value {
        let kind = match self.kind {
            Kind::Event => "events_api",
            Kind::Interaction => "interactive",
            Kind::Command => "slash_commands",
        };
        let mut frame = json!({
            "envelope_id": envelope, "type": kind, "payload": self.body,
            "accepts_response_payload": self.kind != Kind::Event,
        });
        if self.kind == Kind::Event {
            frame["retry_attempt"] = json!(self.attempt);
            frame["retry_reason"] = json!(if self.attempt > 0 { "timeout" } else { "" });
        }
        frame
    }

    /// The update as the body of a call, with its media type.
    fn call(&self) -> (String, &'static str) {
        const FORM: &str = "application/x-www-form-urlencoded";
        let mut form = form_urlencoded::Serializer::new(String::new());
        match self.kind {
            Kind::Event => (self.body.to_string(), "application/json"),
            Kind::Interaction => (form.append_pair("payload", &self.body.to_string()).finish(), FORM),
            Kind::Command => {
                let fields = self.body.as_object().into_iter().flatten();
                form.extend_pairs(fields.map(|(name, value)| (name, value.as_str().unwrap_or_default())));
                (form.finish(), FORM)
            }
        }
    }
}

impl Slack {
    /// Delivers a new update.
    pub(super) fn deliver(self: &Arc<Self>, kind: Kind, body: Value) {
        let item = Item { kind, body, attempt: 0 };
        self.lock().last = Some(item.clone());
        self.send(item);
    }

    pub(super) fn send(self: &Arc<Self>, item: Item) {
        let calls = self.lock().calls.clone();
        match calls {
            Some(url) => {
                tokio::spawn(self.clone().push(url, item));
            }
            None => self.pass(item),
        }
    }

    /// Sends an update over the newest connection, or keeps it until there is one.
    pub(super) fn pass(self: &Arc<Self>, item: Item) {
        let envelope = self.fresh("envelope-");
        let frame = item.frame(&envelope).to_string();
        let mut inner = self.lock();
        let open = inner.lines.iter().rev().find(|line| !line.is_leaving).or(inner.lines.last());
        let Some(number) = open.filter(|line| line.send(frame)).map(|line| line.number) else {
            inner.waiting.push_back(item);
            return;
        };
        inner.open.insert(envelope.clone(), Sent { item, line: number });
        drop(inner);
        tokio::spawn(self.clone().watch(envelope));
    }

    /// Waits for an acknowledgement for as long as Slack does.
    async fn watch(self: Arc<Self>, envelope: String) {
        sleep(Duration::from_millis(self.options.deadline_ms)).await;
        let Some(sent) = self.lock().open.remove(&envelope) else { return };
        self.lock().settled.insert(envelope);
        self.service_state.problem(format!("not acknowledged within {} ms", self.options.deadline_ms));
        if sent.item.attempt < RETRIES {
            self.pass(sent.item.again());
        }
    }

    /// Handles the acknowledgement of an envelope.
    pub(super) fn acknowledged(&self, envelope: &str) {
        let mut inner = self.lock();
        let is_open = inner.open.remove(envelope).is_some();
        let is_known = !inner.settled.insert(envelope.to_owned());
        drop(inner);
        match (is_open, is_known) {
            (true, _) => self.service_state.change(|state| state.acknowledged += 1),
            // Too late: the update was sent again meanwhile.
            (false, true) => {}
            (false, false) => {
                self.service_state.problem(format!("acknowledged {envelope:?}, which was never sent"));
            }
        }
    }

    /// Calls the app at `url` from now on, if it answers Slack's challenge.
    pub async fn call_at(self: &Arc<Self>, url: &str) -> Result<()> {
        let challenge = self.fresh("challenge-");
        let body =
            json!({"token": "verification", "type": "url_verification", "challenge": challenge}).to_string();
        let answer = self.signed(url, body, "application/json").send().await?;
        let status = answer.status();
        let text = answer.text().await.context("the answer to the challenge")?;
        let said = serde_json::from_str::<Value>(&text).ok();
        let said = said.and_then(|it| it.get("challenge")?.as_str().map(str::to_owned)).unwrap_or(text);
        ensure!(
            status.is_success() && said.trim() == challenge,
            "the challenge was answered with {status}: {said}"
        );
        self.lock().calls = Some(url.to_owned());
        Ok(())
    }

    /// A call with Slack's signature.
    fn signed(&self, url: &str, body: String, mime: &str) -> reqwest::RequestBuilder {
        let moment = jiff::Timestamp::now().as_second();
        self.http
            .post(url)
            .header("content-type", mime)
            .header("x-slack-request-timestamp", moment)
            .header("x-slack-signature", signature(&self.options.signing_secret, moment, &body))
            .body(body)
    }

    /// Calls the app until it answers with success: at once, and after each of the pauses. Only events are retried.
    async fn push(self: Arc<Self>, url: String, item: Item) {
        let pauses = if item.kind == Kind::Event { self.options.retries_ms.as_slice() } else { &[] };
        let mut trouble = match self.pushed(&url, &item, "").await {
            Ok(()) => return,
            Err(trouble) => trouble,
        };
        let mut item = item;
        for pause in pauses {
            sleep(Duration::from_millis(*pause)).await;
            item = item.again();
            trouble = match self.pushed(&url, &item, trouble).await {
                Ok(()) => return,
                Err(trouble) => trouble,
            };
        }
        self.service_state.problem(format!("an update was never acknowledged: {trouble}"));
    }

    async fn pushed(&self, url: &str, item: &Item, reason: &str) -> Result<(), &'static str> {
        let (body, mime) = item.call();
        let mut call = self.signed(url, body, mime);
        if item.attempt > 0 {
            call = call.header("x-slack-retry-num", item.attempt).header("x-slack-retry-reason", reason);
        }
        let began = Instant::now();
        let deadline = Duration::from_millis(self.options.deadline_ms);
        match timeout(PATIENCE.min(deadline), call.send()).await {
            Ok(Ok(answer)) if answer.status().is_success() => {
                self.service_state.change(|state| state.acknowledged += 1);
                Ok(())
            }
            Ok(Ok(_)) => Err("http_error"),
            Ok(Err(_)) => Err("connection_failed"),
            Err(_) => {
                self.service_state.problem(format!("no answer to a call within {:?}", began.elapsed()));
                Err("http_timeout")
            }
        }
    }
}

pub fn signature(secret: &str, moment: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("v0:{moment}:{body}").as_bytes());
    tag.as_ref().iter().fold("v0=".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}
