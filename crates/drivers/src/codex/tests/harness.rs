//! The test harness with a Codex whose program is a script.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::limits::Limits;
use protocol::config::PermissionMode;

use crate::codex::{ABILITIES, Codex, NAME};
pub(super) use crate::external::harness::SimulatedUser;
use crate::external::harness::{Driven, assert_gone};
use crate::external::{Bounds, Options, Timeouts};
use crate::roster::{About, Program};

pub(super) type Harness = Driven<Codex>;

/// Codex with short timeouts.
pub(super) fn options(script: &str) -> Options {
    let about = About {
        id: NAME.into(),
        name: "Codex".into(),
        description: String::new(),
        models: Vec::new(),
        has_providers: false,
        abilities: ABILITIES,
    };
    let program = Program {
        command: vec!["/bin/bash".into(), "-c".into(), script.into()],
        environment: BTreeMap::new(),
        hidden: Vec::new(),
        rules: Vec::new(),
        mode: PermissionMode::Ask,
        idle: Duration::from_mins(10),
    };
    Options {
        timeouts: Timeouts {
            start: Duration::from_secs(2),
            answer: Duration::from_secs(2),
            interrupt: Duration::from_millis(400),
            settle: Duration::from_millis(300),
            silence: Duration::from_secs(2),
            ..Timeouts::default()
        },
        bounds: Bounds {
            line: 1024 * 1024,
            linger: Duration::from_millis(300),
            write: Duration::from_secs(1),
            ..Bounds::default()
        },
        ..Options::new(about, program)
    }
}

impl Harness {
    pub(super) async fn new(options: Options) -> Self {
        Self::bounded(options, Limits::default()).await
    }

    pub(super) async fn bounded(options: Options, limits: Limits) -> Self {
        Self::drive(Codex::new(options), limits).await
    }

    /// The server is killed and started again.
    pub(super) async fn restart(self, options: Options) -> Self {
        self.drive_again(Codex::new(options)).await
    }

    /// Everything that went wrong, in words.
    pub(super) fn errors(&self) -> String {
        (**self).errors().join("; ")
    }

    /// The parameters of all requests with this method.
    pub(super) fn asked(&self, method: &str) -> Vec<serde_json::Value> {
        let asked = self.heard().into_iter().filter(|message| message["method"] == method);
        asked.map(|message| message["params"].clone()).collect()
    }

    /// Fails if a process that a script has noted is left, or none was noted.
    pub(super) fn assert_nothing_is_left(&self) {
        let ids = self.read(".processes").unwrap();
        assert!(!ids.trim().is_empty(), "the script noted no process");
        assert_gone(&ids);
    }
}
