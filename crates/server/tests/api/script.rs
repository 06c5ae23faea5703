//! A runner that does what the single word of the prompt says.

use std::sync::Arc;

use engine::{
    ports::{ChildSpec, Resolved, Runner, Runners, Unresolved, Wanted},
    session::Turn,
};
use futures::{FutureExt, future::BoxFuture};
use protocol::{
    AgentEvent, Extra, MessageError, Session, Todo, TurnEnd,
    agent_event::{Answer, Ask},
    message::{Finish, ModelRef},
    number::Number,
    prompt::{CommandInput, PromptInput},
    request::{Question, QuestionOption},
    session::Tokens,
};

/// Knows the agents `build` and `plan` and the model `demo/demo`.
pub(crate) struct ScriptedAgents;

impl Runners for ScriptedAgents {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        async move {
            let agent = wanted.agent.unwrap_or("build").to_owned();
            if !["build", "plan"].contains(&agent.as_str()) {
                return Err(Unresolved::Agent { name: agent, known: "build, plan".into() });
            }
            let model = wanted.model.cloned().unwrap_or_else(|| ModelRef::new("demo", "demo"));
            if (model.provider_id.as_str(), model.model_id.as_str()) != ("demo", "demo") {
                let name = format!("{}/{}", model.provider_id, model.model_id);
                return Err(Unresolved::Model {
                    name,
                    reason: "it is unknown".into(),
                    known: "demo/demo".into(),
                });
            }
            Ok(Resolved::new(agent, model, Arc::new(Player)))
        }
        .boxed()
    }

    /// `hello`, `init` and `continue` prompt with their arguments, `stop` with nothing.
    fn command<'a>(
        &'a self,
        _: &'a Session,
        input: &'a CommandInput,
    ) -> BoxFuture<'a, Result<PromptInput, Unresolved>> {
        async move {
            const KNOWN: [&str; 4] = ["continue", "hello", "init", "stop"];
            if !KNOWN.contains(&input.command.as_str()) {
                let (name, known) = (input.command.clone(), KNOWN.join(", "));
                return Err(Unresolved::Command { name, known });
            }
            let mut prompt = PromptInput::text(&input.arguments);
            prompt.message_id.clone_from(&input.message_id);
            let model = input.model.as_deref().and_then(|model| model.split_once('/'));
            prompt.model = model.map(|(provider, model)| ModelRef::new(provider, model));
            Ok(prompt)
        }
        .boxed()
    }
}

struct Player;

impl Runner for Player {
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd> {
        play(turn).boxed()
    }
}

async fn play(turn: Turn) -> TurnEnd {
    let history = turn.history().await.unwrap();
    let prompt = history.iter().find(|message| *message.info.id() == turn.prompt).unwrap();
    let text = prompt.parts.iter().find_map(|part| part.text()).unwrap_or_default().to_owned();
    turn.emit(AgentEvent::step_started()).await;
    match text.as_str() {
        "wait" => {
            say(&turn, "Waiting").await;
            turn.cancelled().await;
            return TurnEnd::Cancelled;
        }
        "fail" => return TurnEnd::Error(MessageError::unknown("as the script says")),
        "permission" => {
            let answer = turn.ask(permission()).await;
            say(&turn, &format!("{answer:?}")).await;
        }
        "question" => {
            let answer = turn.ask(question()).await;
            say(&turn, &format!("{answer:?}")).await;
        }
        "todo" => {
            let todos = vec![todo("Write it", "completed"), todo("Test it", "pending")];
            turn.emit(AgentEvent::Todos(todos)).await;
        }
        "plan" => {
            say(&turn, "Planned").await;
            turn.emit(AgentEvent::Todos(vec![todo("Work", "pending")])).await;
        }
        "child" => {
            let spec = ChildSpec { title: "A child".into(), prompt: "hello".into(), ..ChildSpec::default() };
            turn.start_child(spec).await.unwrap().wait().await.unwrap();
        }
        _ => say(&turn, "Hello to you").await,
    }
    finish(&turn).await;
    TurnEnd::Completed
}

fn todo(content: &str, status: &str) -> Todo {
    Todo { content: content.into(), status: status.into(), priority: "high".into(), extra: Extra::new() }
}

async fn say(turn: &Turn, text: &str) {
    turn.emit(AgentEvent::TextStarted { key: "1".into() }).await;
    turn.emit(AgentEvent::TextDelta { key: "1".into(), delta: text.into() }).await;
    if text != "Waiting" {
        turn.emit(AgentEvent::TextEnded { key: "1".into() }).await;
    }
}

async fn finish(turn: &Turn) {
    let tokens = Tokens { input: 10, output: 5, ..Tokens::default() };
    turn.emit(AgentEvent::StepFinished {
        reason: Finish::Stop,
        tokens,
        cost: Number(0.5),
        snapshot: None,
        patch: None,
        error: None,
    })
    .await;
}

fn permission() -> Ask {
    Ask::Permission {
        permission: "bash".into(),
        patterns: vec!["touch x".into()],
        metadata: Extra::new(),
        always: vec!["touch *".into()],
        call: Some("call_1".into()),
    }
}

fn question() -> Ask {
    let option = |label: &str| QuestionOption {
        label: label.into(),
        description: format!("{label} it is"),
        extra: protocol::Rest::NONE,
    };
    let question = Question {
        question: "Tea or coffee?".into(),
        header: "Drink".into(),
        options: vec![option("Tea"), option("Coffee")],
        multiple: None,
        custom: None,
        extra: Extra::new(),
    };
    Ask::Question { questions: vec![question], call: None }
}

/// The runner's text after this answer to a request.
pub(crate) fn echo(answer: &Answer) -> String {
    format!("{answer:?}")
}
