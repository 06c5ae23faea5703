//! Commits the changes of a turn when it ends.
//!
//! The commit is made before the session is idle: a client that sees idle finds the commit, and the next prompt's
//! changes cannot get into it. In return, idle waits for git and for the repository's hooks, at most [`DEADLINE`];
//! after that the commit is given up and reported.
//!
//! Only completed turns of root sessions are committed. The files are those that the turn's steps recorded as
//! changed, including those of subagents; files that another session or program changed are not committed.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::ports::hooks::{HookCall, HookPoint, Hooked, Hooks, Next, TurnEnding};
use engine::ports::{self, Page, Reads};
use futures::future::FutureExt;
use protocol::{Message, MessageId, MessageWithParts, Part, PartBody, Session};
use tokio::time::timeout;
use workspace::git::{Committed, NewCommit, Repository};

use crate::host::Reporter;

/// The plugin's name in messages.
pub const NAME: &str = "auto-commit";

/// Maximum time for a commit, including the repository's hooks.
pub const DEADLINE: Duration = Duration::from_secs(25);

/// Maximum number of messages that are searched for changes, newest first.
const MAX_MESSAGES: usize = 2_000;

/// The trailer that identifies a turn's commit.
const TRAILER: &str = "Baton-Turn";

/// Maximum length of a commit's subject, in characters.
const SUBJECT: usize = 72;

/// Maximum length of a prompt quoted in the message, in characters.
const QUOTED: usize = 1_000;

/// The plugin for the sessions of one directory.
pub struct AutoCommit {
    pub reads: Arc<dyn Reads>,
    /// Environment variables that are hidden from the repository's hooks.
    pub hidden: Vec<String>,
    /// Receives the reason when a commit fails.
    pub report: Reporter,
}

impl fmt::Debug for AutoCommit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("AutoCommit")
    }
}

impl Hooks for AutoCommit {
    fn wants(&self, point: HookPoint) -> bool {
        point == HookPoint::TurnEnd
    }

    fn call<'a>(&'a self, call: HookCall<'a>) -> Hooked<'a> {
        async move {
            let Some((ending, next)) = call.typed::<Next>() else { return Ok(()) };
            // A turn that continues has not ended, and a child's changes are committed with its parent's.
            if next.text.is_none() && ending.parent_id.is_none() {
                self.commit(ending).await;
            }
            Ok(())
        }
        .boxed()
    }
}

impl AutoCommit {
    async fn commit(&self, ending: &TurnEnding) {
        let failed = match timeout(DEADLINE, self.try_commit(ending)).await {
            Ok(Ok(None)) => return,
            Ok(Ok(Some(left_out))) => format!(
                "left out of the commit, because a part of each file was already staged: {}",
                left_out.join(", ")
            ),
            Ok(Err(error)) => format!("the changes of this turn are not committed: {error}"),
            Err(_) => {
                let seconds = DEADLINE.as_secs();
                format!(
                    "the changes of this turn are not committed: the commit takes longer than {seconds} s"
                )
            }
        };
        tracing::warn!(session = %ending.session_id, "{NAME}: {failed}");
        (self.report)(&format!("{NAME}: {failed}"));
    }

    /// Commits the turn's changes. Returns the files that had to be left out, if any.
    async fn try_commit(&self, ending: &TurnEnding) -> Result<Option<Vec<String>>, String> {
        let read = |error: ports::Error| error.to_string();
        let Some((session, _)) = self.reads.session(&ending.session_id).await.map_err(read)? else {
            return Ok(None);
        };
        let prompts = self.reads.prompts(&session.id).await.map_err(read)?;
        let page = Page { limit: Some(MAX_MESSAGES), ..Page::default() };
        let messages = self.reads.messages(&session.id, page).await.map_err(read)?;
        let started = prompts.into_iter().filter(|prompt| prompt.started).map(|prompt| prompt.message);
        let answered: HashSet<MessageId> = started.chain([ending.message_id.clone()]).collect();
        let files = changed(&messages, answered);
        if files.is_empty() {
            return Ok(None);
        }
        let Some(repository) = Repository::find(Path::new(&session.directory)).await else { return Ok(None) };
        let key = key(ending);
        let message = message(&session, prompt_text(&messages, &ending.message_id).as_deref(), &key);
        let wish =
            NewCommit { files: &files, message: &message, trailer: (TRAILER, &key), hidden: &self.hidden };
        match repository.commit(wish).await.map_err(|error| error.to_string())? {
            Committed::Made { hash, left_out } => {
                tracing::info!(session = %session.id, commit = hash, "committed the changes of a turn");
                Ok((!left_out.is_empty()).then_some(left_out))
            }
            Committed::Known | Committed::Nothing => Ok(None),
        }
    }
}

/// Identifies a turn, so that it is committed once. A continued turn ends again under another key.
fn key(ending: &TurnEnding) -> String {
    let turn = format!("{}/{}", ending.session_id, ending.message_id);
    if ending.continued == 0 { turn } else { format!("{turn}/{}", ending.continued) }
}

/// The files that were changed while these prompts were answered.
fn changed(messages: &[MessageWithParts], mut answered: HashSet<MessageId>) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for MessageWithParts { info, parts, .. } in messages {
        match info {
            Message::User(user) => {
                if user.continues().is_some_and(|prompt| answered.contains(&prompt)) {
                    answered.insert(user.id.clone());
                }
            }
            Message::Assistant(step) if answered.contains(&step.parent_id) => {
                let patches = parts.iter().filter_map(|part| match &part.body {
                    PartBody::Patch(patch) => Some(&patch.files),
                    _ => None,
                });
                files.extend(patches.flatten().map(PathBuf::from));
            }
            Message::Assistant(_) => {}
        }
    }
    files
}

/// The user's text of a prompt.
fn prompt_text(messages: &[MessageWithParts], prompt: &MessageId) -> Option<String> {
    let prompt = messages.iter().find(|message| message.info.id() == prompt)?;
    let words = |part: &Part| match &part.body {
        PartBody::Text(text) if text.synthetic != Some(true) && text.ignored != Some(true) => {
            Some(text.text.trim().to_owned())
        }
        _ => None,
    };
    let words: Vec<String> = prompt.parts.iter().filter_map(words).filter(|text| !text.is_empty()).collect();
    (!words.is_empty()).then(|| words.join("\n\n"))
}

/// The commit message: the prompt's first line, the whole prompt if it is longer, and the session.
fn message(session: &Session, prompt: Option<&str>, key: &str) -> String {
    let prompt = prompt.unwrap_or(&session.title).trim();
    let first = prompt.lines().next().unwrap_or_default().trim();
    let subject = cut(first, SUBJECT);
    let mut message = subject.clone();
    if subject != prompt {
        message.push_str("\n\n");
        message.push_str(&quoted(&cut(prompt, QUOTED)));
    }
    let title = cut(session.title.lines().next().unwrap_or_default(), SUBJECT);
    format!("{message}\n\nSession: {title}\n\n{TRAILER}: {key}\n")
}

/// Quotes a text so that its lines cannot be mistaken for trailers or comments.
fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", start.trim_end())
}
