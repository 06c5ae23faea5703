//! What somebody else's agent wants to be allowed: the rules decide before a person is asked.
//!
//! There are the rules of the configuration, those of the session, and what people have allowed for good, in this order;
//! later ones win. Where they say nothing, a person is asked: an agent asks about what its own settings do not allow,
//! so what the native loop may do from the start does not count here.

use std::path::Path;

use engine::session::Turn;
use protocol::Extra;
use protocol::agent_event::{Answer, Ask};
use protocol::request::Rule;
use workspace::files::Closed;

use crate::native::permission::{PermissionCheck, Permissions, Verdict, denied};
use crate::native::{Gate, Target, blocking, edit_check, external_directory_check, has_wildcard, root};

/// Gets an answer, from the rules or from people. Only people can answer a question.
pub async fn ask(turn: &Turn, rules: &[Rule], mut ask: Ask) -> Answer {
    let Ask::Permission { permission, patterns, always, .. } = &mut ask else { return turn.ask(ask).await };
    let own = turn.session.permission.iter().flatten();
    let rules: Vec<Rule> = rules.iter().chain(own).cloned().collect();
    // What cannot be read is not allowed: a person is asked.
    let approved = turn.approved().await.unwrap_or_default();
    let matter = Matter::new(turn, permission, patterns).await;
    match matter.judge(&rules, &approved) {
        Verdict::Allowed => Answer::Once,
        Verdict::Denied(rules) => Answer::Rejected { message: Some(denied(&rules)) },
        Verdict::Ask | Verdict::Confined => {
            let exact = matter.protected();
            if let Some(exact) = &exact {
                always.clone_from(exact);
            }
            let enough = move |approved: &[Rule]| matter.judge(&rules, approved) == Verdict::Allowed;
            match turn.ask_unless(ask, enough).await {
                // The approval is kept here. An agent might allow itself more than this one file.
                Answer::Always if exact.is_some() => Answer::Once,
                answer => answer,
            }
        }
    }
}

/// What it is about.
struct Matter {
    /// All of them have to be allowed. None if nobody can tell what it needs.
    checks: Option<Vec<PermissionCheck>>,
    permission: String,
    /// As people are shown it.
    patterns: Vec<String>,
}

impl Matter {
    async fn new(turn: &Turn, permission: &str, patterns: &[String]) -> Self {
        let checks = match permission {
            "bash" => commands(turn, patterns).await,
            "edit" => edits(turn, patterns).await,
            _ => Some(files(permission, patterns)),
        };
        Self { checks, permission: permission.to_owned(), patterns: patterns.to_vec() }
    }

    /// For a change of protected files: all that an answer of `always` may allow.
    fn protected(&self) -> Option<Vec<String>> {
        let check = self.checks.iter().flatten().find(|check| check.permission == "edit")?;
        check.patterns.iter().any(|pattern| pattern.guard.is_some()).then(|| check.always.clone())
    }

    fn judge(&self, rules: &[Rule], approved: &[Rule]) -> Verdict {
        let permissions = Permissions::new(rules.to_vec(), approved.to_vec());
        let mut verdict = Verdict::Allowed;
        for check in self.checks.iter().flatten() {
            match permissions.judge(check) {
                Verdict::Allowed => {}
                // The agent runs the command itself, so it cannot be confined.
                Verdict::Ask | Verdict::Confined => verdict = Verdict::Ask,
                denied @ Verdict::Denied(_) => return denied,
            }
        }
        let is_known = self.checks.is_some() && verdict == Verdict::Allowed;
        if !is_known && permissions.is_final(&PermissionCheck::plain(&self.permission, &self.patterns)) {
            return Verdict::Ask;
        }
        // What a person has allowed for good in so many words is allowed, whatever it consists of.
        let is_same = |pattern: &String| {
            approved.iter().any(|rule| rule.permission == self.permission && rule.pattern == *pattern)
        };
        if is_known || self.patterns.iter().all(is_same) { Verdict::Allowed } else { Verdict::Ask }
    }
}

/// Every command of some lines, and every place outside of the project that they name.
async fn commands(turn: &Turn, lines: &[String]) -> Option<Vec<PermissionCheck>> {
    let root = root(&turn.session, &Closed::default()).ok()?;
    let permissions = Permissions::new(Vec::new(), Vec::new());
    let readable = Vec::new();
    let gate = Gate { turn, root: &root, permissions: &permissions, readable, seals: false, call: None };
    let mut checks = Vec::new();
    for line in lines {
        checks.extend(gate.needs(line, root.directory()).await.ok()?);
    }
    Some(checks)
}

/// A change of files. A path that cannot be followed is judged by its text.
async fn edits(turn: &Turn, patterns: &[String]) -> Option<Vec<PermissionCheck>> {
    let root = root(&turn.session, &Closed::default()).ok()?;
    let mut checks = files("edit", patterns);
    let texts = patterns.to_vec();
    let found = blocking(move || {
        let target = |written: &String| {
            let path =
                root.locate(written).map_or_else(|_| root.directory().join(written), |place| place.path);
            Target { written: written.clone(), path }
        };
        edit_check(&root, &texts.iter().map(target).collect::<Vec<_>>(), Extra::new())
    });
    let found = found.await.ok()?;
    if let Some(check) = checks.first_mut() {
        // Rules match the path as the agent wrote it; what was found adds the protection.
        for (pattern, found) in check.patterns.iter_mut().zip(found.patterns) {
            pattern.guard = found.guard;
        }
        check.always = patterns.iter().filter(|text| !has_wildcard(text)).cloned().collect();
    }
    Some(checks)
}

/// What is wanted and, if that is a file outside of the project, its directory.
fn files(permission: &str, patterns: &[String]) -> Vec<PermissionCheck> {
    let is_file = matches!(permission, "edit" | "read" | "list" | "glob" | "grep");
    let outside = patterns.iter().map(Path::new).filter(|path| is_file && path.is_absolute());
    let outside: Vec<_> = outside.filter_map(Path::parent).map(Path::to_owned).collect();
    let mut checks = vec![PermissionCheck::plain(permission, patterns)];
    if !outside.is_empty() {
        checks.push(external_directory_check(&outside));
    }
    checks
}

#[cfg(test)]
mod tests {
    use protocol::request::Action::{self, Allow, Ask, Deny};

    use super::*;

    fn judge(permission: &str, pattern: &str, rules: &[(&str, &str, Action)]) -> Action {
        let rules: Vec<Rule> =
            rules.iter().map(|(of, pattern, action)| Rule::new(*of, *pattern, *action)).collect();
        let patterns = vec![pattern.to_owned()];
        let checks = Some(files(permission, &patterns));
        let matter = Matter { checks, permission: permission.to_owned(), patterns };
        match matter.judge(&rules, &[]) {
            Verdict::Allowed => Allow,
            Verdict::Denied(_) => Deny,
            Verdict::Ask | Verdict::Confined => Ask,
        }
    }

    #[test]
    fn where_rules_say_nothing_people_are_asked() {
        assert_eq!(judge("edit", "a.rs", &[]), Ask);
        assert_eq!(judge("edit", "a.rs", &[("bash", "*", Allow)]), Ask);
        assert_eq!(judge("edit", "a.rs", &[("edit", "*", Allow)]), Allow);
        assert_eq!(judge("edit", "a.rs", &[("edit", "*", Allow), ("edit", "*.rs", Deny)]), Deny);
        assert_eq!(judge("webfetch", "http://a", &[("*", "*", Allow)]), Allow);
    }

    #[test]
    fn a_file_outside_of_the_project_needs_more() {
        assert_eq!(judge("edit", "/etc/hosts", &[("edit", "*", Allow)]), Ask);
        let both = [("edit", "*", Allow), ("external_directory", "/etc/*", Allow)];
        assert_eq!(judge("edit", "/etc/hosts", &both), Allow);
        assert_eq!(
            judge("edit", "/etc/hosts", &[("external_directory", "*", Deny), ("edit", "*", Allow)]),
            Deny
        );
    }

    #[test]
    fn what_was_allowed_in_so_many_words_is_allowed() {
        let patterns = vec!["make; rm -rf $x".to_owned()];
        let matter = Matter { checks: None, permission: "bash".into(), patterns };
        let approved = |pattern: &str| [Rule::new("bash", pattern, Allow)];
        assert_eq!(matter.judge(&[], &approved("make; rm -rf $x")), Verdict::Allowed);
        assert_eq!(matter.judge(&[], &approved("make*")), Verdict::Ask);
    }
}
