//! Forks: a new session that begins with a copy of another session's messages.

use std::collections::HashMap;

use protocol::{
    EventBody, Message, MessageId, MessageWithParts, PartBody, Session, SessionId, UserMessage,
    message::AssistantTime, prompt::SessionInput,
};

use super::{Home, Pages, Sessions};
use crate::{
    Error,
    ports::{Cursor, Fence},
    transcript::{Emit, close},
};

/// Stored bytes to copy in one commit: few enough that the writer soon serves other sessions.
const COPY_BYTES: usize = 2 * 1024 * 1024;

/// The messages of the original to copy.
struct Cut {
    /// Copies the messages before this place; all of them if `None`.
    before: Option<Cursor>,
    /// The message at that place, without its reverted parts.
    last: Option<MessageWithParts>,
}

impl Sessions {
    /// Copies a session's messages before `before` into a new session.
    ///
    /// A long session is copied in several commits, so that neither memory nor other sessions suffer. Until the
    /// last commit, commands to the new session fail as busy. If a commit fails, the partial copy is deleted.
    pub async fn fork(&self, id: &SessionId, before: Option<&MessageId>) -> Result<Session, Error> {
        let original = self.get(id).await?;
        let cut = self.cut(&original, before).await?;
        let home = Home {
            directory: original.directory.clone(),
            project: original.project_id.clone(),
            path: original.path.clone().unwrap_or_default(),
        };
        let input = SessionInput {
            title: Some(fork_title(&original.title)),
            agent: original.agent.clone(),
            model: original.model.clone(),
            metadata: original.metadata.clone(),
            permission: original.permission.clone(),
            ..SessionInput::default()
        };
        let session = self.draft(home, input);
        let pages = self.pages(id, None, cut.before).await?.sized(COPY_BYTES);
        let copying = Copying {
            sessions: self.clone(),
            fence: self.claim(id).await?,
            session: session.clone(),
            renamed: HashMap::new(),
        };
        // In a task of its own: a client that disconnects must not leave half a copy behind.
        let done = tokio::spawn(copying.run(pages, cut.last)).await;
        done.map_err(|_| Error::Closing)??;
        Ok(session)
    }

    async fn cut(&self, original: &Session, before: Option<&MessageId>) -> Result<Cut, Error> {
        let id = &original.id;
        if let Some(before) = before {
            let place = self.place(id, before).await?;
            let place = place.ok_or_else(|| Error::NotFound { kind: "Message", id: before.to_string() })?;
            return Ok(Cut { before: Some(place), last: None });
        }
        let Some(mark) = &original.revert else { return Ok(Cut { before: None, last: None }) };
        let Some(mut message) = self.shared.reads.message(id, &mark.message_id).await? else {
            return Ok(Cut { before: None, last: None });
        };
        let before = Some(Cursor::of(&message.info));
        let Some(part) = &mark.part_id else { return Ok(Cut { before, last: None }) };
        let kept = message.parts.iter().position(|known| known.id == *part);
        message.parts.truncate(kept.unwrap_or(message.parts.len()));
        Ok(Cut { before, last: Some(message) })
    }
}

/// A copy in progress.
struct Copying {
    sessions: Sessions,
    /// The right to write for the workspace of the original.
    fence: Fence,
    session: Session,
    /// Ids of the copies by ids of the originals.
    renamed: HashMap<MessageId, MessageId>,
}

impl Copying {
    async fn run(mut self, pages: Pages, last: Option<MessageWithParts>) -> Result<(), Error> {
        let sessions = self.sessions.clone();
        let reserved = sessions.shared.registry.reserve(&self.session.id);
        let copied = self.copy_all(pages, last).await;
        drop(reserved);
        if let Err(error) = &copied {
            tracing::warn!(session = %self.session.id, %error, "fork failed; deleting the partial copy");
            match sessions.delete(&self.session.id).await {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => {
                    tracing::warn!(session = %self.session.id, %error, "failed to delete the partial copy of a fork");
                }
            }
        }
        copied
    }

    async fn copy_all(&mut self, mut pages: Pages, last: Option<MessageWithParts>) -> Result<(), Error> {
        let mut head = 0;
        let mut last = last;
        loop {
            let mut messages = Vec::new();
            for record in pages.next().await? {
                messages.push(record.read()?);
            }
            let done = pages.is_done();
            messages.extend(last.take_if(|_| done));
            let copies = self.copy(messages);
            head = self.sessions.store_part(&self.fence, &self.session, head, copies, done).await?;
            if done {
                return Ok(());
            }
        }
    }

    fn copy(&mut self, messages: Vec<MessageWithParts>) -> Vec<EventBody> {
        let mint = &self.sessions.shared.mint;
        let into = &self.session.id;
        let mut emit = Emit::new(into.clone(), mint);
        for MessageWithParts { mut info, mut parts, .. } in messages {
            let id: MessageId = mint.id();
            self.renamed.insert(info.id().clone(), id.clone());
            rename(&mut info, into, &id, &self.renamed);
            for part in &mut parts {
                part.id = mint.id();
                part.session_id = into.clone();
                part.message_id = id.clone();
                if let PartBody::Compaction(compaction) = &mut part.body
                    && let Some(tail) = &mut compaction.tail_start_id
                    && let Some(copy) = self.renamed.get(tail)
                {
                    *tail = copy.clone();
                }
            }
            let open = matches!(&info, Message::Assistant(it) if matches!(it.time, AssistantTime { completed: None, .. }));
            emit.message(info.clone());
            for part in &parts {
                emit.part(part.clone());
            }
            if open {
                // No runner will ever finish a copy of a running step.
                close(vec![MessageWithParts::new(info, parts)], None, &mut emit);
            }
        }
        emit.into_events()
    }
}

fn rename(info: &mut Message, session: &SessionId, id: &MessageId, renamed: &HashMap<MessageId, MessageId>) {
    match info {
        Message::User(message) => {
            message.id = id.clone();
            message.session_id = session.clone();
            if let Some(asked) = message.continues().and_then(|asked| renamed.get(&asked)) {
                message.extra.insert(UserMessage::CONTINUES.to_owned(), asked.as_str().into());
            }
        }
        Message::Assistant(message) => {
            message.id = id.clone();
            message.session_id = session.clone();
            if let Some(parent) = renamed.get(&message.parent_id) {
                message.parent_id = parent.clone();
            }
        }
    }
}

/// `Title` → `Title (fork #1)` → `Title (fork #2)`.
fn fork_title(title: &str) -> String {
    let numbered = title.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (fork #"));
    match numbered.and_then(|(base, number)| Some((base, number.parse::<u64>().ok()?))) {
        Some((base, number)) => format!("{base} (fork #{})", number.saturating_add(1)),
        None => format!("{title} (fork #1)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fork_titles_count_up() {
        assert_eq!(fork_title("Fix it"), "Fix it (fork #1)");
        assert_eq!(fork_title("Fix it (fork #1)"), "Fix it (fork #2)");
        assert_eq!(fork_title("odd (fork #x)"), "odd (fork #x) (fork #1)");
    }
}
