//! Forks: a new session that begins with a copy of another's history.

use std::collections::HashMap;

use protocol::{
    EventBody, Message, MessageId, MessageWithParts, PartBody, Session, SessionId, UserMessage,
    message::AssistantTime, prompt::SessionInput, session::Revert,
};

use super::{Home, Sessions};
use crate::{
    Error,
    ports::Page,
    transcript::{Emit, close},
};

impl Sessions {
    /// Copies a session's messages, up to but without `before`, into a new session.
    pub async fn fork(&self, id: &SessionId, before: Option<&MessageId>) -> Result<Session, Error> {
        let original = self.get(id).await?;
        let mut messages = self.messages(id, Page::default()).await?;
        if let Some(before) = before {
            let cut = messages.iter().position(|message| message.info.id() == before);
            let cut = cut.ok_or_else(|| Error::NotFound { kind: "Message", id: before.to_string() })?;
            messages.truncate(cut);
        } else if let Some(mark) = &original.revert {
            hide(&mut messages, mark);
        }
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
        let copies = self.copy(&session.id, messages);
        self.store_new(&session, copies).await?;
        Ok(session)
    }

    fn copy(&self, into: &SessionId, messages: Vec<MessageWithParts>) -> Vec<EventBody> {
        let mint = &self.shared.mint;
        let mut emit = Emit::new(into.clone(), mint);
        let mut renamed: HashMap<MessageId, MessageId> = HashMap::new();
        for MessageWithParts { mut info, mut parts, .. } in messages {
            let id: MessageId = mint.id();
            renamed.insert(info.id().clone(), id.clone());
            rename(&mut info, into, &id, &renamed);
            for part in &mut parts {
                part.id = mint.id();
                part.session_id = into.clone();
                part.message_id = id.clone();
                if let PartBody::Compaction(compaction) = &mut part.body
                    && let Some(tail) = &mut compaction.tail_start_id
                    && let Some(copy) = renamed.get(tail)
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
                // Nobody will ever finish a copy of a running step.
                close(vec![MessageWithParts::new(info, parts)], None, &mut emit);
            }
        }
        emit.into_events()
    }
}

/// Leaves out what a revert has taken back.
fn hide(messages: &mut Vec<MessageWithParts>, mark: &Revert) {
    let Some(first) = messages.iter().position(|message| *message.info.id() == mark.message_id) else {
        return;
    };
    let Some(part) = &mark.part_id else { return messages.truncate(first) };
    messages.truncate(first + 1);
    if let Some(message) = messages.last_mut() {
        let kept = message.parts.iter().position(|known| known.id == *part);
        message.parts.truncate(kept.unwrap_or(message.parts.len()));
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
