//! What a prompt becomes before it is stored.
//!
//! This is done here and not by the session's actor: reading what is attached may take its time, and a turn that is
//! running, or somebody who wants to stop it, must not wait for that.

use protocol::{
    MessageError, Session, SessionId,
    message::ModelRef,
    prompt::{PartInput, PartInputBody, PromptInput},
    request::Approval,
};
use tokio::time::timeout;

use super::Sessions;
use crate::{
    Error,
    limits::MAX_PARTS,
    ports::{Draft, Prepared, Resolved, Wanted},
    session::Prompt,
};

impl Sessions {
    /// Lets who is going to answer complete a prompt.
    pub(super) async fn prepare(&self, id: &SessionId, mut input: PromptInput) -> Result<Prompt, Error> {
        let count = input.parts.len();
        if count > MAX_PARTS {
            return Err(Error::Invalid(format!(
                "a prompt may have at most {MAX_PARTS} parts, this one has {count}"
            )));
        }
        if self.is_repeated(id, &input).await? {
            return Ok(input.into());
        }
        let session = self.get(id).await?;
        let resolved = self.resolve(&session, &input).await?;
        let warnings = self.complete(&session, &resolved, &mut input).await?;
        let (input, resolved) = self.shape(&session, resolved, input).await;
        Ok(Prompt { input, warnings, origin: None, resolved })
    }

    /// Who answers a prompt.
    pub(crate) async fn resolve(&self, session: &Session, input: &PromptInput) -> Result<Resolved, Error> {
        let model = input
            .model
            .clone()
            .map(|model| ModelRef { variant: model.variant.or_else(|| input.variant.clone()), ..model });
        let wanted = Wanted { session, agent: input.agent.as_deref(), model: model.as_ref() };
        Ok(self.shared.runners.resolve(wanted).await?)
    }

    /// Completes what does not say all by itself; what could not be completed, for people.
    async fn complete(
        &self,
        session: &Session,
        resolved: &Resolved,
        input: &mut PromptInput,
    ) -> Result<Vec<MessageError>, Error> {
        if input.parts.iter().all(is_complete) {
            return Ok(Vec::new());
        }
        let parts = std::mem::take(&mut input.parts);
        let approvals = self.shared.reads.approvals(Some(&session.directory)).await?;
        let approved = approvals.iter().map(Approval::rule).collect();
        let draft = Draft { session, agent: &resolved.agent, approved, parts };
        let most = self.shared.limits.prepare;
        let prepared = timeout(most, resolved.runner.prepare(draft)).await.map_err(|_| {
            let seconds = most.as_secs();
            Error::Invalid(format!(
                "what is attached to the prompt could not be read within {seconds} seconds; send it without, or try again"
            ))
        })?;
        let Prepared { parts, warnings } = prepared.map_err(Error::Invalid)?;
        input.parts = parts;
        Ok(warnings)
    }

    /// Whether the prompt was accepted before: nothing that is attached is looked at again.
    async fn is_repeated(&self, id: &SessionId, input: &PromptInput) -> Result<bool, Error> {
        match &input.message_id {
            Some(message) => Ok(self.shared.reads.message(id, message).await?.is_some()),
            None => Ok(false),
        }
    }
}

/// Whether a part says all by itself.
fn is_complete(part: &PartInput) -> bool {
    match part.body {
        PartInputBody::Text(_) | PartInputBody::Subtask(_) | PartInputBody::Compaction(_) => true,
        PartInputBody::File(_) | PartInputBody::Agent(_) => false,
    }
}
