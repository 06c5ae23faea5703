//! Permissions: rules, approvals of the user, and requests when neither decides.

mod command;
mod rules;

use std::borrow::Cow;

use engine::session::Turn;
use protocol::Extra;
use protocol::agent_event::{Answer, Ask};
use protocol::request::{Action, PermissionReply, Rule};

pub(crate) use command::{Command, PathArgument, commands};
use command::{Harmless, Source};
pub use rules::{defaults, evaluate, matches};

use super::ToolFailure;
use super::protected::Protection;

/// A permission that a tool needs.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionCheck {
    /// The name of the permission.
    pub permission: Cow<'static, str>,
    /// The subjects, such as files or commands. All of them must be allowed.
    pub patterns: Vec<Pattern>,
    /// The patterns that a reply of `always` allows from then on.
    pub always: Vec<String>,
    /// Details for displaying the request.
    pub metadata: Extra,
}

impl PermissionCheck {
    /// A permission without details for display.
    pub fn plain(permission: &str, patterns: &[String]) -> Self {
        Self {
            permission: permission.to_owned().into(),
            patterns: patterns.iter().map(Pattern::plain).collect(),
            always: Vec::new(),
            metadata: Extra::new(),
        }
    }
}

/// One subject of a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    pub text: String,
    /// The parsed command if the text is a command line. Rules then compare its words.
    command: Option<Box<Command>>,
    /// Set for a protected file. A rule that allows edits in general is then not enough.
    pub guard: Option<Protection>,
}

impl Pattern {
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), command: None, guard: None }
    }

    /// A file to change, with its guard if it is protected.
    pub fn file(text: impl Into<String>, guard: Option<Protection>) -> Self {
        Self { guard, ..Self::plain(text) }
    }

    pub(crate) fn command(command: &Command) -> Self {
        Self { command: Some(Box::new(command.clone())), ..Self::plain(&command.text) }
    }

    fn is_subject_of(&self, rule: &Rule, source: Source) -> bool {
        match &self.command {
            Some(command) => command.is_subject_of(rule, source),
            None => matches(&rule.pattern, &self.text),
        }
    }

    /// Returns true if a rule that allows this subject is specific enough.
    fn is_named_by(&self, rule: &Rule) -> bool {
        self.guard.as_ref().is_none_or(|guard| guard.is_named_by(&rule.pattern))
    }
}

/// The decision of the rules.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    Allowed,
    /// Allowed only by the default rules of every agent, so only in a sealed sandbox.
    Confined,
    Denied(Vec<Rule>),
    Ask,
}

/// The way in which a permitted command may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// In the configured sandbox, or without one if none is configured.
    Configured,
    /// In a sandbox that only allows reading and printing.
    Sealed,
}

/// The rules of one step.
#[derive(Debug, Clone)]
pub struct Permissions {
    rules: Vec<Rule>,
    /// The user's approvals. They follow all rules that are not final.
    approved: Vec<Rule>,
}

impl Permissions {
    /// Later rules win.
    pub fn new(rules: Vec<Rule>, approved: Vec<Rule>) -> Self {
        Self { rules, approved }
    }

    /// Drops the rules that allow every permission, so that a permission needs a rule of its own.
    #[must_use]
    pub fn without_allow_all(mut self) -> Self {
        self.rules.retain(|rule| rule.permission != "*" || rule.action != Action::Allow);
        self
    }

    /// Drops the rules that allow commands only in a sandbox, for commands that cannot run in one.
    #[must_use]
    pub(crate) fn unconfined(mut self) -> Self {
        self.rules.retain(|rule| !rules::is_confined(rule));
        self
    }

    /// Returns the same rules with the current approvals.
    async fn with_current_approvals(&self, turn: &Turn) -> Self {
        let approved = turn.approved().await.unwrap_or_else(|error| {
            tracing::warn!(session = %turn.session.id, %error, "cannot read the approvals; going on without them");
            Vec::new()
        });
        Self { rules: self.rules.clone(), approved }
    }

    /// Returns all rules in order: those that can be overridden, approvals, and final ones.
    fn with_sources(&self) -> impl Iterator<Item = (&Rule, Source)> {
        let (last, first): (Vec<&Rule>, Vec<&Rule>) = self.rules.iter().partition(|rule| rule.is_final);
        let first = first.into_iter().map(|rule| (rule, Source::Rules));
        let approved = self.approved.iter().map(|rule| (rule, Source::Approval));
        first.chain(approved).chain(last.into_iter().map(|rule| (rule, Source::Rules)))
    }

    fn all(&self) -> impl Iterator<Item = &Rule> {
        self.with_sources().map(|(rule, _)| rule)
    }

    /// Returns true if a final rule decides, so that an approval has no effect.
    pub fn is_final(&self, check: &PermissionCheck) -> bool {
        let decides = |rule: &Rule, pattern: &Pattern| {
            rule.is_final
                && matches(&rule.permission, &check.permission)
                && pattern.is_subject_of(rule, Source::Rules)
        };
        self.rules.iter().any(|rule| check.patterns.iter().any(|pattern| decides(rule, pattern)))
    }

    /// Allows a subject that the user has named in the prompt, if the rules would ask about it. A denied one stays
    /// denied.
    pub fn allow_named(&mut self, permission: &str, pattern: &str) {
        if evaluate(self.all(), permission, pattern) == Action::Ask {
            self.rules.push(Rule::new(permission, pattern, Action::Allow));
        }
    }

    /// Returns true if a tool with this permission can never be used, so that it is not offered to the model.
    pub fn hides(&self, permission: &str) -> bool {
        let (last, first): (Vec<&Rule>, Vec<&Rule>) = self.rules.iter().partition(|rule| rule.is_final);
        first
            .into_iter()
            .chain(last)
            .rfind(|rule| matches(&rule.permission, permission))
            .is_some_and(|rule| rule.pattern == "*" && rule.action == Action::Deny)
    }

    /// Returns copies of the rules for a permission.
    pub fn rules_for(&self, permission: &str) -> Vec<Rule> {
        self.all().filter(|rule| matches(&rule.permission, permission)).cloned().collect()
    }

    /// Decides by the rules, without asking the user.
    pub fn judge(&self, check: &PermissionCheck) -> Verdict {
        let (mut allowed, mut confined, mut ask) = (false, Vec::new(), false);
        for pattern in &check.patterns {
            let (action, rule) = self.decide(&check.permission, pattern);
            let harmless = pattern.command.as_ref().and_then(|command| command.harmless);
            match (action, harmless) {
                (Action::Deny, _) => return Verdict::Denied(self.rules_for(&check.permission)),
                (Action::Ask, _) => ask = true,
                (Action::Allow, Some(harmless)) if rule.is_some_and(rules::is_confined) => {
                    confined.push(harmless);
                }
                (Action::Allow, _) => allowed = true,
            }
        }
        // One line runs in one sandbox or in none: `make && echo done` may do whatever `make` may, and in
        // `make && git status` git would run unprotected.
        let is_inert = confined.iter().all(|harmless| *harmless == Harmless::Inert);
        match (ask, confined.is_empty()) {
            (false, true) => Verdict::Allowed,
            (false, false) if !allowed => Verdict::Confined,
            (false, false) if is_inert => Verdict::Allowed,
            _ => Verdict::Ask,
        }
    }

    /// Returns the action for one subject, and the rule that decides it. The last matching rule wins. A rule that
    /// allows but is not specific enough is skipped, except that it turns the denial of a protected file into a
    /// question.
    fn decide(&self, permission: &str, pattern: &Pattern) -> (Action, Option<&Rule>) {
        let mut decided = (Action::Ask, None);
        for (rule, source) in self.with_sources() {
            if !matches(&rule.permission, permission) || !pattern.is_subject_of(rule, source) {
                continue;
            }
            if rule.action != Action::Allow || pattern.is_named_by(rule) {
                decided = (rule.action, Some(rule));
            } else if decided.0 == Action::Deny {
                decided = (Action::Ask, None);
            }
        }
        decided
    }

    /// Gets a permission, or a failure with the reason. Waits for the user if the rules say so.
    pub async fn require(
        &self,
        turn: &Turn,
        check: PermissionCheck,
        call: Option<&str>,
    ) -> Result<(), ToolFailure> {
        self.require_command(turn, check, call).await.map(drop)
    }

    /// Gets a permission for a command line and returns how it may run.
    pub(crate) async fn require_command(
        &self,
        turn: &Turn,
        check: PermissionCheck,
        call: Option<&str>,
    ) -> Result<Confinement, ToolFailure> {
        let now = self.with_current_approvals(turn).await;
        match now.judge(&check) {
            Verdict::Allowed => Ok(Confinement::Configured),
            Verdict::Confined => Ok(Confinement::Sealed),
            Verdict::Denied(rules) => {
                now.log_denial(turn, &check);
                Err(ToolFailure::Error(denied(&rules)))
            }
            Verdict::Ask => now.ask(turn, vec![check], call).await.map(|()| Confinement::Configured),
        }
    }

    /// Gets two permissions. If both need an answer, the user is asked once, about the first, and the answer counts
    /// for both.
    pub(crate) async fn require_both(
        &self,
        turn: &Turn,
        first: PermissionCheck,
        second: PermissionCheck,
        call: Option<&str>,
    ) -> Result<Confinement, ToolFailure> {
        let now = self.with_current_approvals(turn).await;
        if now.judge(&first) == Verdict::Ask && now.judge(&second) == Verdict::Ask {
            return now.ask(turn, vec![first, second], call).await.map(|()| Confinement::Configured);
        }
        self.require(turn, second, call).await?;
        self.require_command(turn, first, call).await
    }

    /// Logs a denied call with the rule that denies it. The subject of the call may contain secrets, so it is left out.
    fn log_denial(&self, turn: &Turn, check: &PermissionCheck) {
        let decisions = check.patterns.iter().map(|pattern| self.decide(&check.permission, pattern));
        let rule = decisions.filter(|(action, _)| *action == Action::Deny).find_map(|(_, rule)| rule);
        let rule = rule.map(|rule| format!("{} {}", rule.permission, rule.pattern));
        tracing::info!(session = %turn.session.id, tool = %check.permission, rule, "a rule refused a tool call");
    }

    /// Asks the user about the first permission. The answer counts for all of them.
    async fn ask(
        &self,
        turn: &Turn,
        checks: Vec<PermissionCheck>,
        call: Option<&str>,
    ) -> Result<(), ToolFailure> {
        let Some(mut shown) = checks.first().cloned() else { return Ok(()) };
        if self.is_final(&shown) {
            shown.always.clear();
        }
        let permission = shown.permission.clone();
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
            checks.iter().all(|check| then.judge(check) == Verdict::Allowed)
        };
        let allowed = match turn.ask_unless(ask, enough).await {
            Answer::Once
            | Answer::Always
            | Answer::Default(PermissionReply::Once | PermissionReply::Always) => Ok(()),
            Answer::Rejected { message: Some(message) } => {
                Err(ToolFailure::Error(format!("{REJECTED} {FEEDBACK} {message}")))
            }
            Answer::Default(PermissionReply::Reject) => Err(ToolFailure::Error(UNANSWERED.to_owned())),
            Answer::Rejected { message: None } | Answer::Answers(_) => {
                Err(ToolFailure::Refused(format!("{REJECTED}.")))
            }
            Answer::Withdrawn => Err(ToolFailure::Refused(
                "The permission request was withdrawn without an answer.".to_owned(),
            )),
        };
        allowed.inspect_err(|_| {
            tracing::info!(session = %turn.session.id, tool = %permission, "the user did not allow a tool call");
        })
    }
}

const UNANSWERED: &str = "The user did not answer the permission request in time, so it was rejected. Go on without it, or say what is missing.";
const REJECTED: &str = "The user rejected permission to use this specific tool call";
const FEEDBACK: &str = "with the following feedback:";

/// The message for the model when rules deny a call.
pub fn denied(rules: &[Rule]) -> String {
    let rules = serde_json::to_string(rules).unwrap_or_default();
    format!(
        "The user has specified a rule which prevents you from using this specific tool call. \
         Here are some of the relevant rules {rules}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> PermissionCheck {
        PermissionCheck {
            permission: "bash".into(),
            patterns: commands(line).iter().map(Pattern::command).collect(),
            always: Vec::new(),
            metadata: Extra::new(),
        }
    }

    fn bash(pattern: &str, action: Action) -> Rule {
        Rule::new("bash", pattern, action)
    }

    fn judge(extra: &[(&str, Action)], line: &str) -> Verdict {
        let own = extra.iter().map(|(pattern, action)| bash(pattern, *action));
        Permissions::new(defaults().into_iter().chain(own).collect(), Vec::new()).judge(&check(line))
    }

    fn approved(pattern: &str, line: &str) -> Verdict {
        Permissions::new(defaults(), vec![bash(pattern, Action::Allow)]).judge(&check(line))
    }

    #[test]
    fn every_part_of_a_line_must_be_allowed() {
        assert_eq!(judge(&[], "ls; echo hi"), Verdict::Confined);
        assert_eq!(judge(&[], "ls; rm x"), Verdict::Ask);
        let denied = judge(&[("rm *", Action::Deny)], "make; rm x");
        assert!(matches!(denied, Verdict::Denied(rules) if rules.iter().any(|rule| rule.pattern == "rm *")));
    }

    #[test]
    fn a_users_rule_lifts_the_sandbox() {
        let log = [("git log *", Action::Allow)];
        assert_eq!(judge(&log, "git log -1"), Verdict::Allowed);
        assert_eq!(judge(&log, "git log --output=x"), Verdict::Allowed);
        assert_eq!(judge(&[], "git log --output=x"), Verdict::Ask);
        assert_eq!(judge(&[("*", Action::Ask)], "ls"), Verdict::Ask);
        assert_eq!(judge(&[("*", Action::Allow)], "ls $x"), Verdict::Allowed);
    }

    #[test]
    fn a_line_runs_in_one_sandbox_or_in_none() {
        let make = [("make *", Action::Allow)];
        assert_eq!(judge(&make, "make && echo done"), Verdict::Allowed);
        assert_eq!(judge(&make, "make && git status"), Verdict::Ask);
        assert_eq!(judge(&make, "git status && echo done"), Verdict::Confined);
    }

    #[test]
    fn an_opaque_line_needs_more_than_a_wildcard() {
        let line = "echo $(rm x)";
        assert_eq!(judge(&[], line), Verdict::Ask);
        assert_eq!(judge(&[("echo *", Action::Allow), ("rm *", Action::Allow)], line), Verdict::Ask);
        assert_eq!(judge(&[(line, Action::Allow)], line), Verdict::Allowed);
        assert_eq!(judge(&[("*", Action::Allow)], line), Verdict::Allowed);
        assert!(matches!(judge(&[("rm *", Action::Deny)], line), Verdict::Denied(_)));
        // An approval of a part of a line does not cover another line around it.
        assert_eq!(approved("rm $i", "for i in a; do rm $i; done"), Verdict::Ask);
    }

    #[test]
    fn denying_rules_see_through_quotes_and_blanks() {
        let rules = [("*", Action::Allow), ("rm -rf *", Action::Deny)];
        for line in [
            "rm  -rf x",
            "rm '-rf' x",
            "rm -r\\f x",
            "'rm' -rf x",
            "r\"m\" -rf x",
            "true && rm -rf x",
            "if true; then rm -rf x; fi",
            "echo a\\\n#; rm -rf x",
            "$'rm' -rf x",
            "(rm -rf x)",
            "x=1 rm -rf x",
        ] {
            assert!(matches!(judge(&rules, line), Verdict::Denied(_)), "{line}");
        }
    }

    #[test]
    fn allowing_rules_count_words() {
        let rules = [("git log *", Action::Allow), ("* --dry-run", Action::Allow)];
        assert_eq!(judge(&rules, "git   log  -1"), Verdict::Allowed);
        assert_eq!(judge(&rules, "rm x '--dry-run'"), Verdict::Allowed);
        assert_eq!(judge(&rules, "rm x \\ --dry-run"), Verdict::Ask);
        assert_eq!(judge(&rules, "rm x ' --dry-run'"), Verdict::Ask);
        assert_eq!(judge(&rules, "'git log' x"), Verdict::Ask);
        assert_eq!(judge(&[("grep \"a b\" *", Action::Allow)], "grep \"a b\" x"), Verdict::Allowed);
    }

    #[test]
    fn approvals_cover_words_and_no_programs_that_run_others() {
        assert_eq!(approved("make *", "make test"), Verdict::Allowed);
        assert_eq!(approved("make *", "make test; rm x"), Verdict::Ask);
        assert_eq!(approved("git commit *", "git commit -m 'a b'"), Verdict::Allowed);
        assert_eq!(approved("git *", "git push"), Verdict::Ask);
        // Approvals that an earlier version offered and stored.
        for (pattern, line) in [
            ("find *", "find . -exec touch x ;"),
            ("timeout *", "timeout 5 touch x"),
            ("env *", "env touch x"),
            ("nice *", "nice touch x"),
            ("awk *", "awk 'BEGIN{system(\"touch x\")}'"),
            ("sed *", "sed '1w x' a"),
            ("sh *", "sh -c 'touch x'"),
            ("python *", "python3 x.py"),
            ("git log *", "git log --output=x"),
        ] {
            assert_eq!(approved(pattern, line), Verdict::Ask, "{line}");
        }
        assert_eq!(approved("find . -name '*.rs'", "find . -name '*.rs'"), Verdict::Allowed);
        assert_eq!(approved("find . -name '*.rs'", "find . -name 'x' -exec touch 'y.rs'"), Verdict::Ask);
    }

    #[test]
    fn approvals_come_after_rules() {
        let permissions = Permissions::new(vec![bash("*", Action::Ask)], vec![bash("make *", Action::Allow)]);
        assert_eq!(permissions.judge(&check("make test")), Verdict::Allowed);
        assert_eq!(permissions.unconfined().judge(&check("ls")), Verdict::Ask);
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
        let guard = Some(Protection::Named([".opencode".to_owned()].into()));
        let pattern = Pattern::file(".opencode/agent/a.md", guard);
        let check = PermissionCheck { patterns: vec![pattern], ..PermissionCheck::plain("edit", &[]) };
        Permissions::new(rules, approved).judge(&check)
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
        assert_eq!(permissions.judge(&check("git push origin")), Verdict::Ask);
        assert_eq!(permissions.judge(&check("git pull")), Verdict::Allowed);
        assert!(permissions.is_final(&check("git push origin")));
        assert!(!permissions.is_final(&check("git pull")));
        assert!(permissions.hides("webfetch"), "a later rule and an approval do not bring it back");
        permissions.allow_named("webfetch", "http://a");
        assert!(matches!(
            permissions.judge(&PermissionCheck::plain("webfetch", &["http://a".to_owned()])),
            Verdict::Denied(_)
        ));
    }
}
