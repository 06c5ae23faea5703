//! Continuations: decides, after a run has ended, whether its turn continues.
//!
//! The status stays busy all the while. The actor looks at the todo list first and then asks the hooks, both within
//! the limits of [`ContinuationPolicy`]. The counters are part of the session and so survive a restart. The actor's loop waits
//! for a countdown or a slow hook, so a prompt, an abort or a stop takes precedence.

use protocol::{
    AgentEvent, EndReason, EventBody, Extra, MessageId, PartBody, Session, Todo,
    continuation::{Continuation, ContinuationAction, Episode, Mark, Source, StopReason},
    event::{ContinuationCountdown, ContinuationStarted, ContinuationStopped},
    part::TextPart,
    session::Tokens,
};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::actor::Actor;
use crate::{
    Error,
    lifecycle::{
        Input, Run,
        continuation::{self, ContinuationPolicy, Count, Ending, Facts, Verdict},
    },
    limits::MAX_NEXT,
    ports::{
        HookPoint, Resolved,
        hooks::{Next, TurnEnding},
    },
    transcript::Transcript,
};

/// Time that OpenCode's clients show why a turn did not continue.
const TOAST_MS: i64 = 5_000;

/// A run that has ended, while its turn may still continue.
pub(super) struct EndedRun {
    pub(super) resolved: Resolved,
    /// The prompt that the user wrote.
    pub(super) asked: MessageId,
    pub(super) ending: Ending,
}

/// Something that the turn waits for before it continues or ends.
pub(super) enum Pause {
    /// Clients can stop the continuation until then.
    Countdown(Run, Instant),
    /// A task asks the hooks.
    Hooks(Run, AbortOnDropHandle<Next>),
}

impl Pause {
    /// The hooks' answer; pending forever if no hook is being asked.
    pub(super) async fn answer(pause: &mut Option<Self>) -> Next {
        match pause {
            Some(Self::Hooks(_, task)) => task.await.unwrap_or_default(),
            _ => std::future::pending().await,
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Countdown(_, until) => Some(*until),
            Self::Hooks(..) => None,
        }
    }
}

/// The prompt of a continuation, and its episode with the new round counted.
pub(super) struct NextRound {
    text: String,
    source: Source,
    episode: Episode,
    open: u64,
}

impl Actor {
    /// Decides whether the turn continues. Returns `None` if the decision has to wait for a countdown or a hook.
    pub(super) async fn consult(&mut self, run: Run, warned: bool) -> Option<bool> {
        let todos = self.todos().await;
        match self.judge(&todos, continuation::follow_todos) {
            Verdict::GoOn(episode) => {
                let open = Count::of(&todos).open;
                let countdown = self.policy().countdown;
                if countdown.is_zero() || warned {
                    let (text, source) = (continuation::reminder(&todos), Source::Todo);
                    self.going = Some(NextRound { text, source, episode, open });
                    return Some(true);
                }
                self.push_countdown(&episode, open);
                self.pause = Some(Pause::Countdown(run, Instant::now() + countdown));
                None
            }
            Verdict::Stop(reason) => {
                self.note_stop(reason, &todos);
                self.ask_hooks(run)
            }
            Verdict::Rest => self.ask_hooks(run),
        }
    }

    /// The todo list, or an empty one if todos cannot continue this turn.
    async fn todos(&self) -> Vec<Todo> {
        let state = self.session.continuation.clone().unwrap_or_default();
        let follows = |last: &EndedRun| {
            last.resolved.continuation.follows_todos(&state) && !self.invocations.contains(&last.asked)
        };
        if self.session.parent_id.is_some() || !self.last.as_ref().is_some_and(follows) {
            return Vec::new();
        }
        self.shared().reads.todos(&self.session.id).await.unwrap_or_else(|error| {
            tracing::warn!(session = %self.session.id, %error, "failed to read the todo list; continuing without it");
            Vec::new()
        })
    }

    fn judge(
        &self,
        todos: &[Todo],
        rule: fn(&ContinuationPolicy, &Continuation, &Facts<'_>) -> Verdict,
    ) -> Verdict {
        let Some(last) = &self.last else { return Verdict::Rest };
        let state = self.session.continuation.clone().unwrap_or_default();
        rule(&last.resolved.continuation, &state, &self.facts(&last.asked, last.ending, todos))
    }

    fn facts<'a>(&self, asked: &'a MessageId, ending: Ending, todos: &'a [Todo]) -> Facts<'a> {
        Facts {
            asked,
            ending,
            todos,
            waiting: !self.requests.is_empty() || !self.orphans.is_empty(),
            tokens: self.session.tokens.as_ref().map_or(0, fresh),
            now: self.shared().mint.now(),
        }
    }

    /// Counts a plugin's prompt as a round of the user's episode. Fails if the episode does not continue.
    pub(super) async fn count_plugin_round(
        &self,
        prompt: &MessageId,
        policy: &ContinuationPolicy,
    ) -> Result<Episode, Error> {
        let state = self.session.continuation.clone().unwrap_or_default();
        let todos = self.shared().reads.todos(&self.session.id).await?;
        let facts = self.facts(prompt, Ending::default(), &todos);
        match continuation::follow_plugin(policy, &state, &facts) {
            Verdict::GoOn(episode) => Ok(episode),
            Verdict::Stop(reason) => Err(Error::Held(reason)),
            Verdict::Rest => Err(Error::Held(StopReason::Unknown)),
        }
    }

    /// Records that the agent writes its todo list. The next commit of the session stores it.
    pub(super) async fn note_list(&mut self, list: &[Todo]) {
        if self.session.parent_id.is_some() {
            return;
        }
        let mut state = self.session.continuation.clone().unwrap_or_default();
        // Only a stop for lack of progress depends on a change, so the stored list is rarely needed.
        let has_changed = state.stopped == Some(StopReason::Stagnant)
            && self.shared().reads.todos(&self.session.id).await.is_ok_and(|stored| stored != list);
        state.touch(Count::of(list).is_unfinished(), has_changed);
        self.session.continuation = state.stored();
    }

    fn policy(&self) -> ContinuationPolicy {
        self.last.as_ref().map(|last| last.resolved.continuation.clone()).unwrap_or_default()
    }

    /// Asks the hooks in a separate task; false if no plugin listens.
    fn ask_hooks(&mut self, run: Run) -> Option<bool> {
        let Some(last) = self.last.as_ref().filter(|last| last.resolved.hooks.wants(HookPoint::TurnEnd))
        else {
            return Some(false);
        };
        let episode = self.session.continuation.as_ref().and_then(|state| state.episode.as_ref());
        let about = TurnEnding {
            session_id: self.session.id.clone(),
            parent_id: self.session.parent_id.clone(),
            message_id: last.asked.clone(),
            agent: last.resolved.agent.clone(),
            model: last.resolved.model.clone(),
            continued: episode.map_or(0, |episode| episode.rounds),
        };
        let (hooks, limit) = (last.resolved.hooks.clone(), self.shared().limits.hook);
        let task = tokio::spawn(async move { hooks.change_within(limit, &about, Next::default()).await });
        self.pause = Some(Pause::Hooks(run, AbortOnDropHandle::new(task)));
        None
    }

    pub(super) async fn hooks_answered(&mut self, next: Next) {
        let Some(Pause::Hooks(run, _)) = self.pause.take() else { return };
        let prompt = next.text.filter(|text| !text.trim().is_empty());
        let goes_on = match prompt {
            Some(text) if text.len() > MAX_NEXT => {
                tracing::warn!(session = %self.session.id, bytes = text.len(), "ignoring a hook's continuation: its text is too long");
                false
            }
            Some(text) => self.follow_hook(text).await,
            None => false,
        };
        self.step(Input::Consulted { run, goes_on }).await;
    }

    async fn follow_hook(&mut self, text: String) -> bool {
        let todos = self.shared().reads.todos(&self.session.id).await.unwrap_or_default();
        match self.judge(&todos, continuation::follow_hook) {
            Verdict::GoOn(episode) => {
                let open = Count::of(&todos).open;
                self.going = Some(NextRound { text, source: Source::Hook, episode, open });
                true
            }
            Verdict::Stop(reason) => {
                self.note_stop(reason, &todos);
                false
            }
            Verdict::Rest => false,
        }
    }

    /// Decides again, because the countdown is over or its cause may have changed.
    async fn end_countdown(&mut self) {
        let Some(Pause::Countdown(run, _)) =
            self.pause.take_if(|pause| matches!(pause, Pause::Countdown(..)))
        else {
            return;
        };
        match self.consult(run, true).await {
            Some(goes_on) => self.step(Input::Consulted { run, goes_on }).await,
            None => self.flush().await,
        }
    }

    /// Called after a change during a countdown: ends the countdown now if the continuation is no longer wanted.
    pub(super) async fn reconsider_countdown(&mut self) {
        if !matches!(self.pause, Some(Pause::Countdown(..))) {
            return;
        }
        let todos = self.todos().await;
        let wanted = matches!(self.judge(&todos, continuation::follow_todos), Verdict::GoOn(_));
        if !wanted {
            self.end_countdown().await;
        }
    }

    pub(super) async fn end_countdown_if_due(&mut self, now: Instant) {
        if self.pause.as_ref().and_then(Pause::deadline).is_some_and(|until| until <= now) {
            self.end_countdown().await;
        }
    }

    /// Adds the continuation's message, counts the round and calls the runner again. Returns false if no
    /// continuation is prepared.
    pub(super) async fn go_on(&mut self, run: Run) -> bool {
        let (Some(going), Some(last)) = (self.going.take(), self.last.take()) else {
            tracing::error!(session = %self.session.id, "continuation requested without a prompt; ending the turn");
            return false;
        };
        let NextRound { text, source, episode, open } = going;
        let Resolved { agent, model, continuation: ContinuationPolicy { rounds: limit, .. }, .. } =
            &last.resolved;
        let mut transcript =
            Transcript::new(&self.session, agent.clone(), model.clone(), last.asked.clone(), self.latest);
        let mark = Mark { source, episode: episode.id.clone(), n: episode.rounds };
        let part =
            TextPart { text, synthetic: Some(true), metadata: Some(mark.metadata()), ..TextPart::default() };
        let shared = self.sessions.shared.clone();
        let report = AgentEvent::Continued(vec![PartBody::Text(part)]);
        let events = transcript.apply(report, &mut self.session, &shared.mint);
        self.latest = self.latest.max(transcript.latest());
        self.session.continuation.get_or_insert_default().episode = Some(episode);
        self.push_session();
        self.unsaved.extend(events);
        self.unsaved.push(EventBody::ContinuationStarted(ContinuationStarted {
            session_id: self.session.id.clone(),
            message_id: transcript.prompt().clone(),
            source,
            episode: mark.episode,
            n: mark.n,
            limit: Some(*limit),
            open,
            extra: Extra::new(),
        }));
        // Stored before anything runs: a crash must not give the round back.
        self.flush().await;
        if self.broken.is_none() {
            self.launch(run, transcript, last.resolved, None);
        }
        true
    }

    /// Starts a new episode, because the user has sent a prompt.
    pub(super) fn begin_episode(&mut self) {
        if matches!(self.pause, Some(Pause::Countdown(..))) {
            self.push_stopped(StopReason::Prompt, None);
        }
        self.session.continuation = self.session.continuation.take().and_then(Continuation::prompted);
    }

    /// Records why a turn that did not complete leaves todos unfinished.
    pub(super) async fn note_refusal(&mut self, reason: EndReason) {
        let Some(stop) = continuation::refusal(reason) else { return };
        let todos = self.todos().await;
        if Count::of(&todos).is_unfinished() {
            self.note_stop(stop, &todos);
        }
    }

    /// Records why the session does not continue by itself any more, and publishes that once.
    fn note_stop(&mut self, reason: StopReason, todos: &[Todo]) {
        let state = self.session.continuation.get_or_insert_default();
        // A stop for lack of progress may come from an earlier episode; the user's own stop holds for this one.
        let is_new = state.stopped.is_none_or(|known| known == StopReason::Stagnant && reason.is_wanted());
        if is_new {
            state.stopped = Some(reason);
            self.push_session();
            self.push_stopped(reason, Some(Count::of(todos).unfinished()));
        }
    }

    /// Stops or resumes continuations of this session.
    pub(super) async fn continuation(&mut self, action: ContinuationAction) -> Result<Session, Error> {
        let before = self.session.continuation.clone();
        match action {
            ContinuationAction::Stop => {
                let todos = self.shared().reads.todos(&self.session.id).await?;
                self.note_stop(StopReason::Stop, &todos);
            }
            ContinuationAction::Resume => {
                self.session.continuation = before.clone().and_then(Continuation::resumed);
                if self.session.continuation != before {
                    self.push_session();
                }
            }
        }
        if let Err(error) = self.save(true).await {
            self.session.continuation = before;
            return Err(error);
        }
        Ok(self.session.clone())
    }

    fn push_countdown(&mut self, episode: &Episode, open: u64) {
        let countdown = i64::try_from(self.policy().countdown.as_millis()).unwrap_or(i64::MAX);
        let warning = ContinuationCountdown {
            session_id: self.session.id.clone(),
            episode: episode.id.clone(),
            n: episode.rounds,
            limit: self.round_limit(),
            open,
            until: self.shared().mint.now().saturating_add(countdown),
            extra: Extra::new(),
        };
        self.show_toast(&warning.describe(), "info", countdown);
        self.unsaved.push(EventBody::ContinuationCountdown(warning));
    }

    fn push_stopped(&mut self, reason: StopReason, open: Option<u64>) {
        let episode = self.session.continuation.as_ref().and_then(|state| state.episode.as_ref());
        let stopped = ContinuationStopped {
            session_id: self.session.id.clone(),
            reason,
            rounds: episode.map_or(0, |episode| episode.rounds),
            limit: self.round_limit(),
            open,
            extra: Extra::new(),
        };
        if !reason.is_wanted() {
            self.show_toast(&stopped.describe(), "warning", TOAST_MS);
        }
        self.unsaved.push(EventBody::ContinuationStopped(stopped));
    }

    /// The maximum number of rounds; none if this actor has not run a turn and so does not know the policy.
    fn round_limit(&self) -> Option<u32> {
        self.last.as_ref().map(|last| last.resolved.continuation.rounds)
    }

    /// OpenCode's clients know nothing of continuations, but can show a toast.
    fn show_toast(&self, message: &str, variant: &str, milliseconds: i64) {
        let fields: [(&str, Value); 3] =
            [("message", message.into()), ("variant", variant.into()), ("duration", milliseconds.into())];
        let toast = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let shared = self.shared();
        shared.bus.publish(Some(&self.place), &shared.mint.event(EventBody::TuiToastShow(toast)));
    }
}

/// Tokens that were not read from a cache.
fn fresh(tokens: &Tokens) -> u64 {
    [tokens.input, tokens.output, tokens.reasoning, tokens.cache.write]
        .into_iter()
        .fold(0, u64::saturating_add)
}
