//! Permission requests of external agents: rules decide before the user is asked.
//!
//! The rules are those of the configuration, those of the session, and the user's approvals, in this order; later ones
//! win. Without a matching rule the user is asked: an agent only asks about actions that its own settings do not allow,
//! so the default rules of the native loop do not apply here.

use std::path::Path;

use engine::session::Turn;
use protocol::Extra;
use protocol::agent_event::{Answer, Ask};
use protocol::request::{Action, Rule};
use supervision::permission::{PermissionCheck, Permissions, Verdict, denied};
use supervision::{Gate, Target, blocking, edit_check, external_directory_check, has_wildcard, root};
use workspace::files::Closed;

/// Gets an answer from the rules or from the user. Only the user can answer a question.
pub async fn ask(turn: &Turn, rules: &[Rule], mut ask: Ask) -> Answer {
    let Ask::Permission { permission, patterns, always, .. } = &mut ask else { return turn.ask(ask).await };
    let own = turn.session.permission.iter().flatten();
    let rules: Vec<Rule> = rules.iter().chain(own).cloned().collect();
    // If the approvals cannot be read, the user is asked.
    let approved = turn.approved().await.unwrap_or_default();
    let subject = RequestSubject::new(turn, permission, patterns).await;
    match subject.judge(&rules, &approved) {
        Verdict::Allowed => Answer::Once,
        Verdict::Denied(rules) => {
            let rule = rules.iter().rfind(|rule| rule.action == Action::Deny).map(|rule| &rule.pattern);
            tracing::info!(session = %turn.session.id, tool = %permission, rule, "a rule refused a tool call");
            Answer::Rejected { message: Some(denied(&rules)) }
        }
        Verdict::Ask | Verdict::Confined => {
            let exact = subject.protected();
            if let Some(exact) = &exact {
                always.clone_from(exact);
            }
            let enough = move |approved: &[Rule]| subject.judge(&rules, approved) == Verdict::Allowed;
            match turn.ask_unless(ask, enough).await {
                // Baton keeps the approval. The agent might apply it to more than this one file.
                Answer::Always if exact.is_some() => Answer::Once,
                answer => answer,
            }
        }
    }
}

/// The subject of a permission request.
struct RequestSubject {
    /// The permissions that the action needs, all of which must be allowed. None if they cannot be determined.
    checks: Option<Vec<PermissionCheck>>,
    permission: String,
    /// The patterns as the user sees them.
    patterns: Vec<String>,
}

impl RequestSubject {
    async fn new(turn: &Turn, permission: &str, patterns: &[String]) -> Self {
        let checks = match permission {
            "bash" => commands(turn, patterns).await,
            "edit" => edits(turn, patterns).await,
            _ => Some(files(permission, patterns)),
        };
        Self { checks, permission: permission.to_owned(), patterns: patterns.to_vec() }
    }

    /// For a change of protected files, the patterns that the answer `always` may allow.
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
        // An approval of exactly this pattern allows it, whatever commands it consists of.
        let is_same = |pattern: &String| {
            approved.iter().any(|rule| rule.permission == self.permission && rule.pattern == *pattern)
        };
        if is_known || self.patterns.iter().all(is_same) { Verdict::Allowed } else { Verdict::Ask }
    }
}

/// The permissions for every command in these lines and for every path outside the project that they name.
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

/// The permissions for a change of files. A path that cannot be resolved is judged by its text.
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
        // Rules match the path as the agent wrote it; the resolved path adds the protection.
        for (pattern, found) in check.patterns.iter_mut().zip(found.patterns) {
            pattern.guard = found.guard;
        }
        check.always = patterns.iter().filter(|text| !has_wildcard(text)).cloned().collect();
    }
    Some(checks)
}

/// The permission itself and, for a file outside the project, the permission for its directory.
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
        let subject = RequestSubject { checks, permission: permission.to_owned(), patterns };
        match subject.judge(&rules, &[]) {
            Verdict::Allowed => Allow,
            Verdict::Denied(_) => Deny,
            Verdict::Ask | Verdict::Confined => Ask,
        }
    }

    #[test]
    fn the_user_is_asked_without_a_matching_rule() {
        assert_eq!(judge("edit", "a.rs", &[]), Ask);
        assert_eq!(judge("edit", "a.rs", &[("bash", "*", Allow)]), Ask);
        assert_eq!(judge("edit", "a.rs", &[("edit", "*", Allow)]), Allow);
        assert_eq!(judge("edit", "a.rs", &[("edit", "*", Allow), ("edit", "*.rs", Deny)]), Deny);
        assert_eq!(judge("webfetch", "http://a", &[("*", "*", Allow)]), Allow);
    }

    #[test]
    fn a_file_outside_of_the_project_needs_a_second_permission() {
        assert_eq!(judge("edit", "/etc/hosts", &[("edit", "*", Allow)]), Ask);
        let both = [("edit", "*", Allow), ("external_directory", "/etc/*", Allow)];
        assert_eq!(judge("edit", "/etc/hosts", &both), Allow);
        assert_eq!(
            judge("edit", "/etc/hosts", &[("external_directory", "*", Deny), ("edit", "*", Allow)]),
            Deny
        );
    }

    #[test]
    fn an_approval_of_the_exact_pattern_allows_it() {
        let patterns = vec!["make; rm -rf $x".to_owned()];
        let subject = RequestSubject { checks: None, permission: "bash".into(), patterns };
        let approved = |pattern: &str| [Rule::new("bash", pattern, Allow)];
        assert_eq!(subject.judge(&[], &approved("make; rm -rf $x")), Verdict::Allowed);
        assert_eq!(subject.judge(&[], &approved("make*")), Verdict::Ask);
    }
}
