//! Permission rules that an external agent cannot enforce, because it does not ask before the actions that they restrict.

use protocol::config::PermissionMode;
use protocol::request::{Action, Rule};

use super::known::Kind;
use supervision::permission::matches;

/// The permissions about which Codex asks for everything or for nothing.
const ALL_OR_NOTHING: [&str; 2] = ["bash", "edit"];

/// Returns the rules that restrict actions about which the agent does not ask. An agent in the mode `bypass` asks about
/// nothing. Codex asks about single commands and files only if a rule restricts all of them.
pub fn unenforced(kind: Kind, mode: PermissionMode, rules: &[Rule]) -> Vec<&Rule> {
    let restricting = rules.iter().filter(|rule| rule.action != Action::Allow);
    match kind {
        Kind::Claude | Kind::Acp | Kind::OpenCode if mode == PermissionMode::Bypass => restricting.collect(),
        Kind::Codex => restricting.filter(|rule| escapes_codex(rule, rules)).collect(),
        Kind::Claude | Kind::Acp | Kind::OpenCode => Vec::new(),
    }
}

fn escapes_codex(rule: &Rule, rules: &[Rule]) -> bool {
    let asks_about = |permission: &str| {
        let about = |rule: &&Rule| matches(&rule.permission, permission) && rule.pattern == "*";
        rules.iter().rfind(about).is_some_and(|rule| rule.action != Action::Allow)
    };
    let mut restricted = ALL_OR_NOTHING.iter().filter(|permission| matches(&rule.permission, permission));
    rule.pattern != "*" && restricted.any(|permission| !asks_about(permission))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_about_single_commands_do_not_bind_codex() {
        let remove = Rule::new("bash", "rm *", Action::Deny);
        let rules = [Rule::new("bash", "*", Action::Allow), remove.clone()];
        assert_eq!(unenforced(Kind::Codex, PermissionMode::Ask, &rules), [&remove]);
        assert_eq!(unenforced(Kind::Codex, PermissionMode::Ask, &rules[1..]), [&remove]);
        assert!(
            unenforced(Kind::Claude, PermissionMode::Ask, &rules).is_empty(),
            "it asks about each command"
        );
        let all = [Rule::new("bash", "*", Action::Ask), remove, Rule::new("bash", "ls *", Action::Allow)];
        assert!(unenforced(Kind::Codex, PermissionMode::Ask, &all).is_empty(), "it asks about all commands");
        let other = [Rule::new("webfetch", "https://x/*", Action::Deny)];
        assert!(unenforced(Kind::Codex, PermissionMode::Ask, &other).is_empty());
    }

    #[test]
    fn an_agent_that_bypasses_permissions_enforces_no_rule() {
        let rules = [Rule::new("edit", "*", Action::Ask), Rule::new("bash", "*", Action::Allow)];
        assert_eq!(unenforced(Kind::Claude, PermissionMode::Bypass, &rules), [&rules[0]]);
        assert!(unenforced(Kind::Codex, PermissionMode::Bypass, &rules).is_empty(), "the rule makes it ask");
    }
}
