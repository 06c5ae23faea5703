//! How Codex is started and how long it is waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::config::PermissionMode;
use protocol::request::{Action, Rule};

use crate::external::{Bounds, Patience};
use crate::native::permission::matches;
use crate::roster::Program;

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
    pub mode: PermissionMode,
    /// What decides before a person is asked.
    pub rules: Vec<Rule>,
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

impl From<Program> for Options {
    /// With the usual bounds.
    fn from(program: Program) -> Self {
        Self {
            command: program.command,
            environment: program.environment,
            hidden: program.hidden,
            mode: program.mode,
            rules: program.rules,
            idle: program.idle,
            patience: Patience::default(),
            bounds: Bounds::default(),
            farewell: FAREWELL,
            answer: ANSWER,
        }
    }
}

/// When Codex asks, and what it can do without asking. Nothing means that its own settings count; the rules
/// make them stricter, so that there is something to ask about.
pub(super) fn policy(mode: PermissionMode, rules: &[Rule]) -> (Option<&'static str>, Option<&'static str>) {
    let (mut approval, mut sandbox) = match mode {
        PermissionMode::Ask => (None, None),
        PermissionMode::AcceptEdits => (Some("on-request"), Some("workspace-write")),
        PermissionMode::Bypass => (Some("never"), Some("danger-full-access")),
        PermissionMode::Plan => (Some("on-request"), Some("read-only")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_make_codex_ask() {
        let rule = |permission: &str, action| Rule::new(permission, "*", action);
        let cases = [
            (PermissionMode::Ask, vec![], (None, None)),
            (PermissionMode::Bypass, vec![], (Some("never"), Some("danger-full-access"))),
            (
                PermissionMode::Bypass,
                vec![rule("edit", Action::Ask)],
                (Some("on-request"), Some("read-only")),
            ),
            (
                PermissionMode::AcceptEdits,
                vec![rule("bash", Action::Ask)],
                (Some("untrusted"), Some("workspace-write")),
            ),
            (PermissionMode::Ask, vec![rule("*", Action::Deny)], (Some("untrusted"), Some("read-only"))),
            (PermissionMode::Ask, vec![rule("*", Action::Ask), rule("*", Action::Allow)], (None, None)),
            (PermissionMode::Ask, vec![Rule::new("bash", "rm *", Action::Deny)], (None, None)),
        ];
        for (mode, rules, expected) in cases {
            assert_eq!(policy(mode, &rules), expected, "{mode:?} {rules:?}");
        }
    }
}
