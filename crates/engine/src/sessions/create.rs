//! Creates sessions.

use std::sync::Arc;

use protocol::{
    EventBody, Extra, Session, SessionId,
    event::SessionInfo,
    message::ModelRef,
    number::Number,
    prompt::{PromptInput, SessionInput},
    session::{SessionModel, SessionTime, Tokens},
};

use super::{Sessions, Submitted};
use crate::{
    Error,
    limits::MAX_DEPTH,
    ports::{ChildSpec, Commit, Fence, Wanted},
};

const ADJECTIVES: [&str; 24] = [
    "amber", "brave", "brisk", "calm", "clever", "crisp", "dapper", "eager", "fair", "gentle", "happy",
    "keen", "lively", "lucid", "mellow", "nimble", "proud", "quick", "quiet", "sunny", "swift", "tidy",
    "vivid", "witty",
];
const NOUNS: [&str; 24] = [
    "badger", "beacon", "brook", "cedar", "comet", "coral", "falcon", "fern", "harbor", "heron", "island",
    "lantern", "maple", "meadow", "otter", "pebble", "pine", "planet", "relay", "river", "sparrow", "summit",
    "willow", "wren",
];

/// The directory and project of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// An absolute path.
    pub directory: String,
    pub project: String,
    /// The directory relative to the worktree.
    pub path: String,
}

impl Sessions {
    /// Creates a session. If the client chose the id of an existing session, returns that session.
    pub async fn create(&self, home: Home, input: SessionInput) -> Result<Session, Error> {
        if let Some(id) = &input.id
            && let Some((known, _)) = self.shared.reads.session(id).await?
        {
            return Ok(known);
        }
        if let Some(parent) = &input.parent_id {
            self.get(parent).await?;
        }
        self.check_open()?;
        let session = self.draft(home, input);
        if session.agent.is_some() || session.model.is_some() {
            self.check_names(&session).await?;
        }
        let fleet = self.shared.bus.fleet();
        let fence = fleet.claim_directory(&session.directory).await?;
        self.store_new(&fence, &session, Vec::new()).await?;
        Ok(session)
    }

    /// Refuses new work on a node that is about to stop.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.shared.bus.fleet().is_draining() { Err(Error::Draining) } else { Ok(()) }
    }

    /// Checks the agent and the model, so that a wrong name fails now and not with the first prompt.
    pub(super) async fn check_names(&self, session: &Session) -> Result<(), Error> {
        let model = session.model.as_ref().map(|model| ModelRef::new(&model.provider_id, &model.id));
        let wanted = Wanted { session, agent: session.agent.as_deref(), model: model.as_ref() };
        self.shared.runners.resolve(wanted).await?;
        Ok(())
    }

    /// Submits a prompt to a new or an existing child of `parent`.
    pub(crate) async fn start_child(
        &self,
        parent: &Session,
        spec: ChildSpec,
    ) -> Result<(SessionId, Submitted), Error> {
        let ChildSpec { title, agent, model, prompt, resume } = spec;
        let child = match resume {
            Some(child) => self.check_descent(parent, child).await?,
            None => self.create_child(parent, title, agent.clone()).await?,
        };
        let prompt = PromptInput { agent, model, ..PromptInput::text(prompt) };
        let submitted = Box::pin(self.submit(&child, prompt)).await?;
        Ok((child, submitted))
    }

    async fn create_child(
        &self,
        parent: &Session,
        title: String,
        agent: Option<String>,
    ) -> Result<SessionId, Error> {
        self.check_depth(parent).await?;
        let home = Home {
            directory: parent.directory.clone(),
            project: parent.project_id.clone(),
            path: parent.path.clone().unwrap_or_default(),
        };
        let input = SessionInput {
            parent_id: Some(parent.id.clone()),
            title: Some(title),
            agent,
            permission: parent.permission.clone(),
            ..SessionInput::default()
        };
        // The prompt names the model, so the agent's name is checked when the prompt is submitted.
        let child = self.draft(home, input);
        self.store_new(&self.claim(&parent.id).await?, &child, Vec::new()).await?;
        Ok(child.id)
    }

    /// Checks that `child` is a descendant of `parent`: a session may only prompt its own descendants.
    async fn check_descent(&self, parent: &Session, child: SessionId) -> Result<SessionId, Error> {
        let not_started_here = || Error::Invalid(format!("task {child} was not started by this session"));
        let mut above = self.get(&child).await.map_err(|_| not_started_here())?.parent_id;
        for _ in 0..MAX_DEPTH {
            match above {
                Some(id) if id == parent.id => return Ok(child),
                Some(id) => above = self.get(&id).await?.parent_id,
                None => break,
            }
        }
        Err(not_started_here())
    }

    /// Limits the depth, so that a model cannot start subagents from subagents forever.
    async fn check_depth(&self, parent: &Session) -> Result<(), Error> {
        let mut above = parent.parent_id.clone();
        for _ in 1..MAX_DEPTH {
            let Some(id) = above else { return Ok(()) };
            above = self.get(&id).await?.parent_id;
        }
        match above {
            None => Ok(()),
            Some(_) => Err(Error::Invalid(format!("subagents may not nest deeper than {MAX_DEPTH}"))),
        }
    }

    pub(super) fn draft(&self, home: Home, input: SessionInput) -> Session {
        let mint = &self.shared.mint;
        let now = mint.now();
        let kind = if input.parent_id.is_some() { "Child" } else { "New" };
        let pick =
            |words: &[&str]| words.get(mint.below(words.len())).map_or_else(String::new, ToString::to_string);
        Session {
            id: input.id.unwrap_or_else(|| mint.id()),
            slug: format!("{}-{}", pick(&ADJECTIVES), pick(&NOUNS)),
            project_id: home.project,
            workspace_id: input.workspace_id,
            directory: home.directory,
            path: Some(home.path),
            parent_id: input.parent_id,
            title: input
                .title
                .unwrap_or_else(|| format!("{kind} session - {}", protocol::time::iso8601(now))),
            agent: input.agent,
            model: input
                .model
                .map(|model| SessionModel { variant: model.variant.or(Some("default".into())), ..model }),
            version: self.shared.version.clone(),
            cost: Some(Number(0.0)),
            tokens: Some(Tokens::default()),
            summary: None,
            share: None,
            metadata: input.metadata,
            permission: input.permission,
            revert: None,
            continuation: None,
            seen: None,
            time: SessionTime {
                created: now,
                updated: now,
                compacting: None,
                archived: None,
                extra: Extra::new(),
            },
            extra: Extra::new(),
        }
    }

    /// Stores a new session together with its first events.
    pub(super) async fn store_new(
        &self,
        fence: &Fence,
        session: &Session,
        more: Vec<EventBody>,
    ) -> Result<(), Error> {
        self.store_part(fence, session, 0, more, true).await.map(drop)
    }

    /// Appends initial events of a new session, preceded by its creation if it has no events yet. Returns its
    /// number of events. Everything survives a power cut once a commit with `flush` does.
    pub(super) async fn store_part(
        &self,
        fence: &Fence,
        session: &Session,
        head: u64,
        events: Vec<EventBody>,
        flush: bool,
    ) -> Result<u64, Error> {
        let created = (head == 0)
            .then(|| EventBody::SessionCreated(SessionInfo::new(session.id.clone(), session.clone())));
        let events = created.into_iter().chain(events).map(|body| self.shared.mint.encoded(body)).collect();
        let commit = Commit {
            session: session.id.clone(),
            fence: fence.clone(),
            directory: Arc::from(session.directory.as_str()),
            project: Arc::from(session.project_id.as_str()),
            expected: head,
            events,
            flush,
        };
        Ok(self.shared.append(commit).await?.head)
    }
}
