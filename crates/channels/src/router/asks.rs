//! Requests of the agent: shown once, answered once, and given up after a timeout.

use std::collections::BTreeSet;

use client::view::Request;
use protocol::{
    Millis,
    request::{PermissionReply, QuestionRequest},
};

use super::{answers, taps, worker::Worker};
use crate::{
    Post,
    ledger::{self, Ask, Asked, PendingUpdate, PostId, Roles},
    words::{self, Decision},
};

/// Delay before expiring a request again after the server could not be reached.
const AGAIN: Millis = 60_000;

/// An open request of this place.
pub(super) struct Open {
    pub(super) number: i64,
    pub(super) ask: Ask,
    pub(super) post: Option<PostId>,
}

/// A user's decision about a request.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    Permission(PermissionReply),
    /// The user denied a permission in their own words, which the agent receives.
    Denied(String),
    /// The answer to the current question.
    Answer(Vec<String>),
    /// The user dismissed the request.
    Dismissed,
}

/// Result of passing a decision to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The server has it, or the next question is shown.
    Taken,
    /// The request was already closed.
    Late,
    /// The server could not be reached.
    Failed,
}

impl Worker {
    /// Shows a request unless it was shown before.
    pub(super) async fn ask(&mut self, request: Request) -> Result<(), ledger::Error> {
        let opens = self.open_asks().await?;
        if opens.iter().any(|open| open.ask.asked.id() == request.id()) {
            return self.note_asks().await;
        }
        let session = self.context().client.session(request.session()).await.ok();
        let here = match self.run.as_ref().and_then(|run| run.session.clone()) {
            Some(session) => Some(session),
            None => self.place_state().await?.session,
        };
        let is_child = here.is_some_and(|here| here != *request.session());
        let child = session.as_ref().filter(|_| is_child).map(|session| session.title.clone());
        let directory = session.map(|session| session.directory);
        let asked = match request {
            Request::Permission(request) => Asked::Permission(request),
            Request::Question(request) if request.questions.is_empty() => return Ok(()),
            Request::Question(request) => Asked::Question(request),
        };
        let features = self.adapter.features();
        let text = match &asked {
            Asked::Permission(request) => {
                let has_buttons = !taps::permission_buttons(0, features).is_empty();
                words::permission(request, directory.as_deref(), child.as_deref(), has_buttons)
            }
            Asked::Question(request) => self.question_text(request, 0, child.as_deref()),
        };
        let ask = Ask {
            place: self.place.clone(),
            asked,
            answers: Vec::new(),
            marked: BTreeSet::new(),
            expires: self.deadline(),
        };
        let shown = ask.clone();
        let mut pieces = self.adapter.split(&text);
        let last = pieces.pop().unwrap_or_default();
        let first = pieces.into_iter().map(|text| Post { may_repeat: true, ..Post::text(text) });
        let posts = move |number| {
            let buttons = taps::buttons(number, &shown, features);
            let last = Post { buttons, may_repeat: true, ..Post::text(last) };
            first.chain([last]).collect()
        };
        self.ledger().ask(ask, posts).await?;
        self.context().couriers.wake(&self.place);
        self.note_asks().await
    }

    fn question_text(&self, request: &QuestionRequest, index: usize, child: Option<&str>) -> String {
        let features = self.adapter.features();
        let question = request.questions.get(index);
        let has_buttons = question.is_some_and(|question| {
            !taps::question_buttons(0, index, question, &BTreeSet::new(), features).is_empty()
        });
        words::question(request, index, child, has_buttons)
    }

    fn deadline(&self) -> Millis {
        let time = Millis::try_from(self.context().settings.question_timeout_ms).unwrap_or(Millis::MAX);
        self.ledger().now().saturating_add(time)
    }

    /// Open requests of this place, oldest first.
    pub(super) async fn open_asks(&self) -> Result<Vec<Open>, ledger::Error> {
        let asks = self.ledger().open_asks(&self.place).await?;
        Ok(asks.into_iter().map(|(number, ask, post)| Open { number, ask, post }).collect())
    }

    /// Updates the expiry timer and the typing indicator from the open requests.
    async fn note_asks(&mut self) -> Result<(), ledger::Error> {
        let opens = self.open_asks().await?;
        self.expiry = opens.iter().map(|open| open.ask.expires).min();
        if let Some(run) = &mut self.run {
            run.board.note_asking(!opens.is_empty());
        }
        Ok(())
    }

    /// Treats a text as the answer to the oldest open request. Returns false if it is not one.
    pub(super) async fn answer(
        &mut self,
        pending: &PendingUpdate,
        text: &str,
        roles: Roles,
    ) -> Result<bool, ledger::Error> {
        let Some(open) = self.open_asks().await?.into_iter().next() else { return Ok(false) };
        let verdict = match &open.ask.asked {
            Asked::Permission(_) => match answers::permission(text) {
                Some(reply) => Verdict::Permission(reply),
                // The turn waits for this user, so a queued message would wait for itself.
                None if roles.approve && roles.prompt => Verdict::Denied(text.trim().to_owned()),
                None => return Ok(false),
            },
            // A user who may only approve cannot answer questions; `enqueue` tells them so.
            Asked::Question(_) if !roles.prompt => return Ok(false),
            Asked::Question(request) => {
                let Some(question) = request.questions.get(open.ask.answers.len()) else { return Ok(false) };
                match answers::question(question, text) {
                    Ok(answer) => Verdict::Answer(answer),
                    Err(answers::NoSuchChoice(choice)) => {
                        let words = format!(
                            "“{}” is not one of the choices 1 to {}. Write one of these numbers{}. /skip dismisses the \
                             question.",
                            words::excerpt(&choice, 40),
                            question.options.len(),
                            if words::is_free(question) { ", or your answer in words" } else { "" }
                        );
                        self.conclude(pending, vec![Post::text(words)]).await?;
                        return Ok(true);
                    }
                }
            }
        };
        if matches!(verdict, Verdict::Permission(_)) && !roles.approve {
            self.conclude(
                pending,
                vec![Post::text("You do not have the right to answer permission requests.")],
            )
            .await?;
            return Ok(true);
        }
        let effect = self.decide(open, verdict, pending).await?;
        let posts = match effect {
            Effect::Taken => Vec::new(),
            Effect::Late => vec![Post::text("That request is already closed, so your answer was not used.")],
            Effect::Failed => {
                vec![Post::text("The server cannot be reached right now. Please answer again in a moment.")]
            }
        };
        self.conclude(pending, posts).await?;
        Ok(true)
    }

    /// Passes a decision to the server. If another question follows, the update is done as soon as that question is
    /// stored.
    pub(super) async fn decide(
        &mut self,
        open: Open,
        verdict: Verdict,
        pending: &PendingUpdate,
    ) -> Result<Effect, ledger::Error> {
        let by = pending.update.sender.name.as_str();
        let client = &self.context().client;
        let (result, outcome) = match (&open.ask.asked, &verdict) {
            (Asked::Permission(request), Verdict::Permission(reply)) => {
                let decision = Decision::Answered { by, answer: words::replied(*reply) };
                let outcome = words::permission_outcome(request, decision);
                (client.reply_permission(&request.id, *reply, None).await, outcome)
            }
            (Asked::Permission(request), Verdict::Denied(text)) => {
                let answer = format!("denied: “{}”", words::excerpt(text, 200));
                let outcome = words::permission_outcome(request, Decision::Answered { by, answer: &answer });
                let reply = PermissionReply::Reject;
                (client.reply_permission(&request.id, reply, Some(text.clone())).await, outcome)
            }
            (Asked::Permission(request), _) => {
                let outcome = words::permission_outcome(request, Decision::Dismissed { by });
                (client.reply_permission(&request.id, PermissionReply::Reject, None).await, outcome)
            }
            (Asked::Question(request), Verdict::Answer(answer)) => {
                let index = open.ask.answers.len();
                let decision = Decision::Answered { by, answer: &answer.join(", ") };
                let outcome = words::question_outcome(request, index, decision);
                let mut answers = open.ask.answers.clone();
                answers.push(answer.clone());
                if answers.len() < request.questions.len() {
                    return self.next_question(open, answers, pending, outcome).await;
                }
                (client.reply_question(&request.id, answers).await, outcome)
            }
            (Asked::Question(request), _) => {
                let index = open.ask.answers.len();
                let outcome = words::question_outcome(request, index, Decision::Dismissed { by });
                (client.reject_question(&request.id).await, outcome)
            }
        };
        match result {
            Ok(()) => {
                self.settle(&open, outcome).await?;
                Ok(Effect::Taken)
            }
            Err(error) if error.status() == Some(404) => {
                self.settle(&open, settled(&open.ask, Decision::Elsewhere)).await?;
                Ok(Effect::Late)
            }
            Err(error) => {
                tracing::warn!(place = %self.place, error = &error as &dyn std::error::Error, "cannot pass an answer to the server");
                Ok(Effect::Failed)
            }
        }
    }

    async fn next_question(
        &mut self,
        open: Open,
        answers: Vec<Vec<String>>,
        pending: &PendingUpdate,
        outcome: String,
    ) -> Result<Effect, ledger::Error> {
        let index = answers.len();
        let ask = Ask { answers, marked: BTreeSet::new(), expires: self.deadline(), ..open.ask };
        let text = if let Asked::Question(request) = &ask.asked {
            self.question_text(request, index, None)
        } else {
            String::new()
        };
        let buttons = taps::buttons(open.number, &ask, self.adapter.features());
        let post = Post { buttons, may_repeat: true, ..Post::text(text) };
        self.ledger().advance(open.number, ask, post, pending.id).await?;
        self.replace(open.post, outcome);
        self.context().couriers.wake(&self.place);
        self.note_asks().await?;
        Ok(Effect::Taken)
    }

    /// Closes a request and replaces its post with the outcome.
    async fn settle(&mut self, open: &Open, outcome: String) -> Result<(), ledger::Error> {
        let post = self.ledger().settle(open.ask.asked.id()).await?;
        self.replace(post, outcome);
        self.note_asks().await
    }

    fn replace(&self, post: Option<PostId>, text: String) {
        if let Some(post) = post {
            self.context().couriers.replace(&self.place, post, Post::text(text));
        }
    }

    /// Closes a request that was answered in another client or is no longer needed.
    pub(super) async fn settled_elsewhere(&mut self, id: &str) -> Result<(), ledger::Error> {
        let open = self.open_asks().await?.into_iter().find(|open| open.ask.asked.id() == id);
        let Some(open) = open else { return Ok(()) };
        self.settle(&open, settled(&open.ask, Decision::Elsewhere)).await
    }

    /// Closes requests that were answered while this worker was not running.
    pub(super) async fn reconcile(&mut self) -> Result<(), ledger::Error> {
        let opens = self.open_asks().await?;
        if opens.is_empty() {
            return self.note_asks().await;
        }
        let client = &self.context().client;
        let (Ok(permissions), Ok(questions)) = futures::join!(client.permissions(), client.questions())
        else {
            // The requests stay open: they can still be answered, or they time out.
            return self.note_asks().await;
        };
        let is_open = |id: &str| {
            permissions.iter().any(|it| it.id.as_str() == id)
                || questions.iter().any(|it| it.id.as_str() == id)
        };
        for open in opens.iter().filter(|open| !is_open(open.ask.asked.id())) {
            self.settle(open, settled(&open.ask, Decision::Elsewhere)).await?;
        }
        self.note_asks().await
    }

    /// Closes all requests after their turn was stopped.
    pub(super) async fn drop_asks(&mut self) -> Result<(), ledger::Error> {
        for open in self.open_asks().await? {
            self.settle(&open, settled(&open.ask, Decision::Elsewhere)).await?;
        }
        Ok(())
    }

    /// Rejects requests whose time is up.
    pub(super) async fn expire(&mut self) -> Result<(), ledger::Error> {
        let now = self.ledger().now();
        if self.expiry.is_none_or(|expiry| expiry > now) {
            return Ok(());
        }
        let mut is_left = false;
        for open in self.open_asks().await?.into_iter().filter(|open| open.ask.expires <= now) {
            let client = &self.context().client;
            let (result, what) = match &open.ask.asked {
                Asked::Permission(request) => {
                    let why = Some("no answer came in time".to_owned());
                    (client.reply_permission(&request.id, PermissionReply::Reject, why).await, "denied")
                }
                Asked::Question(request) => (client.reject_question(&request.id).await, "dismissed"),
            };
            match result {
                Err(error) if error.is_transient() => is_left = true,
                Err(error) if error.status() == Some(404) => {
                    self.settle(&open, settled(&open.ask, Decision::Elsewhere)).await?;
                }
                _ => {
                    self.settle(&open, settled(&open.ask, Decision::Expired)).await?;
                    let time = std::time::Duration::from_millis(self.context().settings.question_timeout_ms);
                    let time = words::lasting(time);
                    self.say(format!("⌛ No answer came within {time}, so the request was {what}.")).await?;
                }
            }
        }
        self.note_asks().await?;
        if is_left {
            self.expiry = Some(now + AGAIN);
        }
        Ok(())
    }
}

/// The text that replaces a closed request.
fn settled(ask: &Ask, decision: Decision<'_>) -> String {
    match &ask.asked {
        Asked::Permission(request) => words::permission_outcome(request, decision),
        Asked::Question(request) => words::question_outcome(request, ask.answers.len(), decision),
    }
}
