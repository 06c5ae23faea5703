//! What a runner holds while it works: its side of the conversation with the session actor.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use protocol::{
    AgentEvent, MessageId, MessageWithParts, Millis, Part, PartBody, Session, SessionId, Todo,
    agent_event::{Answer, Ask},
    message::ModelRef,
    part::{PatchPart, TextPart},
    request::{Approval, Request, Rule, ToolRef},
};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    back::{Pages, look_back},
    tally::Tally,
};
use crate::{
    limits::{MAX_CALLS, MAX_DEPTH},
    ports::{self, ChildEnd, ChildSpec, HookPoint, Hooks, Listing, Reads},
    transcript::OpenText,
};

/// One run of a runner: a prompt to answer, and the means to report on it.
pub struct Turn {
    /// The session as it was when the run began.
    pub session: Session,
    /// The user message to answer.
    pub prompt: MessageId,
    /// The agent's name.
    pub agent: String,
    /// The model.
    pub model: ModelRef,
    pub(crate) calls: mpsc::Sender<Call>,
    pub(crate) reads: Arc<dyn Reads>,
    pub(crate) cancel: CancellationToken,
    pub(crate) tally: Arc<Tally>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) resume: Option<Resume>,
    /// What the prompt begins with for whoever reads it through this turn.
    pub(crate) preface: Option<String>,
    pub(crate) hooks: Arc<dyn Hooks>,
    /// How long a hook may take.
    pub(crate) hook_limit: Duration,
}

/// Why a turn that was cut short goes on: a person has answered what it waited for.
#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) request: Request,
    /// Until it is handed out.
    pub(crate) answer: Mutex<Option<Answer>>,
}

/// What a session actor can tell a runner without being asked.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// A prompt may join.
    pub(crate) prompted: Notify,
    /// Nobody wants to wait for the children.
    pub(crate) backgrounded: Notify,
}

/// What a runner may ask of the session actor; handled strictly in order.
#[derive(Debug)]
pub enum Call {
    /// Report something.
    Emit(AgentEvent),
    /// Wait for a person, or until nobody needs to be asked any more.
    Ask(Ask, Settled, oneshot::Sender<Answer>),
    /// Make a request that is not shown to anybody yet; also the time of it.
    Request(Ask, oneshot::Sender<(Request, Millis)>),
    /// The same as to ask, with a request that was made before.
    Show(Request, Settled, oneshot::Sender<Answer>),
    /// The open text of this key, or all open texts.
    Texts(Option<String>, oneshot::Sender<Vec<OpenText>>),
    /// Take the prompts that join here.
    Join(oneshot::Sender<Vec<MessageId>>),
    /// Start a child session.
    Child(ChildSpec, oneshot::Sender<Result<ChildStarted, String>>),
    /// Answer when everything before is stored.
    Flush(oneshot::Sender<()>),
}

/// Whether what people have allowed for good is enough for a permission that is being asked for.
#[derive(Default)]
pub struct Settled(Option<Enough>);

/// Whether rules are enough.
type Enough = Box<dyn Fn(&[Rule]) -> bool + Send + Sync>;

impl Settled {
    /// Whether these rules are enough.
    pub(crate) fn by(&self, rules: &[Rule]) -> bool {
        self.0.as_ref().is_some_and(|enough| enough(rules))
    }
}

impl fmt::Debug for Settled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Settled")
    }
}

/// A child session that was started.
#[derive(Debug)]
pub struct ChildStarted {
    /// The child.
    pub session: SessionId,
    /// Resolves when its turn has ended.
    pub end: oneshot::Receiver<ChildEnd>,
}

/// A child session a runner may wait for.
#[derive(Debug)]
pub struct Child(ChildStarted);

impl Child {
    /// The child's session.
    pub fn session(&self) -> &SessionId {
        &self.0.session
    }

    /// Waits until the child's turn has ended. None if the engine is going down.
    pub async fn wait(self) -> Option<ChildEnd> {
        self.0.end.await.ok()
    }
}

impl Turn {
    /// The same turn for somebody who works under supervision: what they say comes out of the receiver and reaches the
    /// session only if it is [passed](Turn::pass) on, and they can be stopped by themselves. An answer that this run was
    /// started with is theirs from now on.
    pub fn tapped(&mut self) -> (Turn, mpsc::Receiver<Call>) {
        let (calls, heard) = mpsc::channel(MAX_CALLS);
        let turn = Turn {
            session: self.session.clone(),
            prompt: self.prompt.clone(),
            agent: self.agent.clone(),
            model: self.model.clone(),
            calls,
            reads: Arc::clone(&self.reads),
            cancel: self.cancel.child_token(),
            tally: Arc::clone(&self.tally),
            signals: Arc::clone(&self.signals),
            resume: self.resume.take(),
            preface: None,
            hooks: Arc::clone(&self.hooks),
            hook_limit: self.hook_limit,
        };
        (turn, heard)
    }

    /// Lets the prompt begin with this for whoever reads it through this turn; it is not stored.
    pub fn preface(&mut self, text: String) {
        self.preface = Some(text);
    }

    /// Passes on what somebody under supervision has said.
    pub async fn pass(&self, call: Call) {
        // The actor outlives its runner; a closed channel can only mean that this run is over.
        let _ = self.calls.send(call).await;
    }

    /// What this turn has used, in this run and in those before it.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Who looks on and may shape what this run does.
    pub fn hooks(&self) -> &Arc<dyn Hooks> {
        &self.hooks
    }

    /// Reports something. What is reported after the turn was stopped is dropped silently.
    pub async fn emit(&self, event: AgentEvent) {
        self.complete_texts(&event).await;
        self.send(event).await;
    }

    pub(super) async fn send(&self, event: AgentEvent) {
        // The actor outlives its runner; a closed channel can only mean that this run is over.
        let _ = self.calls.send(Call::Emit(event)).await;
    }

    /// The tool call that waited for a person when the server stopped, if that is why this run was started: it is to
    /// be made now. Whoever asks for the same thing again gets the person's answer.
    pub fn resumed(&self) -> Option<&ToolRef> {
        match &self.resume.as_ref()?.request {
            Request::Permission(request) => request.tool.as_ref(),
            Request::Question(request) => request.tool.as_ref(),
        }
    }

    /// What a person has answered to this already.
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

    /// Asks a person and waits. A stopped turn answers [`Answer::Withdrawn`].
    pub async fn ask(&self, ask: Ask) -> Answer {
        self.wait_for_person(ask, Settled::default()).await
    }

    /// Asks a person for a permission. If what people allow for good meanwhile, by answering another request, is
    /// `enough`, the answer is [`Answer::Always`].
    pub async fn ask_unless(
        &self,
        ask: Ask,
        enough: impl Fn(&[Rule]) -> bool + Send + Sync + 'static,
    ) -> Answer {
        self.wait_for_person(ask, Settled(Some(Box::new(enough)))).await
    }

    async fn wait_for_person(&self, ask: Ask, settled: Settled) -> Answer {
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

    /// What people have allowed for good in the session's directory, as rules.
    pub async fn approved(&self) -> Result<Vec<Rule>, ports::Error> {
        let approvals = self.reads.approvals(Some(&self.session.directory)).await?;
        Ok(approvals.iter().map(Approval::rule).collect())
    }

    /// To be called between steps, when another model call follows: the ids of prompts that arrived
    /// meanwhile and join here. They are in the history from now on; the last one is what the next
    /// assistant message answers.
    pub async fn join(&self) -> Vec<MessageId> {
        self.call(Call::Join).await.unwrap_or_default()
    }

    /// Resolves when a prompt was accepted since the last call: it may be one that [`Turn::join`] hands out.
    pub async fn prompted(&self) {
        self.signals.prompted.notified().await;
    }

    /// Resolves when somebody wants this turn to go on without waiting for its children.
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

    /// Everything said so far in this session that this run may see: prompts that still wait for their
    /// turn are left out.
    pub async fn history(&self) -> Result<Vec<MessageWithParts>, ports::Error> {
        self.recent(|_| false).await
    }

    /// The newest part of [`Turn::history`], oldest first: back to the first message of which `enough` says
    /// that none before it is needed. It is asked about the newest first.
    pub async fn recent(
        &self,
        mut enough: impl FnMut(&MessageWithParts) -> bool,
    ) -> Result<Vec<MessageWithParts>, ports::Error> {
        self.call(Call::Flush).await;
        let mut found = Vec::new();
        let mut pages = Pages::new(self.reads.as_ref(), &self.session.id);
        'back: while let Some(page) = pages.next().await? {
            // After the messages, never before: a prompt that is accepted between the two reads would pass for one
            // that this run has taken up, and its first step would be asked of the model twice.
            let waiting = self.waiting().await?;
            for record in page.iter().filter(|record| !waiting.contains(&record.place.id)) {
                let message = record.read()?;
                let last = enough(&message);
                found.push(message);
                if last {
                    break 'back;
                }
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Accepted prompts that no run has taken up.
    async fn waiting(&self) -> Result<Vec<MessageId>, ports::Error> {
        let open = self.reads.prompts(&self.session.id).await?.into_iter();
        Ok(open.filter(|prompt| !prompt.started).map(|prompt| prompt.message).collect())
    }

    /// Shows every message of the session, newest first, without keeping any: for counting over a whole session.
    pub async fn each(&self, mut see: impl FnMut(&MessageWithParts)) -> Result<(), ports::Error> {
        self.call(Call::Flush).await;
        look_back(self.reads.as_ref(), &self.session.id, |message| {
            see(&message);
            true
        })
        .await
    }

    /// The newest summary of the session that was completed.
    pub async fn newest_summary(&self) -> Result<Option<MessageWithParts>, ports::Error> {
        self.call(Call::Flush).await;
        match self.reads.newest_summary(&self.session.id).await? {
            Some(place) => self.reads.message(&self.session.id, &place.id).await,
            None => Ok(None),
        }
    }

    /// What the steps of this session have changed, oldest first.
    pub async fn patches(&self) -> Result<Vec<PatchPart>, ports::Error> {
        self.call(Call::Flush).await;
        let mut patches = Vec::new();
        look_back(self.reads.as_ref(), &self.session.id, |message| {
            patches.extend(message.parts.into_iter().rev().filter_map(|part| match part.body {
                PartBody::Patch(patch) => Some(patch),
                _ => None,
            }));
            true
        })
        .await?;
        patches.reverse();
        Ok(patches)
    }

    /// One message of this session.
    pub async fn message(&self, id: &MessageId) -> Result<Option<MessageWithParts>, ports::Error> {
        self.call(Call::Flush).await;
        let mut found = self.reads.message(&self.session.id, id).await?;
        if let (Some(message), Some(text)) =
            (&mut found, self.preface.as_ref().filter(|_| *id == self.prompt))
            && let Some(first) = message.parts.first()
        {
            let told = TextPart { text: text.clone(), synthetic: Some(true), ..TextPart::default() };
            let part = Part { body: PartBody::Text(told), ..first.clone() };
            message.parts.insert(0, part);
        }
        Ok(found)
    }

    /// The session's todo list.
    pub async fn todos(&self) -> Result<Vec<Todo>, ports::Error> {
        self.call(Call::Flush).await;
        self.reads.todos(&self.session.id).await
    }

    /// How many sessions are above this one: 0 for one that a person started.
    pub async fn depth(&self) -> Result<usize, ports::Error> {
        let mut above = self.session.parent_id.clone();
        for depth in 0..MAX_DEPTH {
            let Some(id) = above else { return Ok(depth) };
            above = self.reads.session(&id).await?.and_then(|(session, _)| session.parent_id);
        }
        Ok(MAX_DEPTH)
    }

    /// The children of this session and theirs, as they are now.
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

    /// Resolves when the turn was stopped: return as soon as possible.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// The token behind [`Turn::cancelled`], to hand to what the runner starts.
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
