//! Carries out commands.

use client::answer::Answer;
use protocol::{
    Message, MessageId, MessageWithParts, SessionId, continuation::ContinuationAction, project::FileDiff,
    prompt::SessionInput,
};

use super::{
    asks::{Effect, Verdict},
    board::Board,
    command::Command,
    run::posts,
    start::Failure,
    worker::Worker,
};
use crate::{
    Document, Post,
    ledger::{self, Asked, PendingUpdate, PlaceState, Roles, State},
    words::{self, Situation},
};

/// The posts that answer a command.
pub(super) type Reply = Result<Vec<Post>, Failure>;

pub(super) fn say(text: impl Into<String>) -> Vec<Post> {
    vec![Post::text(text)]
}

impl Worker {
    /// Carries out a command and posts its result.
    pub(super) async fn command(
        &mut self,
        pending: &PendingUpdate,
        command: Command,
        roles: Roles,
    ) -> Result<(), ledger::Error> {
        if let Command::Pair(code) = &command {
            return self.pair(pending, code).await;
        }
        let is_open = matches!(command, Command::Help | Command::Status | Command::Skip);
        if !roles.prompt && !is_open {
            return self.conclude(pending, say("You may answer requests, but not send prompts.")).await;
        }
        let posts = match self.execute(pending, command, roles).await {
            Ok(posts) => posts,
            Err(Failure::Server(error)) => say(words::unreachable(&error)),
            Err(Failure::Ledger(error)) => return Err(error),
        };
        self.conclude(pending, posts).await
    }

    async fn execute(&mut self, pending: &PendingUpdate, command: Command, roles: Roles) -> Reply {
        match command {
            Command::Help | Command::Pair(_) => Ok(posts(&*self.adapter, &words::help())),
            Command::Unknown(name) => Ok(say(words::unknown_command(&name))),
            Command::New(_) => self.begin_anew().await,
            Command::Cancel => self.cancel().await,
            Command::Stop => self.stop().await,
            Command::Continue => self.go_on().await,
            Command::Status => self.status().await,
            Command::Sessions => self.list_sessions().await,
            Command::Use(which) => self.use_session(&which).await,
            Command::Model(name) => self.choose_model(&name).await,
            Command::Agent(name) => self.choose_agent(&name).await,
            Command::Last => self.last().await,
            Command::Diff => self.diff().await,
            Command::Skip => self.skip(pending, roles).await,
            Command::Queue => self.list_queue().await,
            Command::Withdraw(which) => self.withdraw(&which).await,
        }
    }

    pub(super) async fn place_state(&self) -> Result<PlaceState, ledger::Error> {
        self.ledger().place_state(&self.place).await
    }

    /// Changes the session of the place and keeps the chosen model and agent.
    pub(super) async fn set_session(&self, session: SessionId) -> Result<(), ledger::Error> {
        self.ledger().change_place_state(&self.place, |state| state.session = Some(session)).await
    }

    pub(super) async fn begin_anew(&self) -> Reply {
        let session = self.context().client.create_session(&SessionInput::default()).await?;
        self.set_session(session.id).await?;
        let rest =
            if self.run.is_some() { " The running turn continues, and its answer comes here." } else { "" };
        Ok(say(format!("🆕 A new session.{rest}")))
    }

    async fn cancel(&mut self) -> Reply {
        if self.run.is_none() {
            return self.cancel_waiting().await;
        }
        // The end of the turn is reported when it has ended.
        self.stop_run().await.map_or(Ok(Vec::new()), |error| Err(error.into()))
    }

    /// Drops messages that wait for another attempt, although no turn runs.
    async fn cancel_waiting(&mut self) -> Reply {
        let dropped = self.drop_waiting().await?;
        Ok(say(if dropped == 0 { "Nothing is running." } else { "Stopped." }))
    }

    async fn drop_waiting(&mut self) -> Result<usize, ledger::Error> {
        let waiting = std::mem::take(&mut self.waiting);
        for pending in &waiting {
            if let State::Running(run) = &pending.state
                && let Err(error) = self.context().client.abort(&run.session).await
            {
                // The connection was lost before; the turn may still run on the server.
                tracing::warn!(place = %self.place, error = &error as &dyn std::error::Error, "cannot stop a turn");
            }
            self.conclude(pending, Vec::new()).await?;
        }
        Ok(waiting.len())
    }

    async fn stop(&mut self) -> Reply {
        let dropped = self.drop_waiting().await?;
        let was_running = self.run.is_some();
        if let Some(session) = self.place_state().await?.session {
            match self.context().client.continuation(&session, ContinuationAction::Stop).await {
                // A server without continuation (OpenCode) has nothing to stop.
                Ok(_) | Err(client::Error::Unexpected { .. }) => {}
                Err(error) if error.status() == Some(404) => {}
                Err(error) => return Err(error.into()),
            }
            // Another client may have started a turn.
            if !was_running {
                self.context().client.abort(&session).await?;
            }
        }
        if let Some(error) = self.stop_run().await {
            return Err(error.into());
        }
        let text = match dropped {
            0 if was_running => return Ok(Vec::new()),
            0 => "Stopped. The agent does not continue by itself until you write again.".to_owned(),
            1 => "Stopped. 1 message that waited was dropped.".to_owned(),
            dropped => format!("Stopped. {dropped} messages that waited were dropped."),
        };
        Ok(say(text))
    }

    async fn go_on(&self) -> Reply {
        let Some(session) = self.place_state().await?.session else {
            return Ok(say("There is no session yet."));
        };
        match self.context().client.continuation(&session, ContinuationAction::Resume).await {
            Ok(_) => Ok(say("The agent may continue by itself again.")),
            Err(client::Error::Unexpected { .. }) => Ok(say("This server has no automatic continuation.")),
            Err(error) if error.status() == Some(404) => {
                Ok(say("This server has no automatic continuation."))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn status(&self) -> Reply {
        let state = self.place_state().await?;
        let id = self.run.as_ref().and_then(|run| run.session.clone()).or(state.session);
        let found = match &id {
            Some(id) => Some(self.context().client.session(id).await),
            None => None,
        };
        // The local part of the status is shown even if the server cannot be reached.
        let problem = found.as_ref().and_then(|found| found.as_ref().err()).map(words::unknown_state);
        let session = found.and_then(Result::ok);
        let todos = match &id {
            Some(id) => self.todos(id).await,
            None => None,
        };
        let board = self.run.as_ref().map(|run| &run.board);
        let situation = Situation {
            working: board.map(Board::elapsed),
            tool: board.and_then(Board::tool),
            retry: board.and_then(|board| board.retry(self.ledger().now())),
            waiting: self.waiting.len(),
            asks: self.open_asks().await?.len(),
            session: session.as_ref(),
            problem: problem.as_deref(),
            model: state.model.as_ref(),
            agent: state.agent.as_deref(),
            todos,
        };
        Ok(say(words::status(&situation)))
    }

    async fn last(&self) -> Reply {
        let Some(session) = self.place_state().await?.session else {
            return Ok(say("There is no session yet."));
        };
        let messages = self.context().client.messages(&session).await?;
        let Some(prompt) = last_prompt(&messages) else { return Ok(say("There is no prompt yet.")) };
        let mut answer = Answer::new(session, prompt);
        answer.read(&messages);
        let text = answer.text();
        Ok(if text.is_empty() { say("There is no answer yet.") } else { posts(&*self.adapter, &text) })
    }

    async fn diff(&self) -> Reply {
        let Some(session) = self.place_state().await?.session else {
            return Ok(say("There is no session yet."));
        };
        let files = self.context().client.diff(&session).await?;
        if files.is_empty() {
            return Ok(say("Nothing was changed."));
        }
        let (text, patch) = (summary(&files), patch(&files));
        let fits = |limit: u64| u64::try_from(patch.len()).is_ok_and(|length| length <= limit);
        if patch.is_empty() || !self.adapter.features().files.is_some_and(fits) {
            return Ok(posts(&*self.adapter, &text));
        }
        let file = Document { name: "changes.diff".to_owned(), mime: "text/x-diff".to_owned(), text: patch };
        let mut posts = posts(&*self.adapter, &text);
        posts.push(Post { file: Some(file), ..Post::text("All changes.") });
        Ok(posts)
    }

    async fn skip(&mut self, pending: &PendingUpdate, roles: Roles) -> Reply {
        let Some(open) = self.open_asks().await?.into_iter().next() else {
            return Ok(say("Nothing waits for an answer."));
        };
        let may = match open.ask.asked {
            Asked::Permission(_) => roles.approve,
            Asked::Question(_) => roles.prompt,
        };
        if !may {
            return Ok(say("You cannot decide this: another user has to answer."));
        }
        Ok(match self.decide(open, Verdict::Dismissed, pending).await? {
            Effect::Taken => say("Dismissed."),
            Effect::Late => say("That request is already closed."),
            Effect::Failed => say("The server cannot be reached right now. Try again in a moment."),
        })
    }
}

/// The newest prompt written by a user.
fn last_prompt(messages: &[MessageWithParts]) -> Option<MessageId> {
    messages.iter().rev().find_map(|message| match &message.info {
        Message::User(user) if user.continues().is_none() => Some(user.id.clone()),
        _ => None,
    })
}

fn summary(files: &[FileDiff]) -> String {
    let count = files.len();
    let lines = files.iter().take(words::SHOWN).map(|file| {
        let name = file.file.as_deref().unwrap_or("(unnamed)");
        format!("• {} +{} −{}", words::code(name), file.additions, file.deletions)
    });
    let mut lines: Vec<String> = lines.collect();
    if count > words::SHOWN {
        lines.push(format!("… and {} more", count - words::SHOWN));
    }
    let head = if count == 1 { "1 file changed:".to_owned() } else { format!("{count} files changed:") };
    format!("{head}\n{}", lines.join("\n"))
}

fn patch(files: &[FileDiff]) -> String {
    let patches = files.iter().filter_map(|file| file.patch.as_deref()).map(str::trim_end);
    let patches: Vec<&str> = patches.filter(|patch| !patch.is_empty()).collect();
    if patches.is_empty() { String::new() } else { format!("{}\n", patches.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_files_are_counted_and_joined() {
        let file = |name: &str, patch: &str| FileDiff {
            file: Some(name.to_owned()),
            patch: Some(patch.to_owned()),
            additions: 2,
            deletions: 1,
            status: None,
            extra: protocol::Extra::new(),
        };
        let files = [file("a.rs", "--- a.rs\n"), file("b.rs", "--- b.rs")];
        assert_eq!(patch(&files), "--- a.rs\n--- b.rs\n");
        insta::assert_snapshot!(summary(&files), @r"
        2 files changed:
        • `a.rs` +2 −1
        • `b.rs` +2 −1
        ");
    }
}
