//! Permission rules: their matching, and the defaults.

use protocol::Extra;
use protocol::request::{Action, Rule};

use super::command::HARMLESS;

/// The extension field of a rule that names the sandbox for the commands that the rule allows.
const SANDBOX: &str = "sandbox";

/// Protected files by name, for clients that list rules. `native::protected` enforces the protection. It also
/// recognises links and other spellings, and a rule for all files does not override it.
const PROTECTED: [&str; 16] = [
    "opencode.json",
    "*/opencode.json",
    "opencode.jsonc",
    "*/opencode.jsonc",
    "baton.json",
    "*/baton.json",
    "baton.jsonc",
    "*/baton.jsonc",
    ".opencode",
    ".opencode/*",
    "*/.opencode",
    "*/.opencode/*",
    ".git",
    ".git/*",
    "*/.git",
    "*/.git/*",
];

/// Returns the rules that every agent starts with; later ones win.
///
/// An agent may read and change files of the project. It must ask before it reads environment files, changes
/// protected files, or runs a command, except for a few commands that only read. Those run in a sandbox that
/// prevents everything else.
pub fn defaults() -> Vec<Rule> {
    let mut rules = vec![
        Rule::new("*", "*", Action::Allow),
        Rule::new("doom_loop", "*", Action::Ask),
        Rule::new("external_directory", "*", Action::Ask),
        Rule::new("read", "*.env", Action::Ask),
        Rule::new("read", "*.env.*", Action::Ask),
        Rule::new("read", "*.env.example", Action::Allow),
        Rule::new("bash", "*", Action::Ask),
    ];
    rules.extend(PROTECTED.map(|pattern| Rule::new("edit", pattern, Action::Ask)));
    rules.extend(HARMLESS.map(confined));
    rules
}

/// Returns a rule that allows a command if it is harmless, in a read-only sandbox.
fn confined(pattern: &str) -> Rule {
    let mut extra = Extra::new();
    extra.insert(SANDBOX.to_owned(), "read-only".into());
    Rule { extra: extra.into(), ..Rule::new("bash", pattern, Action::Allow) }
}

/// Returns true if a rule allows commands only in a sandbox.
pub(super) fn is_confined(rule: &Rule) -> bool {
    rule.action == Action::Allow && rule.extra.get().is_some_and(|extra| extra.contains_key(SANDBOX))
}

/// Returns the action of the last rule that matches, or `Ask` if none does.
pub fn evaluate<'a>(rules: impl Iterator<Item = &'a Rule>, permission: &str, pattern: &str) -> Action {
    rules
        .filter(|rule| matches(&rule.permission, permission) && matches(&rule.pattern, pattern))
        .last()
        .map_or(Action::Ask, |rule| rule.action)
}

/// Returns true if a pattern matches a whole text: `*` stands for anything, `?` for one character. `ls *` also
/// matches a bare `ls`.
pub fn matches(pattern: &str, text: &str) -> bool {
    if pattern.strip_suffix(" *").is_some_and(|bare| glob(bare, text)) {
        return true;
    }
    glob(pattern, text)
}

/// Takes the shortest match for each star and backtracks only to the newest star. That is enough, because the
/// newest star can match whatever an earlier one could give up.
fn glob(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(character) = text.get(seen) {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, seen));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == character => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((after, from)) = star else { return false };
                star = Some((after, from + 1));
                at = after;
                seen = from + 1;
            }
        }
    }
    pattern.iter().skip(at).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "a/b\nc"),
            ("ls *", "ls"),
            ("ls *", "ls -la"),
            ("*.env", "deep/.env"),
            ("a*b*c", "a-b-b-c"),
            ("a?c", "abc"),
            ("git * --output*", "git log -p --output=x"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("ls *", "lsof"),
            ("ls", "ls -la"),
            ("a?c", "ac"),
            ("*.env", ".envrc"),
            ("a*b", "abc"),
            ("", "a"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_full_of_stars_is_not_slow() {
        assert!(!matches(&"*a".repeat(40), &"a".repeat(4000).replace("aa", "ab")));
    }

    #[test]
    fn the_defaults_ask_about_commands_with_effects() {
        let rules = defaults();
        let says = |permission: &str, pattern: &str| evaluate(rules.iter(), permission, pattern);
        for command in ["ls -la", "git status", "git log --oneline", "echo hi"] {
            assert_eq!(says("bash", command), Action::Allow, "{command}");
        }
        for command in ["rm -rf x", "git push", "git branch -D main", "test -v x", "lsof", "cat .env"] {
            assert_eq!(says("bash", command), Action::Ask, "{command}");
        }
        assert_eq!(says("edit", "src/main.rs"), Action::Allow);
        assert_eq!(says("edit", ".gitignore"), Action::Allow);
        for file in [".git/config", "sub/.git", "opencode.json", "sub/baton.jsonc", ".opencode/agent/a.md"] {
            assert_eq!(says("edit", file), Action::Ask, "{file}");
        }
        assert_eq!(says("read", "config/.env.local"), Action::Ask);
        assert_eq!(says("read", ".env.example"), Action::Allow);
        assert_eq!(says("external_directory", "/etc/*"), Action::Ask);
    }

    #[test]
    fn clients_see_the_sandbox_of_a_confined_rule() {
        let rules = defaults();
        let rule = rules.iter().find(|rule| rule.pattern == "git log *").unwrap();
        let expected = serde_json::json!({
            "permission": "bash", "pattern": "git log *", "action": "allow", "sandbox": "read-only",
        });
        assert_eq!(serde_json::to_value(rule).unwrap(), expected);
        assert_eq!(rules.iter().filter(|rule| is_confined(rule)).count(), HARMLESS.len());
    }

    #[test]
    fn no_rule_means_ask() {
        assert_eq!(evaluate([].iter(), "bash", "ls"), Action::Ask);
    }
}
