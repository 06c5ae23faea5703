//! The approval policy and sandbox with which Codex runs a thread.

use protocol::config::PermissionMode;
use protocol::request::{Action, Rule};
use supervision::permission::matches;

/// The approval policy and the sandbox of a thread; none leaves the choice to Codex's own settings. The rules can only make
/// them stricter, so that Codex asks before each action that a rule restricts.
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
