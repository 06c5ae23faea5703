//! A running Claude Code and what is known about it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::time::Duration;

use engine::session::Turn;
use protocol::config::PermissionMode;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::translate::Translator;
use super::{Options, wire};
use crate::external::{Child, Failure, Heard, Kept, Launch, Rested};
use crate::roster::DEFAULT_MODEL;

/// Lines that are kept of what it says between turns: the newest, since what matters is what it begins.
const MAX_UNREAD: usize = 256;

/// How long it may take to say why it woke up.
const EXPLAIN: Duration = Duration::from_millis(200);

/// What is said when it does not say why.
const UNASKED: &str = "The agent went on by itself.";

/// Who is asked, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manner {
    /// The model; its own choice if absent.
    model: Option<String>,
    /// What it asks people about.
    mode: &'static str,
}

impl Manner {
    pub(super) fn of(options: &Options, turn: &Turn) -> Self {
        let model = Some(turn.model.model_id.clone()).filter(|model| model != DEFAULT_MODEL);
        let mode = match options.mode {
            _ if turn.agent == "plan" => "plan",
            PermissionMode::Ask => "default",
            PermissionMode::AcceptEdits => "acceptEdits",
            PermissionMode::Bypass => "bypassPermissions",
            PermissionMode::Plan => "plan",
        };
        Self { model, mode }
    }
}

/// One process.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) child: Child,
    pub(super) translator: Translator,
    /// What it said between turns.
    unread: VecDeque<Heard>,
    manner: Manner,
    /// It tells its state, so a result is not the end.
    pub(super) states: bool,
    /// Requests that it was told.
    requests: u64,
}

impl Live {
    /// Starts it, with a conversation that is to go on.
    pub(super) async fn start(
        options: &Options,
        turn: &Turn,
        manner: Manner,
        resume: Option<&str>,
    ) -> Result<Self, Failure> {
        let mut args: Vec<OsString> = options.args.clone();
        let fixed = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--include-partial-messages",
            "--verbose",
            "--permission-prompt-tool",
            "stdio",
            "--permission-mode",
            manner.mode,
        ];
        args.extend(fixed.map(OsString::from));
        for (option, value) in [("--model", manner.model.as_deref()), ("--resume", resume)] {
            args.extend(value.into_iter().flat_map(|value| [option.into(), value.into()]));
        }
        let mut launch = Launch::new(options.program.clone(), args, turn.session.directory.clone());
        launch.environment.clone_from(&options.environment);
        launch.environment.push(("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS".into(), "1".into()));
        launch.hidden.clone_from(&options.hidden);
        launch.bounds = options.bounds;
        let mut live = Self {
            child: Child::start(&launch)?,
            translator: Translator::new(launch.directory),
            unread: VecDeque::new(),
            manner,
            states: false,
            requests: 0,
        };
        live.request(&json!({ "subtype": "initialize", "hooks": null, "forwardSubagentText": true })).await;
        Ok(live)
    }

    /// Tells one that was kept who is asked now.
    pub(super) async fn adopt(&mut self, manner: Manner) {
        if self.manner.model != manner.model {
            let model = manner.model.as_deref().unwrap_or(DEFAULT_MODEL);
            self.request(&json!({ "subtype": "set_model", "model": model })).await;
        }
        if self.manner.mode != manner.mode {
            self.request(&json!({ "subtype": "set_permission_mode", "mode": manner.mode })).await;
        }
        self.manner = manner;
    }

    /// Tells it something about itself.
    pub(super) async fn request(&mut self, request: &Value) {
        self.requests += 1;
        self.child.say(&wire::control(&format!("baton-{}", self.requests), request)).await;
    }

    /// What it says next, beginning with what nobody has heard yet.
    pub(super) async fn next(&mut self) -> Result<Heard, Failure> {
        match self.unread.pop_front() {
            Some(heard) => Ok(heard),
            None => self.child.next().await,
        }
    }

    /// Whether it began something that nobody has heard yet.
    pub(super) fn has_news(&self) -> bool {
        self.unread.iter().any(begins)
    }

    fn why(&self) -> Option<&str> {
        self.unread.iter().rev().find_map(|heard| match heard {
            Heard::Json(line) if line.get("subtype")? == "task_notification" => line.get("summary")?.as_str(),
            _ => None,
        })
    }
}

impl Kept for Live {
    async fn rest(&mut self) -> Rested {
        loop {
            let heard = if self.has_news() {
                // It has begun; its reason follows, or does not matter.
                match timeout(EXPLAIN, self.child.next()).await {
                    Ok(heard) => heard,
                    Err(_) => break,
                }
            } else {
                self.child.next().await
            };
            match heard {
                Ok(heard) => {
                    if self.unread.len() >= MAX_UNREAD && !self.has_news() {
                        self.unread.pop_front();
                    }
                    self.unread.push_back(heard);
                }
                Err(failure) if !self.has_news() => return Rested::Ended(failure.to_string()),
                Err(_) => break,
            }
            if self.has_news() && (self.why().is_some() || self.unread.len() > MAX_UNREAD) {
                break;
            }
        }
        Rested::Woke(self.why().unwrap_or(UNASKED).to_owned())
    }

    fn is_working(&self) -> bool {
        self.translator.has_background()
    }

    async fn stop(self) {
        self.child.stop().await;
    }
}

/// Whether a line begins a turn.
fn begins(heard: &Heard) -> bool {
    let Heard::Json(line) = heard else { return false };
    match line.get("subtype").and_then(Value::as_str) {
        Some("session_state_changed") => line.get("state").is_some_and(|state| state == "running"),
        subtype => subtype == Some("init"),
    }
}
