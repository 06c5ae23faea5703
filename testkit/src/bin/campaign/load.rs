//! Mixed load: clients that do everything a user can do to a session, in random order.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use serde_json::{Value, json};
use testkit::dice::Dice;
use tokio::time::sleep;

use crate::{
    ledger::Ledger,
    line::{Answer, Line, Lost},
    script::{Script, Tag},
};

/// Number of concurrent clients.
pub(crate) const CLIENTS: u64 = 4;
/// Maximum number of sessions of one client.
const SESSIONS: usize = 3;
/// Clients pause while this many prompts are unfinished, so that a slow machine is not overloaded.
const UNFINISHED: usize = 12;
/// Longest pause of a client between two calls, in milliseconds.
const PAUSE: u64 = 80;

/// A session with the prompts that were sent to it.
#[derive(Debug)]
struct Conversation {
    session: String,
    prompts: Vec<String>,
}

/// One client of the load. It survives all restarts of the server.
#[derive(Debug)]
pub(crate) struct Client {
    line: Line,
    ledger: Arc<Ledger>,
    dice: Dice,
    /// Prefix of its prompts' ids.
    name: String,
    count: usize,
    conversations: Vec<Conversation>,
}

impl Client {
    pub(crate) fn new(line: Line, ledger: Arc<Ledger>, seed: u64, number: u64) -> Self {
        let dice = Dice::new(seed ^ (number + 1).wrapping_mul(0x9e37_79b9));
        Self { line, ledger, dice, name: format!("msg_z{number}"), count: 0, conversations: Vec::new() }
    }

    /// Sends calls until the ledger is closed.
    pub(crate) async fn talk(mut self) {
        while !self.ledger.is_closing() {
            let url = self.line.url();
            if self.act().await.is_err() {
                self.line.wait_for_next(&url).await;
            }
            sleep(Duration::from_millis(self.dice.roll(PAUSE))).await;
            while self.ledger.unfinished() > UNFINISHED && !self.ledger.is_closing() {
                sleep(Duration::from_millis(PAUSE)).await;
            }
        }
    }

    async fn act(&mut self) -> Result<(), Lost> {
        if self.conversations.is_empty() {
            return self.create().await;
        }
        let at = usize::try_from(self.dice.roll(self.conversations.len() as u64)).unwrap_or(0);
        let Some(session) = self.conversations.get(at).map(|it| it.session.clone()) else { return Ok(()) };
        match self.dice.roll(100) {
            0..66 => {
                self.prompt(at, &session).await;
                Ok(())
            }
            66..72 if self.conversations.len() < SESSIONS => self.create().await,
            72..78 => self.line.post(&format!("/session/{session}/abort"), &json!({})).await.map(drop),
            78..82 => self.fork(at, &session).await,
            82..87 => self.revert(at, &session).await,
            87..92 => self.shell(&session).await,
            92..96 => {
                let body = json!({ "providerID": "scripted", "modelID": "m" });
                self.line.post(&format!("/session/{session}/summarize"), &body).await.map(drop)
            }
            96..99 => self.delete(at, &session).await,
            _ => self.line.get(&format!("/session/{session}/message?limit=5")).await.map(drop),
        }
    }

    async fn create(&mut self) -> Result<(), Lost> {
        // Half of the sessions have no title, so that the model is asked for one.
        let body = if self.dice.roll(2) == 0 { json!({}) } else { json!({ "title": "mixed load" }) };
        let answer = self.line.post("/session", &body).await?;
        self.adopt(&answer);
        Ok(())
    }

    fn adopt(&mut self, created: &Answer) {
        if let Some(session) = created.id().filter(|_| created.is_success()) {
            self.conversations.push(Conversation { session, prompts: Vec::new() });
        }
    }

    /// Sends a prompt and, if the server dies before it answers, sends it again to the next one.
    async fn prompt(&mut self, at: usize, session: &str) {
        let (id, script) = (self.next_id(), Script::pick(&mut self.dice));
        let mut body = prompt(&id, script);
        let delivery = ["steer", "queue"].get(usize::try_from(self.dice.roll(4)).unwrap_or(0));
        if let (Some(delivery), Some(fields)) = (delivery, body.as_object_mut()) {
            fields.insert("delivery".into(), (*delivery).into());
        }
        if let Some(conversation) = self.conversations.get_mut(at) {
            conversation.prompts.push(id.clone());
        }
        submit(&self.line, &self.ledger, session, &id, script, &body).await;
    }

    fn next_id(&mut self) -> String {
        self.count += 1;
        format!("{}n{}", self.name, self.count)
    }

    async fn fork(&mut self, at: usize, session: &str) -> Result<(), Lost> {
        if self.conversations.len() >= SESSIONS {
            return Ok(());
        }
        let prompt = self.conversations.get(at).and_then(|it| it.prompts.last());
        let body = prompt.map_or(json!({}), |prompt| json!({ "messageID": prompt }));
        let answer = self.line.post(&format!("/session/{session}/fork"), &body).await?;
        self.adopt(&answer);
        Ok(())
    }

    /// Reverts everything from a prompt on; half of the time it undoes the revert.
    async fn revert(&mut self, at: usize, session: &str) -> Result<(), Lost> {
        let Some(conversation) = self.conversations.get_mut(at) else { return Ok(()) };
        let from = usize::try_from(self.dice.roll(conversation.prompts.len() as u64)).unwrap_or(0);
        let Some(prompt) = conversation.prompts.get(from).cloned() else { return Ok(()) };
        self.line.post(&format!("/session/{session}/abort"), &json!({})).await?;
        // Without an answer the revert may have happened, so all of these may have been removed either way.
        conversation.prompts.iter().skip(from).for_each(|prompt| self.ledger.may_be_gone(prompt));
        let body = json!({ "messageID": prompt });
        let answer = self.line.post(&format!("/session/{session}/revert"), &body).await?;
        if answer.is_success() && self.dice.roll(2) == 0 {
            self.line.post(&format!("/session/{session}/unrevert"), &json!({})).await?;
        }
        Ok(())
    }

    async fn shell(&mut self, session: &str) -> Result<(), Lost> {
        let id = self.next_id();
        let body = json!({ "messageID": id, "agent": "build", "command": format!("echo {id} >> shell.txt") });
        self.line.post(&format!("/session/{session}/shell"), &body).await.map(drop)
    }

    async fn delete(&mut self, at: usize, session: &str) -> Result<(), Lost> {
        let conversation = self.conversations.swap_remove(at);
        conversation.prompts.iter().for_each(|prompt| self.ledger.may_be_gone(prompt));
        self.line.delete(&format!("/session/{session}")).await.map(drop)
    }
}

/// The body of a prompt with an id that the client chose.
pub(crate) fn prompt(id: &str, script: Script) -> Value {
    json!({ "messageID": id, "parts": [{ "type": "text", "text": Tag::write(id, script) }] })
}

/// Sends a prompt until a server answers, and records the answer.
pub(crate) async fn submit(
    line: &Line,
    ledger: &Ledger,
    session: &str,
    id: &str,
    script: Script,
    body: &Value,
) -> Option<u16> {
    ledger.sending(id, session, script);
    let (answer, resent) = line.post_until_answered(&format!("/session/{session}/prompt_async"), body).await;
    ledger.resent.fetch_add(resent as usize, Relaxed);
    let status = answer.ok()?.status;
    ledger.answered(id, status);
    Some(status)
}

/// Answers some of the open requests, until the ledger is closed.
pub(crate) async fn answer_requests(line: Line, ledger: Arc<Ledger>, mut dice: Dice) {
    while !ledger.is_closing() {
        for kind in ["permission", "question"] {
            let Ok(waiting) = line.get(&format!("/{kind}")).await else { continue };
            for request in waiting.list() {
                if dice.roll(3) == 0 {
                    let reject = dice.roll(4) == 0;
                    let _ = answer_request(&line, kind, request, reject).await;
                }
            }
        }
        sleep(Duration::from_millis(100 + dice.roll(200))).await;
    }
}

pub(crate) async fn answer_request(
    line: &Line,
    kind: &str,
    request: &Value,
    reject: bool,
) -> Result<(), Lost> {
    let Some(id) = request.get("id").and_then(Value::as_str) else { return Ok(()) };
    let (verb, body) = match (kind, reject) {
        ("permission", reject) => ("reply", json!({ "reply": if reject { "reject" } else { "once" } })),
        (_, true) => ("reject", json!({})),
        (_, false) => ("reply", json!({ "answers": [["Red"]] })),
    };
    line.post(&format!("/{kind}/{id}/{verb}"), &body).await.map(drop)
}
