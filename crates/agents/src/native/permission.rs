//! Who may do what: rules, what people allowed for good, and asking when neither answers.

mod approvals;
mod command;
mod rules;

use engine::session::Turn;
use protocol::Extra;
use protocol::agent_event::{Answer, Ask};
use protocol::request::{Action, Rule};

pub use approvals::Approvals;
pub(super) use command::{Command, Place, commands};
pub use rules::{defaults, evaluate, matches};

use super::tools::Failure;

/// What a tool wants to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wish {
    /// Which permission it needs.
    pub(super) permission: &'static str,
    /// What it needs it for. All of it has to be allowed.
    pub(super) patterns: Vec<Pattern>,
    /// What a reply of `always` allows from then on.
    pub(super) always: Vec<String>,
    /// For showing it well.
    pub(super) metadata: Extra,
}

/// One thing a permission is needed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) text: String,
    /// Whether the text may mean more than it shows. An allowing rule with a wildcard is then not enough,
    /// unless it allows everything.
    pub(super) opaque: bool,
}

impl Pattern {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), opaque: false }
    }
}

/// What the rules say.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Allowed,
    Denied(Vec<Rule>),
    Ask,
}

/// The rules of one turn.
pub(super) struct Permissions<'a> {
    rules: Vec<Rule>,
    approvals: &'a Approvals,
    directory: String,
}

impl<'a> Permissions<'a> {
    /// Later rules win.
    pub(super) fn new(rules: Vec<Rule>, approvals: &'a Approvals, directory: &str) -> Self {
        Self { rules, approvals, directory: directory.to_owned() }
    }

    /// Allows what a person has asked for in so many words, where the rules say to ask. What they deny stays denied.
    pub(super) fn concede(&mut self, permission: &str, pattern: &str) {
        let approved = self.approvals.of(&self.directory);
        if evaluate(self.rules.iter().chain(&approved), permission, pattern) == Action::Ask {
            self.rules.push(Rule::new(permission, pattern, Action::Allow));
        }
    }

    /// Whether a tool with this permission can never be used, so that the model need not see it.
    pub(super) fn hides(&self, permission: &str) -> bool {
        self.rules
            .iter()
            .rfind(|rule| matches(&rule.permission, permission))
            .is_some_and(|rule| rule.pattern == "*" && rule.action == Action::Deny)
    }

    /// The rules that say something about a permission, for somebody who outlives this.
    pub(super) fn about(&self, permission: &str) -> Vec<Rule> {
        let approved = self.approvals.of(&self.directory);
        let rules = self.rules.iter().chain(&approved);
        rules.filter(|rule| matches(&rule.permission, permission)).cloned().collect()
    }

    /// What the rules say, without asking anybody.
    pub(super) fn judge(&self, wish: &Wish) -> Verdict {
        let approved = self.approvals.of(&self.directory);
        let rules = || self.rules.iter().chain(&approved);
        let mut ask = false;
        for pattern in &wish.patterns {
            let counts = |rule: &&Rule| {
                !pattern.opaque
                    || rule.action != Action::Allow
                    || rule.pattern == "*"
                    || rule.pattern == pattern.text
            };
            match evaluate(rules().filter(counts), wish.permission, &pattern.text) {
                Action::Allow => {}
                Action::Ask => ask = true,
                Action::Deny => {
                    let relevant = rules().filter(|rule| matches(&rule.permission, wish.permission));
                    return Verdict::Denied(relevant.cloned().collect());
                }
            }
        }
        if ask { Verdict::Ask } else { Verdict::Allowed }
    }

    /// Gets a permission or a reason why not. Waits for a person if the rules say so.
    pub(super) async fn get(&self, turn: &Turn, wish: Wish, call: Option<&str>) -> Result<(), Failure> {
        match self.judge(&wish) {
            Verdict::Allowed => Ok(()),
            Verdict::Denied(rules) => Err(Failure::Error(denied(&rules))),
            Verdict::Ask => self.ask(turn, wish, call).await,
        }
    }

    async fn ask(&self, turn: &Turn, wish: Wish, call: Option<&str>) -> Result<(), Failure> {
        let answer = turn
            .ask(Ask::Permission {
                permission: wish.permission.to_owned(),
                patterns: wish.patterns.into_iter().map(|pattern| pattern.text).collect(),
                metadata: wish.metadata,
                always: wish.always.clone(),
                call: call.map(str::to_owned),
            })
            .await;
        match answer {
            Answer::Once => Ok(()),
            Answer::Always => {
                let rules =
                    wish.always.into_iter().map(|text| Rule::new(wish.permission, text, Action::Allow));
                self.approvals.add(&self.directory, rules);
                Ok(())
            }
            Answer::Rejected { message: Some(message) } => {
                Err(Failure::Error(format!("{REJECTED} {FEEDBACK} {message}")))
            }
            Answer::Rejected { message: None } | Answer::Answers(_) => {
                Err(Failure::Refused(format!("{REJECTED}.")))
            }
            Answer::Withdrawn => Err(Failure::Refused("Nobody answered the permission request.".to_owned())),
        }
    }
}

const REJECTED: &str = "The user rejected permission to use this specific tool call";
const FEEDBACK: &str = "with the following feedback:";

fn denied(rules: &[Rule]) -> String {
    let rules = serde_json::to_string(rules).unwrap_or_default();
    format!(
        "The user has specified a rule which prevents you from using this specific tool call. \
         Here are some of the relevant rules {rules}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(patterns: &[(&str, bool)]) -> Wish {
        Wish {
            permission: "bash",
            patterns: patterns
                .iter()
                .map(|(text, opaque)| Pattern { text: (*text).to_owned(), opaque: *opaque })
                .collect(),
            always: Vec::new(),
            metadata: Extra::new(),
        }
    }

    fn judge(extra: &[(&str, &str, Action)], patterns: &[(&str, bool)]) -> Verdict {
        let mut rules = defaults();
        rules.extend(
            extra.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action)),
        );
        Permissions::new(rules, &Approvals::default(), "/project").judge(&wish(patterns))
    }

    #[test]
    fn everything_has_to_be_allowed() {
        assert_eq!(judge(&[], &[("ls", false), ("echo hi", false)]), Verdict::Allowed);
        assert_eq!(judge(&[], &[("ls", false), ("rm x", false)]), Verdict::Ask);
        let denied = judge(&[("bash", "rm *", Action::Deny)], &[("make", false), ("rm x", false)]);
        assert!(matches!(denied, Verdict::Denied(rules) if rules.iter().any(|rule| rule.pattern == "rm *")));
    }

    #[test]
    fn an_opaque_command_needs_more_than_a_wildcard() {
        assert_eq!(judge(&[], &[("echo $(rm x)", true)]), Verdict::Ask);
        assert_eq!(judge(&[("bash", "echo *", Action::Allow)], &[("echo $(rm x)", true)]), Verdict::Ask);
        assert_eq!(
            judge(&[("bash", "echo $(rm x)", Action::Allow)], &[("echo $(rm x)", true)]),
            Verdict::Allowed
        );
        assert_eq!(judge(&[("bash", "*", Action::Allow)], &[("echo $(rm x)", true)]), Verdict::Allowed);
        assert!(matches!(judge(&[("bash", "rm *", Action::Deny)], &[("rm $x", true)]), Verdict::Denied(_)));
    }

    #[test]
    fn what_was_allowed_for_good_is_allowed_in_its_directory() {
        let approvals = Approvals::default();
        approvals.add("/project", [Rule::new("bash", "make *", Action::Allow)]);
        let here = Permissions::new(defaults(), &approvals, "/project");
        let there = Permissions::new(defaults(), &approvals, "/elsewhere");
        assert_eq!(here.judge(&wish(&[("make test", false)])), Verdict::Allowed);
        assert_eq!(there.judge(&wish(&[("make test", false)])), Verdict::Ask);
    }

    #[test]
    fn a_tool_that_can_never_be_used_is_hidden() {
        let approvals = Approvals::default();
        let mut rules = defaults();
        rules.push(Rule::new("edit", "*", Action::Deny));
        let permissions = Permissions::new(rules.clone(), &approvals, "/");
        assert!(permissions.hides("edit") && !permissions.hides("read"));
        rules.push(Rule::new("edit", "*.md", Action::Allow));
        assert!(!Permissions::new(rules, &approvals, "/").hides("edit"));
    }
}
