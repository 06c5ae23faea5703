//! The last turn of a session: its prompt, its messages and its end.

use protocol::{
    EndReason, EventBody, Message, MessageError, MessageId, MessageWithParts, SessionId, turn::LastTurn,
};

use super::Sessions;
use crate::{
    Error,
    ports::{Cursor, Page},
};

/// Messages to read at a time on the way back to the prompt.
const PAGE: usize = 50;
/// Number of newest events in which to look for the end of the last turn.
const NEWEST: u64 = 200;

impl Sessions {
    /// The newest prompt written by the user, and its answer.
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

    /// The end of a prompt according to the log, or to its last message if the log was trimmed.
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
        let logged = events.iter().rev().find_map(|(_, event)| match &event.body {
            EventBody::PromptEnded(it) if it.message_id == *prompt => Some(it.reason),
            _ => None,
        });
        Ok(logged.or_else(|| shown(last?)))
    }
}

fn is_prompt(message: &MessageWithParts) -> bool {
    matches!(&message.info, Message::User(user) if user.continues().is_none())
}

fn shown(message: &MessageWithParts) -> Option<EndReason> {
    let Message::Assistant(answer) = &message.info else { return None };
    Some(match &answer.error {
        None => EndReason::Completed,
        // An interrupted turn has the wire's error of an aborted one, so it is recognised first.
        Some(error) if *error == MessageError::interrupted() => EndReason::Interrupted,
        Some(MessageError::Aborted { .. }) => EndReason::Aborted,
        Some(_) => EndReason::Error,
    })
}
