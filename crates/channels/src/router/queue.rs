//! `/queue` and `/withdraw`: the prompts that wait on the server, and the messages that wait here for the running turn.

use protocol::{MessageId, PartBody, SessionId, queue::QueuedPrompt};

use super::{
    commands::{Reply, say},
    run::posts,
    start::Failure,
    worker::Worker,
};
use crate::{
    Content,
    ledger::{PendingUpdate, UpdateId},
    words,
};

/// Something that waits, in the order in which it is answered.
struct Entry {
    text: String,
    place: Waiting,
}

enum Waiting {
    /// A prompt that the server has, of this chat or of another client.
    Prompt(SessionId, MessageId),
    /// A message that becomes a prompt when the running turn is over.
    Message(UpdateId),
}

impl Worker {
    pub(super) async fn list_queue(&self) -> Reply {
        let entries = self.entries().await?;
        let texts: Vec<&str> = entries.iter().map(|entry| entry.text.as_str()).collect();
        Ok(posts(&*self.adapter, &words::queue(&texts)))
    }

    pub(super) async fn withdraw(&mut self, which: &str) -> Reply {
        let number = which.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let entry = match number {
            Some(index) => self.entries().await?.into_iter().nth(index),
            None => None,
        };
        let Some(Entry { text, place }) = entry else {
            return Ok(say("There is no such message. /queue lists those that wait, with their numbers."));
        };
        let is_withdrawn = match place {
            Waiting::Prompt(session, prompt) => {
                match self.context().client.withdraw(&session, &prompt).await {
                    Ok(_) => true,
                    Err(error) if matches!(error.status(), Some(404 | 409)) => false,
                    Err(error) => return Err(error.into()),
                }
            }
            Waiting::Message(id) => match self.waiting.iter().position(|pending| pending.id == id) {
                Some(index) => {
                    let pending = self.waiting.remove(index);
                    self.conclude(&pending, Vec::new()).await?;
                    true
                }
                None => false,
            },
        };
        let text = words::excerpt(&text, 120);
        Ok(say(if is_withdrawn {
            format!("Withdrawn: “{text}”")
        } else {
            format!("Too late, the agent already works on it: “{text}”")
        }))
    }

    async fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let running = self.run.as_ref().and_then(|run| run.session.clone());
        let session = match running {
            Some(session) => Some(session),
            None => self.place_state().await?.session,
        };
        let prompts = match &session {
            Some(session) => self.context().client.queue(session).await,
            None => Ok(Vec::new()),
        };
        let prompts = match prompts {
            Ok(prompts) => prompts,
            // A server without this route (OpenCode) has no list of waiting prompts.
            Err(client::Error::Unexpected { .. }) => Vec::new(),
            Err(error) if error.status() == Some(404) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let prompts = session.into_iter().flat_map(|session| {
            let entry = move |prompt: &QueuedPrompt| Entry {
                text: said(prompt),
                place: Waiting::Prompt(session.clone(), prompt.message_id.clone()),
            };
            prompts.iter().map(entry).collect::<Vec<_>>()
        });
        let messages = self
            .waiting
            .iter()
            .map(|pending| Entry { text: written(pending), place: Waiting::Message(pending.id) });
        Ok(prompts.chain(messages).collect())
    }
}

/// The words of a waiting prompt.
fn said(prompt: &QueuedPrompt) -> String {
    let texts = prompt.parts.iter().filter_map(|part| match &part.body {
        PartBody::Text(text) if text.synthetic != Some(true) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// The words of a waiting message.
fn written(pending: &PendingUpdate) -> String {
    match &pending.update.content {
        Content::Message { text, files } if text.is_empty() => match files.len() {
            1 => "(a file)".to_owned(),
            count => format!("({count} files)"),
        },
        Content::Message { text, .. } => text.clone(),
        _ => String::new(),
    }
}
