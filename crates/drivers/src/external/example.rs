//! The smallest external agent, as an example for new ones: a complete driver, and the tests of it. It does not ship.
//!
//! Its program exchanges one JSON object per line:
//!
//! | Baton writes | the program writes |
//! |---|---|
//! | `{"prompt":"…"}` begins a turn | `{"text":"…"}` is a piece of the answer |
//! | `{"answer":"ID","allowed":true}` answers a request | `{"ask":"ID","command":"…"}` asks for a permission |
//! | `{"interrupt":true}` ends the turn early | `{"done":true}` ends the turn; `"error"` says why it failed |
//!
//! The [`Driver`] does the rest: it starts, keeps and ends processes, asks the rules and the user, keeps deadlines, aborts,
//! names sessions and runs the user's commands.

use std::collections::VecDeque;

use engine::session::Turn;
use protocol::agent_event::{Answer, Ask};
use protocol::message::Finish;
use protocol::number::Number;
use protocol::request::PermissionReply;
use protocol::session::Tokens;
use protocol::{AgentEvent, Extra, MessageError, MessageWithParts, Millis, Part, TurnEnd};
use serde::Deserialize;
use serde_json::{Value, json};

use super::child::Words;
use super::{
    Agent, Broken, Child, Condition, IdleEvent, Joining, KeptProcess, Opened, Options, OutputLine, Phase,
    Process, Signal, step_finished,
};

/// A message of the program. Unknown messages are noise, which the driver counts and skips.
#[derive(Deserialize)]
#[serde(untagged)]
enum Message {
    Text { text: String },
    Ask { ask: String, command: String },
    Done { done: bool, error: Option<String> },
}

#[derive(Debug)]
struct Example {
    options: Options,
}

impl Agent for Example {
    type Process = ExampleProcess;

    // The protocol has no message for the beginning of a step.
    const OPENS_STEP: bool = true;
    const COMPACTS: bool = false;

    fn options(&self) -> &Options {
        &self.options
    }

    async fn open(&self, turn: &Turn, _: Option<&str>) -> Result<Opened<ExampleProcess>, MessageError> {
        let launch = self.options.launch(&turn.session.directory, []);
        let child = Child::start(&launch).map_err(|failure| MessageError::unknown(failure.to_string()))?;
        let process = ExampleProcess { child, queue: VecDeque::new(), texts: 0, state: State::Prompted };
        Ok(Opened { process, lost: None })
    }
}

/// The progress of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Prompted,
    Working,
    /// The user refused a request, so the program is about to end the turn.
    Refused,
}

#[derive(Debug)]
struct ExampleProcess {
    child: Child,
    /// Lines to be written.
    queue: VecDeque<Value>,
    /// The number of texts so far; each part of a message needs its own key.
    texts: usize,
    state: State,
}

impl ExampleProcess {
    fn text(&mut self, text: String) -> [AgentEvent; 3] {
        self.texts += 1;
        let key = format!("text-{}", self.texts);
        [
            AgentEvent::TextStarted { key: key.clone() },
            AgentEvent::TextDelta { key: key.clone(), delta: text },
            AgentEvent::TextEnded { key },
        ]
    }
}

impl Process for ExampleProcess {
    type Frame = OutputLine;
    /// The program's id of the request.
    type Request = String;

    async fn next(&mut self) -> Result<OutputLine, Broken> {
        let heard = self.child.exchange(&mut self.queue).await;
        heard.map_err(|failure| Broken::gone(failure.to_string()))
    }

    fn interpret(&mut self, frame: OutputLine, _: Millis) -> Vec<Signal<String>> {
        let line = match frame {
            OutputLine::Json(line) => line,
            OutputLine::Noise { text, why } => return vec![Signal::Noise(format!("{why}: {text}"))],
        };
        if self.state == State::Prompted {
            self.state = State::Working;
        }
        match serde_json::from_value(line) {
            Ok(Message::Text { text }) => {
                let events = self.text(text).map(|event| Signal::Emit(None, event));
                [Signal::Working].into_iter().chain(events).collect()
            }
            Ok(Message::Ask { ask: id, command }) => {
                let ask = Ask::Permission {
                    permission: "bash".to_owned(),
                    patterns: vec![command.clone()],
                    metadata: Extra::new(),
                    always: vec![command],
                    call: None,
                };
                vec![Signal::Working, Signal::Asked { id: id.clone(), child: None, ask, request: id }]
            }
            Ok(Message::Done { done: true, error: None }) => {
                // The program does not report its usage.
                let finished = step_finished(Finish::Stop, Tokens::default(), Number::default(), None);
                vec![Signal::Emit(None, finished), Signal::Ended(TurnEnd::Completed)]
            }
            Ok(Message::Done { error, .. }) => {
                let error = error.unwrap_or_else(|| "the program failed without a reason".to_owned());
                vec![Signal::Ended(TurnEnd::Error(MessageError::unknown(error)))]
            }
            Err(error) => vec![Signal::Noise(error.to_string())],
        }
    }

    fn prompt(&mut self, _: &Turn, prompt: &MessageWithParts) {
        let texts: Vec<&str> = prompt.parts.iter().filter_map(Part::text).collect();
        self.queue.push_back(json!({ "prompt": texts.join("\n") }));
    }

    fn take_up(&mut self, _: &Turn) -> bool {
        false
    }

    fn joining(&self) -> Joining {
        Joining::Waits
    }

    fn join(&mut self, _: &MessageWithParts) {}

    fn answer(&mut self, _: Option<&str>, request: String, answer: Answer) -> bool {
        use PermissionReply::{Always, Once};
        let allowed = matches!(answer, Answer::Once | Answer::Always | Answer::Default(Once | Always));
        self.queue.push_back(json!({ "answer": request, "allowed": allowed }));
        if !allowed {
            self.state = State::Refused;
        }
        !allowed
    }

    fn stop_child(&mut self, _: &str) {}

    fn interrupt(&mut self) -> bool {
        self.queue.push_back(json!({ "interrupt": true }));
        true
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Prompted => Phase::Starting,
            State::Working => Phase::Working,
            State::Refused => Phase::Ending,
        }
    }

    fn conclude(&mut self) -> Vec<Signal<String>> {
        vec![Signal::Ended(TurnEnd::Completed)]
    }

    fn last_words(&self) -> Words {
        self.child.words()
    }

    fn finish(&mut self) -> Condition {
        self.queue.clear();
        self.state = State::Prompted;
        Condition::Reusable
    }
}

impl KeptProcess for ExampleProcess {
    async fn rest(&mut self) -> IdleEvent {
        loop {
            if let Err(failure) = self.child.next().await {
                return IdleEvent::Ended(failure.to_string());
            }
        }
    }

    async fn stop(self) {
        self.child.stop().await;
    }
}

mod tests {
    use std::sync::Arc;

    use engine::limits::Limits;
    use engine::ports::SystemClock;
    use protocol::agent::Abilities;
    use protocol::{EndReason, EventBody, Session};

    use super::*;
    use crate::external::Driver;
    use crate::external::harness::{Fake, Harness, SimulatedUser};
    use crate::roster::{About, External as _};

    /// A session with an agent whose program is this script.
    struct Played {
        fake: Fake,
        driver: Driver<Example>,
        harness: Harness,
        session: Session,
    }

    impl Played {
        async fn new(script: &str) -> Self {
            let fake = Fake::new(script);
            let about = About {
                id: "example".into(),
                name: "The example".into(),
                description: String::new(),
                models: vec!["default".into()],
                has_providers: false,
                abilities: Abilities::LEAST,
            };
            let options = Options::new(about, fake.configured());
            let mut driver = None;
            let make = |wake| {
                let made = Driver::new(Example { options }, Arc::new(SystemClock), wake);
                driver.insert(made).clone()
            };
            let harness = Harness::bounded(Limits::default(), make).await;
            let session = harness.session().await;
            Self { fake, driver: driver.unwrap(), harness, session }
        }

        async fn turn(&mut self, user: SimulatedUser) -> EndReason {
            self.harness.turn(&self.session, "please", user).await
        }

        /// Asserts that each turn has ended once and that no process is left.
        async fn end(self, turns: usize) {
            assert_eq!(self.harness.check(&self.session.id), turns);
            self.driver.close().await;
            self.fake.assert_gone();
        }
    }

    #[tokio::test]
    async fn one_process_serves_the_turns_of_a_session() {
        let answer = r#"hear prompt; say '{"text":"Hello"}'; say '{"done":true}';"#;
        let mut played = Played::new(&format!("{answer} {answer} linger")).await;
        for _ in 0..2 {
            assert_eq!(played.turn(SimulatedUser::Agrees).await, EndReason::Completed);
        }
        assert!(played.harness.story(&played.session.id).contains("Hello"));
        assert_eq!(played.fake.processes().len(), 1);
        played.end(2).await;
    }

    #[tokio::test]
    async fn the_user_decides_about_a_command() {
        for (user, allowed, end) in [
            (SimulatedUser::Agrees, true, EndReason::Completed),
            (SimulatedUser::Refuses, false, EndReason::Blocked),
        ] {
            let asks = r#"hear prompt; say '{"ask":"a","command":"make"}'"#;
            let mut played =
                Played::new(&format!(r#"{asks}; hear '"allowed":{allowed}'; say '{{"done":true}}'; linger"#))
                    .await;
            assert_eq!(played.turn(user).await, end);
            played.end(1).await;
        }
    }

    #[tokio::test]
    async fn an_abort_interrupts_the_program() {
        let mut played =
            Played::new(r#"hear prompt; say '{"text":"One"}'; hear interrupt; say '{"done":true}'; linger"#)
                .await;
        played.harness.submit(&played.session, "please").await;
        played.harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
        played.harness.sessions.abort(&played.session.id).await.unwrap();
        assert_eq!(
            played.harness.until_idle(&played.session, SimulatedUser::Agrees).await,
            EndReason::Aborted
        );
        played.end(1).await;
    }

    #[tokio::test]
    async fn the_error_describes_the_failure_of_the_program() {
        for (script, error) in [
            (
                r#"hear prompt; say '{"text":"One"}'; echo no key >&2; exit 3"#,
                "exited with code 3; it said: no key",
            ),
            (r#"hear prompt; say '{"done":false,"error":"no credit"}'; linger"#, "no credit"),
            (r#"hear prompt; say nonsense; say '{"done":false}'; linger"#, "without a reason"),
        ] {
            let mut played = Played::new(script).await;
            assert_eq!(played.turn(SimulatedUser::Agrees).await, EndReason::Error, "{script}");
            let said = played.harness.error(&played.session).await;
            assert!(said.contains(error), "{said}");
            played.end(1).await;
        }
    }
}
