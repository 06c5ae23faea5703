//! Hooks that the engine calls itself, for every runner: their changes are stored and reach clients.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use engine::{
    limits::Limits,
    ports::{
        HookPoint, Hooks, Page,
        hooks::{CommandParts, HookCall, Hooked, PermissionStatus, Prompted, Text},
    },
    session::Turn,
};
use futures::{FutureExt, future};
use protocol::{
    AgentEvent, EventBody, Extra, Message, PartBody, Rest, Session, TurnEnd,
    agent_event::{Answer, Ask},
    message::Finish,
    part::TextPart,
    prompt::{CommandInput, PartInput, PartInputBody, PromptInput, Sender},
    request::Action,
};
use serde_json::json;

use crate::harness::{Harness, finish, say};

/// The behaviour of a test plugin at the points where it listens.
#[derive(Clone, Copy)]
enum Behaviour {
    Shout,
    Hang,
    Decide(Action),
}

struct Plugin {
    points: BTreeSet<HookPoint>,
    deed: Behaviour,
    /// The inputs it received, as JSON.
    heard: Arc<Mutex<Vec<String>>>,
}

impl Plugin {
    fn new(deed: Behaviour, points: impl IntoIterator<Item = HookPoint>) -> Self {
        Self { points: points.into_iter().collect(), deed, heard: Arc::default() }
    }
}

fn shout(part: &mut TextPart) {
    part.text = part.text.to_uppercase();
}

impl Hooks for Plugin {
    fn wants(&self, point: HookPoint) -> bool {
        self.points.contains(&point)
    }

    fn call<'a>(&'a self, call: HookCall<'a>) -> Hooked<'a> {
        self.heard.lock().unwrap().push(call.input.encode().unwrap().to_string());
        match self.deed {
            Behaviour::Shout => shout_all(call),
            Behaviour::Hang => return future::pending().boxed(),
            Behaviour::Decide(decision) => call.typed::<PermissionStatus>().unwrap().1.status = decision,
        }
        future::ready(Ok(())).boxed()
    }
}

fn shout_all(call: HookCall<'_>) {
    match call.point {
        HookPoint::ChatMessage => {
            let (_, prompted) = call.typed::<Prompted>().unwrap();
            prompted.message.system = Some("be loud".into());
            for part in &mut prompted.parts {
                if let PartBody::Text(text) = &mut part.body {
                    shout(text);
                }
            }
        }
        HookPoint::CommandBefore => {
            let (_, command) = call.typed::<CommandParts>().unwrap();
            let text = TextPart { text: "and this".into(), ..TextPart::default() };
            command.parts.push(PartInput { id: None, body: PartInputBody::Text(text) });
        }
        HookPoint::TextComplete => {
            let (_, text) = call.typed::<Text>().unwrap();
            text.text = text.text.to_uppercase();
        }
        _ => {}
    }
}

fn texts(messages: &[protocol::MessageWithParts]) -> Vec<String> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    parts.filter_map(|part| part.text().map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn an_edited_text_is_stored_and_sent_to_clients() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.hook(Plugin::new(Behaviour::Shout, [HookPoint::TextComplete]));
    harness.script(|turn| say(turn, "hello there"));
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("HELLO THERE"));
    harness.drain();
    let mut told = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::PartUpdated(it) if it.part.id == answer.parts[1].id => it.part.text().map(str::to_owned),
        _ => None,
    });
    assert_eq!(told.next_back().as_deref(), Some("HELLO THERE"), "the last word to clients");
}

/// A runner that does not end its text.
async fn forgetful(turn: Turn) -> TurnEnd {
    turn.emit(AgentEvent::step_started()).await;
    turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
    turn.emit(AgentEvent::TextDelta { key: "0".into(), delta: "left open".into() }).await;
    turn.emit(finish(Finish::Stop)).await;
    TurnEnd::Completed
}

#[tokio::test(start_paused = true)]
async fn text_that_ends_with_its_step_reaches_hooks_once() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    let plugin = Plugin::new(Behaviour::Shout, [HookPoint::TextComplete]);
    let heard = plugin.heard.clone();
    harness.hook(plugin);
    harness.script(forgetful);
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("LEFT OPEN"));
    assert_eq!(heard.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_stored_as_hooks_changed_it() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let plugin = Plugin::new(Behaviour::Shout, [HookPoint::ChatMessage]);
    let heard = plugin.heard.clone();
    harness.hook(plugin);
    let submitted = harness.submit(&session, "quiet").await;
    harness.until_idle(&session).await;
    let stored = harness.sessions.message(&session.id, submitted.message.info.id()).await.unwrap();
    assert_eq!(texts(std::slice::from_ref(&stored)), ["QUIET"]);
    let Message::User(user) = &stored.info else { panic!("not a prompt") };
    assert_eq!(user.system.as_deref(), Some("be loud"));
    assert_eq!(*heard.lock().unwrap(), [json!({ "sessionID": session.id }).to_string()]);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_prompt_does_not_reach_hooks_again() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let plugin = Plugin::new(Behaviour::Shout, [HookPoint::ChatMessage]);
    let heard = plugin.heard.clone();
    harness.hook(plugin);
    let first = harness.submit(&session, "once").await;
    harness.until_idle(&session).await;
    let again =
        PromptInput { message_id: Some(first.message.info.id().clone()), ..PromptInput::text("once") };
    harness.sessions.submit(&session.id, again).await.unwrap();
    assert_eq!(heard.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_command_expands_to_the_prompt_that_hooks_return() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    let plugin = Plugin::new(Behaviour::Shout, [HookPoint::CommandBefore]);
    let heard = plugin.heard.clone();
    harness.hook(plugin);
    let input = CommandInput {
        message_id: None,
        agent: None,
        model: None,
        variant: None,
        command: "say".into(),
        arguments: "this".into(),
        parts: None,
        sender: Sender::Client,
        extra: Rest::NONE,
    };
    harness.sessions.command(&session.id, input).await.unwrap();
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    assert_eq!(texts(&messages[..1]), ["this", "and this"]);
    let told = json!({ "command": "say", "sessionID": session.id, "arguments": "this" });
    assert_eq!(*heard.lock().unwrap(), [told.to_string()]);
}

fn ask() -> Ask {
    Ask::Permission {
        permission: "bash".into(),
        patterns: vec!["rm *".into()],
        metadata: Extra::new(),
        always: Vec::new(),
        call: Some("call_1".into()),
    }
}

/// Asks for a permission and reports the answer.
async fn careful(turn: Turn) -> TurnEnd {
    let answer = match turn.ask(ask()).await {
        Answer::Once => "allowed",
        Answer::Rejected { message: Some(_) } => "refused",
        Answer::Withdrawn => "withdrawn",
        _ => "something else",
    };
    say(turn, answer).await
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_answer_a_permission_instead_of_the_user() {
    for (status, came) in [(Action::Allow, "allowed"), (Action::Deny, "refused")] {
        let mut harness = Harness::new().await;
        let session = harness.session().await;
        harness.hook(Plugin::new(Behaviour::Decide(status), [HookPoint::PermissionAsk]));
        harness.script(careful);
        let answer = harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
        assert_eq!(answer.parts[1].text(), Some(came));
        harness.drain();
        assert!(!harness.story(&session.id).contains(&"permission.asked".to_owned()), "{status:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_leave_a_permission_to_the_user() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let plugin = Plugin::new(Behaviour::Decide(Action::Ask), [HookPoint::PermissionAsk]);
    let heard = plugin.heard.clone();
    harness.hook(plugin);
    harness.script(careful);
    harness.submit(&session, "x").await;
    let asked = harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let EventBody::PermissionAsked(request) = asked.body else { panic!("not asked") };
    let shown = heard.lock().unwrap().join("");
    assert!(shown.contains(request.id.as_str()), "hooks and clients see the same id: {shown}");
    harness
        .sessions
        .reply_permission(&request.id, protocol::request::PermissionReply::Once, None)
        .await
        .unwrap();
    harness.until_idle(&session).await;
}

/// A turn that passes every hook.
async fn everything(turn: Turn) -> TurnEnd {
    turn.ask(ask()).await;
    say(turn, "done").await
}

async fn hanging(harness: &Harness) -> Session {
    let session = harness.session().await;
    harness.hook(Plugin::new(Behaviour::Hang, HookPoint::ALL.iter().copied()));
    harness.script(everything);
    session
}

#[tokio::test(start_paused = true)]
async fn hooks_that_hang_do_not_hold_a_turn() {
    let limits =
        Limits { hook: Duration::from_secs(5), request: Duration::from_secs(5), ..Limits::default() };
    let mut harness = Harness::with(limits).await;
    let session = hanging(&harness).await;
    let began = tokio::time::Instant::now();
    harness.submit(&session, "x").await;
    harness.until_idle(&session).await;
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    harness.drain();
    let story = harness.story(&session.id);
    assert_eq!(story.iter().filter(|word| *word == "session.idle").count(), 1, "{story:?}");
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    assert_eq!(texts(&messages), ["x", "done"], "what was there before counts");
}

#[tokio::test(start_paused = true)]
async fn an_abort_does_not_wait_for_a_hook() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let plugin = Plugin::new(Behaviour::Hang, [HookPoint::TextComplete]);
    let heard = plugin.heard.clone();
    harness.hook(plugin);
    harness.script(|turn| say(turn, "half"));
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    while heard.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let began = tokio::time::Instant::now();
    harness.sessions.abort(&session.id).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    harness.drain();
    assert!(harness.story(&session.id).contains(&"IDLE(aborted)".to_owned()));
}
