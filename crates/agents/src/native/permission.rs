//! Who may do what: rules, what people allowed for good, and asking when neither answers.

mod command;
mod rules;

use std::borrow::Cow;

use engine::session::Turn;
use protocol::Extra;
use protocol::agent_event::{Answer, Ask};
use protocol::request::{Action, PermissionReply, Rule};

pub(super) use command::{Command, Place, commands};
pub use rules::{defaults, evaluate, matches};

use super::protected::Guard;
use super::tools::Failure;

/// What a tool wants to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wish {
    /// Which permission it needs.
    pub(crate) permission: Cow<'static, str>,
    /// What it needs it for. All of it has to be allowed.
    pub(crate) patterns: Vec<Pattern>,
    /// What a reply of `always` allows from then on.
    pub(crate) always: Vec<String>,
    /// For showing it well.
    pub(crate) metadata: Extra,
}

impl Wish {
    /// One that nobody is shown.
    pub(crate) fn plain(permission: &str, patterns: &[String]) -> Self {
        Self {
            permission: permission.to_owned().into(),
            patterns: patterns.iter().map(Pattern::plain).collect(),
            always: Vec::new(),
            metadata: Extra::new(),
        }
    }
}

/// One thing a permission is needed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    /// Whether the text may mean more than it shows. An allowing rule with a wildcard is then not enough,
    /// unless it allows everything.
    pub(crate) opaque: bool,
    /// Set for a protected file. A rule that allows edits in general is then not enough.
    pub(crate) guard: Option<Guard>,
}

impl Pattern {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), opaque: false, guard: None }
    }

    /// A command line, which is opaque if its text may mean more than it shows.
    pub(crate) fn command(text: impl Into<String>, opaque: bool) -> Self {
        Self { opaque, ..Self::plain(text) }
    }

    /// Whether a rule that allows it is specific enough.
    fn is_allowed_by(&self, rule: &Rule) -> bool {
        let opaque = self.opaque && rule.pattern != "*" && rule.pattern != self.text;
        let guarded = self.guard.as_ref().is_some_and(|guard| !guard.is_named_by(&rule.pattern));
        !opaque && !guarded
    }

    /// The action for it. Of the rules that match, the last one wins; a rule that allows and is not specific enough
    /// is passed over, except that it turns the denial of a protected file into a question.
    fn evaluate<'r>(&self, rules: impl Iterator<Item = &'r Rule>, permission: &str) -> Action {
        let mut action = Action::Ask;
        for rule in rules {
            if !matches(&rule.permission, permission) || !matches(&rule.pattern, &self.text) {
                continue;
            }
            if rule.action != Action::Allow || self.is_allowed_by(rule) {
                action = rule.action;
            } else if self.guard.is_some() && action == Action::Deny {
                action = Action::Ask;
            }
        }
        action
    }
}

/// What the rules say.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Allowed,
    Denied(Vec<Rule>),
    Ask,
}

/// The rules of one step.
#[derive(Debug, Clone)]
pub(crate) struct Permissions {
    rules: Vec<Rule>,
    /// What people have allowed for good; it comes after all other rules.
    approved: Vec<Rule>,
}

impl Permissions {
    /// Later rules win.
    pub(crate) fn new(rules: Vec<Rule>, approved: Vec<Rule>) -> Self {
        Self { rules, approved }
    }

    /// Without the rules that allow whatever nobody has thought of.
    pub(crate) fn thought_of(mut self) -> Self {
        self.rules.retain(|rule| rule.permission != "*" || rule.action != Action::Allow);
        self
    }

    /// The same rules, with what people have allowed for good by now.
    async fn by_now(&self, turn: &Turn) -> Self {
        let approved = turn.approved().await.unwrap_or_else(|error| {
            tracing::warn!(session = %turn.session.id, %error, "what is allowed for good could not be read");
            Vec::new()
        });
        Self { rules: self.rules.clone(), approved }
    }

    /// All rules in order: those that can be overridden, approvals, and final ones.
    fn all(&self) -> impl Iterator<Item = &Rule> {
        let (last, first): (Vec<&Rule>, Vec<&Rule>) = self.rules.iter().partition(|rule| rule.is_final);
        first.into_iter().chain(&self.approved).chain(last)
    }

    /// Whether a final rule decides about a wish, so that no approval changes anything.
    pub(crate) fn is_final(&self, wish: &Wish) -> bool {
        let decides = |rule: &Rule, pattern: &Pattern| {
            rule.is_final
                && matches(&rule.permission, &wish.permission)
                && matches(&rule.pattern, &pattern.text)
        };
        self.rules.iter().any(|rule| wish.patterns.iter().any(|pattern| decides(rule, pattern)))
    }

    /// Allows what a person has asked for in so many words, where the rules say to ask. What they deny stays denied.
    pub(super) fn concede(&mut self, permission: &str, pattern: &str) {
        if evaluate(self.all(), permission, pattern) == Action::Ask {
            self.rules.push(Rule::new(permission, pattern, Action::Allow));
        }
    }

    /// Whether a tool with this permission can never be used, so that the model need not see it.
    pub(super) fn hides(&self, permission: &str) -> bool {
        let (last, first): (Vec<&Rule>, Vec<&Rule>) = self.rules.iter().partition(|rule| rule.is_final);
        first
            .into_iter()
            .chain(last)
            .rfind(|rule| matches(&rule.permission, permission))
            .is_some_and(|rule| rule.pattern == "*" && rule.action == Action::Deny)
    }

    /// The rules that say something about a permission, for somebody who outlives this.
    pub(super) fn about(&self, permission: &str) -> Vec<Rule> {
        self.all().filter(|rule| matches(&rule.permission, permission)).cloned().collect()
    }

    /// What the rules say, without asking anybody.
    pub(crate) fn judge(&self, wish: &Wish) -> Verdict {
        let mut ask = false;
        for pattern in &wish.patterns {
            match pattern.evaluate(self.all(), &wish.permission) {
                Action::Allow => {}
                Action::Ask => ask = true,
                Action::Deny => return Verdict::Denied(self.about(&wish.permission)),
            }
        }
        if ask { Verdict::Ask } else { Verdict::Allowed }
    }

    /// Gets a permission or a reason why not. Waits for a person if the rules say so.
    pub(crate) async fn get(&self, turn: &Turn, wish: Wish, call: Option<&str>) -> Result<(), Failure> {
        let now = self.by_now(turn).await;
        match now.judge(&wish) {
            Verdict::Allowed => Ok(()),
            Verdict::Denied(rules) => Err(Failure::Error(denied(&rules))),
            Verdict::Ask => now.ask(turn, vec![wish], call).await,
        }
    }

    /// Gets two permissions. A person who is asked about the first one sees the second one, too, and is not asked
    /// twice.
    pub(super) async fn get_both(
        &self,
        turn: &Turn,
        first: Wish,
        second: Wish,
        call: Option<&str>,
    ) -> Result<(), Failure> {
        let now = self.by_now(turn).await;
        if now.judge(&first) == Verdict::Ask && now.judge(&second) == Verdict::Ask {
            return now.ask(turn, vec![first, second], call).await;
        }
        self.get(turn, second, call).await?;
        self.get(turn, first, call).await
    }

    /// Asks a person about the first wish, who thereby allows all of them.
    async fn ask(&self, turn: &Turn, wishes: Vec<Wish>, call: Option<&str>) -> Result<(), Failure> {
        let Some(mut shown) = wishes.first().cloned() else { return Ok(()) };
        if self.is_final(&shown) {
            shown.always.clear();
        }
        let ask = Ask::Permission {
            permission: shown.permission.into_owned(),
            patterns: shown.patterns.into_iter().map(|pattern| pattern.text).collect(),
            metadata: shown.metadata,
            always: shown.always,
            call: call.map(str::to_owned),
        };
        let rules = self.rules.clone();
        let enough = move |approved: &[Rule]| {
            let then = Self::new(rules.clone(), approved.to_vec());
            wishes.iter().all(|wish| then.judge(wish) == Verdict::Allowed)
        };
        match turn.ask_unless(ask, enough).await {
            Answer::Once
            | Answer::Always
            | Answer::Default(PermissionReply::Once | PermissionReply::Always) => Ok(()),
            Answer::Rejected { message: Some(message) } => {
                Err(Failure::Error(format!("{REJECTED} {FEEDBACK} {message}")))
            }
            Answer::Default(PermissionReply::Reject) => Err(Failure::Error(UNANSWERED.to_owned())),
            Answer::Rejected { message: None } | Answer::Answers(_) => {
                Err(Failure::Refused(format!("{REJECTED}.")))
            }
            Answer::Withdrawn => Err(Failure::Refused("Nobody answered the permission request.".to_owned())),
        }
    }
}

const UNANSWERED: &str = "Nobody answered the permission request in time, so it was rejected. Go on without it, or say what is missing.";
const REJECTED: &str = "The user rejected permission to use this specific tool call";
const FEEDBACK: &str = "with the following feedback:";

/// What is said when rules say no.
pub(crate) fn denied(rules: &[Rule]) -> String {
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
            permission: "bash".into(),
            patterns: patterns.iter().map(|(text, opaque)| Pattern::command(*text, *opaque)).collect(),
            always: Vec::new(),
            metadata: Extra::new(),
        }
    }

    fn judge(extra: &[(&str, &str, Action)], patterns: &[(&str, bool)]) -> Verdict {
        let mut rules = defaults();
        rules.extend(
            extra.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action)),
        );
        Permissions::new(rules, Vec::new()).judge(&wish(patterns))
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
    fn what_was_allowed_for_good_comes_last() {
        let rules = vec![Rule::new("bash", "*", Action::Ask)];
        let approved = vec![Rule::new("bash", "make *", Action::Allow)];
        let permissions = Permissions::new(rules, approved);
        assert_eq!(permissions.judge(&wish(&[("make test", false)])), Verdict::Allowed);
        assert_eq!(permissions.judge(&wish(&[("make test", false), ("rm x", false)])), Verdict::Ask);
    }

    #[test]
    fn a_tool_that_can_never_be_used_is_hidden() {
        let mut rules = defaults();
        rules.push(Rule::new("edit", "*", Action::Deny));
        let permissions = Permissions::new(rules.clone(), Vec::new());
        assert!(permissions.hides("edit") && !permissions.hides("read"));
        rules.push(Rule::new("edit", "*.md", Action::Allow));
        assert!(!Permissions::new(rules, Vec::new()).hides("edit"));
    }

    /// The verdict about a change of `.opencode/agent/a.md` with these rules after the defaults.
    fn judge_protected(rules: &[(&str, Action)], approved: &[&str]) -> Verdict {
        let rule = |(pattern, action): &(&str, Action)| Rule::new("edit", *pattern, *action);
        let rules = defaults().into_iter().chain(rules.iter().map(rule)).collect();
        let approved = approved.iter().map(|pattern| rule(&(pattern, Action::Allow))).collect();
        let guard = Some(Guard::Named([".opencode".to_owned()].into()));
        let pattern = Pattern { guard, ..Pattern::plain(".opencode/agent/a.md") };
        let wish = Wish { patterns: vec![pattern], ..Wish::plain("edit", &[]) };
        Permissions::new(rules, approved).judge(&wish)
    }

    #[test]
    fn a_protected_file_is_asked_about_unless_a_rule_names_it() {
        use Action::{Allow, Ask, Deny};
        assert_eq!(judge_protected(&[], &[]), Verdict::Ask);
        assert_eq!(judge_protected(&[("*", Allow)], &["*"]), Verdict::Ask);
        assert_eq!(judge_protected(&[("*.md", Allow)], &[]), Verdict::Ask);
        assert_eq!(judge_protected(&[(".opencode/*", Allow)], &[]), Verdict::Allowed);
        assert_eq!(judge_protected(&[(".opencode/*", Allow), ("*", Allow)], &[]), Verdict::Allowed);
        assert_eq!(judge_protected(&[(".opencode/*", Allow), ("*", Ask)], &[]), Verdict::Ask);
        assert_eq!(judge_protected(&[("*", Allow)], &[".opencode/agent/a.md"]), Verdict::Allowed);
        assert_eq!(judge_protected(&[("*", Deny), ("*", Allow)], &[]), Verdict::Ask);
        assert!(matches!(judge_protected(&[("*", Allow), ("*", Deny)], &[]), Verdict::Denied(_)));
        assert!(matches!(judge_protected(&[("*.md", Deny)], &["*"]), Verdict::Ask), "not denied any more");
    }

    #[test]
    fn a_final_rule_wins_over_later_rules_and_approvals() {
        let asks = Rule::new("bash", "git push *", Action::Ask).into_final();
        let denies = Rule::new("webfetch", "*", Action::Deny).into_final();
        let project = [Rule::new("*", "*", Action::Allow), Rule::new("bash", "git push *", Action::Allow)];
        let rules = [asks, denies].into_iter().chain(project).collect();
        let approved =
            vec![Rule::new("bash", "git push *", Action::Allow), Rule::new("webfetch", "*", Action::Allow)];
        let mut permissions = Permissions::new(rules, approved);
        assert_eq!(permissions.judge(&wish(&[("git push origin", false)])), Verdict::Ask);
        assert_eq!(permissions.judge(&wish(&[("git pull", false)])), Verdict::Allowed);
        assert!(permissions.is_final(&wish(&[("git push origin", false)])));
        assert!(!permissions.is_final(&wish(&[("git pull", false)])));
        assert!(permissions.hides("webfetch"), "a later rule and an approval do not bring it back");
        permissions.concede("webfetch", "http://a");
        assert!(matches!(
            permissions.judge(&Wish::plain("webfetch", &["http://a".to_owned()])),
            Verdict::Denied(_)
        ));
    }
}
