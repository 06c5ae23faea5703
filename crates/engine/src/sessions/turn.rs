//! The last turn of a session, put together.

use protocol::{
    EndReason, EventBody, Message, MessageError, MessageId, MessageWithParts, SessionId, turn::LastTurn,
};

use super::Sessions;
use crate::{
    Error,
    ports::{Cursor, Page},
};

/// Messages read at a time on the way back to the prompt.
const PAGE: usize = 50;
/// Newest events of a session among which the end of its last turn is looked for.
const NEWEST: u64 = 200;

impl Sessions {
    /// The newest prompt that a person wrote, and what came of it.
    pub async fn last_turn(&self, id: &SessionId) -> Result<LastTurn, Error> {
        self.get(id).await?;
        let (mut after, mut before) = (Vec::new(), None);
        let prompt = 'back: loop {
            let page = self.messages(id, Page { before: before.take(), limit: Some(PAGE) }).await?;
            let Some(oldest) = page.first().map(|message| Cursor::of(&message.info)) else {
                return Err(Error::NotFound { kind: "Turn", id: format!("session {id} has no prompt yet") });
            };
            for message in page.into_iter().rev() {
                if is_prompt(&message) {
                    break 'back message;
                }
                after.push(message);
            }
            before = Some(oldest);
        };
        after.reverse();
        let end = self.end_of(id, prompt.info.id(), after.last()).await?;
        Ok(LastTurn::new(id.clone(), &prompt, after, end))
    }

    /// How a prompt ended: as the log has it, or as its last message shows if the log was trimmed.
    async fn end_of(
        &self,
        id: &SessionId,
        prompt: &MessageId,
        last: Option<&MessageWithParts>,
    ) -> Result<Option<EndReason>, Error> {
        if self.shared.reads.prompts(id).await?.iter().any(|open| open.message == *prompt) {
            return Ok(None);
        }
        let newest = self.head(id).await?.saturating_sub(NEWEST);
        let events = self.events(id, newest, usize::try_from(NEWEST).unwrap_or(usize::MAX)).await?;
        let told = events.iter().rev().find_map(|(_, event)| match &event.body {
            EventBody::PromptEnded(it) if it.message_id == *prompt => Some(it.reason),
            _ => None,
        });
        Ok(told.or_else(|| shown(last?)))
    }
}

fn is_prompt(message: &MessageWithParts) -> bool {
    matches!(&message.info, Message::User(user) if user.continues().is_none())
}

fn shown(message: &MessageWithParts) -> Option<EndReason> {
    let Message::Assistant(answer) = &message.info else { return None };
    Some(match &answer.error {
        None => EndReason::Completed,
        Some(MessageError::Aborted { .. }) => EndReason::Aborted,
        Some(error) if *error == MessageError::interrupted() => EndReason::Interrupted,
        Some(_) => EndReason::Error,
    })
}
