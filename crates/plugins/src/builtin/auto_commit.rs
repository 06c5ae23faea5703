//! Commits what a turn has changed, when it ends.
//!
//! It works before the session is idle: whoever is told idle finds the commit, and the next prompt cannot get its
//! changes into it. The price is that idle waits for git and for the hooks of the repository, at most [`DEADLINE`];
//! whatever is not done by then is given up and told.
//!
//! Only turns of root sessions that complete are asked about at all. What a turn has changed is what its steps have
//! noted, and that of subagents is among it; so a file that somebody else changed meanwhile is not committed.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::ports::hooks::{HookPoint, Hooked, Hooks, Next, TurnEnding};
use engine::ports::{self, Page, Reads};
use futures::future::FutureExt;
use protocol::{Message, MessageId, MessageWithParts, Part, PartBody, Session};
use tokio::time::timeout;
use workspace::git::{Committed, Repository, Wish};

use crate::host::Reporter;

/// What it is called in messages.
pub const NAME: &str = "auto-commit";

/// How long a commit may hold up the end of a turn, with the hooks of the repository.
pub const DEADLINE: Duration = Duration::from_secs(25);

/// Messages that are looked at for what a turn has changed, newest first.
const MAX_MESSAGES: usize = 2_000;

/// The trailer by which a turn's commit is known.
const TRAILER: &str = "Baton-Turn";

/// Longest first line of a message, in characters.
const SUBJECT: usize = 72;

/// Most of a prompt that a message repeats, in characters.
const QUOTED: usize = 1_000;

/// The plugin, for the sessions of one directory.
pub struct AutoCommit {
    /// Where sessions are read.
    pub reads: Arc<dyn Reads>,
    /// Environment variables that hooks of the repository do not get to see.
    pub hidden: Vec<String>,
    /// Whom to tell when there is no commit although there should be one.
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

    fn turn_end<'a>(&'a self, ending: &'a TurnEnding, output: Next) -> Hooked<'a, Next> {
        async move {
            // A turn that goes on has not ended, and what a child has changed is its parent's, too.
            if output.text.is_none() && ending.parent_id.is_none() {
                self.commit(ending).await;
            }
            output
        }
        .boxed()
    }
}

impl AutoCommit {
    async fn commit(&self, ending: &TurnEnding) {
        let failed = match timeout(DEADLINE, self.try_commit(ending)).await {
            Ok(Ok(None)) => return,
            Ok(Ok(Some(left_out))) => format!(
                "left out of the commit, because a part of it was staged by somebody: {}",
                left_out.join(", ")
            ),
            Ok(Err(error)) => format!("the changes of this turn are not committed: {error}"),
            Err(_) => {
                let seconds = DEADLINE.as_secs();
                format!("the changes of this turn are not committed: it takes longer than {seconds} s")
            }
        };
        tracing::warn!(session = %ending.session_id, "{NAME}: {failed}");
        (self.report)(&format!("{NAME}: {failed}"));
    }

    /// Commits what there is to commit; tells which files had to be left out, if any.
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
        let message = message(&session, said(&messages, &ending.message_id).as_deref(), &key);
        let wish = Wish { files: &files, message: &message, trailer: (TRAILER, &key), hidden: &self.hidden };
        match repository.commit(wish).await.map_err(|error| error.to_string())? {
            Committed::Made { hash, left_out } => {
                tracing::info!(session = %session.id, commit = hash, "committed the changes of a turn");
                Ok((!left_out.is_empty()).then_some(left_out))
            }
            Committed::Known | Committed::Nothing => Ok(None),
        }
    }
}

/// Names a turn, so that it is committed once. One that was continued after all has ended another time.
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

/// What a person said in a prompt.
fn said(messages: &[MessageWithParts], prompt: &MessageId) -> Option<String> {
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

/// The prompt's first line, then all of it if that is more, then where it came from.
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

/// A text whose lines cannot be taken for trailers or comments.
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
