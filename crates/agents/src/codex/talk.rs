//! What is said to Codex while it works: answers to what it asks, prompts that join, and what to stop.

use futures::future::FutureExt;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::ask::{self, Reply};
use super::input::{Wanted, text_input};
use super::run::{Ended, Joined, Work, said};
use crate::jsonrpc::{Asked, Fault, INVALID_PARAMS};

impl Work<'_> {
    /// Tells Codex something whose answer does not matter.
    pub(super) fn send(&mut self, method: &'static str, params: Value) {
        let (peer, answer) = (self.process.link.peer().clone(), self.inner.options.answer);
        let sent = async move {
            if let Err(error) = peer.request(method, params, answer).await {
                debug!(method, %error, "Codex does not want to be told that");
            }
        };
        self.sent.push(sent.boxed());
    }

    /// Codex wants something from a person, or from the rules.
    pub(super) fn asked(&mut self, asked: Asked) {
        let directory = self.turn.session.directory.trim_end_matches('/');
        let thread = self.thread_of(asked.params.get("threadId").and_then(Value::as_str));
        let elsewhere = thread.as_ref().and_then(|thread| self.threads.get(thread));
        let translation = elsewhere.map_or(&self.translation, |thread| &thread.translation);
        let wish = match ask::wish(&asked.method, asked.params.clone(), translation, directory) {
            Ok(wish) => wish,
            Err(error) => {
                debug!(session = %self.turn.session.id, error, "Codex asks something that nobody understands");
                return asked.answer(Err(Fault::new(INVALID_PARAMS, error)));
            }
        };
        let taken_back = CancellationToken::new();
        self.open.push((asked.id.clone(), taken_back.clone()));
        let answer = self.family.ask(thread.as_deref(), wish.ask.clone());
        let answer = async move { (thread, asked, wish.reply(answer.await)) };
        self.asks.push(async move { taken_back.run_until_cancelled(answer).await }.boxed());
    }

    pub(super) async fn answered(
        &mut self,
        thread: Option<String>,
        asked: Asked,
        reply: Reply,
    ) -> Option<Ended> {
        self.heard = Instant::now();
        self.open.retain(|(open, _)| *open != asked.id);
        let question = asked.method == ask::QUESTION;
        asked.answer(Ok(reply.result.clone()));
        if let Some(thread) = thread {
            self.answered_elsewhere(&thread, &reply, question);
            return None;
        }
        self.refused |= reply.refused;
        if reply.refused && question {
            // There is no answer that means no.
            return self.stop_turn().await;
        }
        if let Some(correction) = reply.correction {
            self.steer(vec![text_input(&correction)]);
        }
        None
    }

    /// Tells Codex to end the turn; its end is still to come.
    async fn stop_turn(&mut self) -> Option<Ended> {
        let params = json!({ "threadId": self.process.thread, "turnId": self.current });
        self.expect_end("was interrupted");
        self.call("turn/interrupt", params).await.err()
    }

    /// Prompts that arrived meanwhile join.
    pub(super) async fn join(&mut self) {
        for prompt in self.turn.join().await {
            if let Wanted::Turn(input) = said(self.turn, &prompt).await {
                self.steer(input);
            }
        }
    }

    fn steer(&mut self, input: Vec<Value>) {
        let params =
            json!({ "threadId": self.process.thread, "expectedTurnId": self.current, "input": input });
        let peer = self.process.link.peer().clone();
        let answer = self.inner.options.answer;
        let steer = async move { (input, peer.request("turn/steer", params, answer).await) };
        self.joining.push(steer.boxed());
    }

    /// What could not join gets a turn of its own.
    pub(super) fn joined(&mut self, (input, answer): Joined) {
        match answer {
            Ok(answer) => {
                if let Some(turn) = answer.get("turnId").and_then(Value::as_str) {
                    self.current = Some(turn.to_owned());
                }
            }
            Err(error) => {
                debug!(session = %self.turn.session.id, %error, "a prompt could not join");
                self.unsent.extend(input);
            }
        }
    }
}
