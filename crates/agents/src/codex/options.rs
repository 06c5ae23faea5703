//! How Codex is started and how long it is waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::request::{Action, Rule};

use crate::external::{Bounds, Patience};
use crate::native::permission::matches;

/// How long Codex may take to end a turn after it has said something that comes right before the end.
pub const FAREWELL: Duration = Duration::from_secs(5);

/// How long Codex may take to answer something that takes no thought.
pub const ANSWER: Duration = Duration::from_secs(30);

/// How Codex is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program and arguments that come before `app-server`.
    pub command: Vec<String>,
    /// Variables it gets.
    pub environment: BTreeMap<String, String>,
    /// Variables it does not inherit.
    pub hidden: Vec<String>,
    /// What it does without asking.
    pub mode: Mode,
    /// How long a process that has nothing to do is kept.
    pub idle: Duration,
    /// How long it is waited for.
    pub patience: Patience,
    /// How much of it is put up with.
    pub bounds: Bounds,
    /// See [`FAREWELL`].
    pub farewell: Duration,
    /// See [`ANSWER`].
    pub answer: Duration,
}

impl Options {
    /// The program of this name, with the usual bounds.
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            environment: BTreeMap::new(),
            hidden: Vec::new(),
            mode: Mode::default(),
            idle: Duration::from_mins(10),
            patience: Patience::default(),
            bounds: Bounds::default(),
            farewell: FAREWELL,
            answer: ANSWER,
        }
    }
}

/// What Codex does without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// What its own settings allow.
    #[default]
    Ask,
    /// Changes to files of the project, too.
    AcceptEdits,
    /// Everything: nobody is asked anything.
    Bypass,
    /// Nothing that changes anything.
    Plan,
}

impl Mode {
    /// When Codex asks, and what it can do without asking. Nothing means that its own settings count; the rules of a
    /// session make them stricter, so that there is something to ask about.
    pub(super) fn policy(self, rules: &[Rule]) -> (Option<&'static str>, Option<&'static str>) {
        let (mut approval, mut sandbox) = match self {
            Self::Ask => (None, None),
            Self::AcceptEdits => (Some("on-request"), Some("workspace-write")),
            Self::Bypass => (Some("never"), Some("danger-full-access")),
            Self::Plan => (Some("on-request"), Some("read-only")),
        };
        let restricts = |permission: &str| {
            let about = |rule: &&Rule| matches(&rule.permission, permission) && rule.pattern == "*";
            rules.iter().rfind(about).is_some_and(|rule| rule.action != Action::Allow)
        };
        if restricts("edit") {
            sandbox = Some("read-only");
            approval = approval.filter(|it| *it != "never").or(Some("on-request"));
        }
        if restricts("bash") {
            approval = Some("untrusted");
        }
        (approval, sandbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_a_session_make_codex_ask() {
        let rule = |permission: &str, action| Rule::new(permission, "*", action);
        let cases = [
            (Mode::Ask, vec![], (None, None)),
            (Mode::Bypass, vec![], (Some("never"), Some("danger-full-access"))),
            (Mode::Bypass, vec![rule("edit", Action::Ask)], (Some("on-request"), Some("read-only"))),
            (
                Mode::AcceptEdits,
                vec![rule("bash", Action::Ask)],
                (Some("untrusted"), Some("workspace-write")),
            ),
            (Mode::Ask, vec![rule("*", Action::Deny)], (Some("untrusted"), Some("read-only"))),
            (Mode::Ask, vec![rule("*", Action::Ask), rule("*", Action::Allow)], (None, None)),
            (Mode::Ask, vec![Rule::new("bash", "rm *", Action::Deny)], (None, None)),
        ];
        for (mode, rules, expected) in cases {
            assert_eq!(mode.policy(&rules), expected, "{mode:?} {rules:?}");
        }
    }
}
