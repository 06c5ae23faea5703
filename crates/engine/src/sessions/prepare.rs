//! Prepares a prompt before it is stored.
//!
//! This happens here and not in the session's actor, because reading attachments may take long, and neither a
//! running turn nor an abort must wait for that.

use protocol::{
    MessageError, Session, SessionId,
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
    /// Resolves the prompt's runner and lets it and the hooks complete the prompt.
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

    /// Resolves the agent, model and runner of a prompt. A variant applies to whatever model answers.
    pub(crate) async fn resolve(&self, session: &Session, input: &PromptInput) -> Result<Resolved, Error> {
        let wanted = Wanted { session, agent: input.agent.as_deref(), model: input.model.as_ref() };
        let mut resolved = self.shared.runners.resolve(wanted).await?;
        let own = input.model.as_ref().and_then(|model| model.variant.as_ref());
        if let Some(variant) = own.or(input.variant.as_ref()) {
            resolved.model.variant = Some(variant.clone());
        }
        Ok(resolved)
    }

    /// Lets the runner complete files and agent references. Returns errors about parts that it could not complete.
    pub(super) async fn complete(
        &self,
        session: &Session,
        resolved: &Resolved,
        input: &mut PromptInput,
    ) -> Result<Vec<MessageError>, Error> {
        if input.parts.iter().all(is_complete) {
            return Ok(Vec::new());
        }
        let parts = std::mem::take(&mut input.parts);
        let workspace = self.workspace_of(&session.id).await?;
        let approvals = self.shared.reads.approvals(Some(&workspace)).await?;
        let approved = approvals.iter().map(Approval::rule).collect();
        let draft = Draft { session, agent: &resolved.agent, approved, parts };
        let most = self.shared.limits.prepare;
        let prepared = timeout(most, resolved.runner.prepare(draft)).await.map_err(|_| {
            let seconds = most.as_secs();
            Error::Invalid(format!(
                "the prompt's attachments could not be read within {seconds} seconds; send the prompt without them, or try again"
            ))
        })?;
        let Prepared { parts, warnings } = prepared.map_err(Error::Invalid)?;
        input.parts = parts;
        Ok(warnings)
    }

    /// Returns true if the prompt was accepted before; its attachments are then not read again.
    async fn is_repeated(&self, id: &SessionId, input: &PromptInput) -> Result<bool, Error> {
        match &input.message_id {
            Some(message) => Ok(self.shared.reads.message(id, message).await?.is_some()),
            None => Ok(false),
        }
    }
}

/// True for parts that a runner does not have to complete.
fn is_complete(part: &PartInput) -> bool {
    match part.body {
        PartInputBody::Text(_) | PartInputBody::Subtask(_) | PartInputBody::Compaction(_) => true,
        PartInputBody::File(_) | PartInputBody::Agent(_) => false,
    }
}
