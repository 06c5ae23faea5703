//! The test harness with an ACP agent whose program is a script.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::limits::Limits;
use protocol::config::PermissionMode;
use protocol::{PartBody, Session};
use supervision::permission::defaults;

use crate::acp::{Acp, Options};
use crate::external::harness::{Driven, assert_gone};
pub(super) use crate::external::harness::{SimulatedUser, lives};
use crate::external::{self, Bounds, IdleLimits, Timeouts};
use crate::roster::{About, External as _, Program};

/// The agent's name.
pub(super) const AGENT: &str = "acp:fake";

pub(super) type Harness = Driven<Acp>;

/// An agent with short timeouts for everything that a test waits for.
pub(super) fn options(command: &[String]) -> Options {
    let about = About {
        id: AGENT.to_owned(),
        name: "Fake".to_owned(),
        description: "An agent for tests".to_owned(),
        models: vec!["default".to_owned()],
        has_providers: true,
        abilities: Options::ABILITIES,
    };
    let program = Program {
        command: command.to_vec(),
        environment: BTreeMap::new(),
        hidden: Vec::new(),
        mode: PermissionMode::Ask,
        rules: defaults(),
        idle: Duration::from_mins(10),
    };
    let agent = external::Options {
        bounds: Bounds { line: 1024 * 1024, linger: Duration::from_millis(300), ..Bounds::default() },
        timeouts: Timeouts {
            start: Duration::from_secs(20),
            interrupt: Duration::from_millis(400),
            silence: Duration::from_secs(20),
            ..Timeouts::default()
        },
        keeping: IdleLimits { pause: Duration::from_millis(10), ..IdleLimits::default() },
        ..external::Options::new(about, program)
    };
    let closed = workspace::files::Closed::default();
    Options { agent, servers: BTreeMap::new(), sandbox: None, command: None, closed }
}

impl Harness {
    pub(super) async fn new(options: Options) -> Self {
        Self::bounded(options, Limits::default()).await
    }

    pub(super) async fn bounded(options: Options, limits: Limits) -> Self {
        Self::drive(Acp::new(options), limits).await
    }

    /// The server is killed and started again.
    pub(super) async fn restart(self, options: Options) -> Self {
        self.driver.close().await;
        self.drive_again(Acp::new(options)).await
    }

    /// The texts of all messages after the first.
    pub(super) async fn said(&self, session: &Session) -> String {
        let parts = self.messages(session).await.into_iter().skip(1).flat_map(|message| message.parts);
        let texts = parts.filter_map(|part| match part.body {
            PartBody::Text(text) => Some(text.text),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("|")
    }

    /// Lets an agent go on that waits to be `ready`.
    pub(super) fn go(&self) {
        std::fs::write(self.project.path().join(".go"), "").unwrap();
    }

    /// The answer to a request of the agent.
    pub(super) fn answered(&self, id: &str) -> serde_json::Value {
        let heard = self.heard();
        let answer = heard.iter().find(|message| message["id"] == id && message.get("method").is_none());
        answer.unwrap_or_else(|| panic!("{id} was not answered: {heard:#?}")).clone()
    }

    /// Fails if a process that a script has noted is left.
    pub(super) fn assert_nothing_is_left(&self) {
        assert_gone(&self.read(".pids").unwrap_or_default());
    }
}
