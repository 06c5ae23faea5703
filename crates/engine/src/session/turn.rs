//! The runner's interface to the session actor.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use protocol::{
    AgentEvent, MessageId, MessageWithParts, Millis, Session, SessionId, Todo, WorkspaceId,
    agent_event::{Answer, Ask},
    message::ModelRef,
    request::{Approval, Request, Rule, ToolRef},
};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{history::Recalled, history_cache::HistoryCache, tally::Tally};
use crate::{
    limits::MAX_DEPTH,
    ports::{self, ChildEnd, ChildSpec, HookPoint, Hooks, Listing, Reads, Supervision},
    transcript::OpenText,
};

/// One run of a runner: the prompt to answer, and the means to report on it.
pub struct Turn {
    /// The session as it was when the run began.
    pub session: Session,
    /// The session's workspace, to which its approvals belong.
    pub(crate) workspace: WorkspaceId,
    /// The user message to answer.
    pub prompt: MessageId,
    pub agent: String,
    pub model: ModelRef,
    pub(crate) calls: mpsc::Sender<Call>,
    pub(crate) reads: Arc<dyn Reads>,
    pub(crate) histories: Arc<HistoryCache>,
    pub(crate) cancel: CancellationToken,
    pub(crate) tally: Arc<Tally>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) resume: Option<Resume>,
    /// Text that is put before the prompt when this turn reads it.
    pub(crate) preface: Option<String>,
    /// Sees the events of this turn first.
    pub(crate) supervision: Option<Arc<dyn Supervision>>,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) hook_limit: Duration,
}

/// The answered request with which an interrupted turn resumes.
#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) request: Request,
    /// `None` once the runner has taken it.
    pub(crate) answer: Mutex<Option<Answer>>,
}

/// Notifications from the session actor to a runner.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pub(crate) prompted: Notify,
    /// A client sent the children to the background: the turn no longer waits for them.
    pub(crate) backgrounded: Notify,
}

/// A runner's calls to the session actor, handled strictly in order.
#[derive(Debug)]
pub(crate) enum Call {
    Emit(AgentEvent),
    /// Ask the user, and wait for the answer or until approvals settle the request.
    Ask(Ask, Settled, oneshot::Sender<Answer>),
    /// Create a request without showing it to clients yet; answers also the time of creation.
    Request(Ask, oneshot::Sender<(Request, Millis)>),
    /// Ask the user with a request that was created before.
    Show(Request, Settled, oneshot::Sender<Answer>),
    /// The open text of this key, or all open texts.
    Texts(Option<String>, oneshot::Sender<Vec<OpenText>>),
    /// Take the prompts that join here.
    Join(oneshot::Sender<Vec<MessageId>>),
    /// Start a child session.
    Child(ChildSpec, oneshot::Sender<Result<ChildStarted, String>>),
    /// Answer with the newest messages, when all events before this call are stored.
    Recall(oneshot::Sender<Recalled>),
    /// Answer when all events before this call are stored.
    Flush(oneshot::Sender<()>),
    /// Answer when all events before this call are stored under the node's present right to write; never answer otherwise.
    Admit(oneshot::Sender<()>),
}

/// Tells whether approvals settle a permission that is being asked for.
#[derive(Default)]
pub(crate) struct Settled(Option<Enough>);

type Enough = Box<dyn Fn(&[Rule]) -> bool + Send + Sync>;

impl Settled {
    /// Returns true if these rules settle the permission.
    pub(crate) fn by(&self, rules: &[Rule]) -> bool {
        self.0.as_ref().is_some_and(|enough| enough(rules))
    }
}

impl fmt::Debug for Settled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Settled")
    }
}

/// A running child session.
#[derive(Debug)]
pub(crate) struct ChildStarted {
    pub(crate) session: SessionId,
    /// Resolves when the child's turn has ended.
    pub(crate) end: oneshot::Receiver<ChildEnd>,
}

/// A child session a runner may wait for.
#[derive(Debug)]
pub struct Child(ChildStarted);

impl Child {
    pub fn session(&self) -> &SessionId {
        &self.0.session
    }

    /// Waits until the child's turn has ended. `None` if the server is shutting down.
    pub async fn wait(self) -> Option<ChildEnd> {
        self.0.end.await.ok()
    }
}

impl Turn {
    /// Returns a second turn for a supervised runner. It can be cancelled separately, it gets its
    /// [supervision](Turn::supervise), and it takes over the answer that this run resumes with. Both turns send their
    /// calls to the session directly.
    #[must_use]
    pub fn supervised(&mut self) -> Turn {
        Turn {
            session: self.session.clone(),
            workspace: self.workspace.clone(),
            prompt: self.prompt.clone(),
            agent: self.agent.clone(),
            model: self.model.clone(),
            calls: self.calls.clone(),
            reads: Arc::clone(&self.reads),
            histories: Arc::clone(&self.histories),
            cancel: self.cancel.child_token(),
            tally: Arc::clone(&self.tally),
            signals: Arc::clone(&self.signals),
            resume: self.resume.take(),
            preface: None,
            supervision: None,
            hooks: Arc::clone(&self.hooks),
            hook_limit: self.hook_limit,
        }
    }

    /// Lets a supervision see the events and the requests of this turn before the session receives them.
    pub fn supervise(&mut self, supervision: Arc<dyn Supervision>) {
        self.supervision = Some(supervision);
    }

    /// Puts a text before the prompt for everything that reads it through this turn. The text is not stored.
    pub fn preface(&mut self, text: String) {
        self.preface = Some(text);
    }

    /// Resources that this turn has used, in this run and the earlier ones.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    pub fn hooks(&self) -> &Arc<dyn Hooks> {
        &self.hooks
    }

    /// Reports an event. Events that come after the turn was stopped are dropped.
    pub async fn emit(&self, event: AgentEvent) {
        let Some(supervision) = &self.supervision else { return self.report(event).await };
        for event in supervision.filter(event).await {
            self.report(event).await;
        }
    }

    async fn report(&self, event: AgentEvent) {
        self.complete_texts(&event).await;
        self.send(event).await;
    }

    pub(super) async fn send(&self, event: AgentEvent) {
        // The actor outlives its runner; a closed channel can only mean that this run is over.
        let _ = self.calls.send(Call::Emit(event)).await;
    }

    /// The tool call that waited for an answer when the server stopped, if that is why this run was started. The
    /// runner makes the call now. Asking the same request again returns the user's answer.
    pub fn resumed(&self) -> Option<&ToolRef> {
        match &self.resume.as_ref()?.request {
            Request::Permission(request) => request.tool.as_ref(),
            Request::Question(request) => request.tool.as_ref(),
        }
    }

    /// The user's answer from before the restart, if `ask` is the same request.
    fn given(&self, ask: &Ask) -> Option<Answer> {
        let resume = self.resume.as_ref()?;
        let same = match (&resume.request, ask) {
            (Request::Permission(it), Ask::Permission { permission, patterns, .. }) => {
                it.permission == *permission && it.patterns == *patterns
            }
            (Request::Question(it), Ask::Question { questions, .. }) => it.questions == *questions,
            _ => false,
        };
        if same { resume.answer.lock().unwrap_or_else(PoisonError::into_inner).take() } else { None }
    }

    /// Asks the user and waits. Of a supervised turn, the supervision may answer instead. A stopped turn answers
    /// [`Answer::Withdrawn`].
    pub async fn ask(&self, ask: Ask) -> Answer {
        match &self.supervision {
            Some(supervision) => supervision.answer(self, ask).await,
            None => self.wait_for_user(ask, Settled::default()).await,
        }
    }

    /// Asks the user for a permission. Returns [`Answer::Always`] as soon as the workspace's approvals satisfy
    /// `enough`, because the user answered another request.
    pub async fn ask_unless(
        &self,
        ask: Ask,
        enough: impl Fn(&[Rule]) -> bool + Send + Sync + 'static,
    ) -> Answer {
        self.wait_for_user(ask, Settled(Some(Box::new(enough)))).await
    }

    async fn wait_for_user(&self, ask: Ask, settled: Settled) -> Answer {
        if let Some(answer) = self.given(&ask) {
            return answer;
        }
        let answer = if matches!(ask, Ask::Permission { .. }) && self.hooks.wants(HookPoint::PermissionAsk) {
            self.ask_hooks_first(ask, settled).await
        } else {
            self.call(|reply| Call::Ask(ask, settled, reply)).await
        };
        answer.unwrap_or(Answer::Withdrawn)
    }

    /// The approvals of the session's workspace, as rules.
    pub async fn approved(&self) -> Result<Vec<Rule>, ports::Error> {
        let approvals = self.reads.approvals(Some(&self.workspace)).await?;
        Ok(approvals.iter().map(Approval::rule).collect())
    }

    /// Returns the ids of prompts that arrived meanwhile and join here. Runners call this between steps, when
    /// another model call follows. The prompts are part of the history from now on, and the next assistant message
    /// answers the last one.
    pub async fn join(&self) -> Vec<MessageId> {
        self.call(Call::Join).await.unwrap_or_default()
    }

    /// Resolves when a prompt was accepted since the last call; [`Turn::join`] may return it.
    pub async fn prompted(&self) {
        self.signals.prompted.notified().await;
    }

    /// Resolves when a client sends this turn's children to the background.
    pub async fn sent_to_background(&self) {
        self.signals.backgrounded.notified().await;
    }

    /// Starts a child session with its own turn. The parent's turn does not end before it.
    pub async fn start_child(&self, spec: ChildSpec) -> Result<Child, String> {
        match self.call(|reply| Call::Child(spec, reply)).await {
            Some(started) => started.map(Child),
            None => Err("the turn was stopped".into()),
        }
    }

    /// The newest completed summary of the session.
    pub async fn newest_summary(&self) -> Result<Option<MessageWithParts>, ports::Error> {
        self.call(Call::Flush).await;
        match self.reads.newest_summary(&self.session.id).await? {
            Some(place) => self.reads.message(&self.session.id, &place.id).await,
            None => Ok(None),
        }
    }

    pub async fn todos(&self) -> Result<Vec<Todo>, ports::Error> {
        self.call(Call::Flush).await;
        self.reads.todos(&self.session.id).await
    }

    /// Number of ancestor sessions; 0 for a root session.
    pub async fn depth(&self) -> Result<usize, ports::Error> {
        let mut above = self.session.parent_id.clone();
        for depth in 0..MAX_DEPTH {
            let Some(id) = above else { return Ok(depth) };
            above = self.reads.session(&id).await?.and_then(|(session, _)| session.parent_id);
        }
        Ok(MAX_DEPTH)
    }

    /// All descendants of this session, in their current state.
    pub async fn descendants(&self) -> Result<Vec<Session>, ports::Error> {
        let (mut found, mut parents) = (Vec::new(), vec![self.session.id.clone()]);
        for _ in 0..MAX_DEPTH {
            for parent in std::mem::take(&mut parents) {
                let children = Listing { parent: Some(parent), ..Listing::default() };
                let children = self.reads.sessions(children).await?;
                parents.extend(children.iter().map(|child| child.id.clone()));
                found.extend(children);
            }
        }
        Ok(found)
    }

    /// Waits until the events so far are committed, and returns true if the runner may go on. Runners emit the event that
    /// shows a tool call as running, and begin the tool only after this returns true: then the record shows everything
    /// that has touched the files, and a node that has lost the workspace begins no tool.
    #[must_use]
    pub async fn admit(&self) -> bool {
        self.call(Call::Admit).await.is_some() && !self.cancel.is_cancelled()
    }

    /// Resolves when the turn was stopped: return as soon as possible.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// The token behind [`Turn::cancelled`], for work that the runner starts.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }

    pub(super) async fn call<T>(&self, make: impl FnOnce(oneshot::Sender<T>) -> Call) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.calls.send(make(reply)).await.ok()?;
        answer.await.ok()
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Turn")
            .field("session", &self.session.id)
            .field("prompt", &self.prompt)
            .finish_non_exhaustive()
    }
}
